// Package postgres stores sessions in a PostgreSQL database, version 15 or newer, through the driver jackc/pgx. Any
// number of processes on any number of machines may use the database at the same time. It runs no agents.
//
// All tables are in a schema of their own, arbor. [Open] creates it in one transaction, with the script schema.sql. It
// refuses a schema of an older or newer version, and leaves it unchanged.
//
// # What survives
//
// When Write, Fork or Delete has returned nil, the change survives the death of the process and of the server, as far
// as the server's disk is reliable: the server's commit waits for its write-ahead log, and Open refuses a user or
// database for which synchronous_commit is off. Whether the change also survives the loss of the server's machine
// depends on its replication.
//
// A write is one statement: one round trip and one transaction. If a connection breaks before the answer arrives, the
// store connects again and compares the log with what it sent, so that the write is made exactly once. It retries for
// the time of [WithRetryTime] through restarts and failovers, refused connections, deadlocks and serialization
// failures. If the time has passed, or the caller's context ends, it may be unknown whether the write was made, and
// the error then says so. The log is consistent in any case: a write that arrives late finds another head or lease,
// and changes nothing.
//
// # Clocks
//
// Only the server's clock counts for leases. A lease whose owner is a dead process of the same host can be replaced
// at once, another one when [session.LeaseTTL] has passed without a renewal.
package postgres
