package tail

import (
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Partials returns copies of events that are to be published, since the caller's may
// change. The error is [agent.ErrBadInput] for an event without payload, one that is not
// partial or has a position, and a control value. It is for implementations of
// [session.Tail], which call it first.
func Partials(key session.Key, events []*event.Event) ([]event.Event, error) {
	own := make([]event.Event, len(events))
	for i, e := range events {
		switch {
		case e == nil || e.Data == nil:
			return nil, fmt.Errorf("session %s: a partial event has no payload: %w", key, agent.ErrBadInput)
		case !e.Partial || e.Seq != 0:
			return nil, fmt.Errorf("session %s: event %s is not partial: only deltas are published: %w", key, e.ID, agent.ErrBadInput)
		}
		switch e.Data.(type) {
		case *event.Continue, *event.Finish:
			return nil, fmt.Errorf("session %s: a %s event is never shown: %w", key, e.Type(), agent.ErrBadInput)
		}
		own[i] = *e
	}
	return own, nil
}

// Size estimates what a partial event takes in memory, in bytes.
func Size(e *event.Event) int {
	const envelope = 320
	switch d := e.Data.(type) {
	case *event.Text:
		return envelope + len(d.Content)
	case *event.Reasoning:
		return envelope + len(d.Content)
	case *event.ToolCall:
		return envelope + len(d.Input)
	case *event.ToolProgress:
		return envelope + len(d.Content)
	case *event.ToolResult:
		return envelope + len(d.Output)
	}
	return 2 * envelope
}
