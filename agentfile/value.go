package agentfile

import (
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// The readers of values. Each reports a value of the wrong type itself.

func (p *parser) wrongType(k *key, n ast.Node) {
	if _, null := n.(*ast.NullNode); null || n == nil {
		p.add(p.keyAt, "%s has no value: it must be %s; remove the key if none is meant", p.name, k.typ)
		return
	}
	example := ""
	if k.example != "" && k.typ != "true or false" {
		example = " such as " + k.example
	}
	if k.secret {
		p.add(p.at(n), "%s must be %s%s", p.name, k.typ, example)
		return
	}
	p.add(p.at(n), "%s must be %s%s, not %s", p.name, k.typ, example, describe(n))
}

// text reads a text that is not blank.
func (p *parser) text(k *key, n ast.Node) (string, bool) {
	v, ok := textOf(n)
	switch {
	case !ok:
		p.wrongType(k, n)
	case strings.TrimSpace(v) == "":
		p.add(p.at(n), "%s is empty: remove the key if none is meant", p.name)
		ok = false
	}
	return v, ok
}

func textOf(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		if n.Value == nil {
			return "", true
		}
		return strings.TrimRight(n.Value.Value, "\n"), true
	}
	return "", false
}

// list reads a list of texts.
func (p *parser) list(k *key, n ast.Node) (items []item) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		p.wrongType(k, n)
		return nil
	}
	for _, v := range seq.Values {
		at := p.at(v)
		s, ok := textOf(v)
		switch {
		case !ok:
			p.add(at, "%s must be %s, but one of them is %s", p.name, k.typ, describe(v))
		case s == "":
			p.add(at, "%s holds an empty text", p.name)
		default:
			items = append(items, item{value: s, at: at})
		}
	}
	return items
}

// names reads a list of texts of which none may stand there twice.
func (p *parser) names(k *key, n ast.Node) (items []item) {
	seen := map[string]bool{}
	for _, i := range p.list(k, n) {
		if seen[i.value] {
			p.add(i.at, "%s names %q twice", p.name, i.value)
			continue
		}
		seen[i.value] = true
		items = append(items, i)
	}
	return items
}

func (p *parser) integer(k *key, n ast.Node) (int64, bool) {
	if i, ok := n.(*ast.IntegerNode); ok {
		switch v := i.Value.(type) {
		case int64:
			return v, true
		case uint64:
			return int64(min(v, math.MaxInt64)), true
		}
	}
	p.wrongType(k, n)
	return 0, false
}

func (p *parser) atLeastOne(k *key, n ast.Node, v int64) bool {
	if v < 1 || v > math.MaxInt32 {
		p.add(p.at(n), "%s must be a whole number from 1, not %d", p.name, v)
		return false
	}
	return true
}

func (p *parser) number(k *key, n ast.Node) (float64, bool) {
	switch f := n.(type) {
	case *ast.FloatNode:
		return f.Value, true
	case *ast.IntegerNode:
		switch v := f.Value.(type) {
		case int64:
			return float64(v), true
		case uint64:
			return float64(v), true
		}
	}
	p.wrongType(k, n)
	return 0, false
}

// mapping returns the pairs of a mapping.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func keyName(n ast.MapKeyNode) (string, bool) {
	s, ok := n.(*ast.StringNode)
	if !ok {
		return "", false
	}
	return s.Value, true
}

// describe says what a value is, in the words of the reference.
func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		if len(n.Value) > 40 {
			return "a text"
		}
		return strconv.Quote(n.Value)
	case *ast.LiteralNode:
		return "a text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + n.String()
	case *ast.BoolNode:
		return n.String()
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.NullNode, nil:
		return "nothing"
	}
	return "something else"
}

// at returns where a node begins in the file.
func (p *parser) at(n ast.Node) pos {
	if n == nil {
		return pos{2, 0}
	}
	if pairs, ok := mapping(n); ok && len(pairs) > 0 {
		if m, isMap := n.(*ast.MappingNode); !isMap || !m.IsFlowStyle {
			return p.at(pairs[0].Key) // the mapping's own token is the first colon
		}
	}
	return p.tokenPos(n.GetToken())
}

// tokenPos turns a place in the front matter into one in the file, where the
// front matter begins on line 2. It never leaves the front matter, whatever the
// YAML parser says.
func (p *parser) tokenPos(t *token.Token) pos {
	if t == nil || t.Position == nil {
		return pos{2, 0}
	}
	return pos{min(max(t.Position.Line, 1), max(p.lines, 1)) + 1, max(t.Position.Column, 0)}
}
