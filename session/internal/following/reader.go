package following

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// LogReader reads a session's log for one follower, a page of 256 events at a time, so that it holds nothing of the
// store while the follower is slow. Implementations of [session.Tail] use it. Set Store, Key and Position before the
// first call. It is not safe for concurrent use.
type LogReader struct {
	Store session.Store
	Key   session.Key
	// Position is the follower's position: that of the last event that was read, or of the last partial event that
	// was yielded after it. Initially it is the position after which to continue.
	session.Position

	room []*event.Event // the buffer of pages
	page []*event.Event // the events that follow Seq
	last session.Head   // the head of the log up to Seq, once the event at Seq was read
}

const logPage = 256

// ErrGone ends a follower that has yielded events which no longer exist. It is [agent.ErrConflict].
var ErrGone = fmt.Errorf("events that were sent no longer exist, because the session was deleted or the database was restored: follow it from the beginning: %w", agent.ErrConflict)

// Next returns the stored event after Seq and moves to it. If the log ends at Seq, the entry has no event.
func (r *LogReader) Next(ctx context.Context) (session.Entry, error) {
	if len(r.page) == 0 {
		if err := r.load(ctx); err != nil {
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
	r.Position, r.last = session.Position{Seq: e.Seq}, session.HeadOf(e)
	return session.Entry{ID: r.Position.String(), Event: e}, nil
}

// Look reads the next page from the store. It returns the position up to which the log was read; full reports that
// the log may be longer. If the log no longer has the event at Seq that was read, because the session was deleted or
// the database was restored, the error is [agent.ErrConflict]. If the log never had an event at Seq, it is
// [agent.ErrBadInput].
func (r *LogReader) Look(ctx context.Context) (seq int64, full bool, err error) {
	if err := r.load(ctx); err != nil {
		return 0, false, err
	}
	return r.Seq + int64(len(r.page)), len(r.page) == logPage, nil
}

// Newest returns the time of the last event of the page, or the zero time if the page is empty.
func (r *LogReader) Newest() time.Time {
	if len(r.page) == 0 {
		return time.Time{}
	}
	return r.page[len(r.page)-1].Time
}

// LastID returns the id of the event at Seq, or "" if it is unknown.
func (r *LogReader) LastID() string { return r.last.ID }

// load reads the page that follows Seq.
func (r *LogReader) load(ctx context.Context) error {
	r.room, r.page = r.room[:0], nil
	for e, err := range r.since(ctx) {
		switch {
		case errors.Is(err, agent.ErrConflict):
			return ErrGone
		case err != nil:
			return err
		case e.Seq == r.Seq:
			r.last = session.HeadOf(e)
			continue
		}
		if r.room = append(r.room, e); len(r.room) == logPage {
			break
		}
	}
	if r.last.Seq != r.Seq {
		return fmt.Errorf("the log has no event %d to continue from: follow it from the beginning: %w", r.Seq, agent.ErrBadInput)
	}
	r.page = r.room
	return nil
}

// since yields the events that follow Seq, preceded by the event at Seq if it is not known yet.
func (r *LogReader) since(ctx context.Context) iter.Seq2[*event.Event, error] {
	if r.last.Seq != r.Seq {
		return r.Store.Load(ctx, r.Key, r.Seq-1)
	}
	return session.Since(ctx, r.Store, r.Key, r.last)
}
