package runner

import (
	"slices"

	"github.com/agentarbor/arbor/agent"
)

// showing notes that a delta of a scope is shown: its block is to be stored as a whole,
// or discarded.
func (t *turn) showing(scope, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := t.shown[scope]
	if slices.Contains(ids, id) {
		return
	}
	if t.shown == nil {
		t.shown = make(map[string][]string)
	}
	t.shown[scope] = append(ids, id)
}

// unsettled returns the blocks of a scope of which deltas were shown and which neither
// the log nor the events of the next write complete or discard. The caller holds mu.
func (t *turn) unsettled(scope string, events []*agent.Event) []string {
	if len(t.shown[scope]) == 0 {
		return nil
	}
	ids := slices.Clone(t.shown[scope])
	for _, e := range events {
		ids = without(ids, e)
	}
	return ids
}

// settle takes in what a stored event says about blocks of which deltas were shown. The
// caller holds mu.
func (t *turn) settle(e *agent.Event) {
	ids, ok := t.shown[e.Scope]
	if !ok {
		return
	}
	if ids = without(ids, e); len(ids) > 0 || e.Scope == "" { // its room is used again
		t.shown[e.Scope] = ids
	} else {
		delete(t.shown, e.Scope)
	}
}

// without returns ids without those that an event completes or discards.
func without(ids []string, e *agent.Event) []string {
	switch d := e.Data.(type) {
	case *agent.Text, *agent.Reasoning:
		return slices.DeleteFunc(ids, func(id string) bool { return id == e.ID })
	case *agent.Discard:
		return slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(d.IDs, id) })
	}
	return ids
}
