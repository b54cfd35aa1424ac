package expression

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/expr-lang/expr/ast"
)

var (
	errTooLarge = errors.New("a whole number becomes larger than 64 bits can hold")
	errZero     = errors.New("a division by zero")
	errNoNumber = errors.New("a number becomes infinite, or none at all")
)

func (m *machine) binary(n *ast.BinaryNode) (any, error) {
	switch n.Operator {
	case "and", "&&":
		if ok, err := m.truth(n.Left); err != nil || !ok {
			return false, err
		}
		return m.truth(n.Right)
	case "or", "||":
		if ok, err := m.truth(n.Left); err != nil || ok {
			return ok, err
		}
		return m.truth(n.Right)
	case "??":
		if v, err := m.eval(n.Left); err != nil || v != nil {
			return v, err
		}
		return m.eval(n.Right)
	}
	a, err := m.eval(n.Left)
	if err != nil {
		return nil, err
	}
	if n.Operator == "matches" {
		return m.matches(n, a)
	}
	b, err := m.eval(n.Right)
	if err != nil {
		return nil, err
	}
	switch n.Operator {
	case "==":
		return m.equal(a, b, 0)
	case "!=":
		same, err := m.equal(a, b, 0)
		return !same, err
	case "<", "<=", ">", ">=":
		return m.compare(n, a, b)
	case "in":
		return m.in(n, a, b)
	case "contains", "startsWith", "endsWith":
		return m.search(n, a, b)
	case "+":
		if x, ok := a.(string); ok {
			if y, ok := b.(string); ok {
				if err := m.alloc(len(x) + len(y)); err != nil {
					return nil, err
				}
				return x + y, nil
			}
		}
		return arithmetic(n, a, b)
	case "-", "*", "/", "%", "**", "^":
		return arithmetic(n, a, b)
	}
	return nil, fmt.Errorf("the operator %s cannot be evaluated", n.Operator)
}

