package graphtest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/yamlnumber"
)

// maxDepth bounds how deep values are nested.
const maxDepth = 64

// reader reads YAML with the line of everything. Anchors, aliases and tags are not
// read, so that what stands in a file is all there is.
type reader struct {
	file     string
	before   int // lines of the file before the document that is being read
	problems []Problem
	load     []agentgraph.Option // of graphs that are refused
}

func (r *reader) add(line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, line, fmt.Sprintf(format, args...)})
}

// document is the text of one document of a file.
type document struct {
	text   string
	before int
}

// documents cuts a file at the lines that begin with ---. A text within a document
// cannot hold such a line, because it is indented.
func (r *reader) documents(data []byte) []document {
	switch {
	case len(data) > agentgraph.MaxFile:
		r.add(1, "the file is larger than %d MiB, which is the most that is read", agentgraph.MaxFile>>20)
		return nil
	case !utf8.Valid(data):
		r.add(1, "the file is not UTF-8")
		return nil
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	var docs []document
	lines := strings.SplitAfter(text, "\n")
	start := 0
	add := func(end int) {
		if body := strings.Join(lines[start:end], ""); strings.TrimSpace(body) != "" {
			docs = append(docs, document{body, start})
		}
	}
	for i, line := range lines {
		if rest, ok := strings.CutPrefix(line, "---"); ok && strings.TrimSpace(strings.SplitN(rest, " #", 2)[0]) == "" {
			add(i)
			start = i + 1
		}
	}
	add(len(lines))
	return docs
}

// parse returns the value of a document, nil if it has none or is wrong.
func (r *reader) parse(d document) (body ast.Node) {
	r.before = d.before
	defer func() { // a defect of the parser is a problem of this file
		if p := recover(); p != nil {
			r.add(d.before+1, "this cannot be read as YAML: %v", p)
			body = nil
		}
	}()
	tokens := lexer.Tokenize(d.text)
	if line := tooDeep(tokens); line > 0 {
		r.add(d.before+line, "the file is nested more than %d levels deep", 2*maxDepth)
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		line, message := 1, err.Error()
		var syntax yaml.Error
		if errors.As(err, &syntax) { // whose Error would draw the file around the place
			line, message = tokenLine(syntax.GetToken()), syntax.GetMessage()
		}
		r.add(d.before+line, "this is not valid YAML: %s", message)
		return nil
	}
	for _, doc := range file.Docs {
		if doc == nil {
			continue
		}
		switch doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.DirectiveNode, *ast.NullNode:
			continue
		}
		if body != nil {
			r.add(r.line(doc.Body), "a second document begins here: put a line with --- before it")
			return nil
		}
		body = doc.Body
	}
	return body
}

// tooDeep returns the line at which nesting is too deep for the parser, which takes
// quadratic time for it; 0 if none is.
func tooDeep(tokens token.Tokens) int {
	var columns []int // of the open block collections
	flow := 0
	for i, t := range tokens {
		if t.Position == nil {
			continue
		}
		column := t.Position.Column
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
			column = 0
		case token.SequenceEndType, token.MappingEndType:
			flow--
			column = 0
		case token.SequenceEntryType:
		case token.MappingValueType:
			if i > 0 && tokens[i-1].Position != nil && tokens[i-1].Position.Line == t.Position.Line {
				column = tokens[i-1].Position.Column
			}
		default:
			column = 0
		}
		if column > 0 && flow <= 0 {
			for len(columns) > 0 && columns[len(columns)-1] > column {
				columns = columns[:len(columns)-1]
			}
			if len(columns) == 0 || columns[len(columns)-1] < column {
				columns = append(columns, column)
			}
		}
		if len(columns)+flow > 2*maxDepth {
			return t.Position.Line
		}
	}
	return 0
}

func tokenLine(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 1
	}
	return t.Position.Line
}

// line returns the line of the file on which a node begins.
func (r *reader) line(n ast.Node) int {
	if n == nil {
		return r.before + 1
	}
	if pairs, ok := pairsOf(n); ok && len(pairs) > 0 {
		return r.before + tokenLine(pairs[0].Key.GetToken()) // the mapping's own token is the first colon
	}
	return r.before + tokenLine(n.GetToken())
}

