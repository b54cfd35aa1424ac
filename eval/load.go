package eval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// maxFile bounds the bytes of a file of cases.
const maxFile = 16 << 20

// Load reads cases from YAML. The name of the file is for errors, which are an [*Error] with
// all problems. A document has the list cases, is such a list, or is one case.
func Load(data []byte, file string) ([]Case, error) {
	l := &loader{file: file, names: map[string]int{}}
	l.Report = func(line int, message string) { l.problems = append(l.problems, Problem{file, line, message}) }
	for _, doc := range l.Documents(data, maxFile) {
		if body := l.Parse(doc); body.Kind() != yamldoc.Nothing {
			l.document(body)
		}
	}
	if len(l.cases) == 0 && len(l.problems) == 0 {
		l.Add(1, "the file holds no case: a case is what a user says, with what is expected, such as\ncases:\n  - say: I was charged twice\n    path: support > billing")
	}
	if err := asError(l.problems); err != nil {
		return nil, err
	}
	return l.cases, nil
}

// LoadFile is [Load] for a file. An error that is no [*Error] says why it cannot be read.
func LoadFile(path string) ([]Case, error) {
	data, err := confined.Read(path, maxFile+1)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	return Load(data, path)
}

// loader reads a file of cases.
type loader struct {
	yamldoc.Reader
	file     string
	cases    []Case
	names    map[string]int // the lines of those so far
	problems []Problem
}

func (l *loader) document(body yamldoc.Node) {
	list := body
	if body.Kind() == yamldoc.Mapping && has(body, "cases") {
		f := l.Fields(body, "the file", nil, "cases")
		if f["cases"] == nil {
			return
		}
		if list = f["cases"].Value; list.Kind() != yamldoc.List {
			l.Add(f["cases"].Line, "cases must be a list, not %s", list.Describe())
			return
		}
	}
	if list.Kind() != yamldoc.List {
		l.add(body)
		return
	}
	for i := range list.Len() {
		l.add(list.Item(i))
	}
}

func has(n yamldoc.Node, key string) bool {
	for i := range n.Len() {
		if name, _ := n.Pair(i).Key.Name(); name == key {
			return true
		}
	}
	return false
}

// expectKeys are those of a turn, in the order in which they are told.
var expectKeys = [...]string{"path", "answers", "tools", "noTools", "asks", "says", "saysNot", "judge"}

// turnKeys are what else a turn can have.
var turnKeys = [...]string{"say", "metadata", "approve", "deny", "reply", "max"}

// add reads a case.
func (l *loader) add(n yamldoc.Node) {
	c := Case{File: l.file, Line: n.Line()}
	if n.Kind() != yamldoc.Mapping {
		l.Add(c.Line, "a case must be a mapping with say and what is expected, not %s", n.Describe())
		return
	}
	f := l.Fields(n, "a case", synonyms(), slices.Concat(turnKeys[:], expectKeys[:], []string{"turns", "name", "note", "tags", "state"})...)
	before := len(l.problems)
	if p := f["note"]; p != nil {
		c.Note = l.Maybe(p)
	}
	if p := f["tags"]; p != nil {
		c.Tags = l.words(p)
	}
	if p := f["state"]; p != nil {
		c.State = l.values(p)
	}
	if p := f["max"]; p != nil {
		c.Max = l.max(p)
	}
	switch {
	case f["say"] != nil && f["turns"] != nil:
		l.Add(f["turns"].Line, "say and turns exclude each other: say is a case of one turn")
	case f["turns"] != nil:
		for _, key := range slices.Concat(turnKeys[1:len(turnKeys)-1], expectKeys[:]) {
			if p := f[key]; p != nil {
				l.Add(p.Line, "%s belongs to one of the turns", p.Key)
			}
		}
		c.Turns = l.turns(f["turns"])
	case f["say"] != nil:
		delete(f, "max")
		c.Turns = []Turn{l.turn(f, c.Line)}
	default:
		l.Add(c.Line, "the case has neither say, what the user says, nor turns")
	}
	expected := c.Max != Max{}
	for i := range c.Turns {
		expected = expected || !c.Turns[i].Expect.empty()
	}
	if !expected && len(l.problems) == before {
		l.Add(c.Line, "the case expects nothing: give one of %s, max", strings.Join(expectKeys[:], ", "))
	}
	l.name(&c, f["name"])
	l.cases = append(l.cases, c)
}

// name gives a case the name that it has, or its first words.
func (l *loader) name(c *Case, p *yamldoc.Field) {
	hint := ""
	if p != nil {
		c.Name = strings.Join(strings.Fields(l.Text(p)), " ")
	} else if len(c.Turns) > 0 {
		c.Name, hint = cut(strings.Join(strings.Fields(c.Turns[0].User), " "), 120), ": give it a name of its own"
	}
	if first := l.names[c.Name]; c.Name != "" && first > 0 {
		l.Add(c.Line, "the case %q stands on line %d already%s", cut(c.Name, 60), first, hint)
		return
	}
	l.names[c.Name] = c.Line
}

