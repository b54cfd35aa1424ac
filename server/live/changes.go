package live

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/session"
)

// owner is a user in an app.
type owner struct{ app, user string }

// Changes yields the info of a session of the user each time that the session changes from now on: it is created, has
// new events, or a process has acquired or released it. Changes by this process are yielded at once, and changes by
// other processes within a second. Several changes at the same time are yielded as one. Deletion is not reported. The
// sequence ends with an error: that of the context or the store, or [ErrClosed].
func (t *Turns) Changes(ctx context.Context, app, user string) iter.Seq2[session.Info, error] {
	return func(yield func(session.Info, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(t.background, func() { cancel(ErrClosed) })()
		notify := make(chan struct{}, 1)
		defer t.changes.subscribe(owner{app, user}, notify)()
		poll := t.Poll(app, user)
		_, err := poll(ctx)
		timer := time.NewTimer(pollInterval)
		defer timer.Stop()
		for err == nil {
			select {
			case <-notify:
			case <-timer.C:
				timer.Reset(pollInterval)
			case <-ctx.Done():
			}
			var changed []session.Info
			if changed, err = poll(ctx); err == nil {
				for _, info := range slices.Backward(changed) { // the oldest first
					if !yield(info, nil) {
						return
					}
				}
			}
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		yield(session.Info{}, err)
	}
}

// Poll returns a function that returns the infos of the user's sessions that have changed since its last call, as
// [Turns.Changes] reports them, the newest first. The first call returns none. It usually makes one request to the
// store. The function is not safe for concurrent use.
func (t *Turns) Poll(app, user string) func(context.Context) ([]session.Info, error) {
	s := sessions{turns: t, of: session.Key{App: app, User: user}}
	return s.poll
}

const (
	// pollInterval is how often the store is polled for changes by other processes.
	pollInterval = time.Second
	// late is the largest difference between the clocks of two changes: a change may be dated this much earlier than
	// one that is already seen.
	late = 10 * time.Second
	// pollPage is the number of sessions that are read at a time.
	pollPage = 50
)

// sessions contains the infos of a user's recently changed sessions, as of the last poll.
type sessions struct {
	turns *Turns
	of    session.Key
	since time.Time // sessions that were updated before this time have not changed since
	known map[session.Key]session.Info
}

// poll returns the sessions that have changed since the last poll. The first poll returns none.
func (s *sessions) poll(ctx context.Context) (changed []session.Info, err error) {
	known, since, limit := make(map[session.Key]session.Info), time.Time{}, s.since
	for page := (session.Page{Limit: pollPage}); ; {
		infos, err := s.turns.store.List(ctx, s.of, page)
		if err != nil {
			return nil, err
		}
		more := len(infos) == pollPage
		for _, i := range infos {
			if since.IsZero() {
				if since = i.Updated.Add(-late); s.known == nil {
					limit = since
				}
			}
			if i.Updated.Before(limit) {
				more = false
				break
			}
			if i.Leased && i.Updated.Before(since) { // the lease may end without an update
				since = i.Updated
			}
			if known[i.Key] = i; s.known != nil && s.known[i.Key] != i {
				changed = append(changed, i)
			}
		}
		if !more {
			s.known, s.since = known, since
			return changed, nil
		}
		page.After = infos[len(infos)-1].Place()
	}
}

// changes notifies callers of changes of a user's sessions.
type changes struct {
	mu      sync.Mutex
	waiting map[owner]map[chan struct{}]struct{}
}

// subscribe sends to notify when a turn of this process changes a session of the user, until leave is called.
func (c *changes) subscribe(of owner, notify chan struct{}) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[of] == nil {
		c.waiting[of] = make(map[chan struct{}]struct{})
	}
	c.waiting[of][notify] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if delete(c.waiting[of], notify); len(c.waiting[of]) == 0 {
			delete(c.waiting, of)
		}
	}
}

// changed notifies the subscribers that a turn has changed a session.
func (c *changes) changed(key session.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for notify := range c.waiting[owner{key.App, key.User}] {
		select {
		case notify <- struct{}{}:
		default:
		}
	}
}
