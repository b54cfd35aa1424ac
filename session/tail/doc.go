// Package tail lets requests of one process follow the process's sessions while they run: its [Tail] wraps any store.
//
// The package never runs an agent and never stores a log.
package tail
