package a2aserver

import (
	"context"
	"errors"
	"iter"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a/a2aserver/push"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// adopt continues a task whose process died. It does not wait. If another process holds the session's lease, adopt does
// nothing.
func (s *served) adopt(f *storedTask) {
	if !f.settled() && f.a2a {
		s.turns.Adopt(f.key)
	}
}

// resumeWaiting resumes a task that waits for something external, such as an authorization that a remote agent asked
// for, because that may be done by now. The webhooks of the task last received that it waits.
func (s *served) resumeWaiting(f *storedTask) {
	key, id := f.key, f.task.ID // follow changes f
	s.turns.ResumeInBackground(key, func() { s.push(key, id) })
}

// follow yields the updates of a task that come after f, until the task is settled, the context ends or the server
// stops. It updates f. If the task already waits, follow continues until it is settled again.
func (s *served) follow(ctx context.Context, f *storedTask) iter.Seq2[sdk.Event, error] {
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
			if f.superseded {
				return
			}
		}
	}
}

// watch is follow for a client that waits. If the turn is stopped, or no process adopts it any more, the sequence ends
// with [session.ErrStopped]. This does not change the task.
func (s *served) watch(ctx context.Context, f *storedTask) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer s.turns.OnStop(f.key, func() { cancel(session.ErrStopped) })()
		for e, err := range s.follow(ctx, f) {
			if !yield(e, err) {
				return
			}
		}
		if errors.Is(context.Cause(ctx), session.ErrStopped) {
			yield(nil, session.ErrStopped)
		}
	}
}

// recover runs after a restart. It resumes the tasks whose webhooks have not received the end of the task.
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

// untilClosed returns a context that also ends when the server closes, if its turns are shared and so do not end with
// it.
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
