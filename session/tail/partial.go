package tail

import (
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// CheckPartial returns an error that is [agent.ErrBadInput] unless all events can be published: each has a payload that is not a
// control value, is partial and has no position. It is for implementations of [session.Tail], which call it first.
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
			return fmt.Errorf("session %s: a %s event is never shown: %w", key, e.Type(), agent.ErrBadInput)
		}
	}
	return nil
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
