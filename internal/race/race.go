// Package race tells tests whether the race detector is on.
package race

import "testing"

// Allocations returns how many allocations a call of f makes, as testing.AllocsPerRun does. With the race detector it
// skips the test: there the detector allocates, and a sync.Pool drops values at random, so that no budget holds.
func Allocations(t testing.TB, runs int, f func()) float64 {
	t.Helper()
	if Enabled {
		t.Skip("with the race detector a function allocates more, and not the same each time")
	}
	return testing.AllocsPerRun(runs, f)
}
