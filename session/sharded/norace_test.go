//go:build !race

package sharded_test

const raceEnabled = false
