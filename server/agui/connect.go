package agui

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

// connect is POST /agui/connect: a run with all that was said before and, unless ?follow=false, all those that come. When
// the thread continues in another branch, a run shows that branch.
func (h *Handler) connect(c *front.Call) error {
	in, thread, err := read(c)
	if err != nil {
		return err
	}
	follow := c.R.URL.Query().Get("follow")
	if follow != "" && follow != "true" && follow != "false" {
		return front.BadRequest("follow is true or false, not %.40q", follow)
	}
	key, err := h.current(c.R.Context(), thread)
	if err != nil {
		return err
	}
	c.Session = key.ID
	p := &projection{reasoning: h.reasoning, see: c.EventFilter()}
	all, err := p.past(h.turns.Store().Load(c.R.Context(), key, 0), math.MaxInt64)
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
			err = s.rest()
		}
		for err == nil && (s.run != "" || follow != "false") {
			if err = h.tail(s, thread, key); errors.Is(err, live.ErrStopped) {
				s.p.ended = nil
				err = s.rest()
			}
		}
		if !errors.Is(err, errMoved) {
			return s.broken(err)
		}
		if key, err = h.current(s.Context(), thread); err == nil {
			h.shows(s, key, &projection{})
			all, err = s.p.past(h.turns.Store().Load(s.Context(), key, 0), math.MaxInt64)
		}
		if err != nil {
			return s.broken(err)
		}
	}
}

// errMoved ends a look at a branch that the thread is not in any more.
var errMoved = errors.New("the thread continues in another branch")

// moveEvery is how often a stream that waits for the next run asks the store for the thread's branch.
const moveEvery = time.Second

// tail sends what comes in a session until a run begins or ends, or its turn is stopped, of which nothing is in the log. The
// error is errMoved if the thread continues in another branch before a run begins.
func (h *Handler) tail(s *stream, thread, key session.Key) error {
	ctx, cancel := context.WithCancelCause(s.Context())
	defer cancel(nil)
	if s.run != "" {
		defer h.turns.OnStop(key, func() { cancel(live.ErrStopped) })()
	} else {
		var timer *time.Timer
		ready := make(chan struct{})
		timer = time.AfterFunc(moveEvery, func() {
			<-ready
			if now, err := h.current(ctx, thread); err == nil && now != key {
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
		if err == nil {
			err = s.entry(en)
		}
		if err == nil && s.run != "" && s.p.ended != nil && !en.Event.Partial {
			err = s.rest()
		}
		if err != nil || s.run != open {
			return err
		}
	}
	return nil
}
