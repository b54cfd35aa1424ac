// Package postgres keeps sessions in a PostgreSQL database, from version 15 on,
// through the driver jackc/pgx. Any number of processes on any number of machines
// may use it at the same time. It imports session, agent and event, and runs no agents.
//
// Everything is in a schema of its own, arbor, which [Open] creates and brings up to date in one transaction, by the
// scripts in the folder migrations.
//
// # What survives
//
// When Write, Fork or Delete has returned nil, the change survives the death of
// the process and of the server, as far as the server's disk keeps its word: the
// server's commit waits for its log, and Open refuses a user or database for which
// synchronous_commit is off. Whether the change also survives the loss of the
// server's machine is a question of its replication.
//
// A write is one statement: one round trip, one transaction. When a connection
// breaks before its answer has arrived, the store connects again and compares the
// log with what it sent, so that the append is made exactly once. It retries for
// [WithRetryTime] through restarts and failovers, refused connections, deadlocks
// and serialization failures. After that, or when the caller's context ends, it may
// be unknown whether the append was made, and the error says so. The log is whole
// in any case: a writer that comes late finds its position or its lease taken.
//
// # Clocks
//
// Leases are timed by the server's clock alone. The owner of a lease that is a dead
// process of the same host is replaced at once, others when [session.LeaseTTL] has
// passed without renewal.
package postgres
