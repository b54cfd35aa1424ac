package yamldoc

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Rules limit what a text may contain. A bound of 0 sets no limit. The limits keep the parser fast: it takes quadratic
// time for deep texts, for mappings with many keys and for many documents.
type Rules struct {
	What   string // what messages call the text; empty is the file
	Before int    // the lines of the file above the text

	Tokens    int
	Depth     int // of collections in each other
	Flow      int // of those in brackets and braces
	Keys      int // of one mapping
	Documents int
	Aliases   int // the values that aliases may add to a document

	// The messages about what is not read. Without a message, each alias stands for the value of
	// its anchor, directives mean nothing, and tags are refused with a message of this package.
	// Merge keys are never read.
	NoAliases, NoTags, NoDirectives string
}

// File is a text that was read.
type File struct {
	Documents []Node // those that hold something besides comments
	lines     int
	rules     Rules
	problems  []Problem
}

// Parse reads a text. Without problems, which do not name the file, the result is not nil.
func Parse(text string, rules Rules) (file *File, problems []Problem) {
	f := &File{rules: rules, lines: max(1, strings.Count(strings.TrimSuffix(text, "\n"), "\n")+1)}
	defer func() { // a defect of the parser is a problem of this file
		if p := recover(); p != nil {
			f.add(nil, "%s cannot be read as YAML: %v", f.what(), p)
			file, problems = nil, f.problems
		}
	}()
	tokens := lexer.Tokenize(text)
	if !f.bounded(tokens) {
		return nil, f.problems
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		f.syntax(err)
		return nil, f.problems
	}
	for _, doc := range parsed.Docs {
		if doc == nil {
			continue
		}
		switch doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.DirectiveNode:
			continue
		}
		f.Documents = append(f.Documents, Node{f.expand(doc.Body), f})
	}
	if len(f.problems) > 0 {
		return nil, f.problems
	}
	return f, nil
}

func (f *File) what() string { return cmp.Or(f.rules.What, "the file") }

func (f *File) add(t *token.Token, format string, args ...any) {
	line, col := f.place(t)
	f.problems = append(f.problems, Problem{Line: line, Col: col, Message: fmt.Sprintf(format, args...)})
}

// place returns where a token begins in the file. It never leaves the text, whatever
// the parser says.
func (f *File) place(t *token.Token) (line, col int) {
	if t == nil || t.Position == nil {
		return f.rules.Before + 1, 0
	}
	return f.rules.Before + min(max(t.Position.Line, 1), f.lines), max(t.Position.Column, 0)
}

func (f *File) syntax(err error) {
	var at *token.Token
	message := ""
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		at, message = syntax.GetToken(), syntax.GetMessage()
	} else { // of such an error Error would draw the text, which takes long
		message = err.Error()
	}
	switch {
	case strings.ContainsRune(message, '\t') || strings.Contains(message, "tab character"):
		message = "a tab stands where only spaces may: indent with spaces"
	case strings.HasPrefix(message, "mapping value is not allowed"):
		message += `: a text that holds ": " needs quotes around it, and all keys of a mapping begin in the same column`
	}
	f.add(at, "%s is not valid YAML: %s", cmp.Or(f.rules.What, "this"), message)
}
