package agentgraph

import (
	"math"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/agentarbor/arbor/internal/yamlnumber"
)

// textOf returns a text as it stands in the file.
func textOf(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		if n.Value == nil {
			return "", true
		}
		return n.Value.Value, true
	}
	return "", false
}

func isNull(n ast.Node) bool {
	if n == nil {
		return true
	}
	_, null := n.(*ast.NullNode)
	return null
}

// field is a key with its value, resolved.
type field struct {
	pair  *ast.MappingValueNode
	value ast.Node // nil as well if the key has no value
}

func (f field) there() bool { return f.pair != nil }

// line returns where the value stands, or the key if there is none, and 0 if the key
// is not there.
func (f field) line() int {
	if !f.there() {
		return 0
	}
	if isNull(f.value) {
		return tokenLine(f.pair.Key.GetToken())
	}
	return tokenLine(f.value.GetToken())
}

// required reads a text that must be there. wrong is the code of a value that is
// no text.
func (r *reader) required(f field, path string, line int, wrong Code) (string, bool) {
	if !f.there() {
		r.add(CodeMissingField, path, line, "%s is missing", leaf(path))
		return "", false
	}
	if isNull(f.value) {
		r.add(CodeMissingField, path, f.line(), "%s has no value", leaf(path))
		return "", false
	}
	s, ok := r.optional(f, path, wrong)
	if ok && strings.TrimSpace(s) == "" {
		r.add(CodeMissingField, path, f.line(), "%s is empty", leaf(path))
		return "", false
	}
	return s, ok
}

// optional reads a text that is there.
func (r *reader) optional(f field, path string, wrong Code) (string, bool) {
	s, ok := textOf(f.value)
	if ok {
		return s, true
	}
	switch f.value.(type) {
	case *ast.NullNode, nil:
		r.add(wrong, path, f.line(), "%s has no value: remove the key if none is meant", leaf(path))
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		r.add(wrong, path, f.line(), "%s must be a text, and YAML reads %s: put it in quotes, %q", leaf(path), describe(f.value), f.value.GetToken().Value)
	default:
		r.add(wrong, path, f.line(), "%s must be a text, not %s", leaf(path), describe(f.value))
	}
	return "", false
}

// free reads an optional text of no importance: nothing is as good as absent.
func (r *reader) free(f field, path string) string {
	if !f.there() || isNull(f.value) {
		return ""
	}
	s, _ := r.optional(f, path, CodeYAML)
	return s
}

// mapping reads an optional mapping of any values.
func (r *reader) mapping(f field, path string) map[string]any {
	if !f.there() || isNull(f.value) {
		return nil
	}
	if _, ok := pairsOf(f.value); !ok {
		r.add(CodeYAML, path, f.line(), "%s must be a mapping, not %s", leaf(path), describe(f.value))
		return nil
	}
	v, _ := r.any(f.value, path, 0).(map[string]any)
	return v
}

// count counts a value that is made of the file. Without aliases there are fewer of
// them than tokens; with aliases a value can be met many times.
func (r *reader) count() bool {
	if r.values++; r.values > r.most {
		r.once(nil, "aliases make the file more than %d values larger", maxExpanded)
		return false
	}
	return true
}

// any converts a value of any kind. Within an alias every value counts, because
// aliases of aliases grow without bound.
func (r *reader) any(n ast.Node, path string, depth int) any {
	if depth > 2*maxDepth {
		r.once(n, "aliases nest the file more than %d levels deep", 2*maxDepth)
		return nil
	}
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		_, alias := n.(*ast.AliasNode)
		if n = r.resolve(n); n == nil {
			return nil
		}
		if alias {
			r.within++
			defer func() { r.within-- }()
		}
	}
	if !r.count() {
		return nil
	}
	if r.within > 0 {
		if r.expanded++; r.expanded > maxExpanded {
			r.once(nil, "aliases make the file more than %d values larger", maxExpanded)
			return nil
		}
	}
	switch n := n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		if text, ok := n.(*ast.StringNode); ok {
			if number, ok := yamlnumber.Of(text); ok {
				f, _ := number.Float64() // which has it
				return f
			}
		}
		s, _ := textOf(n)
		return s
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		if u, ok := n.Value.(uint64); ok {
			if u > math.MaxInt64 {
				return u
			}
			return int64(u)
		}
		return n.Value
	case *ast.FloatNode:
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			r.add(CodeYAML, path, lineOf(n), "the number is too large")
			return nil
		}
		return n.Value
	case *ast.InfinityNode, *ast.NanNode:
		r.add(CodeYAML, path, lineOf(n), "%s is no number that JSON has", describe(n))
	case *ast.SequenceNode:
		out := make([]any, 0, len(n.Values))
		for i, v := range n.Values {
			out = append(out, r.any(v, index(path, i), depth+1))
		}
		return out
	case *ast.MappingNode, *ast.MappingValueNode:
		pairs, _ := pairsOf(n)
		out := make(map[string]any, len(pairs))
		for _, p := range pairs {
			name, ok := r.keyName(p, path)
			if !ok {
				continue
			}
			if _, twice := out[name]; twice {
				r.repeated(join(path, name), p)
				continue
			}
			out[name] = r.any(p.Value, join(path, name), depth+1)
		}
		return out
	}
	return nil
}

// keyName returns the name of a key. In free mappings 1 and true are names too.
func (r *reader) keyName(p *ast.MappingValueNode, path string) (string, bool) {
	switch k := p.Key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return k.GetToken().Value, true
	}
	r.add(CodeYAML, path, tokenLine(p.Key.GetToken()), "a key must be a word")
	return "", false
}

func (r *reader) repeated(path string, p *ast.MappingValueNode) {
	r.add(CodeYAML, path, tokenLine(p.Key.GetToken()), "the key %s is repeated", short(leaf(path)))
}

// items returns the values of a list.
func (r *reader) items(f field, path string) []ast.Node {
	if !f.there() || isNull(f.value) {
		return nil
	}
	seq, ok := f.value.(*ast.SequenceNode)
	if !ok {
		r.add(CodeYAML, path, f.line(), "%s must be a list, not %s", leaf(path), describe(f.value))
		return nil
	}
	return seq.Values
}
