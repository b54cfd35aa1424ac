// Package tail lets requests of one process follow the process's sessions while they run: its [Tail] wraps any store.
// The package also contains what tails for several processes need: [LogReader] reads the log for one follower,
// [OpenBlocks] tracks the blocks that were shown in part, and [CheckPartial] checks the events that are published.
//
// It imports session, event and agent. It never runs an agent and never stores a log.
package tail
