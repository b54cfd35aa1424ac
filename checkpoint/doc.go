// Package checkpoint looks into the past of stored sessions and starts new ones
// from it: what a session was at any of its checkpoints, forks that share the past,
// a user message said anew, the differences of two sessions, and sessions made of
// messages from elsewhere.
//
// A checkpoint is a position at which the log has stood: the end of an atomic write,
// and besides, the places right before and right behind a user message. No positions
// are kept anywhere for it: the events of one write share a time that no other write
// of the session has.
//
// The package imports agent, conversation, event, llm and session. It runs no agents: a
// fork or an edited session goes on with the runner's Resume or Run.
package checkpoint
