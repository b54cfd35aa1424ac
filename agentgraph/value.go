package agentgraph

import (
	"encoding/json"
	"strings"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// valueReader reads the values of one file, and collects what is wrong.
type valueReader struct {
	file     string // for problems; empty for the graph's own file
	lines    int    // of the file
	prefix   string // of paths, in documents that are not the graph's
	problems []Problem
	warnings []Problem

	hints int
}

func isNull(n yamldoc.Node) bool { return n.Kind() == yamldoc.Nothing }

// fields are the keys of a mapping.
type fields struct {
	path  string
	line  int
	found []field
}

// get returns the field of a key, also of one that is not there.
func (f *fields) get(name string) field {
	for _, found := range f.found {
		if found.name == name {
			found.above = f.line
			return found
		}
	}
	return field{path: join(f.path, name), above: f.line}
}

// field is a key with its value.
type field struct {
	name  string // empty if the key is not there
	path  string
	above int // the line of the mapping, for a key that is not there
	key   yamldoc.Node
	value yamldoc.Node // nothing as well if the key has no value
}

func (f field) there() bool { return f.key != yamldoc.Node{} }

// empty reports whether the key is not there or has no value.
func (f field) empty() bool { return isNull(f.value) }

// line returns the line of the value, or of the key if there is no value, and 0 if
// the key is missing.
func (f field) line() int {
	switch {
	case !f.there():
		return 0
	case f.empty():
		return f.key.Line()
	}
	return f.value.Line()
}

// required reads a text that must be there. wrong is the code of a value that is
// no text.
func (r *valueReader) required(f field, wrong Code) (string, bool) {
	if r.missing(f) {
		return "", false
	}
	return r.given(f, wrong)
}

// missing reports a key that is not there.
func (r *valueReader) missing(f field) bool {
	if !f.there() {
		r.add(CodeMissingField, f.path, f.above, "%s is missing", leaf(f.path))
	}
	return !f.there()
}

// given reads a text that is not blank, if the key is there.
func (r *valueReader) given(f field, wrong Code) (string, bool) {
	if f.there() && f.empty() {
		r.add(CodeMissingField, f.path, f.line(), "%s has no value", leaf(f.path))
		return "", false
	}
	s, ok := r.optional(f, wrong)
	if ok && strings.TrimSpace(s) == "" {
		r.add(CodeMissingField, f.path, f.line(), "%s is empty", leaf(f.path))
		return "", false
	}
	return s, ok
}

// optional reads a text, if the key is there.
func (r *valueReader) optional(f field, wrong Code) (string, bool) {
	s, ok := f.value.Text()
	if ok || !f.there() {
		return s, ok
	}
	switch f.value.Kind() {
	case yamldoc.Nothing:
		r.add(wrong, f.path, f.line(), "%s has no value: remove the key if none is meant", leaf(f.path))
	case yamldoc.Number, yamldoc.Bool:
		r.add(wrong, f.path, f.line(), "%s must be a text, and YAML reads %s: put it in quotes, %q", leaf(f.path), f.value.Describe(), f.value.Written())
	default:
		r.add(wrong, f.path, f.line(), "%s must be a text, not %s", leaf(f.path), f.value.Describe())
	}
	return "", false
}

// free reads an optional text of no importance: nothing is as good as absent.
func (r *valueReader) free(f field) string {
	if f.empty() {
		return ""
	}
	s, _ := r.optional(f, CodeYAML)
	return s
}

// mapping reads an optional mapping of any values.
func (r *valueReader) mapping(f field) map[string]any {
	if f.empty() {
		return nil
	}
	if f.value.Kind() != yamldoc.Mapping {
		r.add(CodeYAML, f.path, f.line(), "%s must be a mapping, not %s", leaf(f.path), f.value.Describe())
		return nil
	}
	v, _ := r.any(f.value, f.path).(map[string]any)
	return v
}

// any converts a value of any kind.
func (r *valueReader) any(n yamldoc.Node, path string) any {
	switch n.Kind() {
	case yamldoc.List:
		out := make([]any, 0, n.Len())
		for i := range n.Len() {
			out = append(out, r.any(n.Item(i), index(path, i)))
		}
		return out
	case yamldoc.Mapping:
		out := make(map[string]any, n.Len())
		r.each(n, path, func(name, at string, p yamldoc.Pair) { out[name] = r.any(p.Value, at) })
		return out
	}
	v, wrong := n.Scalar()
	if wrong != "" {
		r.add(CodeYAML, path, n.Line(), "%s", wrong)
	}
	if number, ok := v.(json.Number); ok {
		f, _ := number.Float64() // which has it
		return f
	}
	return v
}

// list returns a list, or nothing.
func (r *valueReader) list(f field) yamldoc.Node {
	if f.empty() || f.value.Kind() == yamldoc.List {
		return f.value
	}
	r.add(CodeYAML, f.path, f.line(), "%s must be a list, not %s", leaf(f.path), f.value.Describe())
	return yamldoc.Node{}
}
