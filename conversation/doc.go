// Package conversation turns a stream of events into an immutable graph, and the graph into the forms that a chat
// window, a model or a drawing needs.
//
// [Graph.Reduce] applies one event and returns a new graph. The old graph does not change, and other events can be
// applied to it. The two graphs share their common parts, so that the cost of an event does not grow with the graph.
// docs/conversation.md describes nodes, edges and projections.
//
// The package reads events only, and neither stores nor sessions. It never changes an event and never fails on one: it
// leaves out an event that it cannot place.
package conversation
