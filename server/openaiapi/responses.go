package openaiapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/chats"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/responses"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// respond serves POST /responses.
func (h *Handler) respond(c *front.Call) error {
	r, err := h.readResponse(c)
	if err != nil {
		return err
	}
	stays, err := continues(c.R)
	if err != nil {
		return err
	}
	q, err := h.placeResponse(c, r)
	if err != nil {
		return err
	}
	a, err := h.chats.Begin(c.R.Context(), q)
	if err != nil {
		return err
	}
	if a.Unanswered != nil { // no turn was started
		h.chats.Shown(a)
		return &front.Fault{Status: http.StatusConflict, Code: "approval_required", Detail: h.question(c, a.Key, front.OpenQuestions(a.Unanswered), a.Refuse)}
	}
	seq, err := responses.PartStart(c.R.Context(), h.turns, a.Key, a.Turn, a.First, a.After)
	if err != nil {
		return err
	}
	id := responses.ID{Turn: a.Turn, Seq: seq, Session: a.Key.ID}
	if r.agent.Parent != nil {
		id.Path = r.agent.Path
	}
	out := responses.New(id, r.agent.Path)
	c.Session, c.Turn = a.Key.ID, a.Turn
	c.W.Header().Set("Arbor-Session", a.Key.ID)
	if r.body.Background && !r.body.Stream {
		if err := out.Read(c.R.Context(), h.turns, a.Key); err != nil {
			return err
		}
		return c.JSON(http.StatusOK, out.Object())
	}
	if r.body.Arbor.Events {
		out.Events = c.EventFilter()
	}
	return h.writeResponse(c, a, out, stays || r.body.Background, r.body.Stream)
}

// placeResponse finds the session and the turn that a request continues: those of the previous response, those of the
// conversation, or those that have the request's history, as for a chat completion.
func (h *Handler) placeResponse(c *front.Call, r *responseRequest) (q *chats.Ask, err error) {
	b := &r.body
	var decided *live.Report
	if len(r.approvals) > 0 && len(r.now) > 0 {
		if decided, err = h.decided(c, r.approvals); err != nil {
			return nil, err
		} else if decided == nil {
			return nil, faults{{Path: "input", Message: "has a message in addition to approvals: send the message when the turn has ended"}}.err()
		}
		r.approvals = nil
	}
	var before *responses.Response
	if b.Previous != "" {
		if before, _, err = h.findResponse(c, b.Previous); isMissing(err) {
			return nil, missing("previous_response_not_found", "previous_response_id", "response", b.Previous)
		} else if err != nil {
			return nil, err
		}
		if before.State == live.Running {
			return nil, agent.ErrSessionBusy
		}
		r.conversation, r.Model = before.ID.Session, cmp.Or(r.Model, before.Model)
	}
	if r.agent, err = h.agent(r.Model); err != nil {
		return nil, err
	}
	if before != nil && before.Model != r.agent.Path {
		return nil, faults{{Path: "model", Message: "is not that of the previous response, " + before.Model}}.err()
	}
	if r.conversation != "" {
		key, err := h.key(c, r.agent, r.conversation)
		known := false
		if err == nil {
			_, known, err = session.Find(c.R.Context(), h.turns.Store(), key)
		}
		if isMissing(err) || err == nil && !known {
			return nil, missing("not_found", "conversation", "conversation", r.conversation)
		} else if err != nil {
			return nil, err
		}
		c.R.Header.Set("Arbor-Session", r.conversation)
	}
	if q, err = h.placeChat(c, &r.chatRequest); err != nil {
		return nil, err
	}
	if before == nil && r.conversation != "" {
		if q.Added, err = h.claims(c.R.Context(), q.Key); err != nil {
			return nil, err
		}
	}
	if before != nil {
		q.At = &chats.Seen{Key: q.Key, Turn: before.ID.Turn, First: before.First, Seq: before.Seq, Waits: before.State == live.Waiting && q.Decisions == nil && r.approvals == nil}
		if decided != nil && decided.ID == before.ID.Turn { // it went on after the response that asked
			q.At.Seq, q.At.Part = decided.Seq, true
		}
	}
	var decisions []runner.Decision
	for _, given := range r.approvals {
		q.Repeats = true // a call gets one decision
		decisions = append(decisions, runner.Decision{CallID: given.call, RelayID: given.question, Approved: *given.Approve, Reason: given.Reason})
	}
	q.Sum = chats.SumOf(q.Sum[:], b.Previous, decisions) // q.Sum contains the results of calls as they were sent
	q.Decisions = append(q.Decisions, decisions...)
	q.Metadata[responses.AboutKey] = responses.About{Dropped: b.Store != nil && !*b.Store, Background: b.Background, Previous: b.Previous, User: b.User}
	return q, nil
}

