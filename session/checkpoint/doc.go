// Package checkpoint reads the past of stored sessions and creates new sessions from it: the state of a session at any
// of its checkpoints, forks that share the past, an edited user message, the difference between two sessions, and
// sessions made of another program's messages.
//
// A checkpoint is a position of the log: the end of an atomic write, or the position right before or right after a
// user message. Checkpoints are not stored: the events of one write have the same time, which no other write of the
// session has.
//
// The package runs no agents: the runner's Resume or Run continues a fork or an edited session.
package checkpoint
