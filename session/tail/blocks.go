package tail

import (
	"slices"
	"time"

	"github.com/agentarbor/arbor/event"
)

// OpenBlocks is the blocks of a session that were shown in part and have no complete
// event yet. It is for implementations of [session.Tail], which void such blocks when the turn
// that streamed them has ended. The zero value has none.
type OpenBlocks struct {
	first   []*event.Event // the first delta of each, oldest first
	settled map[string]struct{}
}

// Show takes in a partial event that is to be shown; the event must not change any
// more. It reports false for one that comes after its block was completed or voided,
// which must not be shown.
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

// Settle takes in a stored event: its block is complete, or the blocks are void that
// it names.
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

// CodeInterrupted is the code of a discard that nobody's log has: the turn that
// streamed the blocks was cut off.
const CodeInterrupted = "interrupted"

// Discard returns the partial events that void the open blocks, one for each run, and
// forgets all blocks: the turn is over.
func (b *OpenBlocks) Discard(now time.Time) []*event.Event {
	var out []*event.Event
	for _, first := range b.first {
		i := slices.IndexFunc(out, func(e *event.Event) bool { return e.RunID == first.RunID })
		if i < 0 {
			i = len(out)
			out = append(out, &event.Event{ID: first.ID + ":discard", TurnID: first.TurnID, RunID: first.RunID, Scope: first.Scope,
				Agent: first.Agent, Path: first.Path, Time: now.UTC(), Partial: true, Attempt: first.Attempt,
				Data: &event.Discard{Code: CodeInterrupted, Message: "the turn was cut off before this was complete"}})
		}
		d := out[i].Data.(*event.Discard)
		d.IDs = append(d.IDs, first.ID)
	}
	*b = OpenBlocks{}
	return out
}
