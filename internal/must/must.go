// Package must returns values of calls that must not fail in a test's set-up, and checks what must happen in a test.
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

// Scale fails the test if many, which does four times the work of few, takes more than eight times as long. It measures up to
// five times, because a busy machine may stop one of them for a while.
func Scale(t testing.TB, few, many func()) {
	t.Helper()
	took := func(f func()) time.Duration {
		began := time.Now()
		f()
		return time.Since(began)
	}
	var least, most time.Duration
	for range 5 {
		if least, most = took(few), took(many); most < 8*least+20*time.Millisecond {
			return
		}
	}
	t.Errorf("four times the work takes %s instead of %s: the time grows with the square", most, least)
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
