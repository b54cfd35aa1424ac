package expression

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
)

// The bounds of one evaluation. A step is about one node that is evaluated, one
// item that is looked at, or 64 bytes of text that are read.
const (
	MaxSteps  = 2_000_000
	MaxMemory = 16 << 20 // bytes of what the expression makes, its result included
)

// Env is what an expression sees: values of JSON as Go's encoding/json makes them,
// or with whole numbers of any Go type. They are only read. State is for programs
// that were compiled WithState.
type Env struct{ Output, Input, State any }

// EvalError says why an expression has no value for what it was given.
type EvalError struct {
	Source  string // of the whole expression
	Message string
}

func (e *EvalError) Error() string {
	return fmt.Sprintf("the expression %s: %s", short(e.Source), e.Message)
}

// Test evaluates a condition. A missing value is false; any value but true and
// false is an error. The error is an [*EvalError].
func (p *Program) Test(env Env) (bool, error) {
	v, err := p.run(env, false)
	if err != nil {
		return false, err
	}
	switch v := v.(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	}
	return false, &EvalError{p.source, "a condition must be true or false, and this is " + describe(v)}
}

// Texts evaluates an expression that is a text, a list of texts, or nil, which is
// none. The error is an [*EvalError].
func (p *Program) Texts(env Env) ([]string, error) {
	v, err := p.run(env, true)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		out := make([]string, len(v))
		for i, item := range v {
			text, ok := item.(string)
			if !ok {
				return nil, &EvalError{p.source, "a text or a list of texts is needed, and its list holds " + describe(item)}
			}
			out[i] = text
		}
		return out, nil
	}
	return nil, &EvalError{p.source, "a text or a list of texts is needed, and this is " + describe(v)}
}

// Value evaluates the expression. The result is nil, bool, string, int64, uint64
// above the largest int64, float64, []any or map[string]any, and is the caller's
// own through and through. The error is an [*EvalError].
func (p *Program) Value(env Env) (any, error) { return p.run(env, true) }

func (p *Program) run(env Env, clone bool) (v any, err error) {
	m := machine{program: p, env: env}
	defer func() { // a defect in here is an error of this evaluation, not the end of the program
		if r := recover(); r != nil {
			v, err = nil, &EvalError{p.source, fmt.Sprintf("it cannot be evaluated: %v", r)}
		}
	}()
	if v, err = m.eval(p.node); err == nil && clone {
		v, err = m.copy(v, 0)
	}
	if err != nil {
		return nil, &EvalError{p.source, err.Error()}
	}
	return v, nil
}

// machine is one evaluation.
type machine struct {
	program *Program
	env     Env
	steps   int
	memory  int
	item    any // inside of a function over a list
}

// step counts work that was done or is about to be.
func (m *machine) step(n int) error {
	if m.steps += n; m.steps > MaxSteps {
		return fmt.Errorf("it takes more than %d steps", MaxSteps)
	}
	return nil
}

// alloc counts memory before it is used.
func (m *machine) alloc(bytes int) error {
	if m.memory += bytes; m.memory > MaxMemory {
		return fmt.Errorf("it makes more than %d MiB of data", MaxMemory>>20)
	}
	return m.step(bytes / 64)
}

const (
	sizeOfValue = 16 // of an interface value in a list
	sizeOfPair  = 48 // of one in a map, roughly
	maxDepth    = 1000
)

