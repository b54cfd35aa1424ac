package agentfile

import (
	"path"
	"strings"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// rules bound a front matter, which begins on line 2 of its file.
var rules = yamldoc.Rules{
	What: "the front matter", Before: 1, Tokens: 4096, Flow: 16,
	NoAliases:    "anchors, aliases and merge keys are not allowed in a front matter: write the value out",
	NoTags:       "tags and directives are not allowed in a front matter",
	NoDirectives: "tags and directives are not allowed in a front matter",
}

// parser reads one file.
type parser struct {
	report *report
	d      *definition
	top    []key // of a front matter
	// The key whose value is being read: its place, and its name with the
	// mapping's in front.
	keyAt pos
	name  string
	// The places of the keys of the front matter itself.
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
	d := &definition{file: file, base: base, name: base, body: body, at: map[string]pos{}, router: &routerKeys{}}
	if problem != "" {
		r.add(file, at, "%s", problem)
		d.broken, d.unsure, d.router = true, true, nil
		return d
	}
	p := &parser{report: r, d: d, top: keys(), keys: map[string]pos{}, opened: map[string]bool{}}
	lines := strings.Count(front, "\n")
	d.bodyAt = pos{lines + 3 + blankLines(data, lines+2), 0}
	p.front(front)
	return d
}

func (p *parser) add(at pos, format string, args ...any) {
	p.report.add(p.d.file, at, format, args...)
}

// fail reports what makes the front matter unreadable.
func (p *parser) fail(at pos, format string, args ...any) {
	p.d.broken, p.d.unsure, p.d.router = true, true, nil
	p.add(at, format, args...)
}

func (p *parser) front(front string) {
	if p.document(front, rules, p.top, "name: billing") {
		p.graphOnly()
		p.remoteOnly()
		p.routerOnly()
		p.workflowOnly()
	} else if p.d.broken {
		p.recoverName(front)
	}
}

// document reads a text that holds one mapping, by its table of keys. It is false if there
// is none.
func (p *parser) document(text string, rules yamldoc.Rules, table []key, such string) bool {
	file, problems := yamldoc.Parse(text, rules)
	for _, problem := range problems {
		p.fail(pos{problem.Line, problem.Col}, "%s", problem.Message)
	}
	if file == nil {
		return false
	}
	for i, doc := range file.Documents {
		switch {
		case i > 0:
			p.fail(p.at(doc), "%s must be one YAML document", rules.What)
			return false
		case doc.Kind() != yamldoc.Mapping:
			p.fail(p.at(doc), "%s must be a mapping such as %s, not %s", rules.What, such, describe(doc))
			return false
		}
		p.pairs(table, "", doc)
	}
	return true
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
func (p *parser) pairs(table []key, prefix string, mapping yamldoc.Node) {
	first := make(map[string]int, mapping.Len())
	for i := range mapping.Len() {
		pair := mapping.Pair(i)
		at := p.at(pair.Key)
		name, ok := pair.Key.Word()
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
			hint := suggestKey(p.top, table, prefix, name)
			p.add(at, "unknown key %q%s", prefix+name, hint)
			p.d.unsure = p.d.unsure || strings.Contains(hint, `"subagents"`)
			continue
		}
		p.keyAt, p.name, p.d.at[prefix+name] = at, prefix+name, at
		if prefix == "" {
			p.keys[name] = at
		}
		if pair.Value.Kind() != yamldoc.Nothing {
			p.d.at[prefix+name] = p.at(pair.Value)
		}
		if k.read == nil {
			if pair.Value.Kind() != yamldoc.Mapping {
				p.wrongType(k, pair.Value)
				continue
			}
			p.opened[prefix+name] = true
			p.pairs(k.keys, prefix+name+".", pair.Value)
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

// suggestKey looks for the key that is meant: first among those that are
// allowed here, then in the whole front matter.
func suggestKey(top, table []key, prefix, name string) string {
	var here []string
	for _, k := range table {
		if k.typ != "" {
			here = append(here, k.name)
		}
	}
	if hint := nearest.Hint(name, here); hint != "" {
		return hint
	}
	all := allKeys(top, "")
	names := make([]string, len(all))
	for i, k := range all {
		_, names[i] = leaf(k)
	}
	meant := nearest.Of(name, names)
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
