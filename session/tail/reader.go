package tail

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

// LogReader reads a session's log for one follower, a page at a time, so that nothing
// of the store is held while the follower is slow. It is for implementations of
// [session.Tail], and for one goroutine. The fields are set before the first use.
type LogReader struct {
	Store session.Store
	Key   session.Key
	// Position is where the follower is: that of the last event that was read, or of the
	// last partial one that he was shown after it. It begins as the one to go on from.
	session.Position

	room []*event.Event // of pages
	page []*event.Event // those that follow Seq
	last session.Head   // of the log up to Seq, once the event there was read
}

const logPage = 256

// ErrGone ends a follower who was shown something that is gone. It is [agent.ErrConflict].
var ErrGone = fmt.Errorf("what was shown of it is gone: it was deleted while it was followed, or the database was restored: %w", agent.ErrConflict)

// Next returns the stored event after Seq and moves on to it. The entry has no event if
// the log ends there.
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

// Look asks the store how far the log reaches, and returns that; full says that it
// may reach further. The error is [agent.ErrConflict] if the log no longer has the event at Seq that was
// read, because the session was deleted or the database restored, and [agent.ErrBadInput] if the log never had one.
func (r *LogReader) Look(ctx context.Context) (seq int64, full bool, err error) {
	if err := r.load(ctx); err != nil {
		return 0, false, err
	}
	return r.Seq + int64(len(r.page)), len(r.page) == logPage, nil
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

// since yields the events that follow Seq, and before them the one at Seq if that is not known.
func (r *LogReader) since(ctx context.Context) iter.Seq2[*event.Event, error] {
	if r.last.Seq != r.Seq {
		return r.Store.Load(ctx, r.Key, r.Seq-1)
	}
	return session.Since(ctx, r.Store, r.Key, r.last)
}
