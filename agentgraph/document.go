package agentgraph

import (
	"bytes"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// MaxFile is the largest file in bytes that is read.
const MaxFile = 4 << 20

const (
	maxDepth    = 64
	maxExpanded = 10_000 // values that aliases add
)

var rules = yamldoc.Rules{Tokens: 1_000_000, Depth: maxDepth, Keys: 1_000, Documents: 100}

// documents parses a file. It reports what is wrong; the result is then nil.
func (r *valueReader) documents(data []byte) *yamldoc.File {
	if len(data) <= MaxFile {
		r.lines = bytes.Count(data, []byte("\n")) + 1
	}
	text, problem := yamldoc.Decode(data, MaxFile)
	if problem != nil {
		r.add(CodeYAML, "", problem.Line, "%s", problem.Message)
		return nil
	}
	file, problems := yamldoc.Parse(text, rules)
	for _, p := range problems {
		r.add(CodeYAML, "", p.Line, "%s", p.Message)
	}
	if file != nil {
		r.most = file.Tokens + maxExpanded
	}
	return file
}

// anchorsOf finds the values of a document that aliases can refer to.
func (r *valueReader) anchorsOf(doc yamldoc.Node) {
	r.anchors = map[string]yamldoc.Node{}
	doc.EachAnchor(func(name string, a yamldoc.Node) {
		if first, twice := r.anchors[name]; twice {
			r.add(CodeYAML, "", a.Line(), "the anchor &%s stands on line %d already", yamldoc.Short(name), first.Line())
		} else {
			r.anchors[name] = a
		}
	})
}

// resolve returns the value that an anchor or an alias refers to. A value that does
// not exist has been reported, and is the zero Node.
func (r *valueReader) resolve(n yamldoc.Node) yamldoc.Node {
	for range maxDepth {
		if value, ok := n.Anchor(); ok {
			n = value
			continue
		}
		name, ok := n.Alias()
		if !ok {
			return n
		}
		a, ok := r.anchors[name]
		if !ok || a.Offset() > n.Offset() {
			r.once(n, "no anchor &%s stands before the alias *%s", yamldoc.Short(name), yamldoc.Short(name))
			return yamldoc.Node{}
		}
		n, _ = a.Anchor()
	}
	r.once(n, "an anchor stands for itself")
	return yamldoc.Node{}
}

// once reports a problem of aliases, unless the same text was reported: one
// alias can cause many.
func (r *valueReader) once(n yamldoc.Node, format string, args ...any) {
	p := r.problem(CodeYAML, "", n.Line(), format, args...)
	if !r.said[p.Message] {
		if r.said == nil {
			r.said = map[string]bool{}
		}
		r.said[p.Message] = true
		r.problems = append(r.problems, p)
	}
}