// decided returns the turn that has the approvals, or nil. Before a message they are then history: the client has them
// back because the turn ended without an answer. A turn that has not ended would lose its calls to the message.
func (h *Handler) decided(c *front.Call, approvals []wireApproval) (*live.Report, error) {
	id, ok := responses.ResponseOf(approvals[len(approvals)-1].Request)
	if !ok {
		return nil, nil
	}
	key, _, err := h.keyOf(c, id)
	if err != nil {
		return nil, nil // another user's, or none
	}
	rep, err := h.turns.Report(c.R.Context(), key, id.Turn)
	switch {
	case errors.Is(err, live.ErrNoTurn):
		return nil, nil
	case err != nil:
		return nil, err
	case rep.State == live.Waiting:
		return nil, nil
	case !rep.Rests():
		return nil, agent.ErrSessionBusy
	}
	for _, a := range approvals {
		if !slices.ContainsFunc(rep.Decisions(), func(e *event.Event) bool {
			d := e.Data.(*event.RelayResolved)
			return d.RelayID == a.question && d.Approved == *a.Approve
		}) {
			return nil, nil
		}
	}
	return rep, nil
}

// writeResponse follows a response to its end and writes it, as a stream or as JSON.
func (h *Handler) writeResponse(c *front.Call, a *chats.Answer, out *responses.Response, stays, streams bool) error {
	a.After, a.Unseen = a.First, 0 // a response needs all events from the start of the turn
	ctx := c.R.Context()
	var stream *access.Stream
	if streams {
		var leave func()
		var err error
		if stream, leave, err = c.Stream(); err != nil {
			return err
		}
		defer leave()
		ctx = stream.Context()
		out.Send = func(kind string, data []byte) error { return stream.Send(access.Frame{Event: kind, Data: data}) }
		if out.Started() { // the rest of the response may come late
			if err := stream.Begin(); err != nil {
				return err
			}
		}
	}
	rep, err := h.follow(ctx, a, stays, func(en session.Entry, rep *live.Report) error {
		err := out.Apply(en, rep)
		if streams && err == nil {
			c.ObserveDelta(en.Event)
		}
		return err
	})
	var fault *front.Fault
	err = front.CauseOf(ctx, err)
	switch {
	case err == nil, errors.Is(err, responses.ErrOver), errors.As(err, &fault) && rep.State != live.Running: // the response contains the error of the turn
		a.Seq, a.Waits = rep.Seq, rep.State == live.Waiting // set before the client can send the next message
		texts := out.Texts()
		h.chats.Sent(a, texts...)
		if len(texts) > 1 {
			h.chats.Sent(a, strings.Join(texts, "")) // the form of clients that do not keep items
		}
		over := errors.Is(err, responses.ErrOver) // the client has only the questions before the next response
		if err = out.End(); err == nil && !streams {
			err = c.JSON(http.StatusOK, out.Object())
		}
		if err == nil && !over && received(c, stream) {
			h.chats.Shown(a)
		}
	case streams && (ctx.Err() == nil || errors.Is(err, access.ErrRevoked)) && !out.Began.IsZero():
		fault = front.FaultOf(err)
		out.Fail(fault.Code, fault.Detail)
	}
	return err
}

