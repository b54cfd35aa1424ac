package agentfile

import (
	"errors"
	"path"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	yamlparser "github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The YAML parser takes quadratic time for deep or long input, so both are
// bounded before it starts.
const (
	maxTokens = 4096
	maxDepth  = 16
)

// parser reads one file.
type parser struct {
	report *report
	d      *definition
	lines  int // of the front matter
	// The key whose value is being read: its place, and its name with the
	// mapping's in front.
	keyAt pos
	name  string
	// Where the keys of the front matter itself stand.
	keys map[string]pos
	// The mappings that were read, by their dotted names.
	opened map[string]bool
}

// parse reads a file. It returns nil for a file without front matter, which is
// no agent. What is wrong is reported; the definition is then as complete as it
// can be.
func parse(r *report, file string, data []byte) *definition {
	front, body, ok, at, problem := split(data)
	if !ok {
		return nil
	}
	base := path.Base(file)
	base = base[:len(base)-len(".md")]
	d := &definition{file: file, base: base, name: base, body: body, at: map[string]pos{}}
	if problem != "" {
		r.add(file, at, "%s", problem)
		d.broken, d.unsure = true, true
		return d
	}
	p := &parser{report: r, d: d, keys: map[string]pos{}, opened: map[string]bool{}, lines: strings.Count(front, "\n")}
	d.bodyAt = pos{p.lines + 3 + blankLines(data, p.lines+2), 0}
	p.front(front)
	return d
}

func (p *parser) add(at pos, format string, args ...any) {
	p.report.add(p.d.file, at, format, args...)
}

// fail reports what makes the front matter unreadable.
func (p *parser) fail(at pos, format string, args ...any) {
	p.d.broken, p.d.unsure = true, true
	p.add(at, format, args...)
}

func (p *parser) front(front string) {
	tokens := lexer.Tokenize(front)
	if !p.bounded(tokens) {
		p.recoverName(front)
		return
	}
	file, err := yamlparser.Parse(tokens, 0, yamlparser.AllowDuplicateMapKey())
	if err != nil {
		at, msg := pos{2, 0}, err.Error()
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			at, msg = p.tokenPos(syntax.GetToken()), syntax.GetMessage()
		}
		if strings.HasPrefix(msg, "mapping value is not allowed") {
			msg += `: a text that holds ": " needs quotes around it, and all keys of a mapping begin in the same column`
		}
		if strings.ContainsRune(msg, '\t') || strings.HasPrefix(msg, "tab character") {
			msg = "a tab stands where only spaces may: indent with spaces"
		}
		p.fail(at, "the front matter is not valid YAML: %s", msg)
		p.recoverName(front)
		return
	}
	seen := false
	for _, doc := range file.Docs {
		if doc == nil || doc.Body == nil {
			continue
		}
		pairs, ok := mapping(doc.Body)
		switch {
		case seen:
			p.fail(p.at(doc.Body), "the front matter must be one YAML document")
			return
		case !ok:
			p.fail(p.at(doc.Body), "the front matter must be a mapping such as name: billing, not %s", describe(doc.Body))
			return
		}
		seen = true
		p.pairs(keys(), "", pairs)
		p.graphAlone()
		p.remoteAlone()
	}
}

// bounded refuses what could make a short text expensive, or mean something else
// than what stands there.
func (p *parser) bounded(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		p.fail(pos{2, 0}, "the front matter has more than %d parts", maxTokens)
		return false
	}
	depth, ok := 0, true
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			p.fail(p.tokenPos(t), "anchors, aliases and merge keys are not allowed in a front matter: write the value out")
			ok = false
		case token.TagType, token.DirectiveType:
			p.fail(p.tokenPos(t), "tags and directives are not allowed in a front matter")
			ok = false
		}
		if depth > maxDepth {
			p.fail(p.tokenPos(t), "the front matter is nested more than %d levels deep", maxDepth)
			return false
		}
	}
	return ok
}

// recoverName finds the name in a front matter that is not YAML, so that other
// files' references to the agent are not reported too.
func (p *parser) recoverName(front string) {
	for i, line := range strings.Split(front, "\n") {
		if v, ok := strings.CutPrefix(line, "name:"); ok {
			v, _, _ = strings.Cut(v, " #")
			if v = strings.Trim(v, " \t\"'"); v != "" && p.d.at["name"] == (pos{}) {
				p.d.name, p.d.at["name"] = v, pos{i + 2, 0}
			}
		}
	}
}

// pairs reads a mapping by its table of keys. prefix is the mapping's own name
// with a dot, empty for the front matter itself.
func (p *parser) pairs(table []key, prefix string, pairs []*ast.MappingValueNode) {
	first := make(map[string]int, len(pairs))
	for _, pair := range pairs {
		at := p.at(pair.Key)
		name, ok := keyName(pair.Key)
		if !ok {
			p.add(at, "a key must be a word, not %s", describe(pair.Key))
			continue
		}
		if line, repeated := first[name]; repeated {
			p.add(at, "the key %q is repeated: it stands on line %d already", name, line)
			p.d.unsure = p.d.unsure || name == "subagents"
			continue
		}
		first[name] = at.line
		k := find(table, name)
		if k == nil {
			hint := suggestKey(table, prefix, name)
			p.add(at, "unknown key %q%s", prefix+name, hint)
			p.d.unsure = p.d.unsure || strings.Contains(hint, `"subagents"`)
			continue
		}
		p.keyAt, p.name, p.d.at[prefix+name] = at, prefix+name, at
		if prefix == "" {
			p.keys[name] = at
		}
		if _, null := pair.Value.(*ast.NullNode); !null && pair.Value != nil {
			p.d.at[prefix+name] = p.at(pair.Value)
		}
		if k.read == nil {
			inner, ok := mapping(pair.Value)
			if !ok {
				p.wrongType(k, pair.Value)
				continue
			}
			p.opened[prefix+name] = true
			p.pairs(k.keys, prefix+name+".", inner)
			continue
		}
		k.read(p, k, pair.Value)
	}
}

func find(table []key, name string) *key {
	for i := range table {
		if table[i].name == name {
			return &table[i]
		}
	}
	return nil
}

// suggestKey looks for the key that is meant: first among those that may stand
// here, then in the whole front matter.
func suggestKey(table []key, prefix, name string) string {
	var here []string
	for _, k := range table {
		if k.typ != "" {
			here = append(here, k.name)
		}
	}
	if hint := didYouMean(name, here); hint != "" {
		return hint
	}
	all := allKeys(keys(), "")
	names := make([]string, len(all))
	for i, k := range all {
		_, names[i] = leaf(k)
	}
	meant := nearest(name, names)
	for i, k := range all {
		if m, _ := leaf(k); meant != "" && names[i] == meant && m+"." != prefix {
			if m == "" {
				return `; did you mean the key "` + meant + `" of the front matter itself?`
			}
			return `; did you mean "` + meant + `" below "` + m + `"?`
		}
	}
	return "; the keys here are " + strings.Join(here, ", ")
}
