package agui

import (
	"context"
	"errors"
	"math"

	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

// connect is POST /agui/connect: a run with all that was said before and, unless ?follow=false, all those that come.
func (d *Door) connect(c *front.Call) error {
	in, key, err := read(c)
	if err != nil {
		return err
	}
	follow := c.R.URL.Query().Get("follow")
	if follow != "" && follow != "true" && follow != "false" {
		return front.BadRequest("follow is true or false, not %.40q", follow)
	}
	if key, err = d.current(c.R.Context(), key); err != nil {
		return err
	}
	c.Session = key.ID
	p := &projection{reasoning: d.reasoning, see: c.See()}
	all, err := p.past(d.turns.Store().Load(c.R.Context(), key, 0), math.MaxInt64)
	if err != nil {
		return err
	}
	s, leave, err := d.stream(c, key, in, p)
	if err != nil {
		return err
	}
	defer leave()
	if err = s.open(in.Run, all); err == nil && (p.turn == "" || p.ended != nil) {
		err = s.rest()
	}
	for err == nil && (s.run != "" || follow != "false") {
		if err = d.tail(s, key); errors.Is(err, live.ErrStopped) {
			p.ended = nil
			err = s.rest()
		}
	}
	return s.broken(err)
}

// tail sends what comes in a session until a run begins or ends, or its turn is stopped, of which nothing is in the log.
func (d *Door) tail(s *stream, key session.Key) error {
	ctx, cancel := context.WithCancelCause(s.Context())
	defer cancel(nil)
	if s.run != "" {
		defer d.turns.OnStop(key, func() { cancel(live.ErrStopped) })()
	}
	open := s.run
	for en, err := range d.turns.Follow(ctx, key, s.p.log.At.String()) {
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
