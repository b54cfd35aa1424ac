// Package graphtest helps to test graphs of agents without a model. It has mock agents that return what a file says,
// and cases: a graph, an input, mocks and the expected result of the run. `arbor graph test` runs cases, and `arbor
// graph run --mock` uses mocks.
//
// A case runs as in a program: by a runner, on a session in memory, and its result is read from the session's log.
//
// The package does not need package testing, so that programs can use it. It calls no model, and reads no files other
// than the given ones.
package graphtest
