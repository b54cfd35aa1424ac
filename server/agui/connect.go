package agui

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

// connect serves POST /agui/connect: a run with the thread's history and, unless ?follow=false, all later runs. When
// the thread continues in another branch, connect sends a run with the history of that branch.
func (h *Handler) connect(c *front.Call) error {
	in, thread, err := readInput(c)
	if err != nil {
		return err
	}
	follow := c.R.URL.Query().Get("follow")
	if follow != "" && follow != "true" && follow != "false" {
		return front.BadRequest("follow must be true or false, not %.40q", follow)
	}
	key, err := h.current(c.R.Context(), thread)
	if err != nil {
		return err
	}
	c.Session = key.ID
	p := &projection{reasoning: h.reasoning, filter: c.EventFilter()}
	all, err := p.replay(h.turns.Store().Load(c.R.Context(), key, 0), math.MaxInt64)
	if err != nil {
		return err
	}
	s, leave, err := h.stream(c, key, in, p)
	if err != nil {
		return err
	}
	defer leave()
	for run := in.Run; ; run = cmp.Or(s.p.turn, key.ID) {
		if err = s.open(run, all); err == nil && (s.p.turn == "" || s.p.ended != nil) {
			err = s.finish()
		}
		for err == nil && (s.run != "" || follow != "false") {
			if err = h.followRun(s, thread, key); errors.Is(err, session.ErrStopped) {
				err = h.sendStopped(s, key)
			}
		}
		if !errors.Is(err, errMoved) {
			return s.end(err)
		}
		if key, err = h.current(s.Context(), thread); err == nil {
			h.setSession(s, key, &projection{})
			all, err = s.p.replay(h.turns.Store().Load(s.Context(), key, 0), math.MaxInt64)
		}
		if err != nil {
			return s.end(err)
		}
	}
}

// sendStopped sends what a stopped turn has stored, and the end of the run. Sent later, it would look like another run.
func (h *Handler) sendStopped(s *stream, key session.Key) error {
	s.p.ended = nil
	for e, err := range h.turns.Store().Load(s.Context(), key, s.p.log.At.Seq) {
		if err == nil && s.isOfAnotherRun(e) {
			break
		}
		if err == nil {
			err = s.sendEntry(session.Entry{ID: session.Position{Seq: e.Seq}.String(), Event: e})
		}
		if err != nil {
			return err
		}
	}
	return s.finish()
}

// isOfAnotherRun reports whether an event belongs to another turn, or resumes the stream's turn after a stop.
func (s *stream) isOfAnotherRun(e *event.Event) bool {
	return e.TurnID != "" && e.TurnID != s.p.turn || s.stopped && e.IsNotice(event.NoticeResumed)
}

// errMoved stops following a branch that is no longer the current one.
var errMoved = errors.New("the thread continues in another branch")

// moveEvery is how often a stream without a run asks the store which of the user's sessions have changed.
const moveEvery = time.Second

// followRun sends the entries of a session until a run starts or ends. The error is session.ErrStopped if the turn was
// stopped, and errMoved if the thread continues in another branch before a run starts.
func (h *Handler) followRun(s *stream, thread, key session.Key) error {
	ctx, cancel := context.WithCancelCause(s.Context())
	defer cancel(nil)
	if s.run != "" {
		defer h.turns.OnStop(key, func() { cancel(session.ErrStopped) })()
	} else {
		changed := h.turns.Poll(thread.App, thread.User)
		asks := true // for the current branch, until it is known
		hasMoved := func() bool {
			infos, err := changed(ctx)
			asks = asks || slices.ContainsFunc(infos, func(i session.Info) bool { return i.Key != key && mayBelong(i.Key, thread) })
			now := key
			if err == nil && asks {
				now, err = h.current(ctx, thread)
				asks = err != nil
			}
			return err == nil && now != key
		}
		if hasMoved() {
			return errMoved
		}
		var timer *time.Timer
		ready := make(chan struct{})
		timer = time.AfterFunc(moveEvery, func() {
			<-ready
			if hasMoved() {
				cancel(errMoved)
			} else if ctx.Err() == nil {
				timer.Reset(moveEvery)
			}
		})
		close(ready)
		defer timer.Stop()
	}
	open := s.run
	for en, err := range h.turns.Follow(ctx, key, s.p.log.At.String()) {
		if err == nil && s.run != "" && s.stopped && s.isOfAnotherRun(en.Event) {
			s.p.ended = nil
			err = s.finish()
		}
		if err == nil {
			err = s.sendEntry(en)
		}
		if err == nil && s.run != "" && s.p.ended != nil && !en.Event.Partial {
			err = s.finish()
		}
		if err != nil || s.run != open {
			return err
		}
	}
	return nil
}
