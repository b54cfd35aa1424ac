package agentgraph

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

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
