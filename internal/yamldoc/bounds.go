package yamldoc

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"

	"github.com/agentarbor/arbor/internal/visible"
)

// maxEmpty is the largest number of empty lines in a row. The lexer copies a block of text for each empty line after
// it, so a file of 100 KiB could take minutes.
const maxEmpty = 50

// tooManyEmpty returns the first line that exceeds maxEmpty, or 0.
func tooManyEmpty(text string) (line int) {
	empty := 0
	for each := range strings.Lines(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)) {
		line++
		if empty++; strings.TrimSpace(each) != "" {
			empty = 0
		}
		if empty > maxEmpty {
			return line
		}
	}
	return 0
}

// level is a collection that is open at the current token.
type level struct {
	column int // of a block collection; 0 for a flow collection
	keys   int
}

// levels contains the open collections, the innermost last.
type levels []level

// entry records an entry of a block collection in a column.
func (l *levels) entry(column int) *level {
	for len(*l) > 0 && (*l)[len(*l)-1].column > column {
		*l = (*l)[:len(*l)-1]
	}
	if len(*l) == 0 || (*l)[len(*l)-1].column < column {
		*l = append(*l, level{column: column})
	}
	return &(*l)[len(*l)-1]
}

// endFlow closes the innermost flow collection and the collections inside it.
func (l *levels) endFlow() {
	for len(*l) > 0 && (*l)[len(*l)-1].column != 0 {
		*l = (*l)[:len(*l)-1]
	}
	*l = (*l)[:max(0, len(*l)-1)]
}

// exceeds reports whether n exceeds a bound. A bound of 0 means no limit.
func exceeds(n, bound int) bool { return bound > 0 && n > bound }

// withinLimits checks the limits and refuses constructs that make a short text expensive or give it an unexpected
// meaning.
func (f *File) withinLimits(tokens token.Tokens) bool {
	rules := &f.rules
	if exceeds(len(tokens), rules.Tokens) {
		f.add(nil, "%s has more than %d parts", f.what(), rules.Tokens)
		return false
	}
	var open levels
	flow, documents := 0, 0
	for i, t := range tokens {
		if t.Position == nil {
			continue
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
			open = append(open, level{})
		case token.SequenceEndType, token.MappingEndType:
			if flow > 0 {
				flow--
				open.endFlow()
			}
		case token.SequenceEntryType:
			if flow == 0 {
				open.entry(t.Position.Column)
			}
		case token.MappingKeyType:
			f.add(t, "keys that begin with ? are not read")
			return false
		case token.MappingValueType:
			var l *level
			switch {
			case flow > 0 && len(open) > 0:
				l = &open[len(open)-1]
			case flow > 0:
				continue
			case i > 0 && tokens[i-1].Position != nil && tokens[i-1].Position.Line == t.Position.Line:
				l = open.entry(tokens[i-1].Position.Column)
			default:
				l = open.entry(t.Position.Column)
			}
			if l.keys++; exceeds(l.keys, rules.Keys) {
				f.add(t, "a mapping has more than %d keys", rules.Keys)
				return false
			}
		case token.DocumentHeaderType, token.DocumentEndType:
			open = open[:0]
			if documents++; exceeds(documents, 2*rules.Documents) {
				f.add(t, "%s has more than %d documents", f.what(), rules.Documents)
				return false
			}
		default:
			f.refuse(t)
		}
		if exceeds(flow, rules.Flow) || exceeds(len(open), rules.Depth) {
			most := rules.Depth
			if exceeds(flow, rules.Flow) {
				most = rules.Flow
			}
			f.add(t, "%s is nested more than %d levels deep", f.what(), most)
			return false
		}
	}
	return len(f.problems) == 0
}

// refuse reports a token of an unsupported construct.
func (f *File) refuse(t *token.Token) {
	switch {
	case f.rules.Plain && slices.Contains([]token.Type{token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType, token.DirectiveType}, t.Type):
		f.add(t, "anchors, aliases, merge keys, tags and directives are not read in %s: write the value out", f.what())
	case t.Type == token.MergeKeyType:
		f.add(t, "merge keys (<<) are not read: write the keys out, or use an alias for the whole value")
	case t.Type == token.TagType:
		f.add(t, "tags such as %s are not read: quotes make a text of anything", visible.Cut(t.Value, 60))
	}
}
