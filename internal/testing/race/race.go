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

// SkipPrograms skips a test with the race detector. It is for tests that start programs which are built without the
// detector: such a test finds with it what it finds without it, and the README's test command runs it without.
func SkipPrograms(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("the programs that this test starts are built without the race detector")
	}
}
