package expression

import (
	"errors"
	"fmt"
	"reflect"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"
	"github.com/expr-lang/expr/vm"

	"github.com/agentarbor/arbor/internal/lazyregexp"
)

// The limits of an expression when it is compiled.
const (
	maxSource = 4 << 10 // bytes of source
	maxNodes  = 500     // nodes of the syntax tree; nodes that are evaluated twice count twice

	maxPattern      = 512   // bytes of a regular expression
	maxPatternNodes = 1_000 // instructions of a compiled one
)

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	source    string
	code      *vm.Program
	constants []string
}

// Source returns the text that was compiled.
func (p *Program) Source() string { return p.source }

// CompileError is an error in the source of an expression.
type CompileError struct {
	// Line and Column are the position in the source, from 1, Column in characters. They are 0 if the error concerns
	// the whole expression.
	Line, Column int
	Message      string
}

func (e *CompileError) Error() string {
	switch {
	case e.Line == 0:
		return e.Message
	case e.Line == 1:
		return fmt.Sprintf("%s (column %d)", e.Message, e.Column)
	}
	return fmt.Sprintf("%s (line %d, column %d)", e.Message, e.Line, e.Column)
}

// want is the required type of an expression.
type want int

const (
	wantAny want = iota
	wantTruth
	wantTexts
)

func (l Language) compile(source string, want want) (p *Program, err error) {
	defer func() { // turn a panic of the parser or the checker into an error of this expression
		if r := recover(); r != nil {
			p, err = nil, &CompileError{Message: fmt.Sprintf("the expression cannot be read: %v", r)}
		}
	}()
	switch {
	case strings.TrimSpace(source) == "":
		return nil, &CompileError{Message: "the expression is empty"}
	case len(source) > maxSource:
		return nil, &CompileError{Message: fmt.Sprintf("the expression has %d bytes; at most %d are allowed", len(source), maxSource)}
	case !utf8.ValidString(source):
		return nil, &CompileError{Message: "the expression is not UTF-8"}
	}
	if err := checkTokens(source); err != nil {
		return nil, err
	}
	config := conf.New(names{})
	config.MaxNodes, config.Optimize = maxNodes, false // the optimizer makes nil in [''] true
	tree, err := parser.ParseWithConfig(source, config)
	if err != nil {
		return nil, syntaxError(source, err)
	}
	g := guard{source: []rune(source), language: l}
	// The guard runs before the type checker: a chain of comparisons contains its middle part twice, so nested chains
	// would make the checker's work exponential.
	if err := g.node(tree.Node); err != nil {
		return nil, err
	}
	config.ExpectAny = true
	if want == wantTruth {
		config.Expect = reflect.Bool
	}
	given, err := checker.Check(tree, config)
	if err != nil {
		return nil, typeError(source, err, want)
	}
	if want == wantTruth {
		if part, is := neverTrue(tree.Node); part != nil {
			return nil, errorAt([]rune(source), part.Location().From, "a condition must be true or false, and this is %s", is)
		}
	}
	if want == wantTexts && given != nil {
		switch given.Kind() {
		case reflect.String, reflect.Slice, reflect.Array, reflect.Interface, reflect.Pointer:
		default:
			return nil, &CompileError{Message: "a text or a list of texts is needed, and this is " + typeName(given.String())}
		}
	}
	found := constants(tree.Node, nil)
	ast.Walk(&tree.Node, patcher{})
	config.Functions, config.Expect = added(), reflect.Invalid
	code, err := compiler.Compile(tree, config)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n") // without the stack trace
		return nil, &CompileError{Message: "the expression cannot be read: " + first}
	}
	return &Program{source, code, found}, nil
}

// checkTokens refuses constructs that leave no trace in the syntax tree.
func checkTokens(source string) error {
	tokens, err := lexer.Lex(file.NewSource(source))
	if err != nil {
		return syntaxError(source, err)
	}
	for _, t := range tokens {
		switch {
		case t.Is(lexer.Operator, ";"):
			return errorAt([]rune(source), t.From, "an expression is one value: the semicolon must go")
		case t.Is(lexer.Operator, "let"):
			return errorAt([]rune(source), t.From, "let is not available: write the value where it is used")
		case t.Is(lexer.Operator, "::"):
			return errorAt([]rune(source), t.From, ":: is not available")
		}
	}
	return nil
}

// errorAt returns an error at a position of the source, in characters.
func errorAt(source []rune, at int, format string, args ...any) error {
	e := &CompileError{Line: 1, Column: 1, Message: fmt.Sprintf(format, args...)}
	for _, r := range source[:max(0, min(at, len(source)))] {
		e.Column++
		if r == '\n' {
			e.Line, e.Column = e.Line+1, 1
		}
	}
	return e
}

var unexpected = lazyregexp.New(`^unexpected token \w+\("(.*)"\)$`)

// syntaxError describes the text that the parser could not read, with a hint about what was probably meant.
func syntaxError(source string, err error) error {
	message, at := err.Error(), 0
	if where, ok := errors.AsType[*file.Error](err); ok {
		message, at = where.Message, where.From
	}
	if m := unexpected.FindStringSubmatch(message); m != nil {
		message = "“" + strings.ReplaceAll(m[1], `\"`, `"`) + "” is unexpected here"
	}
	if message == "unexpected token EOF" {
		message = "the expression ends too early"
	}
	if strings.Contains(message, "maximum allowed nodes") {
		message = fmt.Sprintf("the expression has more than %d parts", maxNodes)
	}
	if h := hint(source); h != "" {
		message += "; " + h
	}
	return errorAt([]rune(source), at, "%s", message)
}

func typeError(source string, err error, want want) error {
	message, at := err.Error(), -1
	if where, ok := errors.AsType[*file.Error](err); ok {
		message, at = where.Message, where.From
	}
	if got, ok := strings.CutPrefix(message, "expected bool, but got "); ok && want == wantTruth {
		return &CompileError{Message: "a condition must be true or false, and this is " + typeName(got)}
	}
	if strings.Contains(message, "expected") && at < 0 {
		return &CompileError{Message: message}
	}
	return errorAt([]rune(source), at, "%s", message)
}

// typeName returns the JSON name of a Go type.
func typeName(goType string) string {
	switch {
	case goType == "unknown", strings.Contains(goType, "nil"):
		return "nothing"
	case goType == "string":
		return "a text"
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "float"):
		return "a number"
	case strings.HasPrefix(goType, "[]"), goType == "array":
		return "a list"
	case strings.HasPrefix(goType, "map"):
		return "a mapping"
	}
	return goType
}

// checkPattern limits the regular expression of matches.
func checkPattern(text string) error {
	if len(text) > maxPattern {
		return fmt.Errorf("the pattern has %d bytes; at most %d are allowed", len(text), maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return fmt.Errorf("the pattern cannot be read: %w", err)
	}
	compiled, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return fmt.Errorf("the pattern cannot be read: %w", err)
	}
	if len(compiled.Inst) > maxPatternNodes {
		return errors.New("the pattern is too complex: its repetitions multiply")
	}
	return nil
}