// copy makes a value that shares nothing with the environment.
func (m *machine) copy(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("its result is nested more than %d levels deep", maxDepth)
	}
	v, err := canonical(v)
	if err != nil {
		return nil, err
	}
	if err := m.step(1); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case string: // counted although it is shared, for whoever writes the result somewhere
		return v, m.alloc(len(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("its result holds a number that is infinite or none at all")
		}
		return v, nil
	case []any:
		if v == nil {
			return nil, nil
		}
		if err := m.alloc(len(v) * sizeOfValue); err != nil {
			return nil, err
		}
		out := make([]any, len(v))
		for i := range v {
			if out[i], err = m.copy(v[i], depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		if v == nil {
			return nil, nil
		}
		if err := m.alloc(len(v) * sizeOfPair); err != nil {
			return nil, err
		}
		out := make(map[string]any, len(v))
		for k, inner := range v {
			if err := m.alloc(len(k)); err != nil {
				return nil, err
			}
			if out[k], err = m.copy(inner, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// errChain ends a chain of ?. whose beginning is missing.
var errChain = errors.New("missing")

func (m *machine) eval(n ast.Node) (any, error) {
	if err := m.step(1); err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *ast.NilNode:
		return nil, nil
	case *ast.BoolNode:
		return n.Value, nil
	case *ast.IntegerNode:
		return int64(n.Value), nil
	case *ast.FloatNode:
		return n.Value, nil
	case *ast.StringNode:
		return n.Value, nil
	case *ast.IdentifierNode:
		switch n.Value {
		case "input":
			return canonical(m.env.Input)
		case "state":
			return canonical(m.env.State)
		}
		return canonical(m.env.Output)
	case *ast.PointerNode:
		return m.item, nil
	case *ast.UnaryNode:
		return m.unary(n)
	case *ast.BinaryNode:
		return m.binary(n)
	case *ast.ConditionalNode:
		yes, err := m.truth(n.Cond)
		if err != nil {
			return nil, err
		}
		if yes {
			return m.eval(n.Exp1)
		}
		return m.eval(n.Exp2)
	case *ast.ChainNode:
		v, err := m.eval(n.Node)
		if errors.Is(err, errChain) {
			return nil, nil
		}
		return v, err
	case *ast.MemberNode:
		return m.member(n)
	case *ast.SliceNode:
		return m.slice(n)
	case *ast.BuiltinNode:
		return m.builtin(n)
	case *ast.ArrayNode:
		if err := m.alloc(len(n.Nodes) * sizeOfValue); err != nil {
			return nil, err
		}
		out := make([]any, len(n.Nodes))
		for i := range n.Nodes {
			var err error
			if out[i], err = m.eval(n.Nodes[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *ast.MapNode:
		return m.mapping(n)
	}
	return nil, fmt.Errorf("%T cannot be evaluated", n)
}

func (m *machine) mapping(n *ast.MapNode) (any, error) {
	if err := m.alloc(len(n.Pairs) * sizeOfPair); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(n.Pairs))
	for _, p := range n.Pairs {
		pair := p.(*ast.PairNode)
		key, err := m.eval(pair.Key)
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("the key %s must be a text, and is %s", text(pair.Key), describe(key))
		}
		if out[name], err = m.eval(pair.Value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// truth evaluates what must be true or false.
func (m *machine) truth(n ast.Node) (bool, error) {
	v, err := m.eval(n)
	if err != nil {
		return false, err
	}
	if b, ok := v.(bool); ok {
		return b, nil
	}
	return false, fmt.Errorf("%s must be true or false, and is %s", text(n), describe(v))
}

func (m *machine) member(n *ast.MemberNode) (any, error) {
	base, err := m.eval(n.Node)
	if err != nil {
		return nil, err
	}
	key, err := m.eval(n.Property)
	if err != nil {
		return nil, err
	}
	switch base := base.(type) {
	case nil:
		if n.Optional {
			return nil, errChain
		}
		return nil, fmt.Errorf("%s is missing, so that it has no %s; ?. instead of . makes it missing as well", text(n.Node), text(n.Property))
	case map[string]any:
		if name, ok := key.(string); ok {
			return canonical(base[name])
		}
		return nil, fmt.Errorf("a field's name must be a text, and %s is %s", text(n.Property), describe(key))
	case []any:
		i, ok := key.(int64)
		if !ok {
			return nil, fmt.Errorf("%s is a list, of which %s is no item: an item has a number", text(n.Node), text(n.Property))
		}
		if i < 0 {
			i += int64(len(base))
		}
		if i < 0 || i >= int64(len(base)) {
			return nil, fmt.Errorf("%s has %d items, and item %s is asked for", text(n.Node), len(base), text(n.Property))
		}
		return canonical(base[i])
	}
	return nil, fmt.Errorf("%s is %s, which has no %s", text(n.Node), describe(base), text(n.Property))
}

func (m *machine) slice(n *ast.SliceNode) (any, error) {
	base, err := m.eval(n.Node)
	if err != nil {
		return nil, err
	}
	bound := func(part ast.Node, otherwise, size int) (int, error) {
		if part == nil {
			return otherwise, nil
		}
		v, err := m.eval(part)
		if err != nil {
			return 0, err
		}
		i, ok := v.(int64)
		if !ok {
			return 0, fmt.Errorf("%s must be a whole number, and is %s", text(part), describe(v))
		}
		if i < 0 {
			i += int64(size)
		}
		return int(max(0, min(i, int64(size)))), nil
	}
	var size int
	list, isList := base.([]any)
	word, isText := base.(string)
	switch {
	case isList:
		size = len(list)
	case isText:
		if err := m.step(len(word) / 64); err != nil {
			return nil, err
		}
		size = utf8.RuneCountInString(word)
	default:
		return nil, fmt.Errorf("%s must be a list or a text, and is %s", text(n.Node), describe(base))
	}
	from, err := bound(n.From, 0, size)
	if err != nil {
		return nil, err
	}
	to, err := bound(n.To, size, size)
	if err != nil {
		return nil, err
	}
	from = min(from, to)
	if isList {
		return list[from:to:to], nil
	}
	if err := m.alloc(4*size + len(word)); err != nil {
		return nil, err
	}
	return string([]rune(word)[from:to]), nil
}

func (m *machine) unary(n *ast.UnaryNode) (any, error) {
	if n.Operator == "not" || n.Operator == "!" {
		b, err := m.truth(n.Node)
		return !b, err
	}
	v, err := m.eval(n.Node)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case int64:
		if n.Operator == "+" {
			return v, nil
		}
		if v == math.MinInt64 {
			return nil, errTooLarge
		}
		return -v, nil
	case uint64:
		if n.Operator == "+" {
			return v, nil
		}
		return nil, errTooLarge
	case float64:
		if n.Operator == "+" {
			return v, nil
		}
		return -v, nil
	}
	return nil, fmt.Errorf("%s must be a number, and is %s", text(n.Node), describe(v))
}

// text is a part of the expression for messages.
func text(n ast.Node) string { return short(n.String()) }

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

// sortedKeys returns the keys of a map in a fixed order.
func sortedKeys(v map[string]any) []string {
	keys := make([]string, 0, len(v))
	for k := range v {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
