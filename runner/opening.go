package runner

import (
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// opening stores what a turn begins with, before its first step: a message, decisions, the notice that the turn
// goes on in another process.
type opening struct {
	*turn
	recalled []*event.Event // results that a repeated decision asks for again
	resumed  bool           // the conversation's open run was cut off before this turn took it up
}

// begin stores the user's event, after closing what the last turn left open,
// and starts the active agent: all in one write.
func (t *opening) begin(msg llm.Message, o turnOptions) error {
	switch known, err := t.knows(o); {
	case err != nil || known && o.stays:
		return err
	case known:
		return t.resume(nil)
	}
	err := t.expect(o)
	if err == nil && !o.person {
		err = t.fits(&msg)
	}
	if err == nil {
		err = t.branch()
	}
	if err != nil {
		return err
	}
	conversation := t.cached.fold.Scope("")
	last := conversation.LastEnd
	if conversation.Run.Open {
		last = conversation.Run.ID
	}
	// Nobody goes on with tasks of inner scopes.
	inner, gone := t.cancelRemote(func(r session.Remote) bool { return r.Scope != "" })
	events := t.closer().closing(interrupted)
	events = append(inner, events...)
	if t.cached.fold.Held() {
		events = t.closer().closeScope(events, "", withdrawn)
	}
	events = slices.Grow(events, 2)
	user := &event.Event{TurnID: t.turnID(o), RunID: t.newID(), Agent: "user", Data: &event.User{Content: msg.Content.Stored(), Metadata: o.metadata}}
	switch turn := &t.cached.fold.Turn; {
	case turn.ID != "" && turn.ID != conversation.Run.TurnID: // nobody answered the message before
		user.ParentID = turn.UserRunID + ":user"
	case last != "":
		user.ParentID = endNode(last)
	}
	events = append(events, user)
	if len(o.state) > 0 { // behind the user event, which ends the state of the turn before
		events = append(events, &event.Event{TurnID: user.TurnID, RunID: user.RunID, Agent: user.Agent, Data: &event.State{Delta: o.state}})
	}
	events = t.answer(events, user.TurnID, user.RunID)
	first := len(events)
	if o.person {
		if events, err = t.callPerson(events, o.reason); err != nil {
			return err
		}
	}
	for _, d := range gone { // no run of theirs is open
		e := *events[first-1]
		e.ParentID, e.Data = "", d
		events = slices.Insert(events, first, &e)
	}
	return t.append(t.ctx, events)
}

// resume takes up a turn that was cut off, or one that waits for decisions. The open run
// goes on in run, and inner scopes when who has opened them runs again.
func (t *opening) resume(decisions []Decision) error {
	f := &t.cached.fold
	if len(decisions) > 0 || f.Held() || len(t.stayed()) > 0 {
		return t.decide(decisions)
	}
	if !f.Unfinished() {
		return nil
	}
	if f.Scope("").Run.Open {
		t.resumed = true
		if err := t.branch(); err != nil {
			return err
		}
	}
	return t.append(t.ctx, t.takenUp())
}

// takenUp makes the notices that open runs go on here, in all scopes, if a budget of time has
// to know since when nothing ran.
func (t *opening) takenUp() (events []*event.Event) {
	if !t.tally.time {
		return nil
	}
	for _, scope := range append([]string{""}, t.cached.fold.Inner()...) {
		run := &t.cached.fold.Scope(scope).Run
		if !run.Open || scope != "" && past(t.lease, run) {
			continue
		}
		events = append(events, &event.Event{TurnID: run.TurnID, RunID: run.ID, Scope: scope, Agent: run.Agent, Path: run.Path,
			Data: &event.Notice{Code: event.NoticeResumed, Message: "the run goes on here"}})
	}
	return events
}

// lookAgain opens a run that goes on where the last one ended to wait for something
// that is done elsewhere, in the conversation or inside of it. Only Resume does so, and Decide without decisions: engines that
// take a turn step by step see that it is over, as with one that waits for approvals.
func (t *opening) lookAgain() error {
	run := t.cached.fold.Scope("").Run
	n := t.r.tree.Node(run.Agent)
	missing := n == nil
	if t.branches() { // what it waits for is the other session's, and so is its run
		if err := t.branch(); err != nil || !missing {
			return err
		}
		run = t.cached.fold.Scope("").Run
	}
	var events []*event.Event
	if missing {
		n = t.r.tree.Root()
		events = t.closer().withdraw(&run)
	}
	start := t.start(n, run.TurnID, endNode(run.ID), "", nil)
	events = append(events, start)
	if missing {
		notice := *start
		notice.ParentID = ""
		notice.Data = &event.Notice{Code: "agent_gone", Message: fmt.Sprintf("the agent %q is no longer in the tree: %s goes on", run.Agent, n.Agent.Name())}
		events = append(events, &notice)
	}
	return t.append(t.ctx, events)
}

// knows reports whether the session's last turn is the one that is to begin.
func (t *opening) knows(o turnOptions) (bool, error) {
	switch {
	case o.id == "":
		return false, nil
	case !usableID(o.id):
		return false, fmt.Errorf("the turn has an id that none can have: give printable ASCII of at most 64 bytes: %w", agent.ErrBadInput)
	case t.cached.fold.Turn.ID == o.id:
		return true, nil
	case o.attempt <= 1:
		return false, nil
	}
	return false, t.began(o.id)
}

// began returns ErrTurnOver if one of the last turns has an id.
func (t *opening) began(id string) error {
	turns := 0
	for e, err := range session.Backward(t.ctx, t.r.store, t.key, 0) {
		if err != nil {
			return err
		}
		if _, begins := e.Data.(*event.User); !begins {
			continue
		}
		if e.TurnID == id {
			return ErrTurnOver
		}
		if turns++; turns == 64 {
			break
		}
	}
	return nil
}

func (t *opening) turnID(o turnOptions) string {
	if o.id != "" {
		return o.id
	}
	return t.newID()
}

// expect refuses a turn that was decided on when the log ended elsewhere.
func (t *opening) expect(o turnOptions) error {
	if o.pinned && t.lease.Head.Seq != o.at {
		return fmt.Errorf("session %s: the log is at %d, not at %d: %w", t.key, t.lease.Head.Seq, o.at, agent.ErrConflict)
	}
	return nil
}

// callPerson adds to the events that begin a turn the transfer to a person, in the place of
// the answer of the agent that they start.
func (t *opening) callPerson(events []*event.Event, reason string) ([]*event.Event, error) {
	start := events[len(events)-1]
	if t.r.person == nil {
		return nil, errNoDesk
	}
	if start.Agent == agent.Human {
		return events, nil
	}
	said, ended := *start, *start
	said.ParentID, ended.ParentID = "", ""
	said.Data = &event.Transfer{From: start.Agent, To: agent.Human, Reason: reason, Outcome: event.TransferCommitted, TransferType: event.TransferTypeBotToHuman}
	ended.Data = &event.HarnessEnd{AgentID: start.Agent, FinishReason: event.FinishReasonTransfer, Target: agent.Human}
	return append(events, &said, &ended, t.start(t.r.tree.Node(agent.Human), start.TurnID, endNode(start.RunID), "", nil)), nil
}

var errNoDesk = fmt.Errorf("the runner has no desk where a person could answer: give it one with runner.WithDesk: %w", agent.ErrBadInput)

// fits refuses a message that is too large for the window of the active agent's model, or for what a budget has left,
// before it is stored: all later requests would hold it, and none would fit. If a request would not fit without
// the message either, the turn ends with that.
func (t *opening) fits(msg *llm.Message) error {
	r := t.r
	n, _ := r.active(&t.cached.fold)
	text := llm.UserText(msg.PlainText()) // what media takes is a guess
	size := llm.CountMessage(&text, r.counter)
	windowed, _ := agent.As[interface{ Window() int }](n.Agent)
	if size <= smallMessage || windowed == nil && !r.bounds.counted() {
		return nil
	}
	without := amount{agent: n.Agent.Name()}
	var next amount
	frame := 0 // what each request holds besides messages
	err := r.imagine(t.ctx, t.cached, n.Agent.Name(), func(_ *scope, _ *agent.Invocation, model llm.Model, req *llm.Request) (err error) {
		with, bare := *req, *req
		bare.Messages = nil
		frame = llm.CountRequest(&bare, r.counter)
		if windowed != nil && windowed.Window() > 0 {
			req = &bare // the rest can be left out
		}
		with.Messages = append(req.Messages[:len(req.Messages):len(req.Messages)], text)
		if without, err = r.bounds.expect(n.Agent.Name(), model, req); err == nil {
			next, err = r.bounds.expect(n.Agent.Name(), model, &with)
		}
		return err
	})
	if err != nil {
		return nil // the turn ends with it
	}
	switch {
	case next.tokens > 0:
	case !n.Properties.Router: // it asks no model, or others with requests of its own
		return nil
	default: // which model it gives the message to is not known yet
		next = amount{agent: n.Agent.Name(), tokens: int64(size)}
	}
	if windowed != nil {
		if window := windowed.Window(); window > 0 && frame < window && frame+size > window {
			return &agent.MessageSizeError{Tokens: size, Of: "the window of the model of " + n.Agent.Name(), Unit: "tokens", Needs: float64(frame + size), Left: float64(window)}
		}
	}
	newTurn := func(session.Spent) session.Use { return session.Use{} }
	var spent *agent.BudgetError
	if errors.As(t.tally.withinBudgets("", next, newTurn), &spent) && t.tally.withinBudgets("", without, newTurn) == nil {
		return &agent.MessageSizeError{Tokens: size, Of: "the budget of " + spent.Of, Unit: spent.Unit, Needs: spent.Needs, Left: spent.Budget - spent.Used}
	}
	return nil
}

// smallMessage is the number of tokens up to which nobody counts a message: windows are far larger, and the budgets
// check each request anyway.
const smallMessage = 128
