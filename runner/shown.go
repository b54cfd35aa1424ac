package runner

import (
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// unstored has the shown blocks and the usage that are not yet in the log.
type unstored struct {
	shown shownBlocks
	used  map[string]*spentUnstored // by scope, under a budget
}

// spentUnstored is the usage of a scope's answers that the log lacks. Model is that of the last answer.
type spentUnstored struct {
	event.Usage
	answers int
}

// noteUsed notes the usage of an answer that has ended.
func (u *unstored) noteUsed(scope, model string, used llm.Usage) {
	if u.used == nil {
		u.used = make(map[string]*spentUnstored)
	}
	if u.used[scope] == nil {
		u.used[scope] = &spentUnstored{}
	}
	used, _ = used.Plausible()
	sum := u.used[scope]
	sum.answers++
	sum.Model = model
	sum.InputTokens += used.InputTokens
	sum.OutputTokens += used.OutputTokens
	sum.CachedTokens += used.CachedTokens
}

// noteStored removes what a stored event completes.
func (u *unstored) noteStored(e *event.Event) {
	u.shown.settleShown(e)
	stored, sum := usageIn(e), u.used[e.Scope]
	if stored == nil || sum == nil {
		return
	}
	if sum.answers--; sum.answers <= 0 {
		delete(u.used, e.Scope)
		return
	}
	sum.InputTokens = max(0, sum.InputTokens-stored.InputTokens)
	sum.OutputTokens = max(0, sum.OutputTokens-stored.OutputTokens)
	sum.CachedTokens = max(0, sum.CachedTokens-stored.CachedTokens)
}

// usageIn returns the usage of an answer that an event stores, or nil. An early request has no part in unstored.
func usageIn(e *event.Event) *event.Usage {
	switch d := e.Data.(type) {
	case *event.Usage:
		return d
	case *event.Discard:
		if d.Code != event.CodeAnticipated {
			return d.Usage
		}
	}
	return nil
}

// discardUnfinished returns the discard of an answer of a scope that will not be completed: for the consumer, which is
// to drop the deltas, and for budgets. It is nil if neither the consumer nor the log needs one. The events are those of
// the next write.
func (u *unstored) discardUnfinished(scope string, events []*event.Event, code, message string) event.Data {
	var used *event.Usage
	if sum := u.used[scope]; sum != nil && !slices.ContainsFunc(events, func(e *event.Event) bool { return e.Scope == scope && usageIn(e) != nil }) {
		of := sum.Usage
		used = &of
	}
	ids := u.shown.unfinished(scope, events)
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

// shownBlocks are blocks of which only deltas were shown so far.
type shownBlocks []block

// addShown records that a delta of a block was shown. The block must later be completed or discarded.
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

// settleShown removes the blocks that a stored event completes or discards. If deltas of the event's own block were
// shown, it marks the event as streamed.
func (s *shownBlocks) settleShown(e *event.Event) {
	if len(*s) > 0 {
		e.Streamed = slices.Contains(*s, block{e.Scope, e.ID})
		*s = slices.DeleteFunc(*s, func(b block) bool { return b.settledBy(e) })
	}
}
