// Package cold measures the cost of the next turn of a long conversation in a process that has not loaded it: the
// process opens the store, and the active specialist answers once more.
//
//	go test -run Cold -v -measure
//
// Each turn runs in a new process, on a database that was filled before. The systems run alternately, so that a
// disturbance of the machine affects all of them. The test reports what it cannot measure. The models answer from a
// script, in process and at once. The test prints a table. Without the flag it only checks that everything works.
//
// The package has its own module, because it needs an older tRPC-Agent-Go than the other benchmarks: the version of the
// newest session service for PostgreSQL on the module proxy.
package cold
