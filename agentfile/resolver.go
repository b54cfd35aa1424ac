package agentfile

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/summarize"
)

// Resolver gives graphs the agents of a folder: those in Markdown, each with its
// sub-agents, and the documents of kind Agent; and tool nodes their tools. The names that
// it knows are those of [agentgraph.Folder.Refs] and of [ToolRefs]; the error of another one
// is [agentgraph.ErrUnknownRef].
//
// Each call makes a new agent. The configuration of a node is laid over what the front
// matter says, as [agentgraph.LLMConfig.Read] does it, and not over what is said about
// sub-agents. The error of an agent that is not as it must be is an [*Error] with the
// problems of its files, a [*agentgraph.DocumentError], or a [*agentgraph.ConfigError].
// Files are read when Resolver is called, and graphs that are agents when they are first
// needed. It may be called by several goroutines.
func Resolver(dir string, opts ...Option) (agentgraph.Resolver, error) {
	l, err := open(dir, opts)
	if err != nil {
		return nil, err
	}
	if l.config.model == nil {
		return nil, errors.New("agentfile: agents need a model: use WithModel")
	}
	if l.file != "" {
		return nil, fmt.Errorf("agentfile: %s is no folder", dir)
	}
	f, err := l.agentsIn(".")
	if err != nil {
		return nil, fmt.Errorf("agentfile: the folder %s cannot be read: %w", dir, cause(err))
	}
	var mu sync.Mutex
	return func(ref string, config map[string]any) (agent.Agent, error) {
		mu.Lock()
		defer mu.Unlock()
		return f.resolve(ref, config)
	}, nil
}

// ToolRefs returns the references to the tools that tool nodes can name: these, and the
// built-in summarize_text.
func ToolRefs(t ...tools.Tool) []string {
	refs := []string{agentgraph.ToolRef(summarize.Name)}
	for _, tool := range t {
		refs = append(refs, agentgraph.ToolRef(tool.Info().Name))
	}
	return refs
}

// ReadFolder is [agentgraph.ReadFolder] with the problems of the agents in Markdown that
// their files alone have.
func ReadFolder(fsys fs.FS) (*agentgraph.Folder, error) {
	l, err := openFS(fsys, ".", nil)
	if err != nil {
		return nil, err
	}
	f, err := l.agentsIn(".")
	if err != nil {
		return nil, err
	}
	for i := range f.list.Agents {
		a := &f.list.Agents[i]
		if s := l.source(a.File); a.Document == nil && s != nil {
			for _, p := range s.problems {
				a.Problems = append(a.Problems, agentgraph.Problem{Code: agentgraph.CodeYAML, Line: p.Line, Message: p.Message, File: a.File})
			}
		}
	}
	return f.list, nil
}
