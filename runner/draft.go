package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// draft is the next write of a scope: events of the step under way. They are stored together when the write is
// complete.
type draft struct {
	session *turnSession
	scope   string
	run     session.Run // as it was when its step began
	inv     *agent.Invocation
	events  []*event.Event
}

// stamp sets the fields that all events of the run have in common.
func (d *draft) stamp(e *event.Event) *event.Event {
	e.TurnID, e.RunID, e.Scope, e.Agent, e.Path = d.run.TurnID, d.run.ID, d.scope, d.run.Agent, d.run.Path
	return e
}

// addEvent adds an event of the run.
func (d *draft) addEvent(e *event.Event) {
	if d.events == nil {
		d.events = make([]*event.Event, 0, 8) // enough for most writes
	}
	d.events = append(d.events, d.stamp(e))
}

// addData adds an event for each payload that is not nil.
func (d *draft) addData(payloads ...event.Data) {
	for _, data := range payloads {
		if data != nil {
			d.addEvent(&event.Event{Data: data})
		}
	}
}

// takeAll returns the events, and begins a new write.
func (d *draft) takeAll() []*event.Event {
	events := d.events
	d.events = nil
	return events
}

// hasText reports whether the write has text.
func (d *draft) hasText() bool {
	return slices.ContainsFunc(d.events, func(e *event.Event) bool { return textOf(e) != "" })
}

// lastText returns the run's last text as the log stores it.
func (d *draft) lastText() string {
	for _, e := range slices.Backward(d.events) {
		if text := textOf(e); text != "" {
			return event.ValidText(text)
		}
	}
	return d.session.runOf(d.scope).Said
}

// textOf returns the text of an event, or "" if the event has no text or only spaces.
func textOf(e *event.Event) string {
	if t, ok := e.Data.(*event.Text); ok && strings.TrimSpace(t.Content) != "" {
		return t.Content
	}
	return ""
}

// discardUnfinished returns the discard of an answer that will not be completed, nil if none is needed. The caller does
// not hold mu.
func (d *draft) discardUnfinished(code, message string) event.Data {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	return d.session.unstored.discardUnfinished(d.scope, d.events, code, message)
}

// shown returns the blocks whose deltas were shown and that neither the log nor this write completes.
func (d *draft) shown() []string {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	return d.session.unstored.shown.unfinished(d.scope, d.events)
}

// pending returns the calls that have a result neither in the log nor in this write. Calls of the write
// itself are among them.
func (d *draft) pending() (pending []session.Call) {
	for _, c := range d.session.runOf(d.scope).Pending {
		if !answeredIn(d.events, c.ID) {
			pending = append(pending, c)
		}
	}
	for _, e := range d.events {
		if call, ok := e.Data.(*event.ToolCall); ok && e.Scope == d.scope && !answeredIn(d.events, e.ID) { // else a child's, which ends in the same write
			pending = append(pending, session.Call{ID: e.ID, Name: call.Name})
		}
	}
	return pending
}

// answerPending adds an error result for each pending call, except for those for which leave returns true. Leave may be
// nil.
func (d *draft) answerPending(message string, leave func(session.Call) bool) {
	for _, c := range d.pending() {
		if leave == nil || !leave(c) {
			result := &event.ToolResult{Name: c.Name, Output: event.EncodeJSON(message), IsError: true}
			d.addEvent(&event.Event{ID: c.ID, Data: result})
		}
	}
}

// answerRunning adds results for the calls that the step has started. Such a call may have had its effect.
func (d *draft) answerRunning() {
	if len(d.run.Pending) > 0 {
		d.answerPending("interrupted; outcome unknown; check before you repeat it", func(c session.Call) bool {
			return c.Name == agent.TransferTool || c.Relay != "" && !c.Resolved // these have not run
		})
	}
}

// awaits reports whether a call with this id waits for its result.
func (d *draft) awaits(id string) bool {
	for _, e := range slices.Backward(d.events) {
		if e.ID == id {
			_, isCall := e.Data.(*event.ToolCall)
			return isCall
		}
	}
	run := d.session.runOf(d.scope)
	return run.Call(id) != nil
}

// checkFile returns an error if a file event is invalid or the bytes that it names are not stored.
func (d *draft) checkFile(ctx context.Context, f *event.File) error {
	if err := f.Check(); err != nil {
		return fmt.Errorf("the agent yielded an invalid file event: %w", err)
	}
	if f.ToolCallID != "" && !d.awaits(f.ToolCallID) {
		return fmt.Errorf("the agent yielded a file of the call %q, and no call with this id waits for a result", f.ToolCallID)
	}
	if f.URL != "" {
		return nil
	}
	size, err := d.session.fileSize(ctx, f.Digest)
	if errors.Is(err, agent.ErrNoFile) {
		return fmt.Errorf("the agent yielded the file %s, whose bytes are not stored: SaveFile stores them: %w", f.Name, agent.ErrNoFile)
	}
	if err == nil && size != f.Size {
		err = fmt.Errorf("the agent yielded the file %s with %d bytes, and it has %d", f.Name, f.Size, size)
	}
	return err
}
