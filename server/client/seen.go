package client

import (
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// seen records the entries that the consumer of a stream has received, so that another connection can continue the
// stream. A restarted server numbers deltas anew. Therefore the client asks for the stream after the last stored event,
// and skips the deltas that it has yielded.
type seen struct {
	from session.Position // the last stored event, after which a connection starts
	last session.Position
	ids  map[string]bool // the ids of the partial events after from
	log  session.Reader

	unconfirmed []*session.Block // blocks that were incomplete when the connection was lost
}

// disconnected records that the connection was lost.
func (s *seen) disconnected() { s.unconfirmed = slices.Clone(s.log.Blocks) }

// add adds an event and returns the entries to yield for it: none for an event that was yielded before. The first entries
// correct text that was yielded.
func (s *seen) add(at session.Position, e *event.Event) (out []session.Entry) {
	if at.Seq < s.from.Seq || !e.Partial && at.Seq == s.from.Seq || e.Partial && at.Compare(s.last) <= 0 && s.ids[e.ID] {
		return nil
	}
	known := slices.ContainsFunc(s.log.Blocks, func(b *session.Block) bool { return b.ID == e.ID })
	rec := s.log.Next(e)
	if e.Type() != event.TypeDiscard {
		for _, b := range rec.Void { // other blocks were yielded
			out = append(out, s.discard(b))
		}
		if !known && (rec.Block != nil || !e.Partial) {
			out = append(out, s.retract(e)...)
		}
	}
	switch b := rec.Block; {
	case b == nil:
	case e.Partial:
		s.unconfirmed = slices.DeleteFunc(s.unconfirmed, func(d *session.Block) bool { return d == b })
	case !rec.Fresh:
		if e.Streamed = true; rec.NewText != "" {
			out = append(out, s.missing(b, rec.NewText))
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

// missing returns a delta with the text of a complete block that was not yielded yet.
func (s *seen) missing(b *session.Block, rest string) session.Entry {
	delta := *b.Event
	delta.Data = &event.Text{Content: rest}
	if b.Type() == event.TypeReasoning {
		delta.Data = &event.Reasoning{Content: rest}
	}
	return session.Entry{ID: s.last.String(), Event: &delta}
}

// retract returns discards of unconfirmed blocks that are void, because the event shows that their run continued without
// them. If e is nil, it discards all unconfirmed blocks.
func (s *seen) retract(e *event.Event) (out []session.Entry) {
	s.log.Blocks = slices.DeleteFunc(s.log.Blocks, func(b *session.Block) bool {
		void := slices.Contains(s.unconfirmed, b) &&
			(e == nil || e.Type() == event.TypeUser || e.RunID == b.RunID && (!e.Partial || e.Type() == b.Type()))
		if void {
			out = append(out, s.discard(b))
		}
		return void
	})
	return out
}

// discard returns an entry that discards a block.
func (s *seen) discard(b *session.Block) session.Entry {
	e := *b.Event
	e.ID += ":discard"
	e.Data = &event.Discard{IDs: []string{b.ID}, Code: event.CodeInterrupted, Message: "the connection was lost before this was complete"}
	return session.Entry{ID: s.last.String(), Event: &e}
}