func pairsOf(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func isNull(n ast.Node) bool {
	if n == nil {
		return true
	}
	_, null := n.(*ast.NullNode)
	return null
}

// pair is a key with its value.
type pair struct {
	key   string
	line  int // of the key
	value ast.Node
}

// pairs reads a mapping whose keys are names, each once.
func (r *reader) pairs(n ast.Node, what string) []pair {
	nodes, ok := pairsOf(n)
	if !ok {
		if !isNull(n) {
			r.add(r.line(n), "%s must be a mapping, not %s", what, describe(n))
		}
		return nil
	}
	out := make([]pair, 0, len(nodes))
	seen := make(map[string]bool, len(nodes))
	for _, p := range nodes {
		line := r.before + tokenLine(p.Key.GetToken())
		var name string
		switch k := p.Key.(type) {
		case *ast.StringNode:
			name = k.Value
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
			name = k.GetToken().Value
		default:
			r.add(line, "a key must be a word; anchors, aliases and merge keys are not read here")
			continue
		}
		if seen[name] {
			r.add(line, "the key %q is repeated", short(name, 60))
			continue
		}
		seen[name] = true
		out = append(out, pair{name, line, p.Value})
	}
	return out
}

// fields reads a mapping that can have these keys only. Those that are not there are
// not in the result. synonyms maps other words to keys.
func (r *reader) fields(n ast.Node, what string, synonyms map[string]string, keys ...string) map[string]*pair {
	found := make(map[string]*pair)
	for _, p := range r.pairs(n, what) {
		key := p.key
		if s, ok := synonyms[key]; ok {
			key = s
		}
		if !slices.Contains(keys, key) {
			hint := didYouMean(p.key, keys)
			if hint == "" {
				hint = "; the keys here are " + strings.Join(keys, ", ")
			}
			r.add(p.line, "unknown key %q%s", short(p.key, 60), hint)
			continue
		}
		if first := found[key]; first != nil {
			r.add(p.line, "%s and %s say the same thing: give one of them", first.key, p.key)
			continue
		}
		found[key] = &p
	}
	return found
}

// text reads a text that is not empty.
func (r *reader) text(p *pair) string {
	switch n := p.value.(type) {
	case *ast.StringNode:
		if strings.TrimSpace(n.Value) != "" {
			return n.Value
		}
	case *ast.LiteralNode:
		if n.Value != nil && strings.TrimSpace(n.Value.Value) != "" {
			return n.Value.Value
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		r.add(r.line(n), "%s must be a text, and YAML reads %s: put it in quotes, %q", p.key, describe(n), n.GetToken().Value)
		return ""
	default:
		if !isNull(n) {
			r.add(r.line(n), "%s must be a text, not %s", p.key, describe(n))
			return ""
		}
	}
	r.add(p.line, "%s is empty", p.key)
	return ""
}

// texts reads a list of texts. It is not nil, even if it is empty.
func (r *reader) texts(p *pair) []string {
	out := []string{}
	for _, n := range r.list(p) {
		out = append(out, r.text(&pair{"an entry of " + p.key, r.line(n), n}))
	}
	return out
}

func (r *reader) list(p *pair) []ast.Node {
	seq, ok := p.value.(*ast.SequenceNode)
	if !ok {
		r.add(p.line, "%s must be a list, not %s", p.key, describe(p.value))
		return nil
	}
	return seq.Values
}

// whole reads a whole number from least.
func (r *reader) whole(p *pair, least int) int {
	if n, ok := p.value.(*ast.IntegerNode); ok {
		if u, ok := n.Value.(uint64); ok && u <= math.MaxInt32 && int(u) >= least {
			return int(u)
		}
	}
	r.add(p.line, "%s must be a whole number from %d, not %s", p.key, least, describe(p.value))
	return 0
}

// flag reads true or false.
func (r *reader) flag(p *pair) bool {
	n, ok := p.value.(*ast.BoolNode)
	if !ok {
		r.add(p.line, "%s must be true or false, not %s", p.key, describe(p.value))
		return false
	}
	return n.Value
}

// duration reads a text such as 50ms, or a number of milliseconds.
func (r *reader) duration(p *pair) time.Duration {
	ms := -1.0
	switch n := p.value.(type) {
	case *ast.StringNode:
		if d, err := time.ParseDuration(n.Value); err == nil && d >= 0 {
			return d
		}
	case *ast.IntegerNode:
		if u, ok := n.Value.(uint64); ok {
			ms = float64(u)
		}
	case *ast.FloatNode:
		ms = n.Value
	}
	if ms < 0 || ms > float64(math.MaxInt64/time.Millisecond) {
		r.add(p.line, "%s must be a time such as 50ms or 1.5s, or a number of milliseconds, not %s", p.key, describe(p.value))
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// any converts a value of any kind to what encoding/json would make of it, except
// that whole numbers are int64, or uint64 above the largest, and larger ones and those
// with an exponent are json.Number.
func (r *reader) any(n ast.Node, depth int) any {
	if depth > maxDepth {
		r.add(r.line(n), "values are nested more than %d levels deep", maxDepth)
		return nil
	}
	switch n := n.(type) {
	case nil, *ast.NullNode:
	case *ast.StringNode:
		if number, ok := yamlnumber.Of(n); ok {
			return number
		}
		return n.Value
	case *ast.LiteralNode:
		if n.Value == nil {
			return ""
		}
		return n.Value.Value
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		if u, ok := n.Value.(uint64); ok && u <= math.MaxInt64 {
			return int64(u)
		}
		return n.Value
	case *ast.FloatNode:
		if !math.IsInf(n.Value, 0) && !math.IsNaN(n.Value) {
			return n.Value
		}
		r.add(r.line(n), "the number is too large")
	case *ast.InfinityNode, *ast.NanNode:
		r.add(r.line(n), "%s is no number that JSON has", describe(n))
	case *ast.SequenceNode:
		out := make([]any, 0, len(n.Values))
		for _, v := range n.Values {
			out = append(out, r.any(v, depth+1))
		}
		return out
	case *ast.MappingNode, *ast.MappingValueNode:
		out := map[string]any{}
		for _, p := range r.pairs(n, "the value") {
			out[p.key] = r.any(p.value, depth+1)
		}
		return out
	default:
		r.add(r.line(n), "anchors, aliases and tags are not read here: write the value out")
	}
	return nil
}

func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return fmt.Sprintf("the text %q", short(n.Value, 60))
	case *ast.LiteralNode:
		return "a text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + short(n.GetToken().Value, 60)
	case *ast.BoolNode:
		return fmt.Sprintf("the value %t", n.Value)
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.NullNode, nil:
		return "nothing"
	}
	return "something else"
}
