package tail

import (
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// series is what a [Tail] keeps of consecutive partial events: one event of any kind, or up to maxDeltas deltas of one
// block. These differ only in their text and their time, and an answer has thousands of them.
type series struct {
	at    session.Position // of the first event
	first *event.Event
	rest  []delta         // the deltas after the first
	text  strings.Builder // their texts
	size  int             // an estimate of the memory that it uses, in bytes
}

type delta struct {
	end   int32         // of its text in the text of the series
	after time.Duration // its time since the first one
}

// A Tail drops whole series.
const (
	maxDeltas = 256
	maxSize   = 64 << 10 // bytes, beyond which no delta is added
	deltaSize = 24       // the memory of a delta besides its text, in bytes
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
	if p == nil || at != next || c != common || p != payload || len(s.rest) == maxDeltas || s.size > maxSize {
		return 0
	}
	size := deltaSize + len(text)
	s.text.WriteString(text)
	s.rest = append(s.rest, delta{int32(s.text.Len()), e.Time.Sub(s.first.Time)})
	s.size += size
	return size
}

// split returns the text of an event, and what all deltas of its block have in common. payload is nil if the event is no
// delta of a block.
func split(e *event.Event) (text string, common event.Event, payload any) {
	common = *e
	common.Time, common.Data = time.Time{}, nil
	switch d := e.Data.(type) {
	case *event.Text:
		return d.Content, common, event.Text{}
	case *event.Reasoning:
		return d.Content, common, event.Reasoning{Sealed: d.Sealed}
	}
	return "", common, nil
}

// entry returns the event at a position of the series.
func (s *series) entry(at session.Position) session.Entry {
	n := at.Part - s.at.Part
	if n == 0 {
		return session.Entry{ID: at.String(), Event: s.first}
	}
	d, begin := s.rest[n-1], int32(0)
	if n > 1 {
		begin = s.rest[n-2].end
	}
	text := s.text.String()[begin:d.end]
	var e *event.Event // one allocation with its payload, because an answer has thousands
	if r, ok := s.first.Data.(*event.Reasoning); ok {
		p := &struct {
			event   event.Event
			payload event.Reasoning
		}{*s.first, event.Reasoning{Content: text, Sealed: r.Sealed}}
		e, p.event.Data = &p.event, &p.payload
	} else {
		p := &struct {
			event   event.Event
			payload event.Text
		}{*s.first, event.Text{Content: text}}
		e, p.event.Data = &p.event, &p.payload
	}
	e.Time = e.Time.Add(d.after)
	return session.Entry{ID: at.String(), Event: e}
}
