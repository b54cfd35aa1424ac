package runner

import (
	"slices"

	"github.com/agentarbor/arbor/event"
)

// block is a block whose deltas are shown, in its scope.
type block struct{ scope, id string }

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

// shownBlocks are the blocks whose deltas were shown, but not yet the whole.
type shownBlocks []block

// addShown notes that a delta is shown: its block is to be stored as a whole, or discarded.
func (s *shownBlocks) addShown(b block) {
	if !slices.Contains(*s, b) {
		*s = append(*s, b)
	}
}

// unfinished returns the blocks of a scope that are not completed or discarded in the log or in the events
// of the next write.
func (s shownBlocks) unfinished(scope string, events []*event.Event) (ids []string) {
	for _, b := range s {
		if b.scope == scope && !slices.ContainsFunc(events, b.settledBy) {
			ids = append(ids, b.id)
		}
	}
	return ids
}

// settleShown takes in a stored event, and marks a whole block whose deltas were shown.
func (s *shownBlocks) settleShown(e *event.Event) {
	if len(*s) > 0 {
		e.Streamed = slices.Contains(*s, block{e.Scope, e.ID})
		*s = slices.DeleteFunc(*s, func(b block) bool { return b.settledBy(e) })
	}
}
