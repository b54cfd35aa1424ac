package runner

import (
	"context"

	"github.com/agentarbor/arbor/event"
)

// consumer is the sink of the conversation. It delivers events to the loop that ranges over the turn.
type consumer struct {
	*delivery
	yield     func(*event.Event, error) bool
	delivered int                 // how much of the turn's log it has
	whole     map[string]struct{} // the blocks of inner scopes that it has to the end
}

// store implements sink.
func (c *consumer) store(ctx context.Context, events []*event.Event) error {
	return c.turn.appendEvents(ctx, events)
}

// show implements sink.
func (c *consumer) show(e *event.Event) bool {
	if !e.Partial { // its turn comes in the order of the log
		return c.deliver()
	}
	if _, late := c.whole[e.ID]; late { // it was slower on its way out of an inner scope
		return true
	}
	return c.yieldEvent(e, c.yield)
}

// deliver hands over all stored events that the consumer does not have yet, in the order
// of the log.
func (c *consumer) deliver() bool {
	for t := c.turn; ; {
		t.mu.Mutex.Lock() // what it has stored stays the turn's
		rest := t.log[c.delivered:]
		t.mu.Unlock()
		if len(rest) == 0 {
			return true
		}
		for _, e := range rest {
			c.delivered++
			c.complete(e)
			if !c.yieldEvent(e, c.yield) {
				return false
			}
		}
	}
}

// complete notes that no delta of an inner scope's block may follow any more.
func (c *consumer) complete(e *event.Event) {
	if e.Scope == "" || !c.turn.r.streaming {
		return
	}
	var ids []string
	switch d := e.Data.(type) {
	case *event.Text, *event.Reasoning:
		ids = []string{e.ID}
	case *event.Discard:
		ids = d.IDs
	}
	for _, id := range ids {
		if c.whole == nil {
			c.whole = make(map[string]struct{})
		}
		c.whole[id] = struct{}{}
	}
}
