package agentfile

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/summarize"
)

// Resolver returns a resolver for the agents of a folder: Markdown agents with their sub-agents, documents of kind
// Agent, and the tools of tool nodes. It knows the names in [agentgraph.Folder.Refs] and [ToolRefs]. For any other name
// the error is [agentgraph.ErrUnknownRef].
//
// Each call makes a new agent. A node's configuration overrides the agent's front matter, as in
// [agentgraph.LLMConfig.Read], but not that of its sub-agents. The error for an invalid agent is an [*Error] with the
// problems of its files, a [*agentgraph.DocumentError], or a [*agentgraph.ConfigError]. Files are read when Resolver is
// called; graphs that are agents are read on first use. The resolver is safe for concurrent use.
func Resolver(dir string, opts ...Option) (agentgraph.Resolver, error) {
	l, err := open(dir, opts)
	if err != nil {
		return nil, err
	}
	if l.config.model == nil {
		return nil, errors.New("agentfile: agents need a model: use WithModel")
	}
	if l.file != "" {
		return nil, fmt.Errorf("agentfile: %s is not a folder", dir)
	}
	f, err := l.agentsIn(".")
	if err != nil {
		return nil, fmt.Errorf("agentfile: the folder %s cannot be read: %w", dir, confined.Reason(err))
	}
	var mu sync.Mutex
	return func(ref string, config map[string]any) (agent.Agent, error) {
		mu.Lock()
		defer mu.Unlock()
		return f.resolve(ref, config)
	}, nil
}

// ToolRefs returns the references of the tools that tool nodes can name: the given ones, and the built-in
// summarize_text.
func ToolRefs(t ...tools.Tool) []string {
	refs := []string{agentgraph.ToolRef(summarize.Name)}
	for _, tool := range t {
		refs = append(refs, agentgraph.ToolRef(tool.Info().Name))
	}
	return refs
}

// ReadFolder is like [agentgraph.ReadFolder], and adds the problems of Markdown agents that can be found in their files
// alone.
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
