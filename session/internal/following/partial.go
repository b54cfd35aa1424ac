package following

import (
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// CheckPartial returns an error that is [agent.ErrBadInput] if an event cannot be published: it has no payload or a
// control value, it is not partial, or it has a position. Implementations of [session.Tail] call it first.
func CheckPartial(key session.Key, events []*event.Event) error {
	for _, e := range events {
		switch {
		case e == nil || e.Data == nil:
			return fmt.Errorf("session %s: a partial event has no payload: %w", key, agent.ErrBadInput)
		case !e.Partial || e.Seq != 0:
			return fmt.Errorf("session %s: event %s is not partial: only deltas are published: %w", key, e.ID, agent.ErrBadInput)
		}
		switch e.Data.(type) {
		case *event.Continue, *event.Finish:
			return fmt.Errorf("session %s: a %s event is a control value and cannot be published: %w", key, e.Type(), agent.ErrBadInput)
		}
	}
	return nil
}

// Size estimates the memory that a partial event uses, in bytes.
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
