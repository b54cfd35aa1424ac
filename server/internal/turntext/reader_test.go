package turntext

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
)

// tape writes entries as a store and a tail do.
type tape struct {
	at      session.Position
	entries []session.Entry
}

func (l *tape) stored(e event.Event) *tape {
	l.at = session.Position{Seq: l.at.Seq + 1}
	e.Seq = l.at.Seq
	l.entries = append(l.entries, session.Entry{ID: l.at.String(), Event: &e})
	return l
}

func (l *tape) partial(e event.Event) *tape {
	l.at.Part++
	e.Partial = true
	l.entries = append(l.entries, session.Entry{ID: l.at.String(), Event: &e})
	return l
}

func (l *tape) delta(id, text string) *tape {
	return l.partial(event.Event{ID: id, Agent: "a", Data: &event.Text{Content: text}})
}

func (l *tape) text(id, text string) *tape {
	return l.stored(event.Event{ID: id, Agent: "a", Data: &event.Text{Content: text}})
}

// without leaves out what a follower misses.
func (l *tape) without(places ...int) *tape {
	for i := len(places) - 1; i >= 0; i-- {
		l.entries = append(l.entries[:places[i]], l.entries[places[i]+1:]...)
	}
	return l
}

// told writes what the pieces say: ( opens, ) closes, ! voids.
func (l *tape) told(t require.TestingT) string {
	var p Reader
	var out strings.Builder
	shown := make(map[string]string)
	for _, en := range l.entries {
		for _, p := range p.Next(en) {
			switch p.Kind {
			case Opened:
				shown[p.Block] = ""
				fmt.Fprintf(&out, "(%s:", p.Agent)
			case Appended:
				shown[p.Block] += p.Text
				out.WriteString("[" + p.Text + "]")
			case Closed:
				require.Equal(t, p.Text, shown[p.Block], "the appended text of a block is the whole block")
				out.WriteString(")")
			case Voided:
				out.WriteString("!")
			}
		}
	}
	return out.String()
}

func TestReader(t *testing.T) {
	file := event.Event{ID: "f", Agent: "a", Scope: "inner", Data: &event.File{Name: "a.txt", MediaType: "text/plain", Size: 3}}
	for name, c := range map[string]struct {
		l    *tape
		want string
	}{
		"whole":           {new(tape).text("1", "Hello."), "(a:[Hello.])"},
		"streamed":        {new(tape).delta("1", "Hel").delta("1", "lo.").text("1", "Hello."), "(a:[Hel][lo.])"},
		"cut short":       {new(tape).delta("1", "Hel").text("1", "Hello."), "(a:[Hel][lo.])"},
		"first missed":    {new(tape).delta("1", "Hel").delta("1", "lo").delta("1", ".").text("1", "Hello.").without(0), "(a:[Hello.])"},
		"one missed":      {new(tape).delta("1", "H").delta("1", "e").delta("1", "l").text("1", "Hel").without(1), "(a:[H][el])"},
		"missed before":   {new(tape).delta("0", "H").text("0", "Ha").delta("1", "He").text("1", "Hey").without(0), "(a:[Ha])(a:[He][y])"},
		"space":           {new(tape).delta("1", " ").delta("1", "\n").delta("1", "a").text("1", " \na"), "(a:[ \na])"},
		"nothing":         {new(tape).delta("1", " ").text("1", " ").text("2", ""), ""},
		"other words":     {new(tape).delta("1", "Hi").text("1", "Hello."), "(a:[Hi]!(a:[Hello.])"},
		"taken back":      {new(tape).delta("1", "Hi").stored(event.Event{Data: &event.Discard{IDs: []string{"1"}}}).text("2", "Ho"), "(a:[Hi]!(a:[Ho])"},
		"both taken back": {new(tape).delta("1", "Hi").delta("2", "Ho").partial(event.Event{Data: &event.Discard{IDs: []string{"1", "2"}}}), "(a:[Hi](a:[Ho]!!"},
		"inner":           {new(tape).stored(event.Event{ID: "1", Scope: "x", Data: &event.Text{Content: "Hi"}}), ""},
		"file":            {new(tape).stored(file).text("1", "Hi"), "(a:[File: a.txt, text/plain, 3 bytes])(a:[Hi])"},
		"file in between": {new(tape).delta("1", "Hi").stored(file).text("1", "Hi"), "(a:[Hi])(a:[File: a.txt, text/plain, 3 bytes])"},
		"output": {new(tape).stored(event.Event{RunID: "r", Agent: "g", Data: &event.HarnessStart{}}).
			stored(event.Event{ID: "e", Agent: "g", Data: &event.HarnessEnd{FinishReason: event.FinishReasonStop, Output: []byte(`{"a":1}`)}}), `(g:[{"a":1}])`},
		"person": {new(tape).stored(event.Event{Data: &event.HandoffStatus{Status: "active", TargetAgent: "Ann"}}).
			stored(event.Event{ID: "1", Agent: "human", Data: &event.Text{Content: "Hi"}}), "(Ann:[Hi])"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.l.told(t)) })
	}
}

