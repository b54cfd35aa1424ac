// Package agent defines the nodes of a tree and what happens to them: the
// [Agent] interface, the [Event] log's vocabulary and its one codec, transfer
// policies and edges, the validated [Tree], and the typed errors of a turn.
//
// It imports llm for the content of messages and nothing else of this module.
// It runs nothing and stores nothing: the runner does the one, the stores of
// package session do the other, behind the interfaces [Runtime] and [Session].
package agent
