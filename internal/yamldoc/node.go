package yamldoc

import (
	"fmt"
	"math"

	"github.com/goccy/go-yaml/ast"

	"github.com/agentarbor/arbor/internal/visible"
)

// Node is a value of a file, or a key. The zero Node is a missing value.
type Node struct {
	ast  ast.Node
	file *File
}

// Kind is the kind of a value.
type Kind int

// The kinds of values.
const (
	Nothing Kind = iota // no value, or null
	Text
	Number // also infinite numbers and NaN
	Bool
	List
	Mapping
	Other // such as an anchor instead of a key
)

// Kind returns the kind of the value.
func (n Node) Kind() Kind {
	switch v := n.ast.(type) {
	case *ast.NullNode, nil:
		return Nothing
	case *ast.StringNode:
		if _, ok := number(v); ok {
			return Number
		}
		return Text
	case *ast.LiteralNode:
		return Text
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return Number
	case *ast.BoolNode:
		return Bool
	case *ast.SequenceNode:
		return List
	case *ast.MappingNode:
		return Mapping
	}
	return Other
}

// Place returns where the value begins in its file. col is 0 if it is unknown.
func (n Node) Place() (line, col int) {
	switch v := n.ast.(type) {
	case nil:
		if n.file == nil {
			return 1, 0
		}
		return n.file.place(nil)
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return n.file.place(v.Values[0].Key.GetToken()) // the mapping's own token is the first colon
		}
	}
	return n.file.place(n.ast.GetToken())
}

// Line returns the line on which the value begins.
func (n Node) Line() int {
	line, _ := n.Place()
	return line
}

// Len returns the number of items of a list or keys of a mapping, and 0 for other values.
func (n Node) Len() int {
	switch n := n.ast.(type) {
	case *ast.SequenceNode:
		return len(n.Values)
	case *ast.MappingNode:
		return len(n.Values)
	}
	return 0
}

// Item returns an item of a list. It returns a missing value if there is no such item.
func (n Node) Item(i int) Node {
	if seq, ok := n.ast.(*ast.SequenceNode); ok && i < len(seq.Values) {
		return Node{seq.Values[i], n.file}
	}
	return Node{file: n.file}
}

// Pair is a key with its value.
type Pair struct{ Key, Value Node }

// Pair returns a key of a mapping with its value, in the order of the file. The same key may occur more than once.
func (n Node) Pair(i int) Pair {
	m, ok := n.ast.(*ast.MappingNode)
	if !ok {
		return Pair{Node{file: n.file}, Node{file: n.file}}
	}
	p := m.Values[i]
	return Pair{Node{p.Key, n.file}, Node{p.Value, n.file}}
}

// Text returns a string as written in the file.
func (n Node) Text() (string, bool) {
	switch v := n.ast.(type) {
	case *ast.StringNode:
		if n.Kind() == Text {
			return v.Value, true
		}
	case *ast.LiteralNode:
		if v.Value == nil {
			return "", true
		}
		return v.Value.Value, true
	}
	return "", false
}

// Block returns the indicator of a block scalar, | or >, and "" for other values.
func (n Node) Block() string {
	if v, ok := n.ast.(*ast.LiteralNode); ok && v.Start != nil && v.Start.Value != "" {
		return v.Start.Value[:1]
	}
	return ""
}

// Written returns a scalar as written in the file, such as the text of a number or of true.
func (n Node) Written() string {
	if n.ast == nil {
		return ""
	}
	return n.ast.GetToken().Value
}

// Word returns the text of a key that is a string.
func (n Node) Word() (string, bool) {
	if v, ok := n.ast.(*ast.StringNode); ok {
		return v.Value, true
	}
	return "", false
}

// Name is like [Node.Word], and also accepts other scalars as keys, such as 1 and true.
func (n Node) Name() (string, bool) {
	switch n.ast.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return n.Written(), true
	}
	return n.Word()
}

// Bool returns the value of true or false.
func (n Node) Bool() (value, ok bool) {
	v, ok := n.ast.(*ast.BoolNode)
	return ok && v.Value, ok
}

// Whole returns an integer. An integer above math.MaxInt64 is returned as math.MaxInt64.
func (n Node) Whole() (int64, bool) {
	if v, ok := n.ast.(*ast.IntegerNode); ok {
		switch i := v.Value.(type) {
		case int64:
			return i, true
		case uint64:
			return int64(min(i, math.MaxInt64)), true
		}
	}
	return 0, false
}

// Number returns a finite number. Integers are converted like [Node.Whole]. It includes the numbers that [Node.Scalar]
// returns as json.Number.
func (n Node) Number() (float64, bool) {
	switch v := n.ast.(type) {
	case *ast.FloatNode:
		return v.Value, true
	case *ast.StringNode:
		written, ok := number(v)
		f, _ := written.Float64() // cannot fail: it was parsed as a number
		return f, ok
	}
	v, ok := n.Whole()
	return float64(v), ok
}

// Scalar returns a scalar with the types of encoding/json, with these exceptions: integers are int64, or uint64 if they
// are larger. Integers beyond 64 bits, and numbers with an exponent but no point, are json.Number. For a value that
// JSON does not have, wrong describes the problem.
func (n Node) Scalar() (value any, wrong string) {
	switch v := n.ast.(type) {
	case nil, *ast.NullNode:
	case *ast.StringNode:
		if number, ok := number(v); ok {
			return number, ""
		}
		return v.Value, ""
	case *ast.LiteralNode:
		text, _ := n.Text()
		return text, ""
	case *ast.BoolNode:
		return v.Value, ""
	case *ast.IntegerNode:
		if u, ok := v.Value.(uint64); ok && u <= math.MaxInt64 {
			return int64(u), ""
		}
		return v.Value, ""
	case *ast.FloatNode:
		if math.IsInf(v.Value, 0) || math.IsNaN(v.Value) {
			return nil, "the number is too large"
		}
		return v.Value, ""
	case *ast.InfinityNode, *ast.NanNode:
		return nil, n.Describe() + " has no JSON form"
	default:
		return nil, "the value cannot be read"
	}
	return nil, ""
}

// Describe describes the value for a message.
func (n Node) Describe() string {
	switch n.Kind() {
	case Nothing:
		return "nothing"
	case Text:
		if v, ok := n.ast.(*ast.StringNode); ok {
			return fmt.Sprintf("the text %q", visible.Cut(v.Value, 60))
		}
		return "a text"
	case Number:
		return "the number " + visible.Cut(n.Written(), 60)
	case Bool:
		value, _ := n.Bool()
		return fmt.Sprintf("the value %t", value)
	case List:
		return "a list"
	case Mapping:
		return "a mapping"
	}
	return "something else"
}
