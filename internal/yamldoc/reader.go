package yamldoc

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/internal/nearest"
)

// maxDepth bounds how deep values are nested that a [Reader] reads.
const maxDepth = 64

// Anchors, aliases and tags are not read, so that everything is written out in the file.
const notRead = "anchors, aliases and tags are not read here: write the value out"

// Reader reads the values of files in which nothing but keys, lists and scalars stands, as
// those of cases. It goes on behind a mistake, so that all are reported at once, and returns
// the zero value in place of what is wrong.
type Reader struct {
	// Report is told each mistake.
	Report func(line int, message string)
}

// Add reports a mistake.
func (r *Reader) Add(line int, format string, args ...any) {
	r.Report(line, fmt.Sprintf(format, args...))
}

// Document is the text of one document of a file.
type Document struct {
	Text   string
	Before int // the lines above it
}

// Documents cuts a file of at most so many bytes at the lines that begin with ---. A text within
// a document cannot hold such a line, because it is indented.
func (r *Reader) Documents(data []byte, most int) []Document {
	text, problem := Decode(data, most)
	if problem != nil {
		r.Add(problem.Line, "%s", problem.Message)
		return nil
	}
	var docs []Document
	lines := strings.SplitAfter(text, "\n")
	start := 0
	add := func(end int) {
		if body := strings.Join(lines[start:end], ""); strings.TrimSpace(body) != "" {
			docs = append(docs, Document{body, start})
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

// Parse returns the value of a document, nothing if it has none or is wrong.
func (r *Reader) Parse(d Document) (body Node) {
	file, problems := Parse(d.Text, Rules{Before: d.Before, Depth: 2 * maxDepth, NoAliases: notRead, NoTags: notRead})
	for _, p := range problems {
		r.Add(p.Line, "%s", p.Message)
	}
	if file == nil {
		return Node{}
	}
	for _, doc := range file.Documents {
		if doc.Kind() == Nothing {
			continue
		}
		if body.Kind() != Nothing {
			r.Add(doc.Line(), "a second document begins here: put a line with --- before it")
			return Node{}
		}
		body = doc
	}
	return body
}

// Field is a key with its value.
type Field struct {
	Key   string
	Line  int // of the key
	Value Node
}

// Pairs reads a mapping whose keys are names, each once.
func (r *Reader) Pairs(n Node, what string) []Field {
	if n.Kind() != Mapping {
		if n.Kind() != Nothing {
			r.Add(n.Line(), "%s must be a mapping, not %s", what, n.Describe())
		}
		return nil
	}
	out := make([]Field, 0, n.Len())
	seen := make(map[string]bool, n.Len())
	for i := range n.Len() {
		p := n.Pair(i)
		name, ok := p.Key.Name()
		switch line := p.Key.Line(); {
		case !ok:
			r.Add(line, "a key must be a word")
		case seen[name]:
			r.Add(line, "the key %q is repeated", short(name))
		default:
			seen[name] = true
			out = append(out, Field{name, line, p.Value})
		}
	}
	return out
}

// Fields reads a mapping that can have these keys only. Those that are not there are
// not in the result. synonyms maps other words to keys.
func (r *Reader) Fields(n Node, what string, synonyms map[string]string, keys ...string) map[string]*Field {
	found := make(map[string]*Field)
	for _, p := range r.Pairs(n, what) {
		key := p.Key
		if s, ok := synonyms[key]; ok {
			key = s
		}
		if !slices.Contains(keys, key) {
			hint := nearest.Listed(p.Key, keys)
			if hint == "" {
				hint = "; the keys here are " + strings.Join(keys, ", ")
			}
			r.Add(p.Line, "unknown key %q%s", short(p.Key), hint)
			continue
		}
		if first := found[key]; first != nil {
			r.Add(p.Line, "%s and %s say the same thing: give one of them", first.Key, p.Key)
			continue
		}
		found[key] = &p
	}
	return found
}

// Text reads a text that is not empty.
func (r *Reader) Text(p *Field) string {
	n := p.Value
	text, _ := n.Text()
	switch n.Kind() {
	case Number, Bool:
		r.Add(n.Line(), "%s must be a text, and YAML reads %s: put it in quotes, %q", p.Key, n.Describe(), n.Written())
		return ""
	case List, Mapping, Other:
		r.Add(n.Line(), "%s must be a text, not %s", p.Key, n.Describe())
		return ""
	}
	if strings.TrimSpace(text) == "" {
		r.Add(p.Line, "%s is empty", p.Key)
		return ""
	}
	return text
}

// Maybe reads a text that may be empty, or missing.
func (r *Reader) Maybe(p *Field) string {
	if s, ok := p.Value.Text(); ok || p.Value.Kind() == Nothing {
		return s
	}
	return r.Text(p)
}

// Texts reads a list of texts. It is not nil, even if it is empty.
func (r *Reader) Texts(p *Field) []string {
	out := []string{}
	list := r.List(p)
	for i := range list.Len() {
		n := list.Item(i)
		out = append(out, r.Text(&Field{"an entry of " + p.Key, n.Line(), n}))
	}
	return out
}

// Words reads a text, or a list of texts that is not empty; nothing of a field that is not there.
func (r *Reader) Words(p *Field) []string {
	switch {
	case p == nil:
		return nil
	case p.Value.Kind() != List:
		if text := r.Text(p); text != "" {
			return []string{text}
		}
		return nil
	case p.Value.Len() == 0:
		r.Add(p.Line, "%s is empty", p.Key)
	}
	return r.Texts(p)
}

// List returns a list, or nothing.
func (r *Reader) List(p *Field) Node {
	if p.Value.Kind() != List {
		r.Add(p.Line, "%s must be a list, not %s", p.Key, p.Value.Describe())
		return Node{}
	}
	return p.Value
}

// Whole reads a whole number from least.
func (r *Reader) Whole(p *Field, least int) int {
	if n, ok := p.Value.Whole(); ok && n <= math.MaxInt32 && n >= int64(least) {
		return int(n)
	}
	r.Add(p.Line, "%s must be a whole number from %d, not %s", p.Key, least, p.Value.Describe())
	return 0
}

// Flag reads true or false.
func (r *Reader) Flag(p *Field) bool {
	value, ok := p.Value.Bool()
	if !ok {
		r.Add(p.Line, "%s must be true or false, not %s", p.Key, p.Value.Describe())
	}
	return value
}

// Duration reads a text such as 50ms, or a number of milliseconds.
func (r *Reader) Duration(p *Field) time.Duration {
	if text, ok := p.Value.Text(); ok {
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			return d
		}
	}
	ms, ok := p.Value.Number()
	if !ok || ms < 0 || ms > float64(math.MaxInt64/time.Millisecond) {
		r.Add(p.Line, "%s must be a time such as 50ms or 1.5s, or a number of milliseconds, not %s", p.Key, p.Value.Describe())
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// Values reads a mapping of any values. It is nil if the field is not there, and not if it is empty.
func (r *Reader) Values(p *Field) map[string]any {
	if p == nil {
		return nil
	}
	out := map[string]any{}
	for _, e := range r.Pairs(p.Value, p.Key) {
		out[e.Key] = r.Any(e.Value)
	}
	return out
}

// Any converts a value of any kind as encoding/json would decode it, except as
// [Node.Scalar] says.
func (r *Reader) Any(n Node) any { return r.any(n, 0) }

func (r *Reader) any(n Node, depth int) any {
	if depth > maxDepth {
		r.Add(n.Line(), "values are nested more than %d levels deep", maxDepth)
		return nil
	}
	switch n.Kind() {
	case List:
		out := make([]any, 0, n.Len())
		for i := range n.Len() {
			out = append(out, r.any(n.Item(i), depth+1))
		}
		return out
	case Mapping:
		out := map[string]any{}
		for _, p := range r.Pairs(n, "the value") {
			out[p.Key] = r.any(p.Value, depth+1)
		}
		return out
	}
	v, wrong := n.Scalar()
	if wrong != "" {
		r.Add(n.Line(), "%s", wrong)
	}
	return v
}
