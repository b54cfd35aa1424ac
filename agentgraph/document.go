package agentgraph

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	yamlparser "github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxFile is the largest file in bytes that is read.
const MaxFile = 4 << 20

// The YAML parser takes quadratic time for what is deep, for mappings with many
// keys and for many documents, so these are bounded before it starts.
const (
	maxTokens    = 1_000_000
	maxDepth     = 64
	maxKeys      = 1_000 // of one mapping
	maxDocuments = 100
	maxExpanded  = 10_000 // values that aliases add
)

// documents parses a file. It reports what is wrong; ok is then false.
func (r *reader) documents(data []byte) (docs []ast.Node, ok bool) {
	defer func() { // a defect of the parser is a problem of this file
		if p := recover(); p != nil {
			r.add(CodeYAML, "", 1, "the file cannot be read as YAML: %v", p)
			docs, ok = nil, false
		}
	}()
	text, ok := r.text(data)
	if !ok {
		return nil, false
	}
	tokens := lexer.Tokenize(text)
	r.most = len(tokens) + maxExpanded
	if !r.bounded(tokens) {
		return nil, false
	}
	file, err := yamlparser.Parse(tokens, 0, yamlparser.AllowDuplicateMapKey())
	if err != nil {
		line, message := 1, ""
		var syntax yaml.Error
		if errors.As(err, &syntax) { // whose Error would draw the file around the place
			line, message = tokenLine(syntax.GetToken()), syntax.GetMessage()
		} else {
			message = err.Error()
		}
		switch {
		case strings.ContainsRune(message, '\t') || strings.Contains(message, "tab character"):
			message = "a tab stands where only spaces may: indent with spaces"
		case strings.HasPrefix(message, "mapping value is not allowed"):
			message += `: a text that holds ": " needs quotes around it, and all keys of a mapping begin in the same column`
		}
		r.add(CodeYAML, "", line, "this is not valid YAML: %s", message)
		return nil, false
	}
	for _, doc := range file.Docs {
		if doc == nil {
			continue
		}
		switch doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.DirectiveNode:
			continue
		}
		docs = append(docs, doc.Body)
	}
	return docs, true
}

// text checks what can be told from the bytes.
func (r *reader) text(data []byte) (string, bool) {
	if len(data) > MaxFile {
		r.add(CodeYAML, "", 1, "the file is larger than %d MiB, which is the most a graph may have", MaxFile>>20)
		return "", false
	}
	r.lines = bytes.Count(data, []byte("\n")) + 1
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		r.add(CodeYAML, "", 1, "the file is UTF-16: save it as UTF-8")
		return "", false
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		line := 1
		for rest := data; ; line++ {
			head, tail, _ := bytes.Cut(rest, []byte("\n"))
			if !utf8.Valid(head) {
				break
			}
			rest = tail
		}
		r.add(CodeYAML, "", line, "the line is not UTF-8")
		return "", false
	}
	line := 1
	for _, b := range data {
		if b == '\n' {
			line++
		}
		if b < ' ' && b != '\n' && b != '\r' && b != '\t' || b == 0x7f {
			r.add(CodeYAML, "", line, "the line holds the control character 0x%02x", b)
			return "", false
		}
	}
	return strings.ReplaceAll(string(data), "\r\n", "\n"), true
}

// level is one collection that is open where the tokens have been read to.
type level struct {
	column int // of a block collection; 0 for a flow collection
	keys   int
}

