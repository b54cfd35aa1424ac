package chats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
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
		var done bool
		if decisions, done, err = c.inWords(ctx, q, rep, a); err != nil {
			return nil, err
		} else if done {
			return a, nil
		} else if decisions == nil {
			return nil, nil
		}
	}
	if decisions, err = q.address(decisions, rep); err != nil {
		return nil, err
	}
	turn, err := c.turns.Resume(ctx, q.Key, decisions...)
	switch {
	case errors.Is(err, agent.ErrBadInput) && q.Decisions == nil:
		a.Unanswered, a.Refuse = rep, err.Error()
		return a, nil
	case err != nil:
		return nil, err
	case turn.First != nil:
		a.After = max(turn.First.Seq, a.After)
	}
	a.decided = true
	return a, nil
}

// inWords reads the user's words as the answer to a question of a turn that waits, and returns the decisions. There are
// none if the turn waits only for results of the client's calls: the user continues without them. If the words decide
// nothing now, inWords completes the answer a and reports that it is done.
func (c *Chats) inWords(ctx context.Context, q *Ask, rep *live.Report, a *Answer) (decisions []runner.Decision, done bool, err error) {
	open := front.OpenQuestions(rep)
	if len(front.PersonQuestions(open)) == 0 { // the user continues without the results of the client's calls
		return nil, false, c.lostApproval(ctx, q, open, rep)
	}
	has := q.has
	if q.At != nil && !q.At.Part {
		has = q.At.Seq
	}
	asked, err := c.shown(ctx, q, rep.First, has)
	if err != nil {
		return nil, false, err
	}
	if has == 0 {
		if asked = q.quoted(rep); asked != nil {
			has = asked.Seq
			sum := SumOf("again", q.Sum)
			again := History(sum[:16])
			replayed, _ := c.seen.find(again)
			if _, stored := q.storedIn(rep); stored > 0 && (replayed.Seq < asked.Seq || q.hasTurn(rep)) { // the request came before, about an equal question
				a.After, a.decided, a.again = stored, stored > rep.First, again
				return nil, true, nil
			}
		}
	}
	if asked != nil && !slices.ContainsFunc(rep.Questions(), func(e *event.Event) bool { return e.ID == asked.ID }) {
		a.After = has // another client answered it: this one gets what followed, with the question that is open now
		return nil, true, nil
	}
	var decision runner.Decision
	understood := false
	if asked != nil && c.turns.MayDecide(ctx, q.Key, asked.Data.(*event.Relay)) {
		decision, understood = decisionOf(asked.Data.(*event.Relay), q.content)
	}
	if !understood {
		a.Unanswered = rep
		return nil, true, nil
	}
	return append(c.resultsFor(ctx, q, open, rep), decision), false, nil
}

// shown returns the question of a turn that a client was shown which has the log up to a position, or nil. A text
// answers no other question: the client may have sent it before the others were asked. If the client sends the question
// along, it is that one, because the caller may have had other rights then. Otherwise, as in the Responses API, it is
// the first one that the caller may answer.
func (c *Chats) shown(ctx context.Context, q *Ask, first, has int64) (*event.Event, error) {
	then := &live.Report{}
	err := c.load(ctx, q.Key, first-1, has, func(e *event.Event) error {
		then.Apply(e)
		return nil
	})
	questions := front.PersonQuestions(front.OpenQuestions(then))
	if err != nil || len(questions) == 0 {
		return nil, err
	}
	sent := slices.DeleteFunc(slices.Clone(questions), func(d *event.Relay) bool { return !strings.HasSuffix(q.last, front.Question(d)) })
	if len(sent) > 0 {
		questions = sent
	}
	asked, _ := c.turns.Asked(ctx, q.Key, questions)
	n := slices.IndexFunc(then.Questions(), func(e *event.Event) bool { return e.Data == event.Data(asked) })
	return then.Questions()[n], nil
}

// quoted returns the question of a turn with which the client's last text of an assistant ends, or nil. The client has
// it from the server, or from another process. Questions that differ only in what the text does not show are none. A
// question is a block of its text, without an empty line. Of equal ones, quoted returns one that is open.
func (q *Ask) quoted(rep *live.Report) (found *event.Event) {
	text := q.last[strings.LastIndex("\n\n"+q.last, "\n\n"):]
	for _, e := range slices.Concat(rep.Log.Asked, rep.Questions()) {
		asked := e.Data.(*event.Relay)
		switch {
		case front.AsCall(rep.User, e.ID, asked).Client || front.Question(asked) != text:
		case found != nil && found.Data.(*event.Relay).Digest != asked.Digest:
			return nil
		default:
			found = e
		}
	}
	return found
}

