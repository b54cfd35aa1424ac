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
// all problems. A document has the list cases, and what is always expected in them, or it is such
// a list, or one case.
func Load(data []byte, file string) ([]Case, error) {
	l := &loader{file: file, names: map[string]int{}}
	l.Report = func(line int, message string) { l.problems = append(l.problems, Problem{file, line, message}) }
	for _, doc := range l.Documents(data, maxFile) {
		if body := l.Parse(doc); body.Kind() != yamldoc.Nothing {
			l.document(body)
		}
	}
	if len(l.cases) == 0 && len(l.problems) == 0 {
		l.Add(1, "the file holds no case: a case is what a user says, with what is expected, such as - say: I was charged twice, and below it path: support > billing")
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
	always   Expect // of each turn
	cases    []Case
	names    map[string]int // the lines of those so far
	problems []Problem
}

// fields are the keys of a mapping.
type fields = map[string]*yamldoc.Field

func (l *loader) document(body yamldoc.Node) {
	list, single := body, body.Kind() != yamldoc.List
	if l.always = (Expect{}); body.Kind() == yamldoc.Mapping && !has(body, "say") && !has(body, "turns") {
		f := l.Fields(body, "the file", nil, "always", "cases")
		if p := f["always"]; p != nil {
			l.always = l.expect(l.Fields(p.Value, "always", nil, "noTools", "saysNot", "max"))
		}
		if f["cases"] == nil {
			return
		}
		list, single = l.List(f["cases"]), false
	}
	if single {
		l.add(body)
	}
	for i := range list.Len() {
		if !single {
			l.add(list.Item(i))
		}
	}
}

func has(n yamldoc.Node, key string) bool {
	for i := range n.Len() {
		if n.Pair(i).Key.Written() == key {
			return true
		}
	}
	return false
}

// The keys of a turn, in the order in which they are told, and what else a case has.
var (
	doKeys     = [...]string{"say", "metadata", "approve", "deny", "reply"}
	expectKeys = [...]string{"path", "answers", "tools", "noTools", "asks", "says", "saysNot", "judge", "max"}
	caseKeys   = [...]string{"turns", "name", "note", "tags", "state"}
)

// add reads a case.
func (l *loader) add(n yamldoc.Node) {
	c := Case{File: l.file, Line: n.Line()}
	if n.Kind() != yamldoc.Mapping {
		l.Add(c.Line, "a case must be a mapping with say and what is expected, not %s", n.Describe())
		return
	}
	before := len(l.problems)
	f := l.Fields(n, "a case", nil, slices.Concat(doKeys[:], expectKeys[:], caseKeys[:])...)
	if p := f["note"]; p != nil {
		c.Note = l.Maybe(p)
	}
	c.Tags, c.State = l.Words(f["tags"]), l.Values(f["state"])
	expected := false
	switch {
	case f["say"] != nil && f["turns"] != nil:
		l.Add(f["turns"].Line, "say and turns exclude each other: say is a case of one turn")
	case f["turns"] != nil:
		for _, key := range slices.Concat(doKeys[:], expectKeys[:len(expectKeys)-1]) {
			if p := f[key]; p != nil {
				l.Add(p.Line, "%s belongs to one of the turns", key)
			}
		}
		c.Max = l.max(f["max"])
		c.Turns = l.turns(f["turns"])
		expected = c.Max != Max{}
	case f["say"] != nil:
		c.Turns = []Turn{l.turn(f, c.Line)}
	case len(l.problems) == before:
		l.Add(c.Line, "the case has neither say, what the user says, nor turns")
	}
	for i := range c.Turns {
		expected = expected || !c.Turns[i].Expect.empty()
	}
	if !expected && len(l.problems) == before {
		l.Add(c.Line, "the case expects nothing: give one of %s", strings.Join(expectKeys[:], ", "))
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
		f := l.Fields(n, "a turn", nil, slices.Concat(doKeys[:], expectKeys[:])...)
		if f["say"] == nil {
			l.Add(n.Line(), "the turn has no say: what does the user say?")
			continue
		}
		turns = append(turns, l.turn(f, n.Line()))
	}
	return turns
}

// turn reads a turn, or a case of one.
func (l *loader) turn(f fields, line int) Turn {
	t := Turn{User: strings.TrimSuffix(l.Text(f["say"]), "\n"), Line: line, Metadata: l.Values(f["metadata"]),
		Approve: l.Words(f["approve"]), Deny: l.Words(f["deny"]), Reply: l.Values(f["reply"]), Expect: l.expect(f)}
	t.Expect.NoTools, t.Expect.SaysNot = slices.Concat(t.Expect.NoTools, l.always.NoTools), slices.Concat(t.Expect.SaysNot, l.always.SaysNot)
	t.Expect.Max = t.Expect.Max.or(l.always.Max)
	return t
}

// expect reads what is expected of a turn.
func (l *loader) expect(f fields) Expect {
	e := Expect{Answers: l.Words(f["answers"]), Tools: l.Words(f["tools"]), NoTools: l.Words(f["noTools"]), Asks: l.Words(f["asks"]),
		Says: l.Words(f["says"]), SaysNot: l.Words(f["saysNot"]), Max: l.max(f["max"])}
	l.patterns(f["says"])
	l.patterns(f["saysNot"])
	if p := f["judge"]; p != nil {
		e.Judge = strings.TrimSpace(l.Text(p))
	}
	var err error
	if text := strings.Join(l.Words(f["path"]), " > "); text != "" {
		if e.Path, err = ParsePath(text); err != nil {
			l.Add(f["path"].Line, "%s", err)
		}
	}
	if text := strings.Join(e.Answers, "|"); text != "" {
		step, err := ParsePath(text)
		if err != nil || len(step) > 1 || len(step[0]) == 0 {
			l.Add(f["answers"].Line, "answers has a name, or several with | between them, not %q", cut(text, 60))
			return e
		}
		e.Answers = step[0]
	}
	return e
}

// patterns reports regular expressions that are none, each where it stands.
func (l *loader) patterns(p *yamldoc.Field) {
	if p == nil {
		return
	}
	all := []yamldoc.Node{p.Value}
	for i := 0; p.Value.Kind() == yamldoc.List && i < p.Value.Len(); i++ {
		all = append(all, p.Value.Item(i))
	}
	for _, n := range all {
		text, _ := n.Text()
		if _, err := patternOf(text); err != nil {
			l.Add(n.Line(), "%s: %s", p.Key, err)
		}
	}
}

func (l *loader) max(p *yamldoc.Field) (m Max) {
	if p == nil {
		return m
	}
	f := l.Fields(p.Value, "max", nil, "transfers", "modelCalls", "tokens", "cost", "time")
	if k := p.Value.Kind(); k == yamldoc.Nothing || k == yamldoc.Mapping && p.Value.Len() == 0 {
		l.Add(p.Line, "max bounds transfers, modelCalls, tokens, cost or time, as in max: {modelCalls: 3}")
	}
	for key, to := range map[string]*int{"transfers": &m.Transfers, "modelCalls": &m.ModelCalls, "tokens": &m.Tokens} {
		if e := f[key]; e != nil {
			*to = l.Whole(e, 1)
		}
	}
	if e := f["cost"]; e != nil {
		var ok bool
		if m.Cost, ok = e.Value.Number(); !ok || m.Cost <= 0 {
			l.Add(e.Line, "cost must be a number above 0, not %s", e.Value.Describe())
		}
	}
	if e := f["time"]; e != nil {
		if before := len(l.problems); l.Duration(e) > 0 {
			m.Time = l.Duration(e)
		} else if len(l.problems) == before {
			l.Add(e.Line, "time must be above 0")
		}
	}
	return m
}
