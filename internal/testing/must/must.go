// Package must returns values of calls that must not fail in a test's set-up, and errors of a type. It makes sequences of
// values, and checks what must happen in a test. It depends on no package of this module, so that the tests of every
// package can use it.
package must

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
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

// As returns the first error of type T that err is or wraps, and panics if there is none.
func As[T error](err error) T {
	found, ok := errors.AsType[T](err)
	if !ok {
		panic(fmt.Sprintf("the error is no %T: %v", found, err))
	}
	return found
}

// Err returns the error of a call that also returns a value.
func Err[T any](_ T, err error) error { return err }

// JSON returns the value of a JSON document, and panics if the document has none of this type.
func JSON[T any, D ~string | ~[]byte](doc D) (value T) {
	if err := json.Unmarshal([]byte(doc), &value); err != nil {
		panic(fmt.Errorf("%w: %s", err, doc))
	}
	return value
}

// All returns the values of a sequence, and panics with the error if there is one, as Get does.
func All[T any](seq iter.Seq2[T, error]) (values []T) {
	for value, err := range seq {
		values = append(values, Get(value, err))
	}
	return values
}

// Seq returns a sequence of the values, and then of the error unless it is nil.
func Seq[T any](values []T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, value := range values {
			if !yield(value, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

// Scale fails the test if many, which does four times the work of few, takes more than eight times as long. Both work on the
// goroutine that calls them: on Linux, Scale counts the processor's time of this goroutine, which is the same on a busy machine.
// It measures up to five times.
func Scale(t testing.TB, few, many func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	took := func(f func()) time.Duration {
		began := worked()
		f()
		return worked() - began
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
