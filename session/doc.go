// Package session defines how conversations are stored: the [Key] of a session, the [Store] of its append-only log
// with leases and fencing tokens, the [Fold] that reduces the log to the state that a runner needs, and the [Records]
// that connect each event with the earlier events that it refers to. [Memory] is a store in memory.
//
// The package never runs an agent or a model. The stores for disks and servers are in the folders below, and the
// package sessiontest contains the test suite that every store must pass.
package session
