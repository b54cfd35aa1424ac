package expression

import (
	"slices"

	"github.com/expr-lang/expr/ast"
)

// neverTrue returns the part of a condition that is never a boolean, and its type, or nil if there is none. The type
// checker finds other cases, but accepts arithmetic with an unknown value, because it treats the result as of any type.
func neverTrue(n ast.Node) (part ast.Node, is string) {
	switch n := n.(type) {
	case *ast.BinaryNode:
		switch n.Operator {
		case "+":
			return n, "a sum or a text"
		case "-", "*", "/", "%", "**", "^":
			return n, "a number"
		case "and", "&&", "or", "||":
			if part, is = neverTrue(n.Left); part == nil {
				part, is = neverTrue(n.Right)
			}
			return part, is
		case "??":
			if left, _ := neverTrue(n.Left); left != nil {
				return neverTrue(n.Right)
			}
		}
	case *ast.UnaryNode:
		if slices.Contains([]string{"not", "!"}, n.Operator) {
			return neverTrue(n.Node)
		}
		return n, "a number"
	case *ast.ConditionalNode:
		if part, is = neverTrue(n.Cond); part != nil {
			return part, is
		}
		if first, _ := neverTrue(n.Exp1); first != nil {
			return neverTrue(n.Exp2)
		}
	case *ast.BuiltinNode:
		if n.Name == "sum" {
			return n, "a number"
		}
	}
	return nil, ""
}
