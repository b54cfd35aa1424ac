package a2aserver

import (
	"context"
	"errors"
	"iter"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// execution is a turn that this process runs. It ends with the server at the latest,
// not with the request that began it.
type execution struct {
	key    session.Key
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the turn's goroutine has ended
	err    error         // of the turn; to be read after done
}

var (
	errStopped  = errors.New("the server is being stopped")
	errCanceled = errors.New("the client canceled the task")
)

// execute runs a turn in the background and returns its first stored event. The error
// is that of a turn which stored nothing. A turn that stores nothing and does not fail
// either, because there is nothing to go on with, has no first event.
func (s *served) execute(ctx context.Context, key session.Key, turn func(context.Context) iter.Seq2[*agent.Event, error]) (*execution, *agent.Event, error) {
	run, cancel := context.WithCancelCause(s.background)
	x := &execution{key: key, cancel: cancel, done: make(chan struct{})}
	first := make(chan *agent.Event, 1)
	if !s.enter(x) {
		cancel(errStopped)
		return nil, nil, sdk.NewError(sdk.ErrInternalError, errStopped.Error())
	}
	go func() {
		defer s.leave(x)
		defer close(x.done)
		defer cancel(nil)
		defer close(first)
		told := false
		for e, err := range turn(run) {
			if err != nil {
				x.err = err
				break
			}
			if !told && !e.Partial {
				told = true
				first <- e
			}
		}
		if x.err != nil && told {
			s.logger.Warn("a turn failed", "session", key.String(), "error", x.err)
		}
	}()
	select {
	case e := <-first:
		if e != nil {
			return x, e, nil
		}
		<-x.done
		return x, nil, x.err
	case <-ctx.Done():
		cancel(errCanceled) // nobody knows the task yet that it would have been
		return x, nil, context.Cause(ctx)
	}
}

// enter registers an execution, unless the server is being stopped.
func (s *Server) enter(x *execution) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.turns.Add(1)
	s.running[x] = struct{}{}
	return true
}

func (s *Server) leave(x *execution) {
	s.mu.Lock()
	delete(s.running, x)
	s.mu.Unlock()
	s.turns.Done()
}

// executions returns the turns of a session that this process runs, or that wait for
// their place.
func (s *Server) executions(key session.Key) []*execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*execution
	for x := range s.running {
		if x.key == key {
			list = append(list, x)
		}
	}
	return list
}

// adopt goes on with a task that nobody works on, because the process that did has
// gone. Who holds the session's lease is at work, and nothing happens.
func (s *served) adopt(ctx context.Context, f *found) {
	if f.settled() || !f.a2a || len(s.executions(f.key)) > 0 {
		return
	}
	_, _, err := s.execute(ctx, f.key, func(ctx context.Context) iter.Seq2[*agent.Event, error] { return s.runner.Resume(ctx, f.key) })
	if err != nil && !errors.Is(err, agent.ErrSessionBusy) && ctx.Err() == nil {
		s.logger.Warn("a task that was cut off could not be taken up again", "session", f.key.String(), "error", err)
	}
}

// follow yields what happens to a task after what was found of it, until the task is
// settled, the context ends or the server stops. What was found is changed. A task
// that waits is followed until it is settled anew.
func (s *served) follow(ctx context.Context, f *found) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := context.AfterFunc(s.background, func() { cancel(errStopped) })
		defer stop()
		defer s.watch(ctx, f)()
		for entry, err := range s.tail.Follow(ctx, f.key, session.Position{Seq: f.seq}.String()) {
			if err != nil {
				if ctx.Err() == nil {
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

// watch looks from time to time whether somebody still works on a task that is being
// followed: whoever does may go away without a word. It returns what ends that.
func (s *served) watch(ctx context.Context, f *found) (stop func()) {
	key, id := f.key, f.task.ID
	var timer *time.Timer
	look := func() {
		if len(s.executions(key)) == 0 {
			if now, err := s.find(ctx, id, false); err == nil {
				s.adopt(ctx, now)
			}
		}
		if ctx.Err() == nil {
			timer.Reset(session.LeaseTTL)
		}
	}
	ready := make(chan struct{})
	timer = time.AfterFunc(session.LeaseTTL, func() { <-ready; look() })
	close(ready)
	return func() { timer.Stop() }
}
