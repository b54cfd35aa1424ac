// Package agent is for authors of agents: the [Agent] interface, agents made from
// functions, transfer policies and edges, the validated [Tree], and the typed errors
// of a turn. What agents yield are the events of package event.
//
// It imports llm and event and runs nothing: the runner does, behind the interfaces
// [Runtime] and [Session].
package agent
