package sessiontest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Turn yields the events of one call of a runner's method, and checks what consumers rely on. A violation fails the test
// without ending the turn.
//
//   - No event follows an error.
//   - Stored events come in the order of the log and without gaps. Results that were stored before may come first.
//   - The deltas of a block come before the stored block and contain the same text; those of an agent tool inside
//     another one may end earlier. A block that is not stored is discarded, at the latest at the end of the turn unless
//     a context ended the turn. In the conversation, only what was shown is discarded.
//
// If the store fails in mid-turn, break out of the loop at the error.
func Turn(t TB, events iter.Seq2[*event.Event, error]) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		c := &consumer{t: t, shown: make(map[string]string), over: make(map[string]bool), calls: make(map[string]string), late: make(map[string]bool)}
		for e, err := range events {
			c.take(e, err)
			if !yield(e, err) {
				return
			}
		}
		c.done()
	}
}

// consumer is the state of a turn as its consumer has it.
type consumer struct {
	t     TB
	seq   int64
	err   error
	shown map[string]string // by block
	over  map[string]bool   // blocks that are stored or discarded
	calls map[string]string // the scopes of calls
	late  map[string]bool   // scopes whose last deltas may be dropped
}

func (c *consumer) take(e *event.Event, err error) {
	switch {
	case c.err != nil:
		c.t.Errorf("something comes after the error %v: %+v, %v", c.err, e, err)
	case err != nil:
		c.err = err
	case e.Partial:
		if c.over[e.ID] || e.Seq != 0 {
			c.t.Errorf("a delta of a block that is over, or with a position: %+v", e)
		}
		c.shown[e.ID] += contentOf(e)
	default:
		c.stored(e)
	}
}

func (c *consumer) stored(e *event.Event) {
	_, result := e.Data.(*event.ToolResult)
	if c.seq > 0 && e.Seq != c.seq+1 {
		c.t.Errorf("seq %d is delivered after seq %d", e.Seq, c.seq)
	}
	if c.seq > 0 || !result { // else it may have been recorded before
		c.seq = e.Seq
	}
	switch d := e.Data.(type) {
	case *event.ToolCall:
		c.calls[e.ID] = e.Scope
	case *event.HarnessStart:
		scope, known := c.calls[e.ParentID]
		cause := known || strings.HasSuffix(e.ParentID, ":"+event.TypeHarnessStart) || strings.HasSuffix(e.ParentID, ":"+event.TypeHarnessEnd)
		takenUp := !known && event.ParentRun(e.Scope) == "" // the scope of a tool, which may be that of a tool in a tool
		c.late[e.Scope] = c.late[e.Scope] || e.Scope != "" && (!cause || scope != "" || takenUp)
	case *event.Text, *event.Reasoning:
		shown, ok := c.shown[e.ID]
		shown, whole := strings.ToValidUTF8(shown, "\uFFFD"), strings.ToValidUTF8(contentOf(e), "\uFFFD")
		if ok && shown != whole && !(c.late[e.Scope] && strings.HasPrefix(whole, shown)) {
			c.t.Errorf("seq %d: %.200q was shown of %.200q", e.Seq, shown, whole)
		}
		c.over[e.ID] = true
	case *event.Discard:
		for _, id := range d.IDs {
			if _, shown := c.shown[id]; c.over[id] || !shown && e.Scope == "" {
				c.t.Errorf("seq %d: %s is discarded, which was not shown or is over", e.Seq, id)
			}
			c.over[id] = true
		}
	}
}

func (c *consumer) done() {
	var failed *agent.RunError
	if c.err != nil && (!errors.As(c.err, &failed) || errors.Is(c.err, context.Canceled) || errors.Is(c.err, context.DeadlineExceeded)) {
		return
	}
	var left []string
	for id := range c.shown {
		if !c.over[id] {
			left = append(left, id)
		}
	}
	if slices.Sort(left); len(left) > 0 {
		c.t.Errorf("%q were shown, and neither stored nor discarded", left)
	}
}

func contentOf(e *event.Event) string {
	switch d := e.Data.(type) {
	case *event.Text:
		return d.Content
	case *event.Reasoning:
		return d.Content
	}
	return ""
}
