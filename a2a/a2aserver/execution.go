package a2aserver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// execution is a turn that this process runs. It ends with the server at the latest,
// not with the request that began it.
type execution struct {
	key     session.Key
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the turn's goroutine has ended
	uncount func()        // it is one of the turns that the caller has at work; nil: it is none
	err     error         // of the turn; to be read after done
}

var (
	errStopped  = fmt.Errorf("the server is being stopped: %w", agent.ErrSuspended)
	errCanceled = errors.New("the client canceled the task")
)

// launch runs a turn in the background. The first stored event comes out of first,
// which is closed when the turn has ended. The error is that of enter.
func (s *served) launch(key session.Key, turn func(context.Context) iter.Seq2[*event.Event, error]) (x *execution, first <-chan *event.Event, err error) {
	run, cancel := context.WithCancelCause(s.background)
	x = &execution{key: key, cancel: cancel, done: make(chan struct{})}
	if err := s.enter(x); err != nil {
		cancel(err)
		return nil, nil, err
	}
	begun := make(chan *event.Event, 1)
	go func() {
		defer s.leave(x)
		defer close(x.done)
		defer cancel(nil)
		defer close(begun)
		told := false
		for e, err := range turn(run) {
			if err != nil {
				x.err = err
				break
			}
			if !told && !e.Partial {
				told = true
				begun <- e
			}
		}
		refused := !told && (errors.Is(x.err, agent.ErrSessionBusy) || errors.Is(x.err, agent.ErrBadInput) || errors.Is(x.err, agent.ErrConflict))
		if x.err != nil && !refused && run.Err() == nil {
			s.logger.Warn("a turn failed", "session", key.String(), "error", x.err)
		}
	}()
	return x, begun, nil
}

// await waits until a session may be free, a bounded time: perhaps another process has
// it, which tells nobody.
func (s *Server) await(ctx context.Context, key session.Key, deadline time.Time) error {
	done := make(<-chan struct{})
	if here := s.executions(key); len(here) > 0 {
		done = here[0].done
	}
	timer := time.NewTimer(min(250*time.Millisecond, time.Until(deadline)))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// lock keeps a session's messages apart until unlock is called, those of this process. If
// it has to wait, it calls waits first.
func (s *Server) lock(ctx context.Context, key session.Key, waits func() error) (unlock func(), err error) {
	for first := true; ; first = false {
		s.mu.Lock()
		other := s.sending[key]
		if other == nil {
			free := make(chan struct{})
			s.sending[key] = free
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.sending, key)
				s.mu.Unlock()
				close(free)
			}, nil
		}
		s.mu.Unlock()
		if first {
			if err := waits(); err != nil {
				return nil, err
			}
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try runs a turn in the background and returns its first stored event. The error is
// that of a turn which stored nothing. A turn that stores nothing and does not fail
// either, because there is nothing to go on with, has no first event.
func (s *served) try(ctx context.Context, key session.Key, turn func(context.Context) iter.Seq2[*event.Event, error]) (*event.Event, error) {
	x, first, err := s.launch(key, turn)
	if err != nil {
		return nil, err
	}
	select {
	case e := <-first:
		if e != nil {
			return e, nil
		}
		<-x.done
		return nil, x.err
	case <-ctx.Done():
		x.cancel(errCanceled) // nobody knows the task yet that it would have been
		return nil, context.Cause(ctx)
	}
}

// enter registers an execution, unless the server is being stopped or its caller has too
// many at work: who does not wait for answers could begin any number of turns.
func (s *Server) enter(x *execution) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return sdk.NewError(sdk.ErrInternalError, errStopped.Error())
	}
	leave, err := s.atWork.Enter(x.key.User)
	if err != nil {
		return tooMany(err, "more than %d turns of this caller are at work: wait for some or cancel them")
	}
	x.uncount = leave
	s.turns.Add(1)
	s.running[x.key] = append(s.running[x.key], x)
	return nil
}

