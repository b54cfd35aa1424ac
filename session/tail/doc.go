// Package tail lets requests of one process follow the process's sessions while they run: its [Tail] wraps any store.
//
// It imports session, event and agent. It never runs an agent and never stores a log.
package tail
