package agentgraph

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// The limits of graphs within graphs.
const (
	maxNested = 8        // levels of nested graphs, including the outermost
	maxNodes  = 100_000  // nodes of a graph and all graphs inside it, counted each time they occur
	maxTotal  = 16 << 20 // bytes of all files of a graph
)

// files contains the files that a graph consists of.
type files struct {
	options *options
	open    []string // the files that are being read, from the outermost to the innermost
	drafts  map[string]*draft
	bytes   int
	readers []*reader         // of all files, the graph's own first
	known   map[string]string // the places of known agents
}

// include reads the file of a graph that a node runs in place of an agent. Each file is read once.
func (r *reader) include(d *draft, name string, n yamldoc.Node) *draft {
	all := r.files
	wrong := func(code Code, format string, args ...any) *draft {
		r.add(code, r.Name, n.Line(), format, args...)
		return nil
	}
	if all.options.fsys == nil {
		return wrong(CodeUnknownAgentRef, "the graph %q cannot be read: no folder was given to look in", visible.Cut(name, 60))
	}
	file := path.Join(path.Dir(all.open[len(all.open)-1]), name)
	if strings.HasPrefix(name, "/") || strings.ContainsAny(name, "\\:\x00") || !fs.ValidPath(file) {
		return wrong(CodeUnknownAgentRef, "the graph %q is not read: name a file in the folder of the outermost graph or below it, with slashes", visible.Cut(name, 60))
	}
	if i := slices.Index(all.open, file); i >= 0 {
		return wrong(CodeCycle, "a graph cannot contain itself: %s", strings.Join(append(slices.Clone(all.open[i:]), file), " → "))
	}
	inner, done := all.drafts[file]
	if done && inner == nil { // its problems are already reported
		return nil
	}
	nested := 1
	if done {
		nested += inner.nested
	}
	if d.depth+nested > maxNested {
		return wrong(CodeYAML, "graphs nest at most %d deep", maxNested)
	}
	if done {
		return inner
	}
	data, err := confined.ReadIn(all.options.fsys, file, MaxFile+1)
	if err != nil {
		all.drafts[file] = nil
		if errors.Is(err, fs.ErrNotExist) {
			return wrong(CodeUnknownAgentRef, "there is no file %q", visible.Cut(file, 60))
		}
		return wrong(CodeUnknownAgentRef, "the file %q cannot be read: %v", visible.Cut(file, 60), err)
	}
	if all.bytes += len(data); all.bytes > maxTotal {
		all.drafts[file] = nil
		return wrong(CodeYAML, "the graph's files have more than %d MiB together", maxTotal>>20)
	}
	all.open = append(all.open, file)
	sub := newReader(all, file, d.depth)
	sub.read(data)
	all.open = all.open[:len(all.open)-1]
	if inner = sub.top; inner != nil {
		inner.graph.Agents, inner.graph.Warnings = sub.agents, sub.warnings
	}
	if len(sub.problems) > 0 {
		inner = nil
	}
	all.drafts[file] = inner
	return inner
}

// agent stores an agent of a file. A name stands for the same agent in all files.
func (r *reader) agent(a AgentDocument) {
	key, place := a.Name+"\x00"+a.Version, fmt.Sprintf("line %d", a.Line)
	if r.file != "" {
		place += " of " + visible.Cut(r.file, 60)
	}
	if first, twice := r.files.known[key]; twice && a.Name != "" {
		r.add(CodeDuplicateID, "metadata.name", a.Line, "the agent %q is already on %s", visible.Cut(a.Name, 60), first)
		return
	}
	r.files.known[key] = place
	r.agents = append(r.agents, a)
}

// subgraph reads the graph that a node has in place of an agent.
func (r *reader) subgraph(d *draft, node *Node, k *yamldoc.Key, n yamldoc.Node) {
	line := r.Key.Line() // the value of a mapping begins on a later line
	switch kind := n.Kind(); {
	case node.Tool != "" || node.ToolsOf != "": // already reported
	case kind == yamldoc.Mapping:
		if d.depth >= maxNested {
			r.add(CodeYAML, r.Name, line, "graphs nest at most %d deep", maxNested)
			return
		}
		inner := &draft{base: r.Name, depth: d.depth + 1, graph: &Graph{APIVersion: d.graph.APIVersion, Name: node.ID, Version: d.graph.Version, checked: true}}
		r.spec(inner, k, n)
		r.inside(d, inner, node, line)
	case kind == yamldoc.Text:
		if name, ok := r.String(k, n); ok {
			if inner := r.include(d, name, n); inner != nil {
				r.inside(d, inner, node, line)
			}
		}
	default:
		r.WrongType(k, n)
	}
}

// inside adds an inner graph to a node, and its depth and size to the draft.
func (r *reader) inside(d, inner *draft, node *Node, line int) {
	node.Graph = inner.graph
	d.nested = max(d.nested, inner.nested+1)
	if d.size <= maxNodes {
		if d.size += inner.size; d.size > maxNodes {
			r.add(CodeYAML, r.Name, line, "the graph and those within it have more than %d agents", maxNodes)
		}
	}
}

// inner returns the agent of the graph that a node has in place of an agent. The options of the outer graph also apply
// to it.
func (a *Agent) inner(n *planNode, resolve Resolver) (agent.Agent, error) {
	opts := []AgentOption{WithName(legalName(n.ID)), WithConcurrency(a.concurrency), WithSettle(a.settle),
		func(in *Agent) {
			in.backoff, in.maxBackoff, in.bounded = a.backoff, a.maxBackoff, a.bounded
		}}
	for id, member := range a.given {
		if rest, ok := strings.CutPrefix(id, n.ID+"/"); ok {
			opts = append(opts, WithAgent(rest, member))
		}
	}
	in, err := New(n.Graph, resolve, opts...)
	if err != nil { // a nil *Agent would be a non-nil interface
		return nil, err
	}
	return in, nil
}

// has reports whether the graph has a node, or a node with an inner graph that may have it.
func (a *Agent) has(id string) bool {
	if _, ok := a.plan.index[id]; ok {
		return true
	}
	for i := range a.plan.nodes {
		if n := &a.plan.nodes[i]; n.Graph != nil && strings.HasPrefix(id, n.ID+"/") {
			return true
		}
	}
	return false
}

// inLoop returns the graph for use in a loop. If a round ends at one node, the round's output is that node's output, so
// that the next round gets it without a mapping around it.
func (a *Agent) inLoop() *Agent {
	in, p := *a, *a.plan
	p.body, in.plan = true, &p
	return &in
}
