package responses

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// tape contains the entries of a turn, as a store and a tail yield them, and the items that the log contains.
type tape struct {
	at      session.Position
	entries []session.Entry
	want    []string
	ids     []string // of the blocks of these items
}

func (l *tape) add(e event.Event) *tape {
	if l.at.Part++; !e.Partial {
		l.at = session.Position{Seq: l.at.Seq + 1}
		e.Seq = l.at.Seq
	}
	e.TurnID, e.RunID, e.Agent, e.Time = "t1", "r1", "support", time.Unix(1e9, 0)
	l.entries = append(l.entries, session.Entry{ID: l.at.String(), Event: &e})
	return l
}

func (l *tape) item(id, text string) { l.want, l.ids = append(l.want, text), append(l.ids, id) }

func (l *tape) delta(id, text string) *tape {
	return l.add(event.Event{ID: id, Partial: true, Data: &event.Text{Content: text}})
}

func (l *tape) text(id, text string) *tape {
	l.item(id, text)
	return l.add(event.Event{ID: id, Data: &event.Text{Content: text}})
}

func (l *tape) discard(partial bool, code string, ids ...string) *tape {
	return l.add(event.Event{Partial: partial, Data: &event.Discard{Code: code, IDs: ids}})
}

func (l *tape) file(id string) *tape {
	l.item(id, "File: a.txt, text/plain, 3 bytes")
	return l.add(event.Event{ID: id, Data: &event.File{Name: "a.txt", MediaType: "text/plain", Size: 3}})
}

func (l *tape) relay(id, kind string) *tape {
	d := &event.Relay{Kind: kind, ToolCallID: "call-" + id, Tool: "pay", Message: "How much?"}
	if l.item(id, "pay"); kind == event.RelayInput {
		l.want[len(l.want)-1] = live.Question(d) + "Answer with your next message."
	}
	l.add(event.Event{ID: "call-" + id, Data: &event.ToolCall{Name: "pay"}})
	l.add(event.Event{ID: id, Data: d})
	return l.add(event.Event{Data: &event.RelayResolved{RelayID: id}})
}

func begun() *tape {
	hi := &event.User{Content: llm.Content{Text: "hi"}}
	return new(tape).add(event.Event{Data: hi}).add(event.Event{Data: &event.HarnessStart{}})
}

func (l *tape) ended() *tape {
	return l.add(event.Event{Data: &event.HarnessEnd{FinishReason: event.FinishReasonStop}})
}

// play sends the stream after a number to a client. keeps reports whether the tail still has the delta at a position.
func (l *tape) play(t require.TestingT, after int64, keeps func(session.Position) bool, send func(*Event)) {
	r := New(ID{Turn: "t1", Session: "s1"}, "support")
	r.Send = func(_ string, data []byte) error {
		ev := must.JSON[Event](data)
		send(&ev)
		return nil
	}
	r.Resume(after)
	rep := &live.Report{}
	for _, en := range l.entries {
		if at, _ := session.ParsePosition(en.ID); at.Part > 0 && !keeps(at) {
			continue
		}
		rep.Apply(en.Event)
		require.NoError(t, r.Apply(en, rep))
	}
	require.NoError(t, r.End())
}

// keep are ways of losing deltas. Each reports whether the tail still has the delta at a position.
var keep = []func(session.Position) bool{
	func(session.Position) bool { return true },
	func(session.Position) bool { return false },
	func(at session.Position) bool { return at.Part <= 1 },
	func(at session.Position) bool { return at.Part <= 3 },
	func(at session.Position) bool { return at.Part != 1 },
	func(at session.Position) bool { return at.Part != 2 },
	func(at session.Position) bool { return at.Seq > 3 },
}

// client is the state of a client that reads a response.
type client struct {
	last  int64
	items []*said
	ended bool
}

type said struct{ id, text, status string }

func (c *client) take(t require.TestingT, ev *Event) {
	require.Greater(t, ev.Number, c.last, ev.Type)
	require.False(t, c.ended, "%s follows the end", ev.Type)
	c.last = ev.Number
	if ev.OutputIndex == nil {
		c.ended = strings.HasSuffix(ev.Type, "completed")
		return
	}
	if ev.Type == "response.output_item.added" {
		require.Len(t, c.items, *ev.OutputIndex)
		c.items = append(c.items, &said{id: ev.Item.ID, text: ev.Item.Name})
		return
	}
	require.Less(t, *ev.OutputIndex, len(c.items), ev.Type)
	item := c.items[*ev.OutputIndex]
	require.Empty(t, item.status, "%s follows the end of item %d", ev.Type, *ev.OutputIndex)
	switch ev.Type {
	case "response.output_text.delta":
		item.text += *ev.Delta
	case "response.output_text.done":
		require.Equal(t, *ev.Text, item.text)
	case "response.output_item.done":
		if item.status = ev.Item.Status; item.status == "" {
			item.status = "completed"
		}
	}
}

func (c *client) clone() *client {
	b := &client{last: c.last, ended: c.ended}
	for _, item := range c.items {
		b.items = append(b.items, &said{item.id, item.text, item.status})
	}
	return b
}

// whole checks that the client has every item of the log once.
func (c *client) whole(t require.TestingT, want []string) {
	require.True(t, c.ended)
	var got []string
	for i, item := range c.items {
		require.NotEmpty(t, item.status, "item %d does not end", i)
		if item.status == "completed" {
			got = append(got, item.text)
		}
	}
	require.Equal(t, want, got)
}

