// Package agentgraph runs graphs of agents. A graph is an AgentGraph resource of the Open Standard for Software Agents
// (OSSA v0.2.7), a YAML file that names agents and the edges between them, or it is built in Go. docs/agentgraph.md is
// the guide to the files and to how graphs run.
//
// Load reads and checks a file, compiles its conditions and transforms, and reports every problem at once with its
// code, its path in the document and its line. A graph that Load returns is valid. New makes an agent of it, with the
// agents that a Resolver returns. A Builder makes one in Go.
//
// A run depends only on its input and on the outcomes of its nodes' calls, in the order of the session's log. So it
// continues after a crash from the end of the log, and Agent.Runs reads the outcomes of runs from a log.
//
// The package runs no agent itself: the runner does, through workflow.Group. It reads only the file or folder that it
// is given, and the files that an arbor/v1 graph names there.
package agentgraph
