package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// patcher adds calls of the functions below to a checked syntax tree. A source cannot contain their names.
type patcher struct{}

// Visit implements [ast.Visitor].
func (patcher) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		switch n.Operator {
		case "+", "-", "*", "/", "%", "**", "^":
			patch(node, "$compute", &ast.StringNode{Value: n.Operator}, n.Left, n.Right)
		}
	case *ast.PredicateNode:
		patch(&n.Node, "$step", &ast.IdentifierNode{Value: "$run"}, n.Node)
	case *ast.BuiltinNode:
		if slices.Contains(overLists, n.Name) {
			patch(&n.Arguments[0], "$list", n.Arguments[0])
		}
		switch n.Name {
		case "fromJSON", "toJSON", "string", "keys", "values", "split", "join", "replace":
			patch(node, "$"+n.Name, n.Arguments...)
		case "int":
			patch(&n.Arguments[0], "$fits", n.Arguments[0])
		case "mean":
			patch(node, "$finite", n)
		case "sum":
			items := n.Arguments[0]
			if len(n.Arguments) > 1 {
				items = &ast.BuiltinNode{Name: "map", Arguments: n.Arguments}
			}
			patch(node, "$sum", items)
		}
	}
}

func patch(node *ast.Node, function string, arguments ...ast.Node) {
	ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: function}, Arguments: arguments})
}

// added contains the functions that the patcher calls.
var added = sync.OnceValue(func() map[string]*builtin.Function {
	functions := make(map[string]*builtin.Function)
	for name, f := range map[string]func(...any) (any, error){
		"$step": step, "$list": list, "$compute": compute, "$finite": finite, "$fits": fits, "$sum": sum,
		"$fromJSON": fromJSON, "$toJSON": toJSON, "$string": text, "$keys": keys, "$values": values,
		"$split": split, "$join": join, "$replace": replace,
	} {
		functions[name] = &builtin.Function{Name: name, Func: f}
	}
	return functions
})

// run is the state of one evaluation.
type run struct {
	until time.Time
	left  int // the remaining bytes of functions over lists
}

// step counts the result of a function over a list for one item.
func step(args ...any) (any, error) {
	r, v := args[0].(*run), args[1]
	if time.Now().After(r.until) {
		return nil, fmt.Errorf("it takes more than %v", maxTime)
	}
	err := r.count(v)
	return v, err
}

// count subtracts the bytes of a value from the budget. Shared parts count each time.
func (r *run) count(v any) error {
	switch v := v.(type) {
	case string:
		r.left -= len(v)
	case []any:
		r.left -= len(v) * sizeOfValue
		for i := 0; i < len(v) && r.left >= 0; i++ {
			_ = r.count(v[i])
		}
	case map[string]any:
		r.left -= len(v) * sizeOfPair
		for _, inner := range v {
			if r.left < 0 {
				break
			}
			_ = r.count(inner)
		}
	}
	if r.left < 0 {
		return errMemory
	}
	return nil
}

// compute applies an operator to two numbers, or + to two texts. Integers that become too large and numbers that become
// infinite are errors.
func compute(args ...any) (any, error) {
	operator, a, b := args[0].(string), args[1], args[2]
	x, whole := a.(int)
	y, both := b.(int)
	whole = whole && both
	switch operator {
	case "+":
		if r := x + y; whole && (r > x) != (y > 0) {
			return nil, errTooLarge
		}
		return finite(runtime.Add(a, b))
	case "-":
		if r := x - y; whole && (r < x) != (y > 0) {
			return nil, errTooLarge
		}
		return finite(runtime.Subtract(a, b))
	case "*":
		if whole && x != 0 && (x*y/x != y || x == -1 && y == math.MinInt) {
			return nil, errTooLarge
		}
		return finite(runtime.Multiply(a, b))
	case "/":
		return finite(runtime.Divide(a, b))
	case "%":
		return runtime.Modulo(a, b), nil
	}
	return finite(runtime.Exponent(a, b))
}

var errTooLarge = errors.New("a whole number becomes larger than 64 bits can hold")

// finite refuses numbers that are infinite or NaN, and texts that are too long.
func finite(args ...any) (any, error) {
	switch v := args[0].(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errInfinite
		}
	case string:
		if len(v) > maxMemory {
			return nil, errMemory
		}
	}
	return args[0], nil
}

// fits refuses numbers that int would change.
func fits(args ...any) (any, error) {
	if f, ok := args[0].(float64); ok && !(f >= math.MinInt64 && f < math.MaxInt64) {
		return nil, errTooLarge
	}
	return args[0], nil
}

func sum(args ...any) (total any, err error) {
	total = 0
	for _, v := range args[0].([]any) {
		if total, err = compute("+", total, v); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// list refuses values other than lists that the virtual machine would treat as a list, such as a string.
func list(args ...any) (any, error) {
	if _, ok := args[0].([]any); !ok {
		return nil, fmt.Errorf("a list is needed, and this is %s", describe(args[0]))
	}
	return args[0], nil
}

func fromJSON(args ...any) (any, error) {
	s := args[0].(string)
	if !json.Valid([]byte(s)) {
		return nil, fmt.Errorf("a text that is JSON is needed, and this is %s", describe(s))
	}
	return Decode([]byte(s)), nil
}

func toJSON(args ...any) (any, error) {
	out, err := plainjson.Marshal(args[0])
	return string(out), err
}

// text returns a string unchanged, and the JSON of any other value.
func text(args ...any) (any, error) {
	if _, ok := args[0].(string); ok {
		return args[0], nil
	}
	return toJSON(args...)
}

func keys(args ...any) (any, error) {
	m, ok := args[0].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a mapping is needed, and this is %s", describe(args[0]))
	}
	out := make([]any, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k)
	}
	return out, nil
}

// values returns the values in the order of the keys.
func values(args ...any) (any, error) {
	sorted, err := keys(args...)
	if err != nil {
		return nil, err
	}
	out := sorted.([]any)
	for i, k := range out {
		out[i] = args[0].(map[string]any)[k.(string)]
	}
	return out, nil
}

func split(args ...any) (any, error) {
	text, between := args[0].(string), args[1].(string)
	if strings.Count(text, between) > maxMemory/sizeOfValue {
		return nil, errMemory
	}
	out := []any{}
	for part := range strings.SplitSeq(text, between) {
		out = append(out, part)
	}
	return out, nil
}

func replace(args ...any) (any, error) {
	s, old, by := args[0].(string), args[1].(string), args[2].(string)
	if found := strings.Count(s, old); len(by) > len(old) && found > (maxMemory-len(s))/len(by) {
		return nil, errMemory
	}
	return strings.ReplaceAll(s, old, by), nil
}

func join(args ...any) (any, error) {
	between := ""
	if len(args) > 1 {
		between = args[1].(string)
	}
	items, ok := args[0].([]any)
	if !ok {
		return nil, fmt.Errorf("a list of texts is needed, and this is %s", describe(args[0]))
	}
	texts, size := make([]string, len(items)), 0
	for i, v := range items {
		if texts[i], ok = v.(string); !ok {
			return nil, fmt.Errorf("a list of texts is needed, and its item %d is %s", i, describe(v))
		}
		if size += len(texts[i]) + len(between); size > maxMemory {
			return nil, errMemory
		}
	}
	return strings.Join(texts, between), nil
}
