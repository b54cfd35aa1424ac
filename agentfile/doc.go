// Package agentfile loads a tree of agents from a folder of Markdown files. The front matter of a file configures an
// agent, and its body is the system prompt. Instead of having a model, an agent may be a graph of agents in a YAML
// file; a remote agent, whose front matter names the address and the credentials; a router, whose rules are in the
// front matter or in its own YAML file; or a workflow, which runs other agents of the folder. A graph's file may also
// be the whole tree. Agents of a graph come from the same folder, through Resolver. docs/agentfile.md is the reference;
// it comes from the same table of keys that the parser uses.
//
// Load reads and checks everything before it makes anything, and reports all problems at once, each with its file and
// line. It calls no model, no tool and no remote agent, and writes nothing. It reads files, and the environment
// variables that files name.
//
// The package never runs an agent; package runner does.
package agentfile
