package live

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/session"
)

// owner is who has sessions: a user in an app.
type owner struct{ app, user string }

// Changes yields the state of one of a user's sessions each time that session changes from now on: it is
// created, has new events, or a process has taken or released it. Changes by this process are yielded at
// once, those of others within a second. Several changes at the same time are yielded as one. Deletion is
// not reported. The last error is that of the context or the store, or [ErrClosed].
func (t *Turns) Changes(ctx context.Context, app, user string) iter.Seq2[session.Info, error] {
	return func(yield func(session.Info, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(t.background, func() { cancel(ErrClosed) })()
		poked := make(chan struct{}, 1)
		defer t.changes.waits(owner{app, user}, poked)()
		s := sessions{turns: t, of: session.Key{App: app, User: user}}
		_, err := s.look(ctx)
		timer := time.NewTimer(lookEvery)
		defer timer.Stop()
		for err == nil {
			select {
			case <-poked:
			case <-timer.C:
				timer.Reset(lookEvery)
			case <-ctx.Done():
			}
			var changed []session.Info
			if changed, err = s.look(ctx); err == nil {
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

const (
	// lookEvery is how often the store is asked what others have done.
	lookEvery = time.Second
	// late is by how much a change may be dated before another one and be seen after it.
	late = 10 * time.Second
	// lookPage is how many sessions are read at a time.
	lookPage = 50
)

// sessions are those of a user that were changed last, as they were seen.
type sessions struct {
	turns *Turns
	of    session.Key
	since time.Time // what was updated before has not changed since
	known map[session.Key]session.Info
}

// look returns what has changed since the last time, nothing at the first.
func (s *sessions) look(ctx context.Context) (changed []session.Info, err error) {
	known, since, limit := make(map[session.Key]session.Info), time.Time{}, s.since
	for page := (session.Page{Limit: lookPage}); ; {
		infos, err := s.turns.store.List(ctx, s.of, page)
		if err != nil {
			return nil, err
		}
		more := len(infos) == lookPage
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
			if i.Leased && i.Updated.Before(since) { // who holds it may go without a word
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

// changes wakes callers that wait for changes of a user's sessions.
type changes struct {
	mu      sync.Mutex
	waiting map[owner]map[chan struct{}]struct{}
}

// waits has somebody poked when a turn changes a session of a user, until leave is called.
func (c *changes) waits(who owner, poked chan struct{}) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[who] == nil {
		c.waiting[who] = make(map[chan struct{}]struct{})
	}
	c.waiting[who][poked] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if delete(c.waiting[who], poked); len(c.waiting[who]) == 0 {
			delete(c.waiting, who)
		}
	}
}

// changed tells who waits for it that a turn has changed a session.
func (c *changes) changed(key session.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for poked := range c.waiting[owner{key.App, key.User}] {
		select {
		case poked <- struct{}{}:
		default:
		}
	}
}
