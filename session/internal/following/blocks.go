package following

import (
	"slices"
	"time"

	"github.com/agentarbor/arbor/event"
)

// OpenBlocks tracks the blocks of a session that were shown in part and have no complete event yet. Implementations
// of [session.Tail] use it to make such blocks void when the turn that streamed them has ended. The zero value has no
// blocks. It is not safe for concurrent use.
type OpenBlocks struct {
	first   []*event.Event      // the first delta of each block, oldest first
	settled map[string]struct{} // the ids of the blocks that are complete or void
}

// Show records a partial event before it is published. The event must not change afterwards. Show returns false if
// the event's block is complete or void already; the caller must not publish it then.
func (b *OpenBlocks) Show(e *event.Event) bool {
	if e.ID == "" {
		return true
	}
	switch d := e.Data.(type) {
	case *event.Discard:
		b.void(d.IDs)
		return true
	case *event.Notice:
		return true
	}
	for _, first := range b.first {
		if first.ID == e.ID {
			return true
		}
	}
	if _, late := b.settled[e.ID]; late {
		return false
	}
	b.first = append(b.first, e)
	return true
}

// Settle records a stored event. It completes its block, or makes void the blocks that it discards.
func (b *OpenBlocks) Settle(e *event.Event) {
	switch d := e.Data.(type) {
	case *event.Discard:
		b.void(d.IDs)
	case *event.Text, *event.Reasoning, *event.ToolCall, *event.ToolProgress, *event.ToolResult:
		b.void([]string{e.ID})
	}
}

func (b *OpenBlocks) void(ids []string) {
	b.first = slices.DeleteFunc(b.first, func(e *event.Event) bool { return slices.Contains(ids, e.ID) })
	for _, id := range ids {
		if b.settled == nil {
			b.settled = make(map[string]struct{})
		}
		b.settled[id] = struct{}{}
	}
}

// Discard returns partial events that make the open blocks void, one event for each run. now is their time.
// Afterwards b is empty.
func (b *OpenBlocks) Discard(now time.Time) []*event.Event {
	var out []*event.Event
	for _, first := range b.first {
		i := slices.IndexFunc(out, func(e *event.Event) bool { return e.RunID == first.RunID })
		if i < 0 {
			i = len(out)
			out = append(out, &event.Event{ID: first.ID + ":discard", TurnID: first.TurnID, RunID: first.RunID, Scope: first.Scope,
				Agent: first.Agent, Path: first.Path, Time: now.UTC(), Partial: true, Attempt: first.Attempt,
				Data: &event.Discard{Code: event.CodeInterrupted, Message: "the turn was interrupted before this text was complete"}})
		}
		d := out[i].Data.(*event.Discard)
		d.IDs = append(d.IDs, first.ID)
	}
	*b = OpenBlocks{}
	return out
}
