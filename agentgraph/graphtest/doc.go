// Package graphtest helps to test graphs of agents without a model: mock agents that
// give what a file says, and cases, which are a graph, an input, mocks and what is
// expected of the run. `arbor graph test` runs such cases, and `arbor graph run
// --mock` takes such mocks.
//
// A case is run as a program would run its graph: by a runner, on a session in
// memory, and what came of it is read from the session's log.
//
// The package imports agentgraph, agent, event, llm, runner and session.
// It does not import testing, so that programs can use it, calls no model, and reads
// no file besides those that it is given.
package graphtest
