// Package checkpoint looks into the past of stored sessions and starts new ones
// from it: what a session was at any of its checkpoints, forks that share the past,
// a user message said anew, the differences of two sessions, and sessions made from
// messages of other programs.
//
// A checkpoint is a position of the log: the end of an atomic write, or the place
// right before or right after a user message. Checkpoints are not stored anywhere:
// the events of one write share a time that no other write of the session has.
//
// The package imports agent, conversation, event, llm and session. It runs no agents: a
// fork or an edited session is continued with the runner's Resume or Run.
package checkpoint
