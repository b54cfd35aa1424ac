// Package agentgraph runs graphs of agents: the resource AgentGraph of the Open
// Standard for Software Agents (OSSA v0.2.7), a YAML file that names agents and the
// edges along which their outputs go, and the same graphs made in Go.
// docs/agentgraph.md is the guide to the files and to how graphs run.
//
// Load reads a file, checks all of it, compiles its conditions and transforms, and
// reports every problem at once with its code, its path in the document and its line.
// A graph that Load returns has no problem. New makes an agent of it, with the agents
// that a Resolver finds; a Builder makes one in Go.
//
// A run is a function of its input and of how its nodes' calls ended, in the order of
// the session's log. So it continues after a crash where the log ends, and Results
// reads the outcome of a run from a log.
//
// The package imports agent, agent/workflow, event and, for the documents of kind Agent in
// a file and for tool nodes, llmagent, llm and tools; from internal, the expressions, schemas and the reader
// of YAML. It runs nothing itself: the runner does, behind workflow.Group. It reads no
// files but the one or the folder that it is given, and those that a graph of
// arbor/v1 names there.
package agentgraph
