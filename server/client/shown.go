package client

import (
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/tail"
)

// shown is what a reader of a stream has seen, so that another connection goes on behind it. A
// server that was restarted counts deltas anew, and knows nothing of those that its predecessor
// has shown: so the stream is asked for behind the last stored event, and what came is left out.
type shown struct {
	from session.Position // where a connection begins: what came behind it is known
	last session.Position
	ids  map[string]bool // of the partial events behind from
	open []*block
}

// block is words that were shown in part.
type block struct {
	first *event.Event
	words strings.Builder
	doubt bool // the connection was lost since it was heard of
}

// words returns those of an event that comes in parts.
func words(e *event.Event) (text string, ok bool) {
	switch d := e.Data.(type) {
	case *event.Text:
		return d.Content, true
	case *event.Reasoning:
		return d.Content, true
	}
	return "", false
}

// doubt notes that the connection was lost.
func (s *shown) doubt() {
	for _, b := range s.open {
		b.doubt = true
	}
}

// take takes in an event and returns what is to be shown for it: nothing if it came before, and
// first what puts right that was shown.
func (s *shown) take(at session.Position, e *event.Event) (out []session.Entry) {
	if at.Seq < s.from.Seq || !e.Partial && at.Seq == s.from.Seq || e.Partial && at.Compare(s.last) <= 0 && s.ids[e.ID] {
		return nil
	}
	text, speaks := words(e)
	i := slices.IndexFunc(s.open, func(b *block) bool { return b.first.ID == e.ID })
	if d, ok := e.Data.(*event.Discard); ok {
		s.open = slices.DeleteFunc(s.open, func(b *block) bool { return slices.Contains(d.IDs, b.first.ID) })
	} else if i < 0 && (speaks || !e.Partial) {
		out = s.settle(e)
	}
	if speaks && e.Partial {
		if i < 0 {
			i, s.open = len(s.open), append(s.open, &block{first: e})
		}
		s.open[i].words.WriteString(text)
		s.open[i].doubt = false
	} else if speaks && i >= 0 {
		out = s.complete(s.open[i], e, text)
		s.open = slices.Delete(s.open, i, i+1)
	}
	if s.last = at; !e.Partial {
		s.from, s.ids = at, nil
	} else if s.ids == nil {
		s.ids = make(map[string]bool)
	}
	if e.Partial {
		s.ids[e.ID] = true
	}
	return append(out, session.Entry{ID: at.String(), Event: e})
}

// complete returns what was not shown yet of the words of a complete event, or takes back what
// was if they are others.
func (s *shown) complete(b *block, e *event.Event, text string) []session.Entry {
	rest, begins := strings.CutPrefix(text, b.words.String())
	if !begins {
		return []session.Entry{s.discard(b)}
	}
	if e.Streamed = true; rest == "" {
		return nil
	}
	delta := *b.first
	delta.Data = &event.Text{Content: rest}
	if e.Type() == event.TypeReasoning {
		delta.Data = &event.Reasoning{Content: rest}
	}
	return []session.Entry{{ID: s.last.String(), Event: &delta}}
}

// settle takes back words in doubt that an event shows to be void, because their run has gone on
// without them; nil takes back all.
func (s *shown) settle(e *event.Event) (out []session.Entry) {
	s.open = slices.DeleteFunc(s.open, func(b *block) bool {
		void := b.doubt && (e == nil || e.Type() == event.TypeUser || e.RunID == b.first.RunID && (!e.Partial || e.Type() == b.first.Type()))
		if void {
			out = append(out, s.discard(b))
		}
		return void
	})
	return out
}

// discard takes back a block.
func (s *shown) discard(b *block) session.Entry {
	e := *b.first
	e.ID += ":discard"
	e.Data = &event.Discard{IDs: []string{b.first.ID}, Code: tail.CodeInterrupted, Message: "the connection was lost before this was complete"}
	return session.Entry{ID: s.last.String(), Event: &e}
}
