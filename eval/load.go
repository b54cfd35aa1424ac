package eval

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// maxFile is the maximal size of a file of cases, in bytes.
const maxFile = 16 << 20

// Load reads cases from YAML. file is the name of the file for errors. An error is an [*Error] with all problems. A
// document has the list cases, and results that are always expected; or it is such a list, or one case.
func Load(data []byte, file string) ([]Case, error) {
	l := &loader{names: map[string]int{}}
	l.File = file
	for _, body := range l.Documents(data, maxFile) {
		l.document(body)
	}
	if len(l.cases) == 0 && l.Problems == 0 {
		l.AddAt(1, 0, "the file holds no case: a case is what a user says, with what is expected, such as - say: I was charged twice, and below it path: support > billing")
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return l.cases, nil
}

// LoadFile is [Load] for a file. An error that is not an [*Error] says why the file cannot be read.
func LoadFile(path string) ([]Case, error) {
	data, err := confined.Read(path, maxFile+1)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	return Load(data, path)
}

// loader reads a file of cases.
type loader struct {
	yamldoc.Decoder
	always Expect // of each turn
	cases  []Case
	names  map[string]int // the lines of the names so far
}

func (l *loader) document(body yamldoc.Node) {
	var list yamldoc.Node
	l.always = Expect{}
	switch {
	case body.Kind() == yamldoc.List:
		list = body
	case body.Kind() == yamldoc.Mapping && !has(body, "say") && !has(body, "turns"):
		l.Mapping([]yamldoc.Key{
			yamldoc.Object("always", "",
				yamldoc.Words("noTools", &l.always.NoTools),
				l.pattern("saysNot", &l.always.SaysNot),
				l.max(&l.always.Max)),
			yamldoc.Custom("cases", "a list", "", func(k *yamldoc.Key, n yamldoc.Node) {
				if list = n; n.Kind() != yamldoc.List {
					l.WrongType(k, n)
				}
			})}, "", body)
	default:
		l.add(body)
	}
	for i := range list.Len() {
		if list.Kind() == yamldoc.List {
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

// turnKeys returns the keys of a turn, in the order in which messages name them. do are the actions, and expect the
// expected results.
func (l *loader) turnKeys(t *Turn) (do, expect []yamldoc.Key) {
	e := &t.Expect
	const words = "a text or a list of texts"
	return []yamldoc.Key{
			yamldoc.String("say", "", &t.User),
			yamldoc.Values("metadata", &t.Metadata),
			yamldoc.Words("approve", &t.Approve),
			yamldoc.Words("deny", &t.Deny),
			yamldoc.Values("reply", &t.Reply),
		}, []yamldoc.Key{
			yamldoc.Custom("path", words, "", func(k *yamldoc.Key, n yamldoc.Node) {
				if text := l.joined(k, n, " > "); text != "" {
					var err error
					if e.Path, err = ParsePath(text); err != nil {
						l.Add(l.Key, "%s", err)
					}
				}
			}),
			yamldoc.Custom("answers", words, "", func(k *yamldoc.Key, n yamldoc.Node) {
				if text := l.joined(k, n, "|"); text != "" {
					step, err := ParsePath(text)
					if err != nil || len(step) > 1 || len(step[0]) == 0 {
						l.Add(l.Key, "answers has a name, or several with | between them, not %q", visible.Cut(text, 60))
						return
					}
					e.Answers = step[0]
				}
			}),
			yamldoc.Words("tools", &e.Tools),
			yamldoc.Words("noTools", &e.NoTools),
			yamldoc.Words("asks", &e.Asks),
			l.pattern("says", &e.Says),
			l.pattern("saysNot", &e.SaysNot),
			yamldoc.String("judge", "", &e.Judge),
			l.max(&e.Max),
		}
}

// joined reads a text or a list of texts as one text.
func (l *loader) joined(k *yamldoc.Key, n yamldoc.Node, sep string) string {
	var all []string
	l.Words(k, n, func(text string, _ yamldoc.Node) { all = append(all, text) })
	return strings.Join(all, sep)
}

// pattern returns the key of texts and regular expressions.
func (l *loader) pattern(name string, to *[]string) yamldoc.Key {
	return yamldoc.Words(name, to, func(text string, n yamldoc.Node) {
		if _, err := patternOf(text); err != nil {
			l.Add(n, "%s: %s", name, err)
		}
	})
}

func (l *loader) max(m *Max) yamldoc.Key {
	return yamldoc.Custom("max", "a mapping", "", func(_ *yamldoc.Key, n yamldoc.Node) {
		if n.Kind() != yamldoc.Mapping || n.Len() == 0 {
			l.Add(l.Key, "max bounds transfers, modelCalls, tokens, cost or time, as in max: {modelCalls: 3}")
			return
		}
		l.Mapping([]yamldoc.Key{
			yamldoc.Int("transfers", "", &m.Transfers),
			yamldoc.Int("modelCalls", "", &m.ModelCalls),
			yamldoc.Int("tokens", "", &m.Tokens),
			yamldoc.Positive("cost", "", math.MaxFloat64, &m.Cost),
			yamldoc.Custom("time", yamldoc.TimeType, "", func(k *yamldoc.Key, n yamldoc.Node) {
				var ok bool
				if m.Time, ok = l.Time(k, n); ok && m.Time == 0 {
					l.Add(n, "%s must be above 0", l.Name)
				}
			}),
		}, l.Name+".", n)
	})
}

// add reads a case.
func (l *loader) add(n yamldoc.Node) {
	c := Case{File: l.File, Line: n.Line()}
	if n.Kind() != yamldoc.Mapping {
		l.Add(n, "a case must be a mapping with say and what is expected, not %s", n.Describe())
		return
	}
	before := l.Problems
	t := Turn{Line: c.Line}
	do, expect := l.turnKeys(&t)
	f := l.Mapping(slices.Concat(do, expect, []yamldoc.Key{
		yamldoc.Custom("turns", "a list of turns", "", func(k *yamldoc.Key, n yamldoc.Node) { c.Turns = l.turns(k, n) }),
		yamldoc.String("name", "", &c.Name),
		yamldoc.OptionalString("note", &c.Note),
		yamldoc.Words("tags", &c.Tags),
		yamldoc.Values("state", &c.State)}), "", n)
	_, says := f["say"]
	turns, several := f["turns"]
	expected := false
	switch {
	case says && several:
		l.Add(turns.Key, "say and turns exclude each other: say is a case of one turn")
	case several:
		for _, k := range slices.Concat(do, expect[:len(expect)-1]) {
			if p, ok := f[k.Name]; ok {
				l.Add(p.Key, "%s belongs to one of the turns", k.Name)
			}
		}
		c.Max = t.Expect.Max
		expected = c.Max != Max{}
	case says:
		c.Turns = []Turn{l.withAlways(t)}
	case l.Problems == before:
		l.Add(n, "the case has neither say, what the user says, nor turns")
	}
	for i := range c.Turns {
		expected = expected || !c.Turns[i].Expect.empty()
	}
	if !expected && l.Problems == before {
		l.Add(n, "the case expects nothing: give one of %s", strings.Join(yamldoc.Names(expect, ""), ", "))
	}
	l.name(&c, n)
	l.cases = append(l.cases, c)
}

// name sets the name of a case: its own, or the beginning of its first message. It reports a name that another case
// has.
func (l *loader) name(c *Case, n yamldoc.Node) {
	hint := ""
	if c.Name = strings.Join(strings.Fields(c.Name), " "); c.Name == "" && len(c.Turns) > 0 {
		c.Name, hint = visible.Cut(strings.Join(strings.Fields(c.Turns[0].User), " "), 121), ": give it a name of its own"
	}
	if first := l.names[c.Name]; c.Name != "" && first > 0 {
		l.Add(n, "the case %q is already on line %d%s", visible.Cut(c.Name, 60), first, hint)
		return
	}
	l.names[c.Name] = c.Line
}

func (l *loader) turns(k *yamldoc.Key, list yamldoc.Node) (turns []Turn) {
	if list.Kind() == yamldoc.List && list.Len() == 0 {
		l.Add(l.Key, "turns is empty")
	}
	l.Entries(k, list, func(n yamldoc.Node) {
		t := Turn{Line: n.Line()}
		f := l.Mapping(slices.Concat(l.turnKeys(&t)), "", n)
		if _, says := f["say"]; !says {
			l.Add(n, "the turn has no say: what does the user say?")
			return
		}
		turns = append(turns, l.withAlways(t))
	})
	return turns
}

// withAlways adds the results that are expected of each turn of the document.
func (l *loader) withAlways(t Turn) Turn {
	t.User = strings.TrimSuffix(t.User, "\n")
	e := &t.Expect
	e.NoTools, e.SaysNot = slices.Concat(e.NoTools, l.always.NoTools), slices.Concat(e.SaysNot, l.always.SaysNot)
	e.Max = e.Max.or(l.always.Max)
	return t
}
