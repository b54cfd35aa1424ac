package graphtest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// maxDepth bounds how deep values are nested.
const maxDepth = 64

// Anchors, aliases and tags are not read, so that everything is written out in the file.
const notRead = "anchors, aliases and tags are not read here: write the value out"

// reader reads a file of cases or of mocks.
type reader struct {
	file     string
	problems []Problem
	load     []agentgraph.Option // of graphs that are refused
}

func (r *reader) add(line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, line, fmt.Sprintf(format, args...)})
}

// document is the text of one document of a file.
type document struct {
	text   string
	before int
}

// documents cuts a file at the lines that begin with ---. A text within a document
// cannot hold such a line, because it is indented.
func (r *reader) documents(data []byte) []document {
	text, problem := yamldoc.Decode(data, agentgraph.MaxFile)
	if problem != nil {
		r.add(problem.Line, "%s", problem.Message)
		return nil
	}
	var docs []document
	lines := strings.SplitAfter(text, "\n")
	start := 0
	add := func(end int) {
		if body := strings.Join(lines[start:end], ""); strings.TrimSpace(body) != "" {
			docs = append(docs, document{body, start})
		}
	}
	for i, line := range lines {
		if rest, ok := strings.CutPrefix(line, "---"); ok && strings.TrimSpace(strings.SplitN(rest, " #", 2)[0]) == "" {
			add(i)
			start = i + 1
		}
	}
	add(len(lines))
	return docs
}

// parse returns the value of a document, nothing if it has none or is wrong.
func (r *reader) parse(d document) (body yamldoc.Node) {
	file, problems := yamldoc.Parse(d.text, yamldoc.Rules{Before: d.before, Depth: 2 * maxDepth, NoAliases: notRead, NoTags: notRead})
	for _, p := range problems {
		r.add(p.Line, "%s", p.Message)
	}
	if file == nil {
		return yamldoc.Node{}
	}
	for _, doc := range file.Documents {
		if isNull(doc) {
			continue
		}
		if !isNull(body) {
			r.add(doc.Line(), "a second document begins here: put a line with --- before it")
			return yamldoc.Node{}
		}
		body = doc
	}
	return body
}

func isNull(n yamldoc.Node) bool { return n.Kind() == yamldoc.Nothing }

// pair is a key with its value.
type pair struct {
	key   string
	line  int // of the key
	value yamldoc.Node
}

// pairs reads a mapping whose keys are names, each once.
func (r *reader) pairs(n yamldoc.Node, what string) []pair {
	if n.Kind() != yamldoc.Mapping {
		if !isNull(n) {
			r.add(n.Line(), "%s must be a mapping, not %s", what, n.Describe())
		}
		return nil
	}
	out := make([]pair, 0, n.Len())
	seen := make(map[string]bool, n.Len())
	for i := range n.Len() {
		p := n.Pair(i)
		name, ok := p.Key.Name()
		switch line := p.Key.Line(); {
		case !ok:
			r.add(line, "a key must be a word")
		case seen[name]:
			r.add(line, "the key %q is repeated", short(name, 60))
		default:
			seen[name] = true
			out = append(out, pair{name, line, p.Value})
		}
	}
	return out
}

// fields reads a mapping that can have these keys only. Those that are not there are
// not in the result. synonyms maps other words to keys.
func (r *reader) fields(n yamldoc.Node, what string, synonyms map[string]string, keys ...string) map[string]*pair {
	found := make(map[string]*pair)
	for _, p := range r.pairs(n, what) {
		key := p.key
		if s, ok := synonyms[key]; ok {
			key = s
		}
		if !slices.Contains(keys, key) {
			hint := didYouMean(p.key, keys)
			if hint == "" {
				hint = "; the keys here are " + strings.Join(keys, ", ")
			}
			r.add(p.line, "unknown key %q%s", short(p.key, 60), hint)
			continue
		}
		if first := found[key]; first != nil {
			r.add(p.line, "%s and %s say the same thing: give one of them", first.key, p.key)
			continue
		}
		found[key] = &p
	}
	return found
}

// text reads a text that is not empty.
func (r *reader) text(p *pair) string {
	n := p.value
	text, _ := n.Text()
	switch n.Kind() {
	case yamldoc.Number, yamldoc.Bool:
		r.add(n.Line(), "%s must be a text, and YAML reads %s: put it in quotes, %q", p.key, n.Describe(), n.Written())
		return ""
	case yamldoc.List, yamldoc.Mapping, yamldoc.Other:
		r.add(n.Line(), "%s must be a text, not %s", p.key, n.Describe())
		return ""
	}
	if strings.TrimSpace(text) == "" {
		r.add(p.line, "%s is empty", p.key)
		return ""
	}
	return text
}

// maybe reads a text that may be empty, or missing.
func (r *reader) maybe(p *pair) string {
	if s, ok := p.value.Text(); ok || isNull(p.value) {
		return s
	}
	return r.text(p)
}

// texts reads a list of texts. It is not nil, even if it is empty.
func (r *reader) texts(p *pair) []string {
	out := []string{}
	list := r.list(p)
	for i := range list.Len() {
		n := list.Item(i)
		out = append(out, r.text(&pair{"an entry of " + p.key, n.Line(), n}))
	}
	return out
}

// list returns a list, or nothing.
func (r *reader) list(p *pair) yamldoc.Node {
	if p.value.Kind() != yamldoc.List {
		r.add(p.line, "%s must be a list, not %s", p.key, p.value.Describe())
		return yamldoc.Node{}
	}
	return p.value
}

// whole reads a whole number from least.
func (r *reader) whole(p *pair, least int) int {
	if n, ok := p.value.Whole(); ok && n <= math.MaxInt32 && n >= int64(least) {
		return int(n)
	}
	r.add(p.line, "%s must be a whole number from %d, not %s", p.key, least, p.value.Describe())
	return 0
}

// flag reads true or false.
func (r *reader) flag(p *pair) bool {
	value, ok := p.value.Bool()
	if !ok {
		r.add(p.line, "%s must be true or false, not %s", p.key, p.value.Describe())
	}
	return value
}

// duration reads a text such as 50ms, or a number of milliseconds.
func (r *reader) duration(p *pair) time.Duration {
	if text, ok := p.value.Text(); ok {
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			return d
		}
	}
	ms, ok := p.value.Number()
	if !ok || ms < 0 || ms > float64(math.MaxInt64/time.Millisecond) {
		r.add(p.line, "%s must be a time such as 50ms or 1.5s, or a number of milliseconds, not %s", p.key, p.value.Describe())
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// any converts a value of any kind as encoding/json would decode it, except as
// [yamldoc.Node.Scalar] says.
func (r *reader) any(n yamldoc.Node, depth int) any {
	if depth > maxDepth {
		r.add(n.Line(), "values are nested more than %d levels deep", maxDepth)
		return nil
	}
	switch n.Kind() {
	case yamldoc.List:
		out := make([]any, 0, n.Len())
		for i := range n.Len() {
			out = append(out, r.any(n.Item(i), depth+1))
		}
		return out
	case yamldoc.Mapping:
		out := map[string]any{}
		for _, p := range r.pairs(n, "the value") {
			out[p.key] = r.any(p.value, depth+1)
		}
		return out
	}
	v, wrong := n.Scalar()
	if wrong != "" {
		r.add(n.Line(), "%s", wrong)
	}
	return v
}
