package tail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// LogReader reads a session's log for one follower, a page at a time, so that nothing
// of the store is held while the follower is slow. It is for implementations of
// [session.Tail], and for one goroutine. The fields are set before the first use.
type LogReader struct {
	Store session.Store
	Key   session.Key
	// Position is where the follower is: that of the last event that was read, or of the
	// last partial one that he was shown after it. It begins as the one to go on from.
	session.Position

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

var errDeleted = fmt.Errorf("it was deleted while it was followed: %w", agent.ErrConflict)

// Next returns the stored event after Seq and moves on to it. The entry has no event if
// the log ends there.
func (r *LogReader) Next(ctx context.Context) (session.Entry, error) {
	if len(r.page) == 0 {
		if err := r.load(ctx, r.Seq); err != nil {
			return session.Entry{}, err
		}
	}
	if len(r.page) == 0 {
		return session.Entry{}, nil
	}
	e := r.page[0]
	if e.Seq != r.Seq+1 {
		return session.Entry{}, fmt.Errorf("the log has event %d where %d should be", e.Seq, r.Seq+1)
	}
	r.page[0], r.page = nil, r.page[1:]
	r.Position, r.last, r.known = session.Position{Seq: e.Seq}, markOf(e), true
	return session.Entry{ID: r.Position.String(), Event: e}, nil
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
