package expression

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
)

// functions of one list and a predicate.
var overLists = []string{"all", "none", "any", "one", "filter", "map", "count", "sum", "find", "findIndex", "findLast", "findLastIndex"}

// functions are the others. All of them are linear in what they are given.
var functions = map[string]func(m *machine, c *call) (any, error){
	"len":        length,
	"type":       func(_ *machine, c *call) (any, error) { return typeOf(c.args[0]), nil },
	"abs":        func(_ *machine, c *call) (any, error) { return c.rounded(math.Abs) },
	"ceil":       func(_ *machine, c *call) (any, error) { return c.rounded(math.Ceil) },
	"floor":      func(_ *machine, c *call) (any, error) { return c.rounded(math.Floor) },
	"round":      func(_ *machine, c *call) (any, error) { return c.rounded(math.Round) },
	"int":        func(_ *machine, c *call) (any, error) { return c.toInt() },
	"float":      func(_ *machine, c *call) (any, error) { return c.toFloat() },
	"string":     toText,
	"toJSON":     toJSON,
	"fromJSON":   fromJSON,
	"trim":       func(m *machine, c *call) (any, error) { return c.text(m, strings.TrimSpace, strings.Trim) },
	"trimPrefix": func(m *machine, c *call) (any, error) { return c.text(m, nil, strings.TrimPrefix) },
	"trimSuffix": func(m *machine, c *call) (any, error) { return c.text(m, nil, strings.TrimSuffix) },
	"upper":      func(m *machine, c *call) (any, error) { return c.text(m, strings.ToUpper, nil) },
	"lower":      func(m *machine, c *call) (any, error) { return c.text(m, strings.ToLower, nil) },
	"hasPrefix":  func(m *machine, c *call) (any, error) { return c.compare(m, strings.HasPrefix) },
	"hasSuffix":  func(m *machine, c *call) (any, error) { return c.compare(m, strings.HasSuffix) },
	"split":      split,
	"join":       join,
	"replace":    replace,
	"max":        func(m *machine, c *call) (any, error) { return c.extreme(m, 1) },
	"min":        func(m *machine, c *call) (any, error) { return c.extreme(m, -1) },
	"mean":       mean,
	"first":      func(_ *machine, c *call) (any, error) { return c.end(func(l []any) any { return l[0] }) },
	"last":       func(_ *machine, c *call) (any, error) { return c.end(func(l []any) any { return l[len(l)-1] }) },
	"get":        get,
	"take":       take,
	"reverse":    reverse,
	"concat":     concat,
	"keys":       func(m *machine, c *call) (any, error) { return c.entries(m, func(k string, _ any) any { return k }) },
	"values":     func(m *machine, c *call) (any, error) { return c.entries(m, func(_ string, v any) any { return v }) },
}

// arities are the least and the most arguments; -1 is no bound.
var arities = map[string][2]int{
	"trim": {1, 2}, "trimPrefix": {2, 2}, "trimSuffix": {2, 2}, "hasPrefix": {2, 2}, "hasSuffix": {2, 2}, "split": {2, 2},
	"join": {1, 2}, "replace": {3, 3}, "max": {1, -1}, "min": {1, -1}, "get": {2, 2}, "take": {2, 2}, "concat": {1, -1},
}

func available(name string) bool {
	_, ok := functions[name]
	return ok || slices.Contains(overLists, name)
}

