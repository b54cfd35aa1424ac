package runner

import (
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// unstored is what the log lacks of answers, complete or not.
type unstored struct {
	shown shownBlocks
	used  map[string]*event.Usage // by scope, under a budget: the usage of the last answer
}

// noteUsed notes the usage of an answer that has ended.
func (u *unstored) noteUsed(scope, model string, used llm.Usage) {
	if u.used == nil {
		u.used = make(map[string]*event.Usage)
	}
	used, _ = used.Plausible()
	u.used[scope] = &event.Usage{InputTokens: used.InputTokens, OutputTokens: used.OutputTokens, CachedTokens: used.CachedTokens, Model: model}
}

// settle takes in a stored event.
func (u *unstored) settle(e *event.Event) {
	u.shown.settleShown(e)
	if d, ok := e.Data.(*event.Discard); isAnswer(e) && !(ok && d.Code == event.CodeAnticipated) {
		delete(u.used, e.Scope)
	}
}

// void returns the discard of an answer of a scope that will not be completed: for the consumer, which is to drop the
// deltas, and for budgets. It is nil if neither the consumer nor the log needs one. The events are those of the next write.
func (u *unstored) void(scope string, events []*event.Event, code, message string) event.Data {
	ids, used := u.shown.unfinished(scope, events), u.used[scope]
	if used != nil && slices.ContainsFunc(events, func(e *event.Event) bool {
		d, ok := e.Data.(*event.Discard)
		return e.Scope == scope && isAnswer(e) && !(ok && d.Usage == nil)
	}) {
		used = nil
	}
	if len(ids) == 0 && used == nil {
		return nil
	}
	return &event.Discard{Code: code, Message: message, IDs: ids, Usage: used}
}

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
