package expression

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/agentarbor/arbor/internal/nearest"
)

// Language selects the variables that an expression sees. The zero value has output and input.
type Language struct {
	variables []string            // nil: output and input
	keys      map[string][]string // of the variables that have only these
}

// WithState returns a language in which expressions also see state, a map with these keys. A key that is written after
// state must be one of them. A computed key can be any string; if it is not one of them, its value is missing.
func WithState(keys ...string) Language {
	return Language{[]string{"output", "input", "state"}, map[string][]string{"state": slices.Clone(keys)}}
}

// WithInput returns a language for expressions about a message: they see input, a map with these keys, and state as
// with [WithState], but no output.
func WithInput(input []string, state ...string) Language {
	return Language{[]string{"input", "state"}, map[string][]string{"input": slices.Clone(input), "state": slices.Clone(state)}}
}

// sees returns the variables.
func (l Language) sees() []string {
	if l.variables == nil {
		return []string{"output", "input"}
	}
	return l.variables
}

// Compile compiles an expression of any type. The error is a [*CompileError].
func (l Language) Compile(source string) (*Program, error) { return l.compile(source, wantAny) }

// CompileCondition compiles an expression that is true or false. It accepts an expression whose type is known only at
// evaluation, such as a field, but not one of another type. The error is a [*CompileError].
func (l Language) CompileCondition(source string) (*Program, error) {
	return l.compile(source, wantTruth)
}

// CompileTexts compiles an expression that is a string, a list of strings, or nil. It accepts an expression whose type
// is known only at evaluation. The error is a [*CompileError].
func (l Language) CompileTexts(source string) (*Program, error) {
	return l.compile(source, wantTexts)
}

// maxHint limits the length of a misspelt key, and the number of keys that it is compared with: a file may contain many
// such expressions.
const maxHint = 30

// key checks the name in state.name, or in input.name if input has only certain keys.
func (g *guard) key(n *ast.MemberNode) error {
	base, ok := n.Node.(*ast.IdentifierNode)
	if !ok {
		return nil
	}
	keys, only := g.language.keys[base.Value]
	name, ok := n.Property.(*ast.StringNode)
	if !only || !ok || slices.Contains(keys, name.Value) {
		return nil
	}
	if len(keys) == 0 {
		return g.fail(n, "the %s has no key %q: it has no keys at all", base.Value, short(name.Value))
	}
	if len(name.Value) <= maxHint && len(keys) <= maxHint {
		if hint := nearest.Hint(name.Value, keys); hint != "" {
			return g.fail(n, "the %s has no key %q%s", base.Value, name.Value, hint)
		}
	}
	return g.fail(n, "the %s has no key %q; it has %s", base.Value, short(name.Value), short(strings.Join(keys, ", ")))
}

// Constants returns the literal strings that the expression may return: the expression itself, an item of its list, or
// a branch of a conditional or ??.
func (p *Program) Constants() []string { return p.constants }

func constants(n ast.Node, found []string) []string {
	switch n := n.(type) {
	case *ast.StringNode:
		return append(found, n.Value)
	case *ast.ArrayNode:
		for _, item := range n.Nodes {
			found = constants(item, found)
		}
	case *ast.ConditionalNode:
		return constants(n.Exp2, constants(n.Exp1, found))
	case *ast.BinaryNode:
		if n.Operator == "??" {
			return constants(n.Right, constants(n.Left, found))
		}
	case *ast.ChainNode:
		return constants(n.Node, found)
	}
	return found
}
