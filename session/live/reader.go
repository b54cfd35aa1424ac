package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// LogReader reads a session's log for one follower, a page at a time, so that nothing
// of the store is held while the follower is slow. It is for implementations of
// [Tail], and for one goroutine. The fields are set before the first use.
type LogReader struct {
	Store Store
	Key   Key
	// Seq is the position of the last event that was read, or the one to go on from.
	Seq int64

	room  []*event.Event // of pages
	page  []*event.Event // those that follow Seq
	last  logMark        // of the event at Seq
	known bool           // that last is set
}

// logMark tells whether an event is still the same one.
type logMark struct {
	id   string
	time int64
}

func markOf(e *event.Event) logMark { return logMark{e.ID, e.Time.UnixNano()} }

const logPage = 256

// Next returns the event after Seq and moves on to it, or nil if the log ends there.
func (r *LogReader) Next(ctx context.Context) (*event.Event, error) {
	if len(r.page) == 0 {
		if err := r.load(ctx, r.Seq); err != nil {
			return nil, err
		}
	}
	if len(r.page) == 0 {
		return nil, nil
	}
	e := r.page[0]
	if e.Seq != r.Seq+1 {
		return nil, fmt.Errorf("the log has event %d where %d should be", e.Seq, r.Seq+1)
	}
	r.page[0], r.page = nil, r.page[1:]
	r.Seq, r.last, r.known = e.Seq, markOf(e), true
	return e, nil
}

// Look asks the store how far the log reaches, and returns that; full says that it
// may reach further. The error is [agent.ErrConflict] if the session was deleted since
// the event at Seq was read, and [agent.ErrBadInput] if the log never had one.
func (r *LogReader) Look(ctx context.Context) (seq int64, full bool, err error) {
	if err := r.load(ctx, max(r.Seq-1, 0)); err != nil {
		return 0, false, err
	}
	full = len(r.page) == logPage
	if r.Seq > 0 {
		gone := len(r.page) == 0 || r.page[0].Seq != r.Seq
		switch {
		case gone && !r.known:
			return 0, false, fmt.Errorf("the log has no event %d to go on from: follow it from the beginning: %w", r.Seq, agent.ErrBadInput)
		case gone, r.known && markOf(r.page[0]) != r.last:
			return 0, false, errDeleted
		}
		r.last, r.known = markOf(r.page[0]), true
		r.page = r.page[1:]
	}
	return r.Seq + int64(len(r.page)), full, nil
}

// Newest returns the time of the last event that was read ahead, and the zero time if
// there is none.
func (r *LogReader) Newest() time.Time {
	if len(r.page) == 0 {
		return time.Time{}
	}
	return r.page[len(r.page)-1].Time
}

// LastID returns the id of the event at Seq, "" if it is not known.
func (r *LogReader) LastID() string { return r.last.id }

// Forget drops what was read ahead.
func (r *LogReader) Forget() { r.page, r.last, r.known = nil, logMark{}, false }

func (r *LogReader) load(ctx context.Context, after int64) error {
	r.room, r.page = r.room[:0], nil
	for e, err := range r.Store.Load(ctx, r.Key, after) {
		switch {
		case errors.Is(err, agent.ErrConflict):
			return errDeleted
		case err != nil:
			return err
		}
		if r.room = append(r.room, e); len(r.room) == logPage {
			break
		}
	}
	r.page = r.room
	return nil
}

// OpenBlocks is the blocks of a session that were shown in part and have no complete
// event yet. It is for implementations of [Tail], which void such blocks when the turn
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

// CheckPartial reports what forbids to publish events: one without payload, one that
// is not partial or has a position, a control value. Tails call it first.
func CheckPartial(key Key, events []*event.Event) error {
	for _, e := range events {
		switch {
		case e == nil || e.Data == nil:
			return fmt.Errorf("session %s: a partial event has no payload: %w", key, agent.ErrBadInput)
		case !e.Partial || e.Seq != 0:
			return fmt.Errorf("session %s: event %s is not partial: only deltas are published: %w", key, e.ID, agent.ErrBadInput)
		}
		switch e.Data.(type) {
		case *event.Continue, *event.Finish:
			return fmt.Errorf("session %s: a %s event is never shown: %w", key, e.Type(), agent.ErrBadInput)
		}
	}
	return nil
}

// partSize estimates what a partial event takes in memory.
func partSize(e *event.Event) int {
	const envelope = 320
	switch d := e.Data.(type) {
	case *event.Text:
		return envelope + len(d.Content)
	case *event.Reasoning:
		return envelope + len(d.Content)
	case *event.ToolCall:
		return envelope + len(d.Input)
	case *event.ToolProgress:
		return envelope + len(d.Content)
	case *event.ToolResult:
		return envelope + len(d.Output)
	}
	return 2 * envelope
}
