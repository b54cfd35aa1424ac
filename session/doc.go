// Package session keeps conversations: the key of a session, the append-only
// [Store] of its events with leases and fencing tokens, the [Fold] that reduces
// the log to what a runner must know, the [Records] that say what each event is about, and the in-memory store.
//
// It imports event, and agent for keys and errors, and never runs an agent or a model. The stores
// for disks and servers live below this folder, and sessiontest holds the suite
// that every store must pass.
package session