// bounded refuses what could make a short text expensive, or mean something else
// than what stands there.
func (r *reader) bounded(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		r.add(CodeYAML, "", 1, "the file has more than %d parts", maxTokens)
		return false
	}
	var levels []level
	flow, headers, ok := 0, 0, true
	// entry notes that a block collection has an entry in a column.
	entry := func(column int) *level {
		for len(levels) > 0 && levels[len(levels)-1].column > column {
			levels = levels[:len(levels)-1]
		}
		if len(levels) == 0 || levels[len(levels)-1].column < column {
			levels = append(levels, level{column: column})
		}
		return &levels[len(levels)-1]
	}
	for i, t := range tokens {
		if t.Position == nil {
			continue
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
			levels = append(levels, level{})
		case token.SequenceEndType, token.MappingEndType:
			if flow > 0 {
				flow--
				for len(levels) > 0 && levels[len(levels)-1].column != 0 {
					levels = levels[:len(levels)-1]
				}
				levels = levels[:max(0, len(levels)-1)]
			}
		case token.SequenceEntryType:
			if flow == 0 {
				entry(t.Position.Column)
			}
		case token.MappingKeyType: // nothing that a graph's file needs
			r.add(CodeYAML, "", t.Position.Line, "keys that begin with ? are not read")
			return false
		case token.MappingValueType:
			var l *level
			switch {
			case flow > 0 && len(levels) > 0:
				l = &levels[len(levels)-1]
			case flow > 0:
				continue
			case i > 0 && tokens[i-1].Position != nil && tokens[i-1].Position.Line == t.Position.Line:
				l = entry(tokens[i-1].Position.Column)
			default:
				l = entry(t.Position.Column)
			}
			if l.keys++; l.keys > maxKeys {
				r.add(CodeYAML, "", t.Position.Line, "a mapping has more than %d keys", maxKeys)
				return false
			}
		case token.DocumentHeaderType, token.DocumentEndType:
			levels = levels[:0]
			if headers++; headers > 2*maxDocuments {
				r.add(CodeYAML, "", t.Position.Line, "the file has more than %d documents", maxDocuments)
				return false
			}
		case token.AnchorType:
			r.anchored = true
		case token.MergeKeyType:
			r.add(CodeYAML, "", t.Position.Line, "merge keys (<<) are not read: write the keys out, or use an alias for the whole value")
			ok = false
		case token.TagType:
			r.add(CodeYAML, "", t.Position.Line, "tags such as %s are not read: quotes make a text of anything", short(t.Value))
			ok = false
		}
		if len(levels) > maxDepth {
			r.add(CodeYAML, "", t.Position.Line, "the file is nested more than %d levels deep", maxDepth)
			return false
		}
	}
	return ok
}

// anchorsOf finds the values of a document that aliases can stand for.
func (r *reader) anchorsOf(doc ast.Node) {
	r.anchors = map[string]*ast.AnchorNode{}
	if r.anchored {
		ast.Walk(anchorVisitor{r}, doc)
	}
}

type anchorVisitor struct{ r *reader }

func (v anchorVisitor) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
		name := a.Name.GetToken().Value
		if first, twice := v.r.anchors[name]; twice {
			v.r.add(CodeYAML, "", lineOf(a), "the anchor &%s stands on line %d already", short(name), lineOf(first))
		} else {
			v.r.anchors[name] = a
		}
	}
	return v
}

// resolve returns the value that an anchor or an alias stands for. A nil is a
// value that is not there, which has been reported.
func (r *reader) resolve(n ast.Node) ast.Node {
	for range maxDepth {
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			name := ""
			if v.Value != nil {
				name = v.Value.GetToken().Value
			}
			a, ok := r.anchors[name]
			if !ok || offset(a) > offset(v) {
				r.once(v, "no anchor &%s stands before the alias *%s", short(name), short(name))
				return nil
			}
			if r.expanded++; r.expanded > maxExpanded {
				r.once(nil, "aliases make the file more than %d values larger", maxExpanded)
				return nil
			}
			n = a.Value
		default:
			return n
		}
	}
	r.once(n, "an anchor stands for itself")
	return nil
}

// once reports a problem of aliases, of which one can have many.
func (r *reader) once(n ast.Node, format string, args ...any) {
	p := r.problem(CodeYAML, "", lineOf(n), format, args...)
	if !r.said[p.Message] {
		if r.said == nil {
			r.said = map[string]bool{}
		}
		r.said[p.Message] = true
		r.problems = append(r.problems, p)
	}
}

func offset(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Offset
	}
	return 0
}

func tokenLine(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 1
	}
	return t.Position.Line
}

// lineOf returns the line on which a node begins.
func lineOf(n ast.Node) int {
	if n == nil {
		return 1
	}
	if pairs, ok := pairsOf(n); ok && len(pairs) > 0 {
		return tokenLine(pairs[0].Key.GetToken()) // the mapping's own token is the first colon
	}
	return tokenLine(n.GetToken())
}

// pairsOf returns the pairs of a mapping.
func pairsOf(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func short(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// describe says what a value is.
func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return fmt.Sprintf("the text %q", short(n.Value))
	case *ast.LiteralNode:
		return "a text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + short(n.GetToken().Value)
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
