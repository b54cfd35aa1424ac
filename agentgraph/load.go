package agentgraph

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/option"
)

// Option configures [Load] and [LoadFile].
type Option func(*options)

type options struct {
	file   string
	refs   []string
	nodes  []string
	anyRef bool
	folder *Folder
	seen   func(AgentDocument) // called for each agent document in the file
	fsys   fs.FS
	name   string // the graph's own file in fsys
}

// WithFile sets the file name that errors show.
func WithFile(name string) Option { return func(o *options) { o.file = name } }

// WithRefs names agents that exist in addition to those in the file, as name or name@version. A name without a version
// stands for every version.
func WithRefs(names ...string) Option {
	return func(o *options) { o.refs = append(o.refs, names...) }
}

// WithNodes declares that these nodes get their agents from [WithAgent], so Load does not report their references.
// Nodes are named as in [WithAgent].
func WithNodes(ids ...string) Option {
	return func(o *options) { o.nodes = append(o.nodes, ids...) }
}

// WithFolder adds the valid agents of a folder to the agents that exist. If only an invalid file of the folder could
// satisfy a reference, the problem names that file and its first error.
func WithFolder(f *Folder) Option { return func(o *options) { o.folder = f } }

// WithAnyRef accepts every reference, for callers that need only the shape of a graph.
func WithAnyRef() Option { return func(o *options) { o.anyRef = true } }

// WithFS sets the file system with the files that an arbor/v1 graph names in place of agents. name is the graph's own
// file in fsys. A file name is relative to the folder of the file that contains it, and must stay in the folder of name
// or below it. LoadFile sets this option itself; without it, Load finds no files.
func WithFS(fsys fs.FS, name string) Option {
	return func(o *options) {
		o.fsys, o.name = nil, path.Base(name)
		if sub, err := fs.Sub(fsys, path.Dir(name)); err == nil {
			o.fsys = sub
		}
	}
}

// Load reads and checks a graph. On failure the graph is nil and the error is an [*Error] with all problems. Time and
// memory grow with the length of data and of the files that it names. Data larger than [MaxFile] bytes is refused.
func Load(data []byte, opts ...Option) (*Graph, error) {
	var o options
	if err := option.Apply(&o, opts); err != nil {
		return nil, fmt.Errorf("agentgraph: %w", err)
	}
	all := &files{options: &o, open: []string{o.name}, drafts: map[string]*draft{}, known: map[string]string{}}
	r := newReader(all, "", 0)
	r.read(data)
	known := newRefs(o.refs)
	if o.folder != nil {
		known.names = append(known.names, o.folder.Refs()...)
	}
	for _, f := range all.readers {
		for _, a := range f.agents {
			if a.Name != "" {
				known.add(a.ref())
			}
		}
	}
	if r.top != nil && len(o.nodes) > 0 {
		known.addNodes(r.top.graph, "", o.nodes)
	}
	var (
		problems, warnings []Problem
		agents             []AgentDocument
	)
	for _, f := range all.readers {
		f.refs(&o, known)
		problems, warnings, agents = append(problems, f.problems...), append(warnings, f.warnings...), append(agents, f.agents...)
	}
	if o.seen != nil {
		for _, a := range agents {
			o.seen(a)
		}
	}
	if len(problems) > 0 {
		sortProblems(problems)
		return nil, &Error{o.file, slices.Compact(problems)}
	}
	r.top.graph.Agents, r.top.graph.Warnings = agents, warnings
	return r.top.graph, nil
}

// read reads the documents of a file.
func (r *reader) read(data []byte) {
	r.files.readers = append(r.files.readers, r)
	file := r.documents(data)
	if file == nil {
		return
	}
	seen := 0
	for i, doc := range file.Documents {
		r.document(doc, i, &seen)
	}
	if seen == 0 && len(r.problems) == 0 {
		what := "the file is empty"
		if len(file.Documents) > 0 {
			what = "the file holds agents only"
		}
		r.add(CodeWrongKind, "kind", 1, "%s"+missingGraph, what)
	}
}

// missingGraph is the end of the message about a file without a graph. The message agentsOnly is not a problem of the
// file's agents.
const (
	missingGraph = ": a document of kind AgentGraph is missing"
	agentsOnly   = "the file holds agents only" + missingGraph
)

// LoadFile reads and checks the graph in a file. The files that the graph names are found relative to its folder. An
// error that is not an [*Error] reports that the file cannot be read.
func LoadFile(name string, opts ...Option) (*Graph, error) {
	data, err := confined.Read(name, MaxFile+1)
	if err != nil {
		return nil, fmt.Errorf("agentgraph: %w", err)
	}
	opts = append([]Option{WithFile(name)}, opts...)
	return Load(data, append([]Option{WithFS(confined.Folder(filepath.Dir(name)), filepath.Base(name))}, opts...)...)
}

// Problems returns the problems in an error of [Load], or nil for any other error.
func Problems(err error) []Problem {
	var e *Error
	if errors.As(err, &e) {
		return e.Problems
	}
	return nil
}
