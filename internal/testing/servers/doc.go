// Package servers starts real servers for the tests of other packages, on free ports of the loopback interface, in
// temporary folders. They end with the test's process, however it ends. An environment variable can name a running
// server instead. If a server is missing, the test is skipped with a line that says how to get it; with CI=true it
// fails.
//
// The package is for tests and for examples with several processes.
package servers
