package runner

import (
	"slices"

	"github.com/agentarbor/arbor/event"
)

// block is a block whose deltas are shown, in its scope.
type block struct{ scope, id string }

// showing notes that a delta of a scope is shown: its block is to be stored as a whole,
// or discarded.
func (t *turn) showing(scope, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := (block{scope, id}); !slices.Contains(t.shown, b) {
		t.shown = append(t.shown, b)
	}
}

// unsettled returns the blocks of a scope whose deltas were shown, and which are not
// completed or discarded in the log or in the events of the next write. The caller
// holds mu.
func (t *turn) unsettled(scope string, events []*event.Event) (ids []string) {
	for _, b := range t.shown {
		if b.scope == scope && !slices.ContainsFunc(events, b.settledBy) {
			ids = append(ids, b.id)
		}
	}
	return ids
}

// settle updates the blocks whose deltas were shown by a stored event, and marks a
// whole block whose deltas were shown. The caller holds mu.
func (t *turn) settle(e *event.Event) {
	if len(t.shown) == 0 {
		return
	}
	e.Streamed = slices.Contains(t.shown, block{e.Scope, e.ID})
	t.shown = slices.DeleteFunc(t.shown, func(b block) bool { return b.settledBy(e) })
}

// settledBy reports whether an event completes or discards the block.
func (b block) settledBy(e *event.Event) bool {
	switch d := e.Data.(type) {
	case *event.Text, *event.Reasoning:
		return e.Scope == b.scope && e.ID == b.id
	case *event.Discard:
		return e.Scope == b.scope && slices.Contains(d.IDs, b.id)
	}
	return false
}
