// Package agentgraph reads graphs of agents: the resource AgentGraph of the Open
// Standard for Software Agents (OSSA v0.2.7), a YAML file that names agents and the
// edges along which their outputs go, and its extension arbor/v1. docs/agentgraph.md
// describes the files.
//
// Load reads a file, checks all of it, compiles its conditions and transforms, and
// reports every problem at once with its code, its path in the document and its
// line. A graph that Load returns has no problem. Running one is not part of this
// version.
//
// The package imports goccy/go-yaml and, from this module, internal/expression
// only. It makes no agents, calls no model, and reads no file besides the one or
// the folder that it is given, and the files of graphs that stand in a graph.
package agentgraph
