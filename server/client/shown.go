package client

import (
	"slices"

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
	log  session.Reader

	doubts []*session.Block // that were shown in part before the connection was lost
}

// doubt notes that the connection was lost.
func (s *shown) doubt() { s.doubts = slices.Clone(s.log.Blocks) }

// take takes in an event and returns what is to be shown for it: nothing if it came before, and
// first what puts right that was shown.
func (s *shown) take(at session.Position, e *event.Event) (out []session.Entry) {
	if at.Seq < s.from.Seq || !e.Partial && at.Seq == s.from.Seq || e.Partial && at.Compare(s.last) <= 0 && s.ids[e.ID] {
		return nil
	}
	known := slices.ContainsFunc(s.log.Blocks, func(b *session.Block) bool { return b.ID == e.ID })
	rec := s.log.Next(e)
	if e.Type() != event.TypeDiscard {
		for _, b := range rec.Void { // others were shown
			out = append(out, s.discard(b))
		}
		if !known && (rec.Block != nil || !e.Partial) {
			out = append(out, s.settle(e)...)
		}
	}
	switch b := rec.Block; {
	case b == nil:
	case e.Partial:
		s.doubts = slices.DeleteFunc(s.doubts, func(d *session.Block) bool { return d == b })
	case !rec.Fresh:
		if e.Streamed = true; rec.News != "" {
			out = append(out, s.delta(b, rec.News))
		}
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

// delta shows what was not shown yet of the words of a complete block.
func (s *shown) delta(b *session.Block, rest string) session.Entry {
	delta := *b.Event
	delta.Data = &event.Text{Content: rest}
	if b.Type() == event.TypeReasoning {
		delta.Data = &event.Reasoning{Content: rest}
	}
	return session.Entry{ID: s.last.String(), Event: &delta}
}

// settle takes back words in doubt that an event shows to be void, because their run has gone on
// without them; nil takes back all.
func (s *shown) settle(e *event.Event) (out []session.Entry) {
	s.log.Blocks = slices.DeleteFunc(s.log.Blocks, func(b *session.Block) bool {
		void := slices.Contains(s.doubts, b) &&
			(e == nil || e.Type() == event.TypeUser || e.RunID == b.RunID && (!e.Partial || e.Type() == b.Type()))
		if void {
			out = append(out, s.discard(b))
		}
		return void
	})
	return out
}

// discard takes back a block.
func (s *shown) discard(b *session.Block) session.Entry {
	e := *b.Event
	e.ID += ":discard"
	e.Data = &event.Discard{IDs: []string{b.ID}, Code: tail.CodeInterrupted, Message: "the connection was lost before this was complete"}
	return session.Entry{ID: s.last.String(), Event: &e}
}
