package expression

import (
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/agentarbor/arbor/internal/nearest"
)

// guard walks a syntax tree and refuses forbidden constructs. It counts a node at each visit, even if the node is in
// the tree twice, because evaluation visits it as often.
type guard struct {
	source    []rune
	language  Language
	count     int
	predicate bool // inside of a predicate
}

func (g *guard) fail(n ast.Node, format string, args ...any) error {
	return errorAt(g.source, n.Location().From, format, args...)
}

func (g *guard) all(nodes []ast.Node) error {
	for _, n := range nodes {
		if err := g.node(n); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) node(n ast.Node) error {
	if g.count++; g.count > maxNodes {
		return &CompileError{Message: fmt.Sprintf("the expression has more than %d parts", maxNodes)}
	}
	switch n := n.(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
		return nil
	case *ast.IdentifierNode:
		return g.identifier(n)
	case *ast.UnaryNode:
		return g.node(n.Node)
	case *ast.BinaryNode:
		return g.binary(n)
	case *ast.ChainNode:
		return g.node(n.Node)
	case *ast.MemberNode:
		return g.member(n)
	case *ast.SliceNode:
		parts := []ast.Node{n.Node}
		if n.From != nil {
			parts = append(parts, n.From)
		}
		if n.To != nil {
			parts = append(parts, n.To)
		}
		return g.all(parts)
	case *ast.CallNode:
		return g.call(n)
	case *ast.BuiltinNode:
		return g.builtin(n)
	case *ast.PredicateNode:
		if g.predicate {
			return g.fail(n, "a function over a list stands inside of another one: that is not available, because its cost would multiply")
		}
		g.predicate = true
		err := g.node(n.Node)
		g.predicate = false
		return err
	case *ast.PointerNode:
		if n.Name != "" {
			return g.fail(n, "#%s is not available: # is the item of the list", n.Name)
		}
		return nil
	case *ast.ConditionalNode:
		return g.all([]ast.Node{n.Cond, n.Exp1, n.Exp2})
	case *ast.ArrayNode:
		return g.all(n.Nodes)
	case *ast.MapNode:
		return g.all(n.Pairs)
	case *ast.PairNode:
		return g.all([]ast.Node{n.Key, n.Value})
	case *ast.BytesNode:
		return g.fail(n, "b'…' is not available: write a text")
	}
	return &CompileError{Message: "the expression holds something that is not available"}
}

func (g *guard) identifier(n *ast.IdentifierNode) error {
	sees := g.language.sees()
	if slices.Contains(sees, n.Value) {
		return nil
	}
	seen := strings.Join(sees[:len(sees)-1], ", ") + " and " + sees[len(sees)-1]
	switch n.Value {
	case "output":
		return g.fail(n, "there is no output here, because no agent has answered: an expression sees %s only", seen)
	case "state":
		return g.fail(n, "there is no state here: graphs of apiVersion arbor/v1 have one; did you mean output.state, or 'state' as a text?")
	case "$env":
		return g.fail(n, "$env is not available: an expression sees %s only", seen)
	}
	if word, ok := foreignWords[n.Value]; ok {
		return g.fail(n, "%q is not a word of this language: write %s", n.Value, word)
	}
	if h := hint(string(g.source)); h != "" {
		return g.fail(n, "there is no %q: %s", n.Value, h)
	}
	meant := sees[0] + "." + n.Value
	if near := nearest.Of(n.Value, sees); near != "" {
		meant = near
	} else if near := nearest.Of(n.Value, g.language.keys["input"]); near != "" {
		meant = "input." + near
	} else if sees[0] == "input" {
		meant = "state." + n.Value
	}
	return g.fail(n, "there is no %q: an expression sees %s only; did you mean %s, or '%s' as a text?", n.Value, seen, meant, n.Value)
}

func (g *guard) binary(n *ast.BinaryNode) error {
	switch n.Operator {
	case "..":
		return g.fail(n, "ranges are not available")
	case "matches":
		text, ok := n.Right.(*ast.StringNode)
		if !ok {
			return g.fail(n, "the pattern of matches must be a text that stands in the expression")
		}
		if err := checkPattern(text.Value); err != nil {
			return g.fail(text, "%v", err)
		}
	}
	if err := g.node(n.Left); err != nil {
		return err
	}
	return g.node(n.Right)
}

func (g *guard) member(n *ast.MemberNode) error {
	if name, ok := n.Property.(*ast.StringNode); ok && name.Value == "length" && !g.bracket(n) {
		return g.fail(n, `.length is not available: write len(…), or ["length"] for a field of that name`)
	}
	if err := g.key(n); err != nil {
		return err
	}
	return g.all([]ast.Node{n.Node, n.Property})
}

// bracket reports whether a member is written a["b"]; a.b has the same tree.
func (g *guard) bracket(n *ast.MemberNode) bool {
	at := n.Location().From
	return at >= 0 && at < len(g.source) && g.source[at] == '['
}

func (g *guard) call(n *ast.CallNode) error {
	switch callee := n.Callee.(type) {
	case *ast.MemberNode:
		if name, ok := callee.Property.(*ast.StringNode); ok {
			if instead, known := foreignMethods[name.Value]; known {
				return g.fail(n, "values have no methods: write %s", instead)
			}
			return g.fail(n, "values have no methods, and so no %q", name.Value)
		}
	case *ast.IdentifierNode:
		return g.fail(n, "there is no function %q%s", callee.Value, nearestFunction(callee.Value))
	}
	return g.fail(n, "this cannot be called")
}

func (g *guard) builtin(n *ast.BuiltinNode) error {
	if !available(n.Name) {
		why := ""
		switch n.Name {
		case "now", "date", "duration", "timezone":
			why = ": an expression must give the same whenever it is evaluated, and so has no clock"
		case "repeat", "groupBy", "sortBy", "reduce", "uniq", "sort", "flatten":
			why = ": its cost cannot be bounded well enough"
		}
		return g.fail(n, "the function %q is not available%s", n.Name, why)
	}
	if most := map[string]int{"split": 2, "replace": 3}[n.Name]; most > 0 && len(n.Arguments) > most {
		return g.fail(n, "%s takes %d arguments", n.Name, most)
	}
	return g.all(n.Arguments)
}
