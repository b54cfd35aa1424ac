//go:build race

package sharded_test

const raceEnabled = true