// Functions returns the names of all functions, sorted.
func Functions() []string {
	names := slices.Clone(overLists)
	for name := range functions {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func nearestFunction(name string) string {
	lower := strings.ToLower(name)
	for _, f := range Functions() {
		if strings.ToLower(f) == lower {
			return fmt.Sprintf("; did you mean %s?", f)
		}
	}
	if instead, ok := map[string]string{"length": "len", "size": "len", "count": "len", "str": "string", "toString": "string", "contains": "a contains b", "exists": "a != nil", "isEmpty": "len(a) == 0", "lowercase": "lower", "toLowerCase": "lower", "uppercase": "upper", "Number": "float", "parseInt": "int", "parseFloat": "float", "some": "any", "every": "all"}[name]; ok {
		return fmt.Sprintf("; did you mean %s?", instead)
	}
	return ""
}

// call is a function with its evaluated arguments.
type call struct {
	name  string
	nodes []ast.Node
	args  []any
}

func (c *call) wrong(i int, want string) error {
	return fmt.Errorf("%s needs %s, and %s is %s", c.name, want, text(c.nodes[i]), describe(c.args[i]))
}

func (m *machine) builtin(n *ast.BuiltinNode) (any, error) {
	if slices.Contains(overLists, n.Name) {
		return m.overList(n)
	}
	f, ok := functions[n.Name]
	if !ok {
		return nil, fmt.Errorf("the function %s is not available", n.Name)
	}
	arity, ok := arities[n.Name]
	if !ok {
		arity = [2]int{1, 1}
	}
	if len(n.Arguments) < arity[0] || arity[1] >= 0 && len(n.Arguments) > arity[1] {
		return nil, fmt.Errorf("%s has %d arguments, which it cannot have", n.Name, len(n.Arguments))
	}
	c := &call{n.Name, n.Arguments, make([]any, len(n.Arguments))}
	for i, a := range n.Arguments {
		var err error
		if c.args[i], err = m.eval(a); err != nil {
			return nil, err
		}
	}
	return f(m, c)
}

func length(m *machine, c *call) (any, error) {
	switch v := c.args[0].(type) {
	case string:
		return int64(utf8.RuneCountInString(v)), m.step(len(v) / 64)
	case []any:
		return int64(len(v)), nil
	case map[string]any:
		return int64(len(v)), nil
	}
	return nil, c.wrong(0, "a text, a list or a mapping")
}

func (c *call) rounded(f func(float64) float64) (any, error) {
	switch v := c.args[0].(type) {
	case float64:
		return f(v), nil
	case uint64:
		return v, nil
	case int64:
		if c.name != "abs" || v >= 0 {
			return v, nil
		}
		if v == math.MinInt64 {
			return nil, errTooLarge
		}
		return -v, nil
	}
	return nil, c.wrong(0, "a number")
}

func (c *call) toInt() (any, error) {
	switch v := c.args[0].(type) {
	case int64, uint64:
		return v, nil
	case float64:
		if v >= -1<<63 && v < 1<<63 {
			return int64(v), nil
		}
		return nil, errTooLarge
	case string:
		if i, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
			return i, nil
		}
	}
	return nil, c.wrong(0, "a number, or a text that is a whole one")
}

func (c *call) toFloat() (any, error) {
	if f, ok := toFloat(c.args[0]); ok {
		return f, nil
	}
	if s, ok := c.args[0].(string); ok {
		if f, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
	}
	return nil, c.wrong(0, "a number, or a text that is one")
}

func toText(m *machine, c *call) (any, error) {
	if s, ok := c.args[0].(string); ok {
		return s, nil
	}
	return toJSON(m, c)
}

func toJSON(m *machine, c *call) (any, error) {
	v, err := m.copy(c.args[0], 0) // counts what is about to be written
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return strings.TrimSuffix(out.String(), "\n"), m.alloc(out.Len())
}

func fromJSON(m *machine, c *call) (any, error) {
	s, ok := c.args[0].(string)
	if !ok {
		return nil, c.wrong(0, "a text")
	}
	if err := m.alloc(16 * len(s)); err != nil { // [[[… makes that much of a byte
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		return nil, c.wrong(0, "a text that is JSON")
	}
	return canonical(v)
}

// numbers calls f for each number, in lists as well.
func (c *call) numbers(m *machine, f func(v any) error) error {
	for i, a := range c.args {
		list, ok := a.([]any)
		if !ok {
			list = []any{a}
		}
		for _, v := range list {
			v, err := canonical(v)
			if err != nil {
				return err
			}
			if _, ok := toFloat(v); !ok {
				return c.wrong(i, "numbers, or lists of them")
			}
			if err := m.step(1); err != nil {
				return err
			}
			if err := f(v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *call) extreme(m *machine, sign int) (best any, err error) {
	err = c.numbers(m, func(v any) error {
		if order, _ := compareNumbers(v, best); best == nil || order*sign > 0 {
			best = v
		}
		return nil
	})
	return best, err
}

func mean(m *machine, c *call) (any, error) {
	sum, n := 0.0, 0
	err := c.numbers(m, func(v any) error {
		f, _ := toFloat(v)
		sum, n = sum+f, n+1
		return nil
	})
	if err != nil || n == 0 {
		return nil, err
	}
	return sum / float64(n), nil
}

func (c *call) end(f func([]any) any) (any, error) {
	list, ok := c.args[0].([]any)
	if !ok {
		return nil, c.wrong(0, "a list")
	}
	if len(list) == 0 {
		return nil, nil
	}
	return canonical(f(list))
}

func get(_ *machine, c *call) (any, error) {
	switch from := c.args[0].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		if key, ok := c.args[1].(string); ok {
			return canonical(from[key])
		}
		return nil, c.wrong(1, "a text")
	case []any:
		i, ok := c.args[1].(int64)
		if !ok {
			return nil, c.wrong(1, "a whole number")
		}
		if i < 0 {
			i += int64(len(from))
		}
		if i < 0 || i >= int64(len(from)) {
			return nil, nil
		}
		return canonical(from[i])
	}
	return nil, c.wrong(0, "a mapping or a list")
}

func take(_ *machine, c *call) (any, error) {
	list, ok := c.args[0].([]any)
	if !ok {
		return nil, c.wrong(0, "a list")
	}
	n, ok := c.args[1].(int64)
	if !ok || n < 0 {
		return nil, c.wrong(1, "a whole number from 0")
	}
	n = min(n, int64(len(list)))
	return list[:n:n], nil
}

func reverse(m *machine, c *call) (any, error) {
	list, ok := c.args[0].([]any)
	if !ok {
		return nil, c.wrong(0, "a list")
	}
	if err := m.alloc(len(list) * sizeOfValue); err != nil {
		return nil, err
	}
	out := slices.Clone(list)
	slices.Reverse(out)
	return out, m.step(len(list))
}

func concat(m *machine, c *call) (any, error) {
	out := []any{}
	for i, a := range c.args {
		list, ok := a.([]any)
		if !ok {
			return nil, c.wrong(i, "a list")
		}
		if err := m.alloc(2 * len(list) * sizeOfValue); err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, m.step(len(out))
}

// entries lists a mapping in the order of its keys.
func (c *call) entries(m *machine, f func(k string, v any) any) (any, error) {
	from, ok := c.args[0].(map[string]any)
	if !ok {
		return nil, c.wrong(0, "a mapping")
	}
	if err := m.alloc(3 * len(from) * sizeOfValue); err != nil {
		return nil, err
	}
	if err := m.step(16 * len(from)); err != nil { // they are sorted
		return nil, err
	}
	out := make([]any, 0, len(from))
	for _, k := range sortedKeys(from) {
		v, err := canonical(f(k, from[k]))
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
