package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// opening stores what a turn begins with, before its first step: a message, decisions, the notice that another
// process has adopted the turn.
type opening struct {
	*turn
	recalled []*event.Event // results that a repeated decision asks for again
	resumed  bool           // the conversation's open run was cut off before this turn took it up
}

// beginTurn stores the user's event, after closing what the last turn left open,
// and starts the active agent: all in one write.
func (t *opening) beginTurn(msg llm.Message, o turnOptions) error {
	switch known, err := t.alreadyBegun(o); {
	case err != nil || known && o.stays:
		return err
	case known:
		return t.resumeTurn(nil)
	}
	err := t.expectAt(o)
	if err == nil && !o.person {
		err = t.fits(&msg)
	}
	if err == nil {
		err = t.branchOff()
	}
	if err != nil {
		return err
	}
	conversation := t.fold().Scope("")
	last := conversation.LastEnd
	if conversation.Run.Open {
		last = conversation.Run.ID
	}
	// No agent continues tasks of inner scopes.
	inner, gone := t.cancelRemote(func(r session.Remote) bool { return r.Scope != "" })
	events := append(inner, t.closer().closing(interrupted)...)
	if t.fold().Held() {
		events = t.closer().closeScope(events, "", withdrawn)
	}
	if o.id == "" {
		o.id = t.newID()
	}
	user := &event.Event{TurnID: o.id, RunID: t.newID(), Agent: "user", Data: &event.User{Content: msg.Content.Stored(), Metadata: o.metadata}}
	switch turn := t.fold().Turn; {
	case turn.ID != "" && turn.ID != conversation.Run.TurnID: // no agent answered the message before
		user.ParentID = turn.UserRunID + ":user"
	case last != "":
		user.ParentID = endNode(last)
	}
	events = append(events, user)
	if len(o.state) > 0 { // after the user event, which ends the state of the turn before
		events = append(events, alsoOf(user, &event.State{Delta: o.state}))
	}
	events = t.startAnswer(events, user.TurnID, user.RunID)
	first := len(events)
	if o.person {
		if events, err = t.callPerson(events, o.reason); err != nil {
			return err
		}
	}
	for _, d := range gone { // no run of theirs is open
		events = slices.Insert(events, first, alsoOf(events[first-1], d))
	}
	return t.appendEvents(t.ctx, events)
}

// resumeTurn resumes a turn that was cut off, or one that waits for decisions. The scope continues the
// open run. The agent that opened an inner scope continues the scope when it runs again.
func (t *opening) resumeTurn(decisions []Decision) error {
	f := t.fold()
	if len(decisions) > 0 || f.Held() || len(t.denyShared()) > 0 {
		return t.storeDecisions(decisions)
	}
	if !f.Unfinished() {
		return nil
	}
	if f.Scope("").Run.Open {
		t.resumed = true
		if err := t.branchOff(); err != nil {
			return err
		}
	}
	return t.appendEvents(t.ctx, t.resumedNotices())
}

// resumedNotices returns a notice for each open run of all scopes, which says that the run is resumed. A budget of
// time needs them to leave out the time in which nothing ran.
func (t *opening) resumedNotices() (events []*event.Event) {
	if !t.tally.time {
		return nil
	}
	for _, scope := range append([]string{""}, t.fold().Scopes.Names()...) {
		run := &t.fold().Scope(scope).Run
		if !run.Open || scope != "" && ofOtherSession(t.lease, run) {
			continue
		}
		events = append(events, eventOf(run, scope, &event.Notice{Code: event.NoticeResumed, Message: "the run continues here"}))
	}
	return events
}

// lookAgain opens a run that continues the last one, which waits for something that is done
// elsewhere, in the conversation or inside of it. Only Resume does so, and Decide without decisions: engines that
// take a turn step by step see that it is over, as with one that waits for approvals.
func (t *opening) lookAgain() error {
	run := t.fold().Scope("").Run
	n := t.r.tree.Node(run.Agent)
	missing := n == nil
	if t.branches() { // what it waits for is the other session's, and so is its run
		if err := t.branchOff(); err != nil || !missing {
			return err
		}
		run = t.fold().Scope("").Run
	}
	var events []*event.Event
	if missing {
		n = t.r.tree.Root()
		events = t.closer().withdraw(&run)
	}
	start := t.startEvent(n, run.TurnID, endNode(run.ID), "", nil)
	events = append(events, start)
	if missing {
		message := fmt.Sprintf("the agent %q is no longer in the tree: %s goes on", run.Agent, n.Agent.Name())
		events = append(events, alsoOf(start, &event.Notice{Code: "agent_gone", Message: message}))
	}
	return t.appendEvents(t.ctx, events)
}

