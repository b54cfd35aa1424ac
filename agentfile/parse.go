package agentfile

import (
	"path"
	"strings"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// rules limits a front matter, which begins on line 2 of its file.
var rules = yamldoc.Rules{
	What: "the front matter", Before: 1, Tokens: 4096, Flow: 16, Plain: true,
}

// parser reads one file.
type parser struct {
	yamldoc.Decoder
	report *report
	d      *definition
	keys   map[string]pos  // the places of the top-level keys
	opened map[string]bool // whether the value of a dotted key is a mapping
}

func newParser(r *report, d *definition) *parser {
	p := &parser{report: r, d: d, keys: map[string]pos{}, opened: map[string]bool{}}
	p.Report = func(line, col int, message string) { r.add(d.file, pos{line, col}, "%s", message) }
	p.Seen = func(name string, key, value yamldoc.Node) {
		d.at[name] = place(key)
		if value.Kind() != yamldoc.Nothing {
			d.at[name] = place(value)
		}
		p.opened[name] = value.Kind() == yamldoc.Mapping
		if !strings.Contains(name, ".") {
			p.keys[name] = place(key)
		}
	}
	return p
}

// parse reads a file. It returns nil if the file has no front matter and so is not an agent. It reports all problems;
// the definition is then as complete as possible.
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
		d.broken, d.incomplete, d.router = true, true, nil
		d.recoverName(front)
		return d
	}
	p := newParser(r, d)
	p.Top, d.bodyAt = keys(p), at
	p.front(front)
	return d
}

func (p *parser) add(at pos, format string, args ...any) {
	p.Problems++
	p.report.add(p.d.file, at, format, args...)
}

// fail reports a problem that makes the front matter unreadable.
func (p *parser) fail(at pos, format string, args ...any) {
	p.d.broken, p.d.incomplete, p.d.router = true, true, nil
	p.add(at, format, args...)
}

func (p *parser) front(front string) {
	if p.document(front, rules, p.Top, "name: billing") {
		graphOnly(p)
		remoteOnly(p)
		routerOnly(p)
		workflowOnly(p)
	} else if p.d.broken {
		p.d.recoverName(front)
	}
}

// document reads a text with a single mapping, by its table of keys. It returns false for any other text.
func (p *parser) document(text string, rules yamldoc.Rules, table []yamldoc.Key, such string) bool {
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
			p.fail(place(doc), "%s must be one YAML document", rules.What)
			return false
		case doc.Kind() != yamldoc.Mapping:
			p.fail(place(doc), "%s must be a mapping such as %s, not %s", rules.What, such, doc.Quote())
			return false
		}
		p.Mapping(table, "", doc)
		p.d.incomplete = p.d.incomplete || p.Unclear["subagents"]
	}
	return true
}

// recoverName finds the name in an unreadable front matter, so that references of other files to the agent are not
// reported too.
func (d *definition) recoverName(front string) {
	for i, line := range strings.Split(front, "\n") {
		if v, ok := strings.CutPrefix(line, "name:"); ok {
			v, _, _ = strings.Cut(v, " #")
			if v = strings.Trim(v, " \t\"'"); v != "" && d.at["name"] == (pos{}) {
				d.name, d.at["name"] = v, pos{i + 2, 0}
			}
		}
	}
}
