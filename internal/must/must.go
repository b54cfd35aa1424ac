// Package must returns values of calls that must not fail in a test's set-up. It imports nothing, so that the tests of
// every package can use it.
package must

// Get returns the value, and panics with the error if there is one. It is for the set-up of a test. What the test is
// about is compared by require, which says more about it.
func Get[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
