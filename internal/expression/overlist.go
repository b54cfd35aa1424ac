package expression

import (
	"fmt"

	"github.com/expr-lang/expr/ast"
)

// overList evaluates a predicate for each item, or until the answer is known.
func (m *machine) overList(n *ast.BuiltinNode) (any, error) {
	v, err := m.eval(n.Arguments[0])
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s needs a list, and %s is %s", n.Name, text(n.Arguments[0]), describe(v))
	}
	var body ast.Node
	if len(n.Arguments) > 1 {
		body = n.Arguments[1]
		if p, ok := body.(*ast.PredicateNode); ok {
			body = p.Node
		}
	}
	defer func() { m.item = nil }() // they are never inside of each other
	at := func(i int) (any, error) {
		if m.item, err = canonical(list[i]); err != nil {
			return nil, err
		}
		if body == nil {
			return m.item, m.step(1)
		}
		return m.eval(body)
	}
	test := func(i int) (bool, error) {
		v, err := at(i)
		if err != nil {
			return false, err
		}
		b, ok := v.(bool)
		if !ok {
			what := text(n.Arguments[0])
			if body != nil {
				what = text(body)
			}
			return false, fmt.Errorf("%s needs true or false for each item, and %s is %s for item %d", n.Name, what, describe(v), i)
		}
		return b, nil
	}
	switch n.Name {
	case "map":
		if err := m.alloc(len(list) * sizeOfValue); err != nil {
			return nil, err
		}
		out := make([]any, len(list))
		for i := range list {
			if out[i], err = at(i); err != nil {
				return nil, err
			}
		}
		return out, nil
	case "sum":
		total := any(int64(0))
		plus := &ast.BinaryNode{Operator: "+", Left: n.Arguments[0], Right: n.Arguments[0]}
		for i := range list {
			v, err := at(i)
			if err != nil {
				return nil, err
			}
			if total, err = arithmetic(plus, total, v); err != nil {
				return nil, fmt.Errorf("sum: item %d: %w", i, err)
			}
		}
		return total, nil
	case "findLast", "findLastIndex":
		for i := len(list) - 1; i >= 0; i-- {
			if yes, err := test(i); err != nil {
				return nil, err
			} else if yes {
				return found(n.Name, list, i)
			}
		}
		return nil, nil
	}
	count := int64(0)
	kept := []any{}
	for i := range list {
		yes, err := test(i)
		if err != nil {
			return nil, err
		}
		if yes {
			count++
		}
		switch {
		case n.Name == "all" && !yes, n.Name == "none" && yes:
			return false, nil
		case n.Name == "any" && yes:
			return true, nil
		case (n.Name == "find" || n.Name == "findIndex") && yes:
			return found(n.Name, list, i)
		case n.Name == "filter" && yes:
			if err := m.alloc(2 * sizeOfValue); err != nil { // a growing list leaves others behind
				return nil, err
			}
			kept = append(kept, m.item)
		}
	}
	switch n.Name {
	case "all", "none":
		return true, nil
	case "any":
		return false, nil
	case "one":
		return count == 1, nil
	case "count":
		return count, nil
	case "filter":
		return kept, nil
	}
	return nil, nil // nothing was found
}

func found(name string, list []any, i int) (any, error) {
	if name == "findIndex" || name == "findLastIndex" {
		return int64(i), nil
	}
	return canonical(list[i])
}
