// Package llmagent is the agent that a language model drives: view → model →
// tools, one step at a time. A step either asks the model once, or runs the
// tools of its last answer and decides about transfers. [Func] makes an agent of a Go function
// instead, which asks and calls by a [Step]. [Agent.Split] and [ToolAgent] make agents for
// graphs in which tools have nodes of their own.
//
// It imports llm, event, agent, view and tools. It keeps no state between steps but an
// incremental view beside the session, and never stores anything itself.
package llmagent