// keyOf returns the key of the caller's session with a response, and the path of the response's agent.
func (h *Handler) keyOf(c *front.Call, id responses.ID) (key session.Key, model string, err error) {
	n := h.turns.Runner().Tree().Root()
	if id.Path != "" {
		n, _ = h.agent(id.Path) // an agent that was removed has no sessions
	}
	if n == nil {
		return key, "", front.NotFound()
	}
	key, err = h.key(c, n, id.Session)
	return key, n.Path, err
}

// findResponse reads a response of the caller.
func (h *Handler) findResponse(c *front.Call, name string) (*responses.Response, session.Key, error) {
	id, ok := responses.ParseID(name)
	if !ok {
		return nil, session.Key{}, front.NotFound()
	}
	key, model, err := h.keyOf(c, id)
	if err != nil {
		return nil, key, err
	}
	r := responses.New(id, model)
	if err = r.Read(c.R.Context(), h.turns, key); err == nil && !r.About().Dropped {
		err = h.turns.Runner().ReadFold(c.R.Context(), key, func(f *session.Fold) error {
			if _, deleted := f.State(deletedKey(id)); deleted {
				return front.NotFound()
			}
			return nil
		})
	} else if err == nil || errors.Is(err, live.ErrNoTurn) {
		err = front.NotFound() // the same for all that the caller cannot read
	}
	c.Turn = id.Turn
	return r, key, err
}

// response answers with a stored response, or with the rest of its stream.
func (h *Handler) response(c *front.Call) error {
	query := c.R.URL.Query()
	streams, after := query.Get("stream") == "true", int64(-1)
	if text := query.Get("starting_after"); text != "" {
		n, err := strconv.ParseUint(text, 10, 53)
		if err != nil || !streams {
			return front.BadRequest("starting_after is %.40q; it must be a sequence number, with stream=true", text)
		}
		after = int64(n)
	}
	r, key, err := h.findResponse(c, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	c.W.Header().Set("Arbor-Session", key.ID)
	ctx := c.R.Context()
	switch {
	case r.State != live.CutOff:
	case streams: // the client has returned for the rest
		if err := h.turns.ResumeInterrupted(ctx, key); err != nil {
			return err
		}
	default:
		h.turns.Adopt(key)
		now, err := h.turns.Look(ctx, key)
		if err != nil {
			return err
		}
		if now.State != live.CutOff {
			r.State = live.Running
		}
	}
	if !streams {
		return c.JSON(http.StatusOK, r.Object())
	}
	out := &responses.Response{ID: r.ID, Model: r.Model}
	out.Resume(after)
	return h.writeResponse(c, &chats.Answer{Seen: chats.Seen{Key: key, Turn: r.ID.Turn, First: r.First}}, out, true, true)
}

// cancelResponse cancels the turn of a response that is not over.
func (h *Handler) cancelResponse(c *front.Call) error {
	r, key, err := h.findResponse(c, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	ctx := c.R.Context()
	check := func(ctx context.Context) (int64, bool, error) {
		rep, err := h.turns.Report(ctx, key, "")
		if err == nil && (r.Over || rep.ID != r.ID.Turn || rep.State == live.Done || rep.State == live.Failed) {
			err = &front.Fault{Status: http.StatusConflict, Code: "turn_over", Detail: "the response is over"}
		}
		if err != nil {
			return 0, false, err
		}
		return rep.Seq, rep.State == live.Waiting, nil
	}
	if r.State != live.Canceled {
		if _, _, err := check(ctx); err != nil { // check before CancelIf interrupts the turn
			return err
		}
		if _, err := h.turns.CancelIf(ctx, key, check); err != nil {
			return err
		}
		if r, key, err = h.findResponse(c, c.R.PathValue("id")); err != nil {
			return err
		}
	}
	return c.JSON(http.StatusOK, r.Object())
}
