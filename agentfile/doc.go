// Package agentfile makes a tree of agents from a folder of Markdown files: the
// front matter of a file configures an agent, its body is the system prompt. An
// agent may be a graph of agents, and a graph's file may be the tree; the graph's
// own agents come from the same folder, which is what Resolver is for. An agent may
// be a remote one, whose address and credentials the front matter names, a router,
// whose rules stand in the front matter or in a YAML file of its own, or a workflow, which
// runs other agents of the folder.
// docs/agentfile.md is the reference; it is written from the same table of keys
// that drives the parser.
//
// Load reads and checks everything before it makes anything, and reports all
// problems at once, each with its file and line. It calls no model, no tool and no
// remote agent, and writes nothing. It reads files, and the environment variables that
// the front matters of remote agents name.
//
// It imports a2a, agent, agentgraph, event, human, llmagent, llm, llm/openai, router, tools, view and workflowagent. It
// never runs an agent: that is the part of package runner.
package agentfile
