// Package must returns values of calls that must not fail in a test's set-up, and waits for what must happen in a test.
// It imports no package of this module, so that the tests of every package can use it.
package must

import (
	"testing"
	"time"
)

// Get returns the value, and panics with the error if there is one. It is for the set-up of a test. What the test is
// about is compared by require, which says more about it.
func Get[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Wait calls happened until it returns true. It fails the test after two minutes, which a busy machine may need. It calls
// happened on the goroutine of the test, so that happened may fail the test too, and does not outlive the test.
func Wait(t testing.TB, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what the test waits for has not happened for two minutes")
		}
	}
}
