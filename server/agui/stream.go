package agui

import (
	"cmp"
	"context"
	"errors"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// stream sends the events of a thread to a page, one run of AG-UI after the other.
type stream struct {
	*access.Stream
	call    *front.Call
	p       *projection
	thread  string
	run     string // the id of the open run, or "" if none is open
	stopped bool   // its turn was stopped
	ignored map[string][]string
}

// stream returns a stream for the input of a request. It sends nothing yet.
func (h *Handler) stream(c *front.Call, key session.Key, in *input, p *projection) (s *stream, leave func(), err error) {
	to, leave, err := c.Stream()
	if err != nil {
		return nil, nil, err
	}
	s = &stream{Stream: to, call: c, thread: in.Thread, ignored: h.ignored(in)}
	h.setSession(s, key, p)
	return s, leave, nil
}

// setSession makes a stream show a session, with a projection of the session's log.
func (h *Handler) setSession(s *stream, key session.Key, p *projection) {
	s.p = p
	p.reasoning, p.filter = h.reasoning, s.call.EventFilter()
	p.history = func(upTo int64) ([]*message, error) {
		return (&projection{reasoning: h.reasoning, filter: p.filter}).replay(h.turns.Store().Load(s.Context(), key, 0), upTo)
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

// startRun opens a run. If another client started it, user is its message; otherwise user is nil.
func (s *stream) startRun(run string, user *message) error {
	s.run, s.stopped = run, false
	e := &lifeEvent{head: head{Type: "RUN_STARTED"}, Thread: s.thread, ID: run, Version: "1.0"}
	if user != nil {
		e.Input = map[string]any{"threadId": s.thread, "runId": run, "messages": []*message{user}}
	}
	err := s.send(e)
	if err == nil && len(s.ignored) > 0 {
		err = s.send(&customEvent{head{Type: "CUSTOM"}, "arbor.ignored", s.ignored})
		s.ignored = nil
	}
	return err
}

// open opens the first run, with all messages so far unless they are nil, and with the open steps and subagents.
func (s *stream) open(run string, all []*message) error {
	if err := s.startRun(run, nil); err != nil {
		return err
	}
	p := s.p
	if p.out = p.out[:0]; all != nil {
		p.snapshot(all)
	}
	if all != nil || p.turn != "" {
		p.sendState()
	}
	if p.ended == nil {
		p.reopen()
	}
	return s.send(p.out...)
}

// sendEntry sends the events of an entry of the session.
func (s *stream) sendEntry(en session.Entry) error {
	at, err := session.ParsePosition(en.ID)
	if err != nil {
		return err
	}
	e, out := en.Event, s.p.apply(at, en.Event)
	if s.p.err != nil || s.run == "" && e.TurnID == "" { // an event outside of turns, such as a notice of a store
		return s.p.err
	}
	if d, ok := e.Data.(*event.User); s.run == "" && ok {
		err = s.startRun(cmp.Or(live.RequestID(d), e.RunID), userMessageOf(e, d))
	} else if s.run == "" && len(out) > 0 {
		err = s.startRun(e.RunID, nil)
	}
	if err == nil {
		err = s.send(out...)
		s.call.ObserveDelta(e)
	}
	s.stopped = s.stopped || e.IsNotice(event.NoticeStopped)
	return err
}

// finish ends the run after its turn has ended or paused.
func (s *stream) finish() error {
	p := s.p
	p.out = p.out[:0]
	p.closeAll()
	done := &lifeEvent{head: head{Type: "RUN_FINISHED"}, Thread: s.thread, ID: s.run, Outcome: &runOutcome{Type: "success"}, Usage: p.usage}
	switch {
	case p.turn == "": // the session has no message yet
	case p.ended == nil, p.ended.FinishReason == event.FinishReasonCanceled:
		done.Outcome.Type = "cancelled"
	case p.ended.FinishReason == event.FinishReasonError, p.ended.FinishReason == event.FinishReasonLimit:
		f := cmp.Or(p.failed, &event.Failure{Code: string(p.ended.FinishReason)})
		return s.fail(f.Code, cmp.Or(f.Public().Message, "The turn has failed."))
	case len(peopleQuestions(p.log.Questions)) > 0:
		done.Outcome.Type, done.Outcome.Interrupts = "interrupt", interrupts(peopleQuestions(p.log.Questions))
	default:
		if len(p.log.Questions) > 0 {
			done.Outcome = nil // this means the same, and assistant-ui runs tools of the page only without it
		}
		done.Result = map[string]any{"turn": p.turn, "agent": p.log.Answer.Agent, "finishReason": p.ended.FinishReason, "output": p.ended.Output}
	}
	p.emit(done)
	s.run = ""
	return s.send(p.out...)
}

// fail ends the run with an error, after the events of the projection.
func (s *stream) fail(code, text string) error {
	s.p.emit(&lifeEvent{head: head{Type: "RUN_ERROR"}, Message: text, Code: code, Usage: s.p.usage})
	s.run = ""
	return s.send(s.p.out...)
}

// end ends a stream after err. It returns no error for a client that has disconnected.
func (s *stream) end(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, access.ErrClientGone):
		return nil
	case errors.Is(err, session.ErrStopped): // the turn can be resumed, so it did not fail
		s.p.ended = nil
		return s.end(s.finish())
	}
	f := front.FaultOf(err)
	if errors.Is(err, access.ErrRevoked) {
		err, f = nil, &front.Fault{Code: "revoked", Detail: "the credentials are no longer valid"}
	}
	s.p.out = s.p.out[:0]
	s.p.closeAll()
	if s.run != "" {
		_ = s.fail(f.Code, f.Detail)
	}
	return err
}

// refuse answers a run with an error in a stream, because pages expect an event.
func (h *Handler) refuse(c *front.Call, key session.Key, in *input, code, text string) error {
	s, leave, err := h.stream(c, key, in, &projection{})
	if err == nil {
		defer leave()
		err = s.end(s.fail(code, text))
	}
	return err
}
