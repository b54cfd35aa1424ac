// Package agent is for authors of agents: the [Agent] interface, agents made of functions, transfer policies and
// edges, the validated [Tree], and the typed errors of a turn. Agents yield the events of package event.
//
// The package runs nothing: the runner does, through the interfaces [Runtime] and [Session].
package agent
