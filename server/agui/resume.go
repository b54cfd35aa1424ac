package agui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

// resume resumes a turn with the answers to all of its questions, or with results of calls that the page ran. If the
// same run with the same answers was posted before, resume shows the events that followed. says tells that the request has
// new words, too.
func (h *Handler) resume(c *front.Call, key session.Key, in *input, says bool) error {
	ctx := c.R.Context()
	refuse := func(format string, a ...any) error {
		return h.refuse(c, key, in, "bad_resume", fmt.Sprintf(format, a...))
	}
	p, _, _, err := h.look(ctx, key)
	if err != nil {
		return err
	}
	r, err := h.turns.Report(ctx, key, "")
	switch {
	case errors.Is(err, live.ErrNoTurn):
		return refuse("the thread waits for nothing")
	case err != nil:
		return err
	case says:
		return refuse("the run has answers and new words: send the words when the turn is over")
	}
	if _, err = p.past(h.turns.Store().Load(ctx, key, r.First-1), r.Seq); err != nil {
		return err
	}
	// What is answered again by the same run need not be open any more, and live compares the answers.
	open := interrupts(p.log.Questions)
	if r.Decided(in.Run) {
		open = interrupts(p.log.Asked)
	}
	decisions := p.give(in.results(), open)
	if len(in.Resume)+len(decisions) == 0 {
		return h.refuse(c, key, in, "nothing_new", "the messages contain no new text of the user, and no result that the thread waits for")
	}
	open = slices.DeleteFunc(slices.Clone(open), func(q interrupt) bool { return q.Metadata.Client })
	for i := range in.Resume {
		a := &in.Resume[i]
		n := slices.IndexFunc(open, func(q interrupt) bool { return q.ID == a.ID })
		if n < 0 {
			return refuse("resume[%d]: nothing waits for an answer under the id %.80q: there is none, or it was given", i, a.ID)
		}
		decision, err := a.decide(&open[n])
		if err != nil {
			return refuse("resume[%d]: %s", i, err)
		}
		decisions, open = append(decisions, decision), slices.Concat(open[:n], open[n+1:])
	}
	open = slices.DeleteFunc(slices.Clone(open), func(q interrupt) bool { return !h.turns.MayDecide(ctx, key, q.Metadata.Relay) })
	if len(in.Resume) > 0 && len(open) > 0 && !r.Decided(in.Run) {
		return refuse("there is no answer to %q: all that the thread waits for is to be answered at once", open[0].ID)
	}
	w, err := h.written(in.State, p.state)
	if err != nil {
		return err
	}
	decisions[0].State, in.ignoredState = w.delta, w.ignored
	b, err := h.turns.DecideOnce(ctx, key, r.ID, live.Request{ID: in.Run, Wait: c.PreferredWait()}, decisions...)
	switch {
	case errors.Is(err, live.ErrMismatch):
		return refuse("a run of this id had other answers")
	case errors.Is(err, runner.ErrNoApproval), errors.Is(err, runner.ErrTurnOver), errors.Is(err, agent.ErrBadInput):
		return refuse("%s", err)
	case err == nil && b.Repeated:
		_, err = p.past(h.turns.Store().Load(ctx, key, r.First-1), b.From)
	}
	if err != nil {
		return err
	}
	return h.follow(c, key, in, p, r.First)
}

// give returns decisions with the results of the calls that wait for the page, and notes that the page has the results.
func (p *projection) give(results map[string]json.RawMessage, open []interrupt) (decisions []runner.Decision) {
	for _, q := range open {
		result, ok := results[q.Call]
		if !ok || !q.Metadata.Client {
			continue
		}
		set(&p.given, q.Call, true)
		var text string
		if json.Unmarshal(result, &text) != nil { // some pages send a value
			text = string(result)
		}
		decisions = append(decisions, runner.Decision{CallID: q.Call, Approved: true, Content: event.EncodeJSON(text)})
	}
	return decisions
}

// decide reads what a page answers. Nothing is approved but by a plain true.
func (a *answer) decide(q *interrupt) (runner.Decision, error) {
	switch {
	case a.Status == "cancelled":
		return runner.Deny(q.Call, ""), nil
	case a.Status != "resolved":
		return runner.Decision{}, errors.New("needs the status resolved, or cancelled")
	case q.Reason == "arbor:input" && len(a.Payload) == 0:
		return runner.Decision{}, errors.New("needs a payload: the answer, in the form of the interrupt's responseSchema")
	case q.Reason == "arbor:input":
		return runner.Decision{CallID: q.Call, Approved: true, Content: a.Payload}, nil
	}
	var said struct {
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	}
	dec := json.NewDecoder(bytes.NewReader(a.Payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&said); err != nil || said.Approved == nil {
		return runner.Decision{}, errors.New(`needs the payload {"approved": true} or {"approved": false}, with a reason if there is one, and nothing else`)
	}
	return runner.Decision{CallID: q.Call, Approved: *said.Approved, Reason: said.Reason}, nil
}
