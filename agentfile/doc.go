// Package agentfile makes a tree of agents from a folder of Markdown files: the
// front matter of a file configures an agent, its body is the system prompt. An
// agent may be a graph of agents, and a graph's file may be the tree; the graph's
// own agents come from the same folder, which is what Resolver is for.
// docs/agentfile.md is the reference; it is written from the same table of keys
// that drives the parser.
//
// Load reads and checks everything before it makes anything, and reports all
// problems at once, each with its file and line. It calls no model and no tool,
// and writes nothing.
//
// It imports agent, agentgraph, llmagent, llm, tools and view, and goccy/go-yaml. It never
// runs an agent: that is the part of package runner.
package agentfile
