// Package tail lets the requests of one process follow its sessions while they run:
// its [Tail] stands around any store. What every tail needs is here as well, and tails
// for several processes are made of it: a reader of one follower's log, the blocks that
// were shown in part, and the check of what is published.
//
// It imports session and agent, and never runs an agent or keeps a log.
package tail
