package agui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// resume resumes a turn with the answers to all of its questions, or with results of calls that the page ran. If the
// page sent the same run with the same answers before, resume sends the events that followed. hasMessage reports that
// the request also has a new message, which is an error.
func (h *Handler) resume(c *front.Call, key session.Key, in *input, hasMessage bool) error {
	ctx := c.R.Context()
	refuse := func(format string, a ...any) error {
		return h.refuse(c, key, in, "bad_resume", fmt.Sprintf(format, a...))
	}
	p, _, _, err := h.glance(ctx, key)
	if err != nil {
		return err
	}
	r, err := h.asking(ctx, key, in)
	switch {
	case errors.Is(err, live.ErrNoTurn):
		return refuse("the thread has no open question")
	case err != nil:
		return err
	case hasMessage:
		return refuse("the run has answers and a new message: send the message when the turn is over")
	}
	if _, err = p.replay(h.turns.Store().Load(ctx, key, r.First-1), r.Seq); err != nil {
		return err
	}
	// A repeated run answers questions that are no longer open. DecideOnce compares the answers.
	open := interrupts(p.log.Questions)
	if r.Decided(in.Run) {
		open = interrupts(p.log.Asked)
	}
	decisions := p.decisionsOf(in.results(len(in.Messages)), open)
	if len(in.Resume)+len(decisions) == 0 {
		return h.refuse(c, key, in, "nothing_new", "the messages contain no new text of the user, and no result that the thread waits for")
	}
	open = slices.DeleteFunc(slices.Clone(open), func(q interrupt) bool { return q.Metadata.Client })
	for i := range in.Resume {
		a := &in.Resume[i]
		n := slices.IndexFunc(open, func(q interrupt) bool { return q.ID == a.ID })
		if n < 0 {
			return refuse("resume[%d]: no open question has the id %.80q", i, a.ID)
		}
		decision, err := a.decide(&open[n])
		if err != nil {
			return refuse("resume[%d]: %s", i, err)
		}
		decision.RelayID = open[n].ID // the call may ask something else by now
		decisions, open = append(decisions, decision), slices.Concat(open[:n], open[n+1:])
	}
	open = slices.DeleteFunc(slices.Clone(open), func(q interrupt) bool { return !h.turns.MayDecide(ctx, key, q.Metadata.Relay) })
	if len(in.Resume) > 0 && len(open) > 0 && !r.Decided(in.Run) {
		return refuse("the answer to %q is missing: answer all open questions in one run", open[0].ID)
	}
	w, err := h.stateChangeOf(in.State, p.state)
	if err != nil {
		return err
	}
	decisions[0].State, in.ignoredState = w.delta, w.ignored
	b, err := h.turns.DecideOnce(ctx, key, r.ID, live.Request{ID: in.Run, Wait: c.PreferredWait()}, decisions...)
	switch {
	case errors.Is(err, live.ErrMismatch):
		return refuse("an earlier run with this id had other answers: use a new id")
	case errors.Is(err, runner.ErrNoApproval), errors.Is(err, runner.ErrTurnOver), errors.Is(err, agent.ErrBadInput):
		return refuse("%s", err)
	case err == nil && b.Repeated:
		_, err = p.replay(h.turns.Store().Load(ctx, key, r.First-1), b.From)
	}
	if err != nil {
		return err
	}
	return h.followTurn(c, key, in, p, r.First)
}

// asking returns the last turn of a session, or one of the 64 last ones that the same run has resumed before.
func (h *Handler) asking(ctx context.Context, key session.Key, in *input) (*live.Report, error) {
	last, err := h.turns.Report(ctx, key, "")
	if err != nil || len(in.Resume) == 0 || slices.ContainsFunc(last.Log.Asked, func(e *event.Event) bool { return e.ID == in.Resume[0].ID }) {
		return last, err
	}
	turns := 1
	for r, err := range h.turns.Reports(ctx, key, last.First) {
		if err != nil || r.Decided(in.Run) {
			return r, err
		}
		if turns++; turns == lookBackAlone {
			break
		}
	}
	return last, nil
}

// decisionsOf returns decisions with the results of the open calls of the page's tools. It records that the page has
// these results.
func (p *projection) decisionsOf(results []runner.Decision, open []interrupt) (decisions []runner.Decision) {
	for _, q := range open {
		i := slices.IndexFunc(results, func(d runner.Decision) bool { return d.CallID == q.Call })
		if i >= 0 && q.Metadata.Client {
			set(&p.given, q.Call, true)
			decisions = append(decisions, results[i])
		}
	}
	return decisions
}

// decide returns the decision of a page's answer. Only a JSON true approves.
func (a *answer) decide(q *interrupt) (runner.Decision, error) {
	switch {
	case a.Status == "cancelled":
		return runner.Deny(q.Call, ""), nil
	case a.Status != "resolved":
		return runner.Decision{}, errors.New("needs the status resolved or cancelled")
	case q.Reason == "arbor:input" && len(a.Payload) == 0:
		return runner.Decision{}, errors.New("needs a payload that fits the interrupt's responseSchema")
	case q.Reason == "arbor:input":
		return runner.Decision{CallID: q.Call, Approved: true, Content: a.Payload}, nil
	}
	var payload struct {
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	}
	dec := json.NewDecoder(bytes.NewReader(a.Payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&payload); err != nil || payload.Approved == nil {
		return runner.Decision{}, errors.New(`needs the payload {"approved": true} or {"approved": false}, which may have a reason`)
	}
	return runner.Decision{CallID: q.Call, Approved: *payload.Approved, Reason: payload.Reason}, nil
}