// equal compares values all the way down. Values of different kinds differ.
func (m *machine) equal(a, b any, depth int) (bool, error) {
	if depth > maxDepth {
		return false, fmt.Errorf("it compares values that are nested more than %d levels deep", maxDepth)
	}
	if err := m.step(1); err != nil {
		return false, err
	}
	a, err := canonical(a)
	if err != nil {
		return false, err
	}
	if b, err = canonical(b); err != nil {
		return false, err
	}
	switch a := a.(type) {
	case nil:
		return b == nil, nil
	case bool:
		y, ok := b.(bool)
		return ok && a == y, nil
	case string:
		y, ok := b.(string)
		if !ok || len(a) != len(y) {
			return false, nil
		}
		return a == y, m.step(len(a) / 64)
	case []any:
		y, ok := b.([]any)
		if !ok || len(a) != len(y) {
			return false, nil
		}
		for i := range a {
			if same, err := m.equal(a[i], y[i], depth+1); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(a) != len(y) {
			return false, nil
		}
		for k, v := range a {
			other, there := y[k]
			if !there {
				return false, nil
			}
			if same, err := m.equal(v, other, depth+1); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	}
	order, ok := compareNumbers(a, b)
	return ok && order == 0 && !isNaN(a) && !isNaN(b), nil
}

func (m *machine) compare(n *ast.BinaryNode, a, b any) (bool, error) {
	order, ok := 0, false
	if x, isText := a.(string); isText {
		if y, both := b.(string); both {
			order, ok = strings.Compare(x, y), true
			if err := m.step(min(len(x), len(y)) / 64); err != nil {
				return false, err
			}
		}
	} else {
		order, ok = compareNumbers(a, b)
	}
	if !ok {
		return false, fmt.Errorf("%s compares two numbers or two texts, and %s is %s, %s is %s",
			n.Operator, text(n.Left), describe(a), text(n.Right), describe(b))
	}
	switch n.Operator {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

func (m *machine) in(n *ast.BinaryNode, a, b any) (bool, error) {
	switch b := b.(type) {
	case nil:
		return false, nil
	case []any:
		for _, item := range b {
			if same, err := m.equal(item, a, 0); err != nil || same {
				return same, err
			}
		}
		return false, nil
	case map[string]any:
		name, ok := a.(string)
		_, there := b[name]
		return ok && there, nil
	case string:
		return false, fmt.Errorf("in looks into a list or a mapping, and %s is a text: write %s contains %s", text(n.Right), text(n.Right), text(n.Left))
	}
	return false, fmt.Errorf("in looks into a list or a mapping, and %s is %s", text(n.Right), describe(b))
}

// search compares texts. A missing one is found nowhere and finds nothing.
func (m *machine) search(n *ast.BinaryNode, a, b any) (bool, error) {
	if a == nil || b == nil {
		return false, nil
	}
	x, ok := a.(string)
	y, both := b.(string)
	if !ok || !both {
		where, v := n.Left, a
		if ok {
			where, v = n.Right, b
		}
		more := ""
		if _, list := v.([]any); list && n.Operator == "contains" {
			more = "; for a list write " + text(n.Right) + " in " + text(n.Left)
		}
		return false, fmt.Errorf("%s compares texts, and %s is %s%s", n.Operator, text(where), describe(v), more)
	}
	if err := m.step((len(x) + len(y)) / 64); err != nil {
		return false, err
	}
	switch n.Operator {
	case "contains":
		return strings.Contains(x, y), nil
	case "startsWith":
		return strings.HasPrefix(x, y), nil
	}
	return strings.HasSuffix(x, y), nil
}

func (m *machine) matches(n *ast.BinaryNode, a any) (bool, error) {
	if a == nil {
		return false, nil
	}
	x, ok := a.(string)
	if !ok {
		return false, fmt.Errorf("matches compares a text, and %s is %s", text(n.Left), describe(a))
	}
	p := m.program.patterns[n]
	// An expression of this kind is matched in time proportional to the product of
	// both sizes.
	hi, cost := bits.Mul64(uint64(len(x)+64), uint64(p.size+64))
	if hi != 0 || cost/64 > MaxSteps {
		cost = 64 * (MaxSteps + 1)
	}
	if err := m.step(int(cost / 64)); err != nil {
		return false, err
	}
	return p.MatchString(x), nil
}

func arithmetic(n *ast.BinaryNode, a, b any) (any, error) {
	x, aOK := toFloat(a)
	y, bOK := toFloat(b)
	if !aOK || !bOK {
		where, v := n.Left, a
		if aOK {
			where, v = n.Right, b
		}
		more := ""
		if n.Operator == "+" {
			more = "; string(…) makes a text of anything"
		}
		return nil, fmt.Errorf("%s needs two numbers, and %s is %s%s", n.Operator, text(where), describe(v), more)
	}
	i, iOK := a.(int64)
	j, jOK := b.(int64)
	_, aBig := a.(uint64)
	_, bBig := b.(uint64)
	_, aFloat := a.(float64)
	_, bFloat := b.(float64)
	switch n.Operator {
	case "+", "-", "*":
		if iOK && jOK {
			return whole(n.Operator, i, j)
		}
		if !aFloat && !bFloat && (aBig || bBig) {
			return nil, errTooLarge
		}
	case "%":
		if !iOK || !jOK {
			return nil, fmt.Errorf("%% needs two whole numbers")
		}
		if j == 0 {
			return nil, errZero
		}
		if j == -1 {
			return int64(0), nil // the smallest number by -1 would trap
		}
		return i % j, nil
	case "/":
		if y == 0 {
			return nil, errZero
		}
	}
	var f float64
	switch n.Operator {
	case "+":
		f = x + y
	case "-":
		f = x - y
	case "*":
		f = x * y
	case "/":
		f = x / y
	default:
		f = math.Pow(x, y)
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, errNoNumber
	}
	return f, nil
}

// whole computes with whole numbers and never wraps around.
func whole(op string, i, j int64) (any, error) {
	var r int64
	ok := true
	switch op {
	case "+":
		r = i + j
		ok = (r > i) == (j > 0)
	case "-":
		r = i - j
		ok = (r < i) == (j > 0)
	case "*":
		if i == 0 || j == 0 {
			return int64(0), nil
		}
		r = i * j
		ok = r/j == i && !(i == -1 && j == math.MinInt64) && !(j == -1 && i == math.MinInt64)
	}
	if !ok {
		return nil, errTooLarge
	}
	return r, nil
}
