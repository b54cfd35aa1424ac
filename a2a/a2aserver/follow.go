package a2aserver

import (
	"context"
	"errors"
	"iter"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a/a2aserver/push"
	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/session"
)

// adopt goes on with a task that nobody works on, because the process that did has
// gone. It does not wait. Who holds the session's lease is at work, and nothing
// happens.
func (s *served) adopt(f *found) {
	if !f.settled() && f.a2a {
		s.turns.Adopt(f.key)
	}
}

// lookAgain goes on with a task that waits for something done elsewhere, such as an
// authorization that a remote agent asked for: perhaps it is done by now. Its webhooks
// heard that it waits, and nothing since.
func (s *served) lookAgain(f *found) {
	key, id := f.key, f.task.ID // f is changed by who follows it
	s.turns.ResumeInBackground(key, func() { s.push(key, id) })
}

// follow yields what happens to a task after what was found of it, until the task is
// settled, the context ends or the server stops. What was found is changed. A task
// that waits is followed until it is settled anew.
func (s *served) follow(ctx context.Context, f *found) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		ctx, leave := s.untilClosed(ctx)
		defer leave()
		for entry, err := range s.turns.Follow(ctx, f.key, session.Position{Seq: f.seq}.String()) {
			if err != nil {
				if ctx.Err() == nil && !errors.Is(err, live.ErrClosed) {
					yield(nil, err)
				}
				return
			}
			if !entry.Event.Partial {
				f.seq = entry.Event.Seq
			}
			for _, e := range f.apply(entry.Event) {
				if !yield(e, nil) {
					return
				}
				if _, ok := e.(*sdk.TaskStatusUpdateEvent); ok && f.settled() {
					return
				}
			}
			if f.over {
				return
			}
		}
	}
}

// watch is follow for a client that waits. If the turn is stopped, or no process adopts it any more, which changes
// nothing of the task, the sequence ends with [live.ErrStopped].
func (s *served) watch(ctx context.Context, f *found) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer s.turns.OnStop(f.key, func() { cancel(live.ErrStopped) })()
		for e, err := range s.follow(ctx, f) {
			if !yield(e, err) {
				return
			}
		}
		if errors.Is(context.Cause(ctx), live.ErrStopped) {
			yield(nil, live.ErrStopped)
		}
	}
}

// recover goes on with the tasks whose webhooks have not heard how they ended, after a
// restart.
func (s *Server) recover() error {
	return s.hooks.Resume(s.background, func(ctx context.Context, t push.Task) (*sdk.Task, error) {
		tree := s.trees[t.Tenant]
		if tree == nil {
			return nil, nil
		}
		ctx = access.WithUser(ctx, access.User{Name: t.Caller})
		f, err := tree.find(ctx, t.Task, false)
		switch {
		case errors.Is(err, sdk.ErrTaskNotFound): // the session was deleted
			return nil, s.hooks.Drop(ctx, t)
		case err != nil:
			return nil, err
		case f.settled():
			return f.snapshot(nil), nil
		}
		tree.adopt(f)
		tree.push(f.key, f.task.ID)
		return nil, nil
	})
}

// untilClosed returns a context that ends with the server, too, where its turns do not.
func (s *Server) untilClosed(ctx context.Context) (closing context.Context, leave func()) {
	if !s.shared {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.background, func() { cancel(live.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
