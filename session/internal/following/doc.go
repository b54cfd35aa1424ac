// Package following contains what the implementations of [session.Tail] share: [LogReader] reads the log for one
// follower, [OpenBlocks] tracks the blocks that were shown in part, and [CheckPartial] checks the events that are
// published.
package following
