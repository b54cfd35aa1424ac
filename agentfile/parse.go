package agentfile

import (
	"fmt"
	"path"
	"slices"
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

// list reads a list of strings.
func (p *parser) list(k *yamldoc.Key, n yamldoc.Node) (items []item) {
	p.List(k, n, func(text string, n yamldoc.Node) { items = append(items, item{value: text, at: place(n)}) })
	return items
}

// valuesOf returns the values of a list.
func valuesOf(items []item) (values []string) {
	for _, i := range items {
		values = append(values, i.value)
	}
	return values
}

// names reads a list of strings without duplicates.
func (p *parser) names(k *yamldoc.Key, n yamldoc.Node) (items []item) {
	seen := map[string]bool{}
	for _, i := range p.list(k, n) {
		if seen[i.value] {
			p.add(i.at, "%s names %q twice", p.Name, i.value)
			continue
		}
		seen[i.value] = true
		items = append(items, i)
	}
	return items
}

// oneOrMore reads a string, or a list of strings without duplicates.
func (p *parser) oneOrMore(k *yamldoc.Key, n yamldoc.Node) []item {
	if n.Kind() == yamldoc.List {
		return p.names(k, n)
	}
	if v, ok := p.String(k, n); ok {
		return []item{{value: v, at: place(n)}}
	}
	return nil
}

// place returns where a value begins in the file.
func place(n yamldoc.Node) pos {
	line, col := n.Place()
	return pos{line, col}
}

// Problem is one problem in a folder of agents. File begins with the path that was passed to Load or Check; it is the
// folder itself if no single file is at fault. Line and Col count from 1, Col in characters. Line is 0 for problems of
// a folder, and Col is 0 if only the line is known.
type Problem = yamldoc.Problem

// Error is the error of [Load] and [LoadFS] for invalid files. It contains every problem in Problems, sorted by file,
// line and column.
type Error = yamldoc.Error

// pos is a place in a file.
type pos struct{ line, col int }

// report collects problems.
type report struct {
	// given converts a file's path in the folder into the path in messages, which begins with the user's path.
	given    func(file string) string
	problems []Problem
}

func (r *report) add(file string, at pos, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.given(file), Line: at.line, Col: at.col, Message: yamldoc.Message(format, args...)})
}

// place formats a place in a file other than that of the problem.
func (r *report) place(file string, at pos) string {
	return fmt.Sprintf("%s:%d", r.given(file), at.line)
}

// err returns the problems so far, sorted and without duplicates, or nil.
func (r *report) err() error {
	all := slices.Clone(r.problems) // sort problems of one place too, because maps order them at random
	slices.SortFunc(all, func(a, b Problem) int { return strings.Compare(a.Message, b.Message) })
	return yamldoc.AsError(all)
}