// Whatever deltas are lost, the pieces have the stored text, and a gap takes no text back.
func TestReaderWithHoles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l tape
		var texts []string
		var missed []int
		for range rapid.IntRange(1, 4).Draw(t, "blocks") {
			id, text := fmt.Sprint(len(texts)), ""
			for range rapid.IntRange(0, 6).Draw(t, "deltas") {
				word := rapid.SampledFrom([]string{"a", "b ", " ", "cd"}).Draw(t, "word")
				text += word
				if rapid.IntRange(0, 3).Draw(t, "miss") == 0 {
					missed = append(missed, len(l.entries))
				}
				l.delta(id, word)
			}
			l.text(id, text)
			if strings.TrimSpace(text) != "" {
				texts = append(texts, text)
			}
		}
		var said Joiner
		var p Reader
		var got strings.Builder
		for _, en := range l.without(missed...).entries {
			for _, p := range p.Next(en) {
				require.NotEqual(t, Voided, p.Kind)
				words := must.Get(said.Add(p))
				got.WriteString(words)
			}
		}
		require.Equal(t, strings.Join(texts, "\n\n"), got.String())
	})
}

func TestScript(t *testing.T) {
	play := func(l *tape, end string) (string, error) {
		var said Joiner
		var p Reader
		var got strings.Builder
		for _, en := range l.entries {
			for _, p := range p.Next(en) {
				words, err := said.Add(p)
				got.WriteString(words)
				if err != nil {
					return got.String(), err
				}
			}
		}
		words, err := said.End(end)
		return got.String() + words, err
	}
	void := func(ids ...string) event.Event { return event.Event{Data: &event.Discard{IDs: ids}} }
	for name, c := range map[string]struct {
		l         *tape
		end, want string
		err       bool
	}{
		"blocks":               {new(tape).text("1", "a").text("2", "b"), "", "a\n\nb", false},
		"a question":           {new(tape).text("1", "a"), "Shall it?", "a\n\nShall it?", false},
		"a question alone":     {new(tape), "Shall it?", "Shall it?", false},
		"said again":           {new(tape).delta("1", "One mo").stored(void("1")).delta("2", "One").delta("2", " moment").text("2", "One moment."), "", "One moment.", false},
		"said again, behind":   {new(tape).text("0", "a").delta("1", "b").stored(void("1")).text("2", "bc"), "", "a\n\nbc", false},
		"said otherwise":       {new(tape).delta("1", "One").stored(void("1")).delta("2", "Two"), "", "One", true},
		"not said again":       {new(tape).delta("1", "One").stored(void("1")), "", "One", true},
		"less is said":         {new(tape).delta("1", "One two").stored(void("1")).text("2", "One"), "", "One two", true},
		"both void, in one":    {new(tape).delta("1", "a").delta("2", "b").stored(void("1", "2")).text("3", "a\n\nbc"), "", "a\n\nbc", false},
		"the first alone void": {new(tape).delta("1", "a").delta("2", "b").stored(void("1")), "", "a\n\nb", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := play(c.l, c.end)
			require.Equal(t, c.want, got)
			require.Equal(t, c.err, err != nil, "%v", err)
		})
	}
}
