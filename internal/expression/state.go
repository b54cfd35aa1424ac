package expression

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/agentarbor/arbor/internal/nearest"
)

// Language says what an expression sees. The zero value is output and input.
type Language struct {
	state bool
	keys  []string
	known map[string]bool
}

// WithState is a language in which expressions also see state, a mapping with these
// keys. A key that the source names after state must be one of them; one that is
// computed can be any, and is missing if it is none of them.
func WithState(keys ...string) Language {
	l := Language{true, slices.Clone(keys), make(map[string]bool, len(keys))}
	for _, k := range keys {
		l.known[k] = true
	}
	return l
}

// Compile reads an expression of any type. The error is a [*CompileError].
func (l Language) Compile(source string) (*Program, error) { return l.compile(source, wantAny) }

// CompileCondition reads an expression that is true or false. One whose type is
// known only when it is evaluated, such as a field, is taken; one that is surely
// something else is not. The error is a [*CompileError].
func (l Language) CompileCondition(source string) (*Program, error) {
	return l.compile(source, wantTruth)
}

// CompileTexts reads an expression that is a text, a list of texts, or nil. One
// whose type is known only when it is evaluated is taken. The error is a
// [*CompileError].
func (l Language) CompileTexts(source string) (*Program, error) {
	return l.compile(source, wantTexts)
}

// maxHint bounds the length of a misspelt key, and how many others it is compared
// with: a file may hold very many such expressions.
const maxHint = 30

// stateKey checks the name in state.name.
func (g *guard) stateKey(n *ast.MemberNode) error {
	base, ok := n.Node.(*ast.IdentifierNode)
	if !ok || base.Value != "state" || !g.language.state {
		return nil
	}
	name, ok := n.Property.(*ast.StringNode)
	if !ok || g.language.known[name.Value] {
		return nil
	}
	if len(g.language.keys) == 0 {
		return g.fail(n, "the state has no key %q: it has no keys at all", short(name.Value))
	}
	if len(name.Value) <= maxHint && len(g.language.keys) <= maxHint {
		if hint := nearest.Hint(name.Value, g.language.keys); hint != "" {
			return g.fail(n, "the state has no key %q%s", name.Value, hint)
		}
	}
	return g.fail(n, "the state has no key %q; it has %s", short(name.Value), short(strings.Join(g.language.keys, ", ")))
}

// Constants returns the texts written in the source that the expression may give:
// the expression itself, an item of its list, or what a condition or ?? chooses
// from.
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
