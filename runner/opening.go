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

// opening stores the first events of a turn, or of a part of one, before its first step: a message, decisions, or the
// notice that this process has adopted the turn.
type opening struct {
	*turn
	recalled []*event.Event // stored results of calls that a repeated decision approves, for the consumer
	resumed  bool           // the turn continues the conversation's interrupted run
}

// beginTurn closes what the last turn left open, stores the user's event, and starts the active agent, in one write. If
// the session's last turn has the id of the new one, it resumes that turn instead.
func (t *opening) beginTurn(msg llm.Message, o turnOptions) error {
	switch known, err := t.alreadyBegun(o); {
	case err != nil || known && o.stays:
		return err
	case known:
		return t.resumeTurn(nil)
	}
	err := t.expectAt(o)
	if err == nil && !o.person {
		err = t.checkSize(&msg)
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
	// The new turn does not continue inner scopes: cancel their remote tasks.
	inner, gone := t.cancelRemote(func(r session.Remote) bool { return r.Scope != "" })
	events, err := t.addResults(inner, o.results)
	if err != nil {
		return err
	}
	events = t.closer().closing(events, interrupted)
	if o.id == "" {
		o.id = t.newID()
	}
	user := &event.Event{TurnID: o.id, RunID: t.newID(), Agent: "user", Data: &event.User{Content: msg.Content.Stored(), Metadata: o.metadata}}
	switch turn := t.fold().Turn; {
	case turn.ID != "" && turn.ID != conversation.Run.TurnID: // no run was started for the last message
		user.ParentID = turn.UserRunID + ":user"
	case last != "":
		user.ParentID = endNode(last)
	}
	events = append(events, user)
	if len(o.state) > 0 { // after the user event, which clears the last turn's state
		events = append(events, siblingEvent(user, &event.State{Delta: o.state}))
	}
	events = t.startAnswer(events, user.TurnID, user.RunID)
	first := len(events)
	if o.person {
		if events, err = t.callPerson(events, o.reason); err != nil {
			return err
		}
	}
	for _, d := range gone { // the runs of these tasks have ended: store the events in the new run
		events = slices.Insert(events, first, siblingEvent(events[first-1], d))
	}
	return t.appendEvents(t.ctx, events)
}

// addResults adds the results of calls of the client's tools that the last run of the conversation waits for.
func (t *opening) addResults(events []*event.Event, results []Decision) ([]*event.Event, error) {
	run := &t.fold().Scope("").Run
	for _, d := range results {
		call := run.Call(d.CallID)
		if call == nil || !d.Approved || !call.Open() || !call.Asks.Client || answeredIn(events, d.CallID) {
			continue
		}
		if err := d.answers(call.Asks, call.Relay); err != nil {
			return nil, err
		}
		given := eventOf(run, "", &event.RelayResolved{RelayID: call.Relay, Approved: true, By: d.By, Content: d.Content, Rights: d.Rights, Digest: call.Asks.Digest})
		result := eventOf(run, "", &event.ToolResult{Name: call.Name, Output: d.Content})
		given.ID, result.ID = d.ID, call.ID
		events = append(events, given, result)
	}
	return events, nil
}

// resumeTurn resumes an interrupted turn, or one that waits for decisions. The conversation's scope continues the open
// run. An inner scope continues when the agent that has opened it runs again.
func (t *opening) resumeTurn(decisions []Decision) error {
	f := t.fold()
	if len(decisions) > 0 || f.Held() || len(t.denyShared()) > 0 {
		return t.storeDecisions(decisions)
	}
	if !f.Unfinished() {
		return nil
	}
	return t.continueTurn()
}

// continueTurn stores the notices that an interrupted turn continues, and then other events, in one write.
func (t *opening) continueTurn(events ...*event.Event) error {
	if t.fold().Scope("").Run.Open {
		t.resumed = true
		if err := t.branchOff(); err != nil {
			return err
		}
	}
	return t.appendEvents(t.ctx, append(t.resumedNotices(), events...))
}

// resumedNotices returns a notice for each open run of all scopes that the run is resumed, if the turn was stopped or
// there is a budget of time: budgets leave out the time in which nothing ran. Otherwise it returns nil. If the process
// died before it stored that the turn was stopped, that notice comes first.
func (t *opening) resumedNotices() (events []*event.Event) {
	if t.fold().StopsAt(t.lease.Stop) {
		events = t.stoppedNotice()
	}
	if !t.tally.time && len(events) == 0 && !t.fold().Stopped() {
		return nil
	}
	if !t.fold().Scope("").Run.Open {
		return append(events, t.turnNotice(event.NoticeResumed, "the turn continues here")...)
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

// resumeWaiting starts a run that continues the last one and checks whether what that waits for outside has arrived.
// Resume and Decide without decisions call it. Engines that run a turn step by step see the turn as over, like one that
// waits for approvals. If the agent is no longer in the tree, the root continues.
func (t *opening) resumeWaiting() error {
	run := t.fold().Scope("").Run
	n := t.r.tree.Node(run.Agent)
	missing := n == nil
	if t.branches() { // the run belongs to the other session, and so does what it waits for
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
		events = append(events, siblingEvent(start, &event.Notice{Code: "agent_gone", Message: message}))
	}
	return t.appendEvents(t.ctx, events)
}

// alreadyBegun reports whether the session's last turn has the id of the new turn. If one of the 64 turns before has
// it, the error is ErrTurnOver; only a repeated attempt looks for that. The error for an invalid id is
// agent.ErrBadInput.
func (t *opening) alreadyBegun(o turnOptions) (bool, error) {
	switch {
	case o.id == "":
		return false, nil
	case !usableID(o.id):
		return false, fmt.Errorf("the turn's id is invalid: give printable ASCII of at most 64 bytes: %w", agent.ErrBadInput)
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

// expectAt returns agent.ErrConflict if the log does not end where the option At says.
func (t *opening) expectAt(o turnOptions) error {
	if o.pinned && t.lease.Head.Seq != o.at {
		return fmt.Errorf("session %s: the log ends at position %d, not at %d: %w", t.key, t.lease.Head.Seq, o.at, agent.ErrConflict)
	}
	return nil
}

// callPerson adds a transfer to a person to the events that begin a turn, so that the agent that they start does not
// answer. It adds nothing if a person is active already. Without a desk the error is errNoDesk.
func (t *opening) callPerson(events []*event.Event, reason string) ([]*event.Event, error) {
	start := events[len(events)-1]
	if t.r.person == nil {
		return nil, errNoDesk
	}
	if start.Agent == agent.Human {
		return events, nil
	}
	transfer := &event.Transfer{From: start.Agent, To: agent.Human, Reason: reason, Outcome: event.TransferCommitted, TransferType: event.TransferTypeBotToHuman}
	end := &event.HarnessEnd{AgentID: start.Agent, FinishReason: event.FinishReasonTransfer, Target: agent.Human}
	person := t.startEvent(t.r.tree.Node(agent.Human), start.TurnID, endNode(start.RunID), "", nil)
	return append(events, siblingEvent(start, transfer), siblingEvent(start, end), person), nil
}

// checkSize returns an *agent.MessageSizeError if a message is too large for the window of the active agent's model, or
// for the rest of a budget. It runs before the message is stored, because all later requests would contain the message
// and fail too. If the request would fail without the message as well, checkSize returns nil and the request's own
// error ends the turn.
func (t *opening) checkSize(msg *llm.Message) error {
	r := t.r
	n, _ := r.activeNode(t.fold())
	text := llm.UserText(msg.PlainText()) // without media, whose tokens are unknown
	size := llm.CountMessage(&text, r.counter)
	windowed, _ := agent.As[interface{ Window() int }](n.Agent)
	if size <= smallMessage || windowed == nil && !r.bounds.counts() {
		return nil
	}
	without := amount{agent: n.Agent.Name()}
	var next amount
	frame := 0 // the tokens of the request without messages
	err := r.readOnlyTurn(t.ctx, t.cached).withNextRequest(n.Agent.Name(), func(_ *scope, _ *agent.Invocation, model llm.Model, req *llm.Request) (err error) {
		with, bare := *req, *req
		bare.Messages = nil
		frame = llm.CountRequest(&bare, r.counter)
		if windowed != nil && windowed.Window() > 0 {
			req = &bare // the agent can leave out older messages
		}
		with.Messages = append(req.Messages[:len(req.Messages):len(req.Messages)], text)
		if without, err = r.bounds.estimateRequest(n.Agent.Name(), model, req); err == nil {
			next, err = r.bounds.estimateRequest(n.Agent.Name(), model, &with)
		}
		return err
	})
	if err != nil {
		return nil // the agent's own request fails with the same error
	}
	switch {
	case next.tokens > 0:
	case !n.Properties.Router: // its requests are not known in advance, or it makes none
		return nil
	default: // the router has not chosen yet which model gets the message
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

// smallMessage is the size in tokens up to which checkSize allows a message without an estimate of its request: windows
// are far larger, and budgets are checked before each request anyway.
const smallMessage = 128

// didStep reports whether the step that began at a position of the log is complete: the log has events after the
// position, and no call is pending that was made before it, because an agent makes calls in one step and runs them in
// the next.
func (t *opening) didStep(seq int64) bool {
	f := t.fold()
	run := &f.Scope("").Run
	if !f.Unfinished() {
		return true
	}
	if n := t.r.tree.Node(run.Agent); n == nil || !n.Properties.Stepwise || !run.Open || len(f.Scopes) > 0 {
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
			case event.NoticeAdopted: // another process may have begun the next step
				return false
			case event.NoticeGivenBack: // of a step that was not completed
			case event.NoticeUndecided: // the only event of a step whose model failed
				stored = true
			}
		case *event.Discard: // of a step that was not completed
		default:
			stored = true
		}
	}
	return stored
}

// deliverDeskEvent closes open runs, and stores what follows from an event of a desk in a new run of the person. It
// stores nothing if the log has the event already.
func (t *opening) deliverDeskEvent(ctx context.Context, e human.Event) error {
	f, person := t.fold(), t.r.tree.Node(agent.Human)
	inv := agent.NewInvocation(agent.InvocationParams{Node: person, Tree: t.r.tree, Session: &t.turnSession, TurnID: f.Turn.ID,
		NewID: t.newID, Logger: t.r.logger})
	payloads, err := t.r.person.Receive(ctx, inv, e)
	if len(payloads) == 0 || err != nil {
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
	events := append(t.closer().closing(nil, interrupted), start)
	for _, d := range append(payloads, &event.HarnessEnd{AgentID: agent.Human, FinishReason: event.FinishReasonStop}) {
		events = append(events, siblingEvent(start, d))
	}
	return t.appendEvents(ctx, events)
}
