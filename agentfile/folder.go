package agentfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/summarize"
)

// agentFolder contains the agents that graphs in a folder can refer to.
type agentFolder struct {
	*loader
	dir   string // relative to the folder of the tree
	list  *agentgraph.Folder
	found map[string]*agentgraph.FolderAgent // by reference, for resolved references
	trees map[string]*smallTree              // by the file of the root

	defs   []*definition
	named  map[string]*definition
	inside map[string][]*definition // by folder
}

// smallTree is a Markdown agent with its sub-agents, separate from the tree and from other small trees.
type smallTree struct {
	root     *definition
	problems []Problem
}

// agentsIn finds the agents in a folder, once.
func (l *loader) agentsIn(dir string) (*agentFolder, error) {
	if f := l.folders[dir]; f != nil {
		return f, nil
	}
	fsys, err := fs.Sub(l.fsys, path.Join(l.dir, dir))
	if err != nil {
		return nil, err
	}
	f := &agentFolder{loader: l, dir: dir, found: map[string]*agentgraph.FolderAgent{}, trees: map[string]*smallTree{},
		named: map[string]*definition{}, inside: map[string][]*definition{}}
	f.list, err = agentgraph.ReadFolder(fsys, func(file string) (string, bool) {
		s := l.source(path.Join(dir, file))
		if s == nil || s.d == nil {
			return "", false
		}
		f.add(s.d)
		return s.d.name, true
	})
	if err != nil {
		return nil, err
	}
	for _, d := range append([]*definition{{file: path.Join(dir, "x.md")}}, f.defs...) {
		f.routers(path.Dir(d.file))
		f.routers(d.folder())
	}
	l.folders[dir] = f
	return f, nil
}

func (f *agentFolder) add(d *definition) {
	f.defs = append(f.defs, d)
	if f.named[d.name] == nil {
		f.named[d.name] = d
	}
	f.inside[path.Dir(d.file)] = append(f.inside[path.Dir(d.file)], d)
}

// routers adds the YAML routers of a folder. The folder need not exist.
func (f *agentFolder) routers(dir string) {
	for _, name := range f.yamlFiles(dir) {
		file := path.Join(dir, name)
		known := slices.ContainsFunc(f.defs, func(d *definition) bool { return d.file == file })
		if !known && f.kind(file) == "Router" {
			f.add(f.source(file).d)
		}
	}
}

// resolve implements [agentgraph.Resolver].
func (f *agentFolder) resolve(ref string, config map[string]any) (agent.Agent, error) {
	if tool, ok := strings.CutPrefix(ref, agentgraph.ToolRef("")); ok {
		return f.toolNode(tool)
	}
	a := f.found[ref]
	if a == nil {
		var err error
		if a, err = f.list.Find(ref); err != nil {
			return nil, err
		}
		f.found[ref] = a
	}
	file := path.Join(f.dir, a.File)
	if a.Document == nil {
		return f.markdownAgent(file, config)
	}
	if len(a.Problems) > 0 {
		r := report{given: f.report.given}
		for _, p := range a.Problems {
			r.add(file, pos{p.Line, 0}, "%s", p)
		}
		return nil, r.err()
	}
	made, err := withoutMCP(agentgraph.ResolveDocuments([]agentgraph.AgentDocument{*a.Document}, f.modelOf, f.tools...))(ref, config)
	var document *agentgraph.DocumentError
	if errors.As(err, &document) {
		document.File = f.report.given(file)
	}
	return made, err
}

// toolNode returns the agent of a tool node, for a tool of the program or the built-in one.
func (f *agentFolder) toolNode(name string) (agent.Agent, error) {
	t := f.registry.Get(name)
	if t == nil && name == summarize.Name {
		model, err := f.modelOf("")
		if err != nil {
			return nil, fmt.Errorf("the default model cannot be used: %w", err)
		}
		if t, err = summarize.New(model); err != nil {
			return nil, err
		}
	}
	return agentgraph.ResolveTools(t)(agentgraph.ToolRef(name), nil)
}

// markdownAgent makes the agent of a file with its sub-agents, with a node's configuration.
func (f *agentFolder) markdownAgent(file string, config map[string]any) (agent.Agent, error) {
	tree := f.tree(file)
	if len(tree.problems) > 0 {
		return nil, (&report{problems: tree.problems}).err()
	}
	d, err := f.configured(tree.root, config)
	if err != nil {
		return nil, err
	}
	r := &report{given: f.report.given}
	if !d.hasModel() {
	} else if d.model == tree.root.model {
		f.checkModel(r, d)
	} else if _, err := f.modelOf(d.model); err != nil {
		return nil, &agentgraph.ConfigError{Key: "model", Message: fmt.Sprintf("%q cannot be used: %s", d.model, err)}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	a := f.build(r, d, map[string]Source{})
	return a, r.err()
}

// tree returns the agent of a file with its sub-agents, and their problems. Several trees may contain the same agent,
// and it may also be a node; each tree has its own copies.
func (f *agentFolder) tree(file string) *smallTree {
	if t := f.trees[file]; t != nil {
		return t
	}
	s := f.sources[file]
	if s == nil || s.d == nil {
		return &smallTree{problems: []Problem{{File: f.report.given(file), Message: "the file is not an agent"}}}
	}
	s.d.inGraph = true
	r := &report{given: f.report.given}
	t := &smallTree{root: f.subtree(r, s.d)}
	for d := range members(t.root) {
		if s := f.sources[d.file]; s != nil { // nil for an inner graph of a list
			r.problems = append(r.problems, s.problems...)
		}
		f.checkProperties(r, d, d == t.root && file == f.file)
		if d == t.root && d.hasModel() {
			f.checkTools(r, d) // a node's configuration may change the model
			continue
		}
		f.checkDefinition(r, d)
	}
	t.problems = r.problems
	f.trees[file] = t
	return t
}

// configured applies a node's configuration to an agent's own.
func (l *loader) configured(d *definition, config map[string]any) (*definition, error) {
	if len(config) == 0 {
		return d, nil
	}
	what := ""
	switch {
	case d.isGraph:
		what = "a graph, and a graph has no configuration: configure its nodes"
	case d.router != nil:
		what = "a router, and a router has no configuration"
	case d.isWorkflow():
		what = "a workflow, and a workflow has no configuration: its agents have their own"
	case d.isRemote:
		what = "remote, and a remote agent has no configuration"
	}
	if what != "" {
		return nil, fmt.Errorf("the agent %q is %s", d.name, what)
	}
	servers := d.mcp
	if more, present := config["mcp"]; present {
		var err error
		if servers, err = mcpOf(d, more); err != nil {
			return nil, err
		}
		config = maps.Clone(config)
		delete(config, "mcp")
	}
	c, err := agentgraph.LLMConfig{Model: d.model, Settings: d.inherited()}.Read(config)
	if err != nil {
		return nil, err
	}
	changed := *d
	changed.mcp = servers
	changed.model, changed.settings, changed.body = c.Model, c.Settings, c.Prompt(d.body)
	if c.Model != d.model { // a node's own model has no fallbacks
		changed.fallbacks = nil
	}
	if wrong := l.toolChoice(&changed); wrong != "" {
		return nil, &agentgraph.ConfigError{Key: "toolChoice", Message: wrong}
	}
	return &changed, nil
}

// decoded decodes JSON that is known to be valid.
func decoded(data json.RawMessage) (v any) {
	_ = json.Unmarshal(data, &v)
	return v
}

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
