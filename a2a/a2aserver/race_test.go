//go:build race

package a2aserver_test

const raceEnabled = true
