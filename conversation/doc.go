// Package conversation turns a stream of events into an immutable graph, and
// the graph into what a chat window, a model or a drawing needs.
//
// [Graph.Reduce] takes one event and returns a new graph; the old one stays as
// it was and can be used, also to go on from it in another direction. Both share
// what they have in common, so that the cost of an event does not grow with the
// graph. docs/conversation.md describes nodes, edges and projections.
//
// It imports event and llm, and reads events only: no store, no session. It never
// changes an event, and it never fails on one: what it cannot place it leaves
// out.
package conversation