// hasTurn reports whether the client sends the message that began a turn along, and so all that it was shown since: then
// equal requests are about one question.
func (q *Ask) hasTurn(rep *live.Report) bool {
	began := Said{Text: rep.User.Content.PlainText()}.normal()
	return slices.ContainsFunc(q.texts, func(s Said) bool { return !s.Assistant && s.normal() == began })
}

// address returns the decisions with their ids and those of their questions, fitted to the questions that they answer.
// Next to others it omits those that the turn has stored, because clients send them back with the history.
func (q *Ask) address(decisions []runner.Decision, rep *live.Report) (all []runner.Decision, err error) {
	for _, d := range decisions {
		pending := rep.Pending
		if d.Content != nil {
			pending = front.OpenQuestions(rep)
		}
		n := slices.IndexFunc(pending, func(asked *event.Relay) bool {
			return asked.ToolCallID == d.CallID && (q.Decisions == nil || asked.Client == (d.Content != nil))
		})
		if (n < 0 || d.RelayID != "" && d.RelayID != rep.Questions()[n].ID) && stored(d, rep) {
			continue
		}
		if n < 0 {
			return nil, notWaited(d)
		}
		if asked := rep.Pending[n]; pending[n] != asked {
			d = front.DecisionOf(asked, d.Content)
		}
		if q.Decisions != nil {
			if err := live.CheckNamed(&rep.Log, d); err != nil {
				return nil, err
			}
		}
		d.ID, d.RelayID = q.decisionID(rep.Questions()[n].ID), cmp.Or(d.RelayID, rep.Questions()[n].ID)
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, notWaited(decisions[0])
	}
	return all, nil
}

// stored reports whether the turn has the same decision about the same question, or about a question of the same call if
// the decision names none.
func stored(d runner.Decision, rep *live.Report) bool {
	return slices.ContainsFunc(rep.Decisions(), func(e *event.Event) bool {
		first := e.Data.(*event.RelayResolved)
		n := slices.IndexFunc(rep.Log.Asked, func(asked *event.Event) bool { return asked.ID == first.RelayID })
		if n < 0 || d.RelayID != "" && d.RelayID != first.RelayID {
			return false
		}
		asked, d := rep.Log.Asked[n].Data.(*event.Relay), d
		call := front.AsCall(rep.User, first.RelayID, asked)
		if call.ToolCallID != d.CallID {
			return false
		}
		if call != asked {
			d = front.DecisionOf(asked, d.Content)
		}
		return d.Equals(first)
	})
}

// lostApproval returns an error if a result of the request approves an open call, which the request's message would
// withdraw. If the user continues with a second message, which a client with a history sends after the first
// one, it withdraws the call.
func (c *Chats) lostApproval(ctx context.Context, q *Ask, open []*event.Relay, rep *live.Report) error {
	if len(q.Now) > 1 {
		return nil
	}
	for _, given := range c.resultsFor(ctx, q, open, rep) {
		n := slices.IndexFunc(open, func(asked *event.Relay) bool { return asked.ToolCallID == given.CallID })
		if asked := rep.Pending[n]; asked != open[n] && front.DecisionOf(asked, given.Content).Approved {
			return &front.Fault{Status: http.StatusConflict, Code: "approval_with_message", Detail: fmt.Sprintf("the result of the call %.80q approves a call of %.64q, "+
				"which the message after it would withdraw: send the result alone, and the message when the turn has ended", given.CallID, asked.Tool)}
		}
	}
	return nil
}

// resultsFor returns the results of the request for open calls, without approvals by a caller who may not approve: the
// client keeps these in its history, and they mean nothing next to the caller's message.
func (c *Chats) resultsFor(ctx context.Context, q *Ask, open []*event.Relay, rep *live.Report) []runner.Decision {
	return slices.DeleteFunc(waited(open, q.Results), func(given runner.Decision) bool {
		n := slices.IndexFunc(open, func(asked *event.Relay) bool { return asked.ToolCallID == given.CallID })
		return rep.Pending[n] != open[n] && !c.turns.MayDecide(ctx, q.Key, rep.Pending[n])
	})
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
