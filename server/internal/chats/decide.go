package chats

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/front"
)

// decide answers the question of a turn that waits. It returns nil if the turn waits for nothing from the client.
func (c *Chats) decide(ctx context.Context, q *Ask) (*Answer, error) {
	rep, err := c.turns.Report(ctx, q.Key, "")
	if errors.Is(err, live.ErrNoTurn) {
		return nil, nil
	}
	if err == nil && q.At != nil && rep.ID != q.At.Turn {
		if _, err = c.catchUp(ctx, q); err == nil {
			rep, err = c.turns.Report(ctx, q.Key, "")
		}
	}
	if err != nil {
		return nil, err
	}
	a := &Answer{Seen: Seen{Key: q.Key, Turn: rep.ID, First: rep.First, After: rep.Seq}}
	if len(rep.Pending) == 0 {
		if q.Decisions != nil && (q.At == nil || !q.At.Waits) {
			return nil, notWaited(q.Decisions[0])
		}
		if _, meant := live.YesOrNo(q.content.PlainText()); q.At != nil && q.At.Waits && (meant || q.Decisions != nil) { // another client answered it
			a.After = q.At.Seq
			return a, nil
		}
		return nil, nil
	}
	decisions := slices.Clone(q.Decisions)
	if decisions == nil {
		questions := front.PersonQuestions(rep.Pending)
		if len(questions) == 0 {
			return nil, nil // the user continues without the results of the client's calls
		}
		asked, may := c.turns.Asked(ctx, q.Key, questions)
		decision, understood := decisionOf(asked, q.content)
		if !understood || !may {
			a.Again = rep
			return a, nil
		}
		decisions = []runner.Decision{decision}
	}
	if err := q.address(decisions, rep); err != nil {
		return nil, err
	}
	turn, err := c.turns.Resume(ctx, q.Key, decisions...)
	switch {
	case errors.Is(err, agent.ErrBadInput) && q.Decisions == nil:
		a.Again, a.Refuse = rep, err.Error()
		return a, nil
	case err != nil:
		return nil, err
	case turn.First != nil:
		a.After = max(turn.First.Seq, a.After)
	}
	return a, nil
}

// address sets the ids of decisions and fits them to the questions that they answer.
func (q *Ask) address(decisions []runner.Decision, rep *live.Report) error {
	for i, given := range decisions {
		pending := rep.Pending
		if given.Content != nil && q.Decisions != nil {
			pending = front.OpenQuestions(rep)
		}
		n := slices.IndexFunc(pending, func(d *event.Relay) bool {
			return d.ToolCallID == given.CallID && (q.Decisions == nil || d.Client == (given.Content != nil))
		})
		if n < 0 {
			return notWaited(given)
		}
		if asked := rep.Pending[n]; pending[n] != asked {
			decisions[i] = front.DecisionOf(asked, given.Content)
		}
		if decisions[i].ID = q.name(); i > 0 {
			decisions[i].ID += "-" + strconv.Itoa(i)
		}
	}
	return nil
}

// notWaited returns the error of a decision that no question waits for.
func notWaited(d runner.Decision) error {
	if d.Content == nil {
		return runner.ErrNoApproval
	}
	return &front.Fault{Status: http.StatusConflict, Code: "nothing_waits",
		Detail: fmt.Sprintf("no tool of the client waits for a result of the call %.80q: it has one, or the conversation went on without it", d.CallID)}
}

// decisionOf reads a message as the answer to a question.
func decisionOf(asked *event.Relay, said llm.Content) (d runner.Decision, understood bool) {
	words := strings.TrimSpace(said.PlainText())
	d.CallID = asked.ToolCallID
	if asked.Kind == event.RelayInput {
		d.Approved, d.Content = true, live.Content(asked, words)
		return d, words != ""
	}
	d.Approved, understood = live.YesOrNo(words)
	d.Reason = words
	return d, understood
}