func (l *loader) turns(p *yamldoc.Field) (turns []Turn) {
	list := l.List(p)
	if p.Value.Kind() == yamldoc.List && list.Len() == 0 {
		l.Add(p.Line, "turns is empty")
	}
	for i := range list.Len() {
		n := list.Item(i)
		if n.Kind() != yamldoc.Mapping {
			l.Add(n.Line(), "a turn must be a mapping with say, not %s", n.Describe())
			continue
		}
		f := l.Fields(n, "a turn", synonyms(), slices.Concat(turnKeys[:], expectKeys[:])...)
		if f["say"] == nil {
			l.Add(n.Line(), "the turn has no say: what does the user say?")
			continue
		}
		turns = append(turns, l.turn(f, n.Line()))
	}
	return turns
}

// turn reads a turn, or a case of one.
func (l *loader) turn(f map[string]*yamldoc.Field, line int) Turn {
	t := Turn{User: strings.TrimSuffix(l.Text(f["say"]), "\n"), Line: line}
	for key, to := range map[string]*[]string{"approve": &t.Approve, "deny": &t.Deny, "answers": &t.Expect.Answers, "tools": &t.Expect.Tools,
		"noTools": &t.Expect.NoTools, "asks": &t.Expect.Asks, "says": &t.Expect.Says, "saysNot": &t.Expect.SaysNot} {
		if p := f[key]; p != nil {
			*to = l.words(p)
		}
	}
	if p := f["answers"]; p != nil {
		t.Expect.Answers = nil
		for _, names := range l.words(p) {
			for _, name := range strings.Split(names, "|") {
				t.Expect.Answers = append(t.Expect.Answers, strings.TrimSpace(name))
			}
		}
	}
	for _, key := range []string{"says", "saysNot"} {
		if p := f[key]; p != nil {
			l.patterns(p)
		}
	}
	if p := f["metadata"]; p != nil {
		t.Metadata = l.values(p)
	}
	if p := f["reply"]; p != nil {
		t.Reply = l.values(p)
	}
	if p := f["judge"]; p != nil {
		t.Expect.Judge = strings.TrimSpace(l.Text(p))
	}
	if p := f["max"]; p != nil {
		t.Expect.Max = l.max(p)
	}
	if p := f["path"]; p != nil {
		t.Expect.Path = l.path(p)
	}
	return t
}

func (l *loader) path(p *yamldoc.Field) Path {
	var text string
	if p.Value.Kind() == yamldoc.List {
		text = strings.Join(l.Texts(p), " > ")
	} else {
		text = l.Text(p)
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	path, err := ParsePath(text)
	if err != nil {
		l.Add(p.Line, "%s", err)
	}
	return path
}

// words reads a text, or a list of texts that is not empty.
func (l *loader) words(p *yamldoc.Field) []string {
	if p.Value.Kind() != yamldoc.List {
		if text := l.Text(p); text != "" {
			return []string{text}
		}
		return nil
	}
	if p.Value.Len() == 0 {
		l.Add(p.Line, "%s is empty", p.Key)
	}
	return l.Texts(p)
}

// patterns reports regular expressions that are none, each where it stands.
func (l *loader) patterns(p *yamldoc.Field) {
	check := func(n yamldoc.Node) {
		if text, ok := n.Text(); ok {
			if _, err := patternOf(text); err != nil {
				l.Add(n.Line(), "%s: %s", p.Key, err)
			}
		}
	}
	check(p.Value)
	for i := range p.Value.Len() {
		if p.Value.Kind() == yamldoc.List {
			check(p.Value.Item(i))
		}
	}
}

func (l *loader) values(p *yamldoc.Field) map[string]any {
	out := map[string]any{}
	for _, e := range l.Pairs(p.Value, p.Key) {
		out[e.Key] = l.Any(e.Value)
	}
	return out
}

func (l *loader) max(p *yamldoc.Field) (m Max) {
	f := l.Fields(p.Value, "max", nil, "transfers", "modelCalls", "tokens", "cost", "time")
	if len(f) == 0 {
		l.Add(p.Line, "max bounds transfers, modelCalls, tokens, cost or time, as in max: {modelCalls: 3}")
	}
	for key, to := range map[string]*int{"transfers": &m.Transfers, "modelCalls": &m.ModelCalls, "tokens": &m.Tokens} {
		if e := f[key]; e != nil {
			*to = l.Whole(e, 1)
		}
	}
	if e := f["cost"]; e != nil {
		cost, ok := e.Value.Number()
		if !ok || cost <= 0 {
			l.Add(e.Line, "cost must be a number above 0, not %s", e.Value.Describe())
		}
		m.Cost = cost
	}
	if e := f["time"]; e != nil {
		before := len(l.problems)
		if m.Time = l.Duration(e); m.Time == 0 && len(l.problems) == before {
			l.Add(e.Line, "time must be above 0")
		}
	}
	return m
}

// synonyms are words that people write for a key.
func synonyms() map[string]string {
	return map[string]string{"notTools": "noTools", "toolsNot": "noTools", "notSays": "saysNot", "user": "say", "answer": "answers", "tool": "tools", "tag": "tags"}
}
