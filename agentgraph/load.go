package agentgraph

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Option configures Load and LoadFile.
type Option func(*options)

type options struct {
	file   string
	refs   []string
	exists func(ref string) bool
	anyRef bool
	seen   func(AgentDocument) // of each agent that the file holds
}

// WithFile names the file in errors.
func WithFile(name string) Option { return func(o *options) { o.file = name } }

// WithRefs names agents that exist besides those of the file itself, as name or
// name@version. A name without version stands for every version.
func WithRefs(names ...string) Option {
	return func(o *options) { o.refs = append(o.refs, names...) }
}

// WithExists asks a function whether an agent exists that the file and WithRefs do
// not have. ref is as it stands in the file.
func WithExists(exists func(ref string) bool) Option {
	return func(o *options) { o.exists = exists }
}

// WithAnyRef takes every reference, for whoever wants the shape of a graph only.
func WithAnyRef() Option { return func(o *options) { o.anyRef = true } }

// Load reads and checks a graph. The error is an [*Error] with all problems; the
// graph is then nil. Time and memory grow with the length of data, of which at most
// [MaxFile] bytes are read.
func Load(data []byte, opts ...Option) (*Graph, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	r := &reader{lines: 1, compiled: map[source]*compiled{}}
	if docs, ok := r.documents(data); ok {
		seen := 0
		for i, doc := range docs {
			r.document(doc, i, &seen)
		}
		if seen == 0 && len(r.problems) == 0 {
			what := "the file is empty"
			if len(docs) > 0 {
				what = "the file holds agents only"
			}
			r.add(CodeWrongKind, "kind", 1, "%s: a document of kind AgentGraph is missing", what)
		}
		if r.graph != nil {
			r.refs(&o)
		}
		if o.seen != nil {
			for _, a := range r.agents {
				o.seen(a)
			}
		}
	}
	if len(r.problems) > 0 {
		sortProblems(r.problems)
		return nil, &Error{o.file, r.problems}
	}
	r.graph.Agents, r.graph.Warnings = r.agents, r.warnings
	return r.graph, nil
}

// LoadFile is Load for a file. An error that is no [*Error] says why the file
// cannot be read.
func LoadFile(path string, opts ...Option) (*Graph, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("agentgraph: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("agentgraph: %s is a folder: name the file of a graph", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("agentgraph: %w", err)
	}
	return Load(data, append([]Option{WithFile(path)}, opts...)...)
}

// Problems returns the problems of an error of Load, or nil if it is about
// something else.
func Problems(err error) []Problem {
	var e *Error
	if errors.As(err, &e) {
		return e.Problems
	}
	return nil
}