// mixes reports whether the client was cut off in a text and the log has another text under the same id. If the deltas
// are lost, the number cannot tell them apart.
func (l *tape) mixes(c *client) bool {
	n := 0
	for _, item := range c.items {
		if item.status == "completed" {
			n++
		}
	}
	if len(c.items) == 0 || n == len(l.want) {
		return false
	}
	last := c.items[len(c.items)-1]
	same := strings.HasPrefix(last.id, fmt.Sprintf("msg_%d_%x@", n, hashOf(l.ids[n])))
	return last.status == "" && same && !strings.HasPrefix(l.want[n], last.text)
}

// resumed cuts a client off after each event of the stream and lets it resume, then cuts it off and resumes once more.
func (l *tape) resumed(t require.TestingT, again int) {
	all := &client{last: -1}
	var stream []*Event
	l.play(t, -1, keep[0], func(ev *Event) {
		stream = append(stream, ev)
		all.take(t, ev)
	})
	all.whole(t, l.want)
	had := &client{last: -1}
	for i, ev := range stream[:len(stream)-1] {
		had.take(t, ev)
		for _, k := range []int{0, 1, 2 + (again+i)%(len(keep)-2)} {
			if l.mixes(had) && k != 0 {
				continue
			}
			back, cut := had.clone(), (*client)(nil)
			n := 0
			l.play(t, had.last, keep[k], func(ev *Event) {
				back.take(t, ev)
				if n++; n == 1+again%7 {
					cut = back.clone()
				}
			})
			back.whole(t, l.want)
			if cut != nil && !cut.ended && !l.mixes(cut) {
				l.play(t, cut.last, keep[(again+i+k)%len(keep)], func(ev *Event) { cut.take(t, ev) })
				cut.whole(t, l.want)
			}
		}
	}
}

// A client that resumes after a block was taken back gets the text once when it comes whole under the same id.
func TestResumed(t *testing.T) {
	for name, l := range map[string]*tape{
		"interrupted and whole": begun().delta("i", "One ").delta("i", "two").
			discard(true, event.CodeInterrupted, "i").text("i", "One two three."),
		"other words": begun().delta("i", "One ").delta("i", "two").text("i", "Other words."),
	} {
		t.Run(name, func(t *testing.T) { l.ended().resumed(t, 0) })
	}
}

// A client that has seen a block taken back is shown the next one word by word.
func TestResumedShowsWhatIsNew(t *testing.T) {
	l := begun().delta("i", "One ").discard(true, "retry", "i").delta("j", "Two ").delta("j", "three").text("j", "Two three").ended()
	var stream, rest []*Event
	l.play(t, -1, keep[0], func(ev *Event) { stream = append(stream, ev) })
	i := slices.IndexFunc(stream, func(ev *Event) bool { return ev.Type == "response.output_item.done" })
	l.play(t, stream[i].Number, keep[0], func(ev *Event) { rest = append(rest, ev) })
	require.Equal(t, stream[i+1:], rest)
}

// A client can resume after any event, whatever the tail has lost: it gets the text that it does not have, and none twice.
func TestResumedProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := begun()
		type block struct {
			id, text string
			shown    int
		}
		var open []*block
		ids := 0
		id := func() string { ids++; return fmt.Sprint("i", ids) }
		whole := func(b *block) {
			text := b.text
			if b.shown > 0 && rapid.IntRange(0, 3).Draw(t, "differs") == 0 {
				begins := []string{"Or ", "Another text, which is longer than the first. ", text[:1] + "-"}
				text = rapid.SampledFrom(begins).Draw(t, "begins") + text
			}
			l.text(b.id, text)
		}
		discard := func(b *block) {
			if b.shown == 0 {
				return
			}
			if rapid.Bool().Draw(t, "interrupted") {
				l.discard(true, event.CodeInterrupted, b.id)
				whole(b)
				return
			}
			l.discard(rapid.Bool().Draw(t, "partial"), "retry", b.id)
		}
		take := func() *block {
			i := rapid.IntRange(0, len(open)-1).Draw(t, "block")
			b := open[i]
			open = slices.Delete(open, i, i+1)
			return b
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 11).Draw(t, "step"); {
			case what == 0:
				l.file(id())
			case what == 1:
				l.relay(id(), rapid.SampledFrom([]string{event.RelayInput, event.RelayPermission}).Draw(t, "kind"))
			case what == 2:
				l.add(event.Event{ID: id(), Data: &event.Reasoning{Content: "Hm."}})
			case len(open) == 0 || what == 3 && len(open) < 3:
				words := []string{"One ", "two ", "wörds. ", strings.Repeat("long€ ", 200)}
				text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 5).Draw(t, "words"), "")
				open = append(open, &block{id: id(), text: text})
			case what == 4:
				whole(take())
			case what == 5:
				discard(take())
			default:
				b := open[rapid.IntRange(0, len(open)-1).Draw(t, "says")]
				n := min(b.shown+rapid.SampledFrom([]int{1, 4, 9, 1300}).Draw(t, "bytes"), len(b.text))
				if n = runeStart([]byte(b.text), n); n > b.shown {
					l.delta(b.id, b.text[b.shown:n])
					b.shown = n
				}
			}
		}
		for len(open) > 0 {
			if b := take(); rapid.Bool().Draw(t, "whole") {
				whole(b)
			} else {
				discard(b)
			}
		}
		l.ended().resumed(t, rapid.IntRange(0, 50).Draw(t, "again"))
	})
}
