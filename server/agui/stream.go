package agui

import (
	"cmp"
	"context"
	"errors"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

// stream sends a page what happens in a thread, one run of AG-UI after the other.
type stream struct {
	*access.Stream
	call    *front.Call
	p       *projection
	thread  string
	run     string // the id of the run that is open, "" if none is
	ignored map[string][]string
}

// stream begins one for the input of a request. Nothing is sent yet.
func (h *Handler) stream(c *front.Call, key session.Key, in *input, p *projection) (s *stream, leave func(), err error) {
	to, leave, err := c.Stream()
	if err != nil {
		return nil, nil, err
	}
	s = &stream{Stream: to, call: c, thread: in.Thread, ignored: h.ignored(in)}
	h.shows(s, key, p)
	return s, leave, nil
}

// shows makes a stream one of a session, whose log the projection reads.
func (h *Handler) shows(s *stream, key session.Key, p *projection) {
	s.p = p
	p.reasoning, p.see = h.reasoning, s.call.EventFilter()
	p.history = func(upTo int64) ([]*message, error) {
		return (&projection{reasoning: h.reasoning, see: p.see}).past(h.turns.Store().Load(s.Context(), key, 0), upTo)
	}
}

func (s *stream) send(events ...any) error {
	for _, e := range events {
		if err := s.SendJSON("", e); err != nil {
			return err
		}
	}
	return nil
}

// begin opens a run. The words are those of one that somebody else has begun.
func (s *stream) begin(run string, words *message) error {
	s.run = run
	e := &lifeEvent{head: head{Type: "RUN_STARTED"}, Thread: s.thread, ID: run, Version: "1.0"}
	if words != nil {
		e.Input = map[string]any{"threadId": s.thread, "runId": run, "messages": []*message{words}}
	}
	err := s.send(e)
	if err == nil && len(s.ignored) > 0 {
		err = s.send(&customEvent{head{Type: "CUSTOM"}, "arbor.ignored", s.ignored})
		s.ignored = nil
	}
	return err
}

// open opens the first run, with the messages so far, unless they are nil, and what is open.
func (s *stream) open(run string, all []*message) error {
	if err := s.begin(run, nil); err != nil {
		return err
	}
	p := s.p
	if p.out = p.out[:0]; all != nil {
		p.snapshot(all)
	}
	if all != nil || p.turn != "" {
		p.stand()
	}
	if p.ended == nil {
		p.reopen()
	}
	return s.send(p.out...)
}

// entry sends what an entry of the session is for the page.
func (s *stream) entry(en session.Entry) error {
	at, err := session.ParsePosition(en.ID)
	if err != nil {
		return err
	}
	e, out := en.Event, s.p.apply(at, en.Event)
	if s.p.err != nil || s.run == "" && e.TurnID == "" { // of no turn, such as what a store has to say
		return s.p.err
	}
	if d, ok := e.Data.(*event.User); s.run == "" && ok {
		err = s.begin(cmp.Or(live.RequestID(d), e.RunID), said(e, d))
	} else if s.run == "" && len(out) > 0 {
		err = s.begin(e.RunID, nil)
	}
	if err == nil {
		err = s.send(out...)
		s.call.ObserveDelta(e)
	}
	return err
}

// rest ends the run: its turn is over, or waits.
func (s *stream) rest() error {
	p := s.p
	p.out = p.out[:0]
	p.closeAll()
	done := &lifeEvent{head: head{Type: "RUN_FINISHED"}, Thread: s.thread, ID: s.run, Outcome: &ending{Type: "success"}, Usage: p.usage}
	switch {
	case p.turn == "": // nobody has said anything yet
	case p.ended == nil, p.ended.FinishReason == event.FinishReasonCanceled:
		done.Outcome.Type = "cancelled"
	case p.ended.FinishReason == event.FinishReasonError, p.ended.FinishReason == event.FinishReasonLimit:
		f := cmp.Or(p.failed, &event.Failure{Code: string(p.ended.FinishReason)})
		return s.fail(f.Code, cmp.Or(f.Public().Message, "The turn has failed."))
	case len(people(p.log.Questions)) > 0:
		done.Outcome.Type, done.Outcome.Interrupts = "interrupt", interrupts(people(p.log.Questions))
	default:
		done.Result = map[string]any{"turn": p.turn, "agent": p.log.Answer.Agent, "finishReason": p.ended.FinishReason, "output": p.ended.Output}
	}
	p.emit(done)
	s.run = ""
	return s.send(p.out...)
}

// fail ends the run with an error, behind what the projection has.
func (s *stream) fail(code, text string) error {
	s.p.emit(&lifeEvent{head: head{Type: "RUN_ERROR"}, Message: text, Code: code, Usage: s.p.usage})
	s.run = ""
	return s.send(s.p.out...)
}

// broken ends a stream whose session cannot be followed any more, or whose client has gone.
func (s *stream) broken(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, access.ErrClientGone):
		return nil
	case errors.Is(err, live.ErrStopped): // it can be resumed, and so it did not fail
		s.p.ended = nil
		return s.broken(s.rest())
	}
	f := front.FaultOf(err)
	if errors.Is(err, access.ErrRevoked) {
		err, f = nil, &front.Fault{Code: "revoked", Detail: "the credentials are not accepted any more"}
	}
	s.p.out = s.p.out[:0]
	s.p.closeAll()
	if s.run != "" {
		_ = s.fail(f.Code, f.Detail)
	}
	return err
}

// refuse answers a run that is not to be had, in a stream: pages look for an event.
func (h *Handler) refuse(c *front.Call, key session.Key, in *input, code, text string) error {
	s, leave, err := h.stream(c, key, in, &projection{})
	if err == nil {
		defer leave()
		err = s.broken(s.fail(code, text))
	}
	return err
}
