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

// Rules limits what a text may contain. 0 means no limit. The limits keep parsing fast: the parser takes quadratic time
// for deeply nested texts, for mappings with many keys, and for many documents.
type Rules struct {
	What   string // the name of the text in messages; defaults to the file
	Before int    // the number of lines of the file before the text

	Tokens    int
	Depth     int // of nested collections
	Flow      int // of nested collections in brackets and braces
	Keys      int // per mapping
	Documents int
	Aliases   int // the number of values that aliases may add to a document

	// Plain refuses aliases, which are otherwise expanded, and directives, which are otherwise ignored. Tags and merge
	// keys are always refused.
	Plain bool
}

// File is a parsed text.
type File struct {
	Documents []Node // without those that contain only comments
	lines     int
	rules     Rules
	problems  []Problem
}

// Parse parses a text. If there are problems, file is nil. The problems do not contain the file name.
func Parse(text string, rules Rules) (file *File, problems []Problem) {
	f := &File{rules: rules, lines: max(1, strings.Count(strings.TrimSuffix(text, "\n"), "\n")+1)}
	defer func() { // a panic of the parser is a problem of this file
		if p := recover(); p != nil {
			f.add(nil, "%s cannot be read as YAML: %v", f.what(), p)
			file, problems = nil, f.problems
		}
	}()
	if line := tooManyEmpty(text); line > 0 {
		f.add(&token.Token{Position: &token.Position{Line: line}}, "%s has more than %d empty lines in a row", f.what(), maxEmpty)
		return nil, f.problems
	}
	tokens := lexer.Tokenize(text)
	if !f.withinLimits(tokens) {
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

// place returns where a token begins in the file. The line is always inside the text, whatever the parser reports.
func (f *File) place(t *token.Token) (line, col int) {
	if t == nil || t.Position == nil {
		return f.rules.Before + 1, 0
	}
	return f.rules.Before + min(max(t.Position.Line, 1), f.lines), max(t.Position.Column, 0)
}

func (f *File) syntax(err error) {
	var at *token.Token
	message := ""
	if syntax, ok := errors.AsType[yaml.Error](err); ok {
		at, message = syntax.GetToken(), syntax.GetMessage()
	} else { // err.Error of a yaml.Error would format the source, which is slow
		message = err.Error()
	}
	switch {
	case strings.ContainsRune(message, '\t') || strings.Contains(message, "tab character"):
		message = "a tab is used for indentation: indent with spaces"
	case strings.HasPrefix(message, "value is not allowed"):
		message = "the value before this has ended: a text that begins with a quote or a bracket needs quotes around the whole of it"
	case strings.HasPrefix(message, "could not find flow map content"):
		message += ": a text that begins with { needs quotes around it"
	case strings.HasPrefix(message, "mapping value is not allowed"):
		message += `: a text that holds ": " needs quotes around it, and all keys of a mapping begin in the same column`
	}
	f.add(at, "%s is not valid YAML: %s", cmp.Or(f.rules.What, "this"), message)
}