// alreadyBegun reports whether the session's last turn is the one that is to begin. The error is ErrTurnOver if it is one
// of those before.
func (t *opening) alreadyBegun(o turnOptions) (bool, error) {
	switch {
	case o.id == "":
		return false, nil
	case !usableID(o.id):
		return false, fmt.Errorf("the turn has an id that none can have: give printable ASCII of at most 64 bytes: %w", agent.ErrBadInput)
	case t.fold().Turn.ID == o.id:
		return true, nil
	case o.attempt <= 1:
		return false, nil
	}
	turns := 0
	for e, err := range session.Backward(t.ctx, t.r.store, t.key, 0) {
		if err != nil {
			return false, err
		}
		if _, begins := e.Data.(*event.User); !begins {
			continue
		}
		if e.TurnID == o.id {
			return false, ErrTurnOver
		}
		if turns++; turns == 64 {
			break
		}
	}
	return false, nil
}

// expectAt refuses a turn that was decided on when the log ended elsewhere.
func (t *opening) expectAt(o turnOptions) error {
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
	said := &event.Transfer{From: start.Agent, To: agent.Human, Reason: reason, Outcome: event.TransferCommitted, TransferType: event.TransferTypeBotToHuman}
	ended := &event.HarnessEnd{AgentID: start.Agent, FinishReason: event.FinishReasonTransfer, Target: agent.Human}
	person := t.startEvent(t.r.tree.Node(agent.Human), start.TurnID, endNode(start.RunID), "", nil)
	return append(events, alsoOf(start, said), alsoOf(start, ended), person), nil
}

// fits refuses a message that is too large for the window of the active agent's model, or for what a budget has left,
// before it is stored: all later requests would hold it, and none would fit. If a request would not fit without
// the message either, the turn ends with that.
func (t *opening) fits(msg *llm.Message) error {
	r := t.r
	n, _ := r.activeNode(t.fold())
	text := llm.UserText(msg.PlainText()) // what media takes is a guess
	size := llm.CountMessage(&text, r.counter)
	windowed, _ := agent.As[interface{ Window() int }](n.Agent)
	if size <= smallMessage || windowed == nil && !r.bounds.counted() {
		return nil
	}
	without := amount{agent: n.Agent.Name()}
	var next amount
	frame := 0 // what each request holds in addition to messages
	err := r.imaginary(t.ctx, t.cached).imagine(n.Agent.Name(), func(_ *scope, _ *agent.Invocation, model llm.Model, req *llm.Request) (err error) {
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

// didStep reports whether the step that began at a position, which the log has passed, was done to its end: the agent stores
// calls in one step and runs them in another, and none waits that was there before the step.
func (t *opening) didStep(seq int64) bool {
	f := t.fold()
	run := &f.Scope("").Run
	if !f.Unfinished() {
		return true
	}
	if n := t.r.tree.Node(run.Agent); n == nil || !n.Properties.Stepwise || !run.Open || f.Scopes.Len() > 0 {
		return false
	}
	for _, c := range run.Pending {
		if c.Made <= seq {
			return false
		}
	}
	stored := false
	for e, err := range t.Events(t.ctx, seq) {
		if err != nil {
			return false
		}
		switch d := e.Data.(type) {
		case *event.Notice:
			switch d.Code {
			case event.NoticeAdopted: // by a process that may have begun the next step
				return false
			case event.NoticeUndecided: // which is all of a step whose model failed
				stored = true
			}
		case *event.Discard: // of a step that came to nothing
		default:
			stored = true
		}
	}
	return stored
}

// deliverWord stores what a desk says, in a run of the person's own.
func (t *opening) deliverWord(ctx context.Context, word human.Event) error {
	f, person := t.fold(), t.r.tree.Node(agent.Human)
	said, err := t.r.person.Hear(ctx, agent.NewInvocation(agent.InvocationParams{Node: person, Tree: t.r.tree, Session: &t.turnSession, TurnID: f.Turn.ID,
		NewID: t.newID, Logger: t.r.logger}), word)
	if len(said) == 0 || err != nil {
		return err
	}
	if err := t.branchOff(); err != nil {
		return err
	}
	cause := f.Scope("").LastEnd
	if open := f.Scope("").Run; open.Open {
		cause = open.ID
	}
	start := t.startEvent(person, f.Turn.ID, endNode(cause), "", nil)
	events := append(t.closer().closing(interrupted), start)
	for _, d := range append(said, &event.HarnessEnd{AgentID: agent.Human, FinishReason: event.FinishReasonStop}) {
		events = append(events, alsoOf(start, d))
	}
	return t.appendEvents(ctx, events)
}
