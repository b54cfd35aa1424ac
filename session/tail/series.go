package tail

import (
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/following"
)

// series is what a [Tail] keeps of consecutive partial events: one event of any kind, or up to maxDeltas deltas of one
// block. These differ only in their text and their time, and an answer has thousands of them.
type series struct {
	at    session.Position // of the first event
	first *event.Event
	text  []byte  // the text of the deltas after the first, one after the other
	rest  []delta // the deltas after the first
}

type delta struct {
	end   int           // where its text ends
	after time.Duration // its time since the first one
}

// A Tail drops whole series.
const (
	maxDeltas = 256
	maxText   = 64 << 10 // bytes, beyond which no delta is added
	deltaSize = 32       // the memory of a delta without its text, in bytes
)

// last returns the position of the last event.
func (s *series) last() session.Position {
	return session.Position{Seq: s.at.Seq, Part: s.at.Part + int64(len(s.rest))}
}

// add adds the event at a position if it belongs to the series. It returns the memory that this takes, in bytes, and 0
// if the event does not belong to it.
func (s *series) add(at session.Position, e *event.Event) int {
	next := s.last()
	next.Part++
	text, common, payload := split(e)
	_, c, p := split(s.first)
	if at != next || c != common || p != payload || len(s.rest) == maxDeltas || len(s.text) > maxText {
		return 0
	}
	s.text = append(s.text, text...)
	s.rest = append(s.rest, delta{len(s.text), e.Time.Sub(s.first.Time)})
	return deltaSize + len(text)
}

// split returns the text of an event, and what all deltas of its block have in common.
func split(e *event.Event) (text string, common event.Event, payload any) {
	common = *e
	common.Time, common.Data = time.Time{}, nil
	switch d := e.Data.(type) {
	case *event.Text:
		return d.Content, common, event.Text{}
	case *event.Reasoning:
		return d.Content, common, event.Reasoning{Sealed: d.Sealed}
	}
	return "", common, e.Data
}

// entry returns the event at a position of the series.
func (s *series) entry(at session.Position) session.Entry {
	n := int(at.Part - s.at.Part)
	if n == 0 {
		return session.Entry{ID: at.String(), Event: s.first}
	}
	begin, d := 0, s.rest[n-1]
	if n > 1 {
		begin = s.rest[n-2].end
	}
	e, text := *s.first, string(s.text[begin:d.end])
	e.Time = e.Time.Add(d.after)
	if r, ok := e.Data.(*event.Reasoning); ok {
		e.Data = &event.Reasoning{Content: text, Sealed: r.Sealed}
	} else {
		e.Data = &event.Text{Content: text}
	}
	return session.Entry{ID: at.String(), Event: &e}
}

// size estimates the memory that the series uses, in bytes.
func (s *series) size() int {
	return following.Size(s.first) + len(s.text) + deltaSize*len(s.rest)
}
