// Package cold measures what the next turn of a long conversation costs in a process that has not
// seen it: the store is opened, and the specialist who has the conversation answers once more.
//
//	go test -run Cold -v -measure
//
// Each turn is one of a new process, on a database that was filled before; systems take turns, so that what
// disturbs the machine disturbs all of them. What cannot be had is left out, and said. The models
// answer from a script, in process and at once. The test prints a table. Without
// the flag it only sees that everything works.
//
// It is a module of its own, because it needs an older tRPC-Agent-Go than the other
// benchmarks: that of the newest session service for PostgreSQL that the module proxy has.
package cold