func (s *Server) leave(x *execution) {
	s.mu.Lock()
	rest := slices.DeleteFunc(s.running[x.key], func(o *execution) bool { return o == x })
	if s.running[x.key] = rest; len(rest) == 0 {
		delete(s.running, x.key)
	}
	s.mu.Unlock()
	if x.uncount != nil {
		x.uncount()
	}
	s.turns.Done()
}

// executions returns the turns of a session that this process runs, or tries to.
func (s *Server) executions(key session.Key) []*execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.running[key])
}

// halt ends the turn that this process runs for a task, and keeps others from adopting
// the task until release is called. The turn that had the task wait has said all that it
// had to say, and holds the session for a moment longer.
func (s *Server) halt(ctx context.Context, f *found) (release func(), err error) {
	hold := &execution{key: f.key, cancel: func(error) {}, done: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, sdk.NewError(sdk.ErrInternalError, errStopped.Error())
	}
	running := s.running[f.key]
	s.turns.Add(1)
	s.running[f.key] = append(slices.Clone(running), hold)
	s.mu.Unlock()
	release = func() {
		close(hold.done)
		s.leave(hold)
	}
	for _, x := range running {
		x.cancel(errCanceled)
		select {
		case <-x.done:
		case <-ctx.Done():
			release()
			return nil, context.Cause(ctx)
		}
	}
	return release, nil
}

// adopt goes on with a task that nobody works on, because the process that did has
// gone. It does not wait. Who holds the session's lease is at work, and nothing
// happens.
func (s *served) adopt(f *found) {
	if !f.settled() && f.a2a && len(s.executions(f.key)) == 0 {
		s.ask(f)
	}
}

// ask goes on with a task that was cut off, or that waits for something done elsewhere,
// such as an authorization that a remote agent asked for: perhaps it is done by now.
func (s *served) ask(f *found) {
	key, id, waited := f.key, f.task.ID, f.settled() // f is changed by who follows it
	_, _, _ = s.launch(key, func(ctx context.Context) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			for e, err := range s.runner.Resume(ctx, key) {
				if waited && err == nil && !e.Partial {
					waited = false
					s.push(key, id) // its webhooks were told that it waits, and nothing since
				}
				if !yield(e, err) {
					return
				}
			}
		}
	})
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

// recover goes on with the tasks whose webhooks have not heard how they ended, after a
// restart.
func (s *Server) recover() error {
	return s.hooks.resume(s.background, func(ctx context.Context, t pushTask) (*sdk.Task, error) {
		tree := s.trees[t.Tenant]
		if tree == nil {
			return nil, nil
		}
		ctx = access.WithUser(ctx, access.User{Name: t.Caller})
		f, err := tree.find(ctx, t.Task, false)
		switch {
		case errors.Is(err, sdk.ErrTaskNotFound): // the session was deleted
			return nil, s.hooks.drop(ctx, t)
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

// watch looks from time to time whether somebody still works on a task that is being
// followed: whoever does may go away without a word. It looks soon, because a process
// that was stopped or killed on this machine leaves a lease that can be taken at once,
// and less and less often. It returns what ends that.
func (s *served) watch(ctx context.Context, f *found) (stop func()) {
	key, id := f.key, f.task.ID
	ctx, cancel := context.WithCancel(ctx)
	var timer *time.Timer
	wait := time.Second
	look := func() {
		if ctx.Err() != nil { // the timer was set while it was stopped
			return
		}
		if len(s.executions(key)) == 0 {
			if now, err := s.find(ctx, id, false); err == nil && ctx.Err() == nil {
				s.adopt(now)
			}
		}
		if ctx.Err() == nil {
			wait = min(2*wait, session.LeaseTTL)
			timer.Reset(wait)
		}
	}
	ready := make(chan struct{})
	timer = time.AfterFunc(wait, func() { <-ready; look() })
	close(ready)
	return func() {
		cancel()
		timer.Stop()
	}
}
