// Package peersuite contains only tests. They compare specialists behind A2A with the same specialists in the process
// of their coordinator, and run trees in separate processes that call each other.
package peersuite
