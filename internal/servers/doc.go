// Package servers starts the servers that tests of other packages need: real
// ones, on free ports of the loopback interface, in temporary folders. They end
// with the test's process, however it ends. A server that somebody else runs can
// be named by an environment variable instead. A test whose server is missing is
// skipped with a line that says how to get it; with CI=true it fails.
//
// It is for tests and for examples that show several processes at work: no other package of the
// module imports it outside of its tests.
package servers
