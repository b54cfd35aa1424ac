package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// scope runs one scope of a turn: the conversation, or an inner scope. Its loop is flat: after a transfer the next step
// finds the target in the log, and no call nests in another.
type scope struct {
	delivery   // its context ends with the turn; that of an inner scope also with its tool call
	tree       *agent.Tree
	session    agent.Session // the part of the session that the scope's agents can read
	runtime    agent.Runtime // runs models, tools and other agents for the scope's agents
	outer      *scope        // the scope around this one, nil for the conversation
	host       string        // the agent of the outer scope that runs this one
	ofWorkflow bool          // a workflow runs this scope

	guards    guards
	meter     meter
	transfers transfers

	steps   int     // the number of steps of the current run in this process
	resumed bool    // the next step continues an interrupted run
	out     outcome // of the step under way
	err     error   // the error that ends the step under way
}

// outcome says how an agent's step ended.
type outcome struct {
	more     bool            // the run has another step
	finish   event.Finish    // how the run ends without a transfer; the zero value means stop
	transfer *event.Transfer // ends the run if it is not nil
}

func newScope(ctx context.Context, t *turn, id string, tree *agent.Tree) *scope {
	d := &draft{session: &t.turnSession, scope: id}
	s := &scope{delivery: delivery{turn: t, draft: d}, session: &t.turnSession, tree: tree}
	s.meter = meter{tally: &t.tally, draft: d}
	s.guards = guards{draft: d, show: s.show}
	s.transfers = transfers{tree: tree, draft: d, meter: &s.meter, guards: &s.guards}
	s.bind(ctx, nil)
	return s
}

// bind sets the scope's context.
func (s *scope) bind(ctx context.Context, cancel context.CancelCauseFunc) {
	s.ctx, s.cancel, s.guards.ctx = ctx, cancel, ctx
}

// runSteps runs steps until a run of the scope ends without a transfer.
func (s *scope) runSteps() error {
	for {
		done, err := s.step()
		if done || err != nil || s.stopped {
			return err
		}
	}
}

// step runs one step of the scope: one model answer or one batch of tool calls of the active agent, including the
// transfer that ends it. It reports whether the scope is done.
func (s *scope) step() (done bool, err error) {
	n, done, err := s.beginStep()
	if n == nil {
		return done, err
	}
	if s.draft.scope != "" {
		defer s.meter.releaseUnused()
	}
	if s.meter.time {
		stop, spent := s.meter.watch(s.cancel)
		if spent != nil {
			return false, s.failRun(spent)
		}
		defer stop()
	}
	out, err := s.runAgent(n)
	return s.endStep(n, out, err)
}

// beginStep opens the run of the next step and returns the node of its agent. The node is nil if there is no step.
func (s *scope) beginStep() (n *agent.Node, done bool, err error) {
	turn, done, err := s.openRun()
	if done || err != nil || s.stopped {
		return nil, done, err
	}
	run := &s.draft.run
	n, err = s.transfers.findNode(run.Agent)
	switch {
	case n == nil || n.Agent.Name() != run.Agent: // an agent with another name must not continue this run
		return nil, false, s.failRun(&agent.RunError{Agent: run.Agent, Code: "agent_gone", Err: fmt.Errorf("the agent is no longer in the tree")})
	case err != nil:
		return nil, false, s.failStep(n, err)
	}
	if err := s.meter.withinSteps(*run, turn, s.steps); err != nil && !n.Virtual() { // a person needs no model
		return nil, false, s.failRun(err)
	}
	s.steps++
	return n, false, nil
}

// endStep ends a step in the way in which its agent has ended it.
func (s *scope) endStep(n *agent.Node, out outcome, err error) (done bool, _ error) {
	if a := s.openAnticipation(); a != nil && !s.stopped && !a.mayFollow(out, err, s.turn.runOf("").Pending) {
		s.discardAnticipation()
	}
	switch {
	case s.stopped:
		return false, nil
	case err != nil:
		if back, notice := s.transfers.refusedTransfer(s.ctx, err); back != nil {
			s.draft.addData(notice, back)
			return false, s.commitTransfer(back.To, nil)
		}
		return false, s.failStep(n, err)
	case out.transfer != nil:
		return false, s.commitTransfer(out.transfer.To, nil)
	case out.more:
		return false, s.commit(s.ctx, s.draft.takeAll())
	}
	return s.endRun(n, out.finish)
}

// openRun finds the run of the next step. If the log ends before the start of that run, it stores the start. It reports
// whether the scope is done.
func (s *scope) openRun() (turn session.Turn, done bool, err error) {
	run, turn := s.turn.runAndTurn(s.draft.scope)
	switch {
	case turn.ID == "":
		return turn, true, nil // no user has sent a message
	case run.TurnID != turn.ID && s.draft.scope == "": // the user's message was stored, but no run was started for it
		if err := s.commit(s.ctx, s.turn.startAnswer(nil, turn.ID, turn.UserRunID)); err != nil || s.stopped {
			return turn, false, err
		}
		run, turn = s.turn.runAndTurn(s.draft.scope)
	}
	if !run.Open {
		if run.Finish != event.FinishReasonTransfer {
			return turn, true, nil
		}
		start := s.targetStart(run, run.Target) // a log may end before it, such as that of a fork
		if err := s.commit(s.ctx, []*event.Event{start}); err != nil || s.stopped {
			return turn, false, err
		}
		s.activeChanged()
		run, turn = s.turn.runAndTurn(s.draft.scope)
	}
	s.draft.run = run
	return turn, false, nil
}

// runAgent runs one step of an agent and stores what it yields. The events of the last write, which is still
// incomplete, stay in the draft.
func (s *scope) runAgent(n *agent.Node) (out outcome, err error) {
	defer func() {
		if s.out.transfer != nil { // the transfer ended the step: an error or a panic after it has no effect
			out, err = s.out, nil
		}
	}()
	defer s.recoverAgent(&err)
	s.out, s.err = outcome{}, nil
	if err := s.beginAgent(n); err != nil {
		return s.out, err
	}
	n.Agent.Run(s.ctx, s.draft.inv)(s.receive)
	return s.out, cmp.Or(s.err, s.guards.tripped)
}

// beginAgent makes the invocation of the step's agent, and checks whether its run may start.
func (s *scope) beginAgent(n *agent.Node) error {
	run := &s.draft.run
	promised := s.transfers.ready == run.Agent
	s.transfers.ready = ""
	s.guards.beginStep(n.Guards())
	s.draft.inv = s.invocation(n)
	s.resumed = false
	if first := s.steps == 1 && run.Answers == 0 && len(run.Pending) == 0 && run.Said == "" && !run.TakesUp; !first {
		return nil
	}
	if err := s.guards.checkStart(); err != nil {
		return err
	}
	if run.Transfer != nil && run.Transfer.TransferType == event.TransferTypeBotToBot && !promised {
		return s.transfers.checkReady(s.ctx, n)
	}
	return nil
}

// recoverAgent turns a panic of an agent or of its functions into an error. Callers defer it.
func (s *scope) recoverAgent(err *error) {
	if s.consuming {
		return // the consumer's own code panicked: pass the panic on
	}
	if p := recover(); p != nil {
		s.turn.forget()
		*err = s.turn.r.panicked("an agent", s.draft.run.Agent, p)
	}
}

// invocation returns the invocation of the step's agent.
func (s *scope) invocation(n *agent.Node) *agent.Invocation {
	run, r := s.draft.run, s.turn.r
	p := agent.InvocationParams{Node: n, Tree: s.tree, Session: s.session, Runtime: s.runtime, TurnID: run.TurnID, RunID: run.ID,
		Scope: s.draft.scope, Since: run.Since, Attempt: 1, ResumedAt: s.turn.lease.Head.Seq, Shared: s.turn.lease.Shared,
		Streaming: r.streaming, NewID: s.turn.newID, Logger: r.logger}
	if s.resumed {
		p.Attempt = 2
	}
	s.setInput(run, &p)
	return agent.NewInvocation(p)
}

// setInput sets the message, input and payload with which a run was started, and the context around it.
func (s *scope) setInput(run session.Run, p *agent.InvocationParams) {
	if run.Transfer != nil {
		p.Payload = run.Transfer.Payload
	}
	s.turn.mu.Lock()
	defer s.turn.mu.Unlock()
	f := s.turn.fold()
	p.TransferWithAnswer = s.transferWithAnswer(p.Node)
	user := f.Turn.User
	if user != nil {
		p.Metadata = user.Metadata
	}
	switch {
	case s.draft.scope != "":
		p.Input = f.Scope(s.draft.scope).Input
		if s.tree.Root().Edge.Around != nil {
			p.Around = s.surroundings()
		}
	case user != nil:
		p.Message = user.Content
	}
}

// transferWithAnswer reports whether a transfer may be committed in the same write as the answer that calls it. That
// needs the conversation's scope, because in inner scopes transfers count in the order of the log. It also needs that
// no interceptor or guard checks the call or the text first, that no target must report that it is ready, and that the
// limit of tool calls allows one more. The caller holds mu.
func (s *scope) transferWithAnswer(n *agent.Node) bool {
	limit := s.meter.limits.ToolCalls
	if s.draft.scope != "" || len(s.turn.r.interceptors) > 0 || len(s.guards.own) > 0 || limit > 0 && s.turn.fold().Turn.ToolCalls >= limit {
		return false
	}
	return !slices.ContainsFunc(n.Targets(), func(to *agent.Node) bool { _, ok := agent.As[agent.Readier](to.Agent); return ok })
}

// surroundings returns the conversation around an inner scope, nil for the conversation itself. For the agent of a tool
// it ends at the tool's call, so that results of other calls in the same answer are left out. The caller holds mu.
func (s *scope) surroundings() *agent.Around {
	if s.outer == nil {
		return nil
	}
	f := s.turn.fold()
	upTo := f.Scope(s.draft.scope).First - 1
	if call := f.Scope(s.outer.draft.scope).Run.Call(f.Scopes.Opener(s.draft.scope)); call != nil {
		upTo = call.Made
	}
	return &agent.Around{Session: s.outer.session, Scope: s.outer.draft.scope, Tree: s.outer.tree, UpTo: upTo, Around: s.outer.surroundings()}
}

// receive handles one event or error that the agent yields, and reports whether the agent may continue. After an error
// it ignores everything but events that are stored already.
func (s *scope) receive(e *event.Event, err error) bool {
	if s.err != nil && (e == nil || e.Seq == 0) {
		return false
	}
	if err == nil && (e == nil || e.Data == nil) {
		err = errors.New("the agent yielded an event without payload")
	}
	if err != nil {
		s.err = err
		return false
	}
	switch d := e.Data.(type) {
	case *event.Continue:
		s.out.more = true
		return false
	case *event.Finish:
		s.err = s.receiveFinish(d)
		return false
	}
	if e.Seq == 0 {
		if err := s.checkOwn(e); err != nil {
			s.err = err
			return false
		}
		if d, ok := e.Data.(*event.Transfer); ok && d.Outcome == event.TransferCommitted {
			s.err = s.receiveTransfer(e, d)
			return false
		}
	}
	if e.Partial && e.RunID == "" && s.guards.hold >= 0 {
		if e = s.guards.dueDelta(e); e == nil {
			return true
		}
	}
	if e.Seq != 0 || e.Partial { // an inner scope has stored it already, or it is never stored
		return s.show(e)
	}
	more := e.More
	var tripped error
	if len(s.guards.all()) > 0 {
		e, tripped = s.guards.checkEvent(e)
	}
	if e != nil {
		s.draft.addEvent(e)
		s.draft.addData(s.meter.estimated(e))
	}
	switch {
	case more:
	case s.guards.tripped != nil:
		s.err = s.guards.tripped
	default:
		if contradicts(s.draft.events) {
			s.discardAnticipation()
		}
		s.err = cmp.Or(s.commit(s.ctx, s.draft.takeAll()), tripped)
	}
	return s.err == nil && !s.stopped
}

// receiveFinish checks how an agent ends its run, and keeps it as the outcome.
func (s *scope) receiveFinish(d *event.Finish) error {
	s.out.finish = *d
	switch {
	case d.Reason == event.FinishReasonCanceled && s.ofWorkflow: // the end of a child that its workflow has stopped
		return errors.New("the agent ended its run with the finish reason canceled, which only its workflow may use")
	case d.Output == nil:
	case event.TooDeep(d.Output):
		end, notice := event.Bound(&event.HarnessEnd{AgentID: s.draft.run.AgentID, Output: d.Output})
		s.out.finish.Output = end.(*event.HarnessEnd).Output
		s.draft.addData(notice)
	case !json.Valid(d.Output):
		return errors.New("the agent's output is not valid JSON")
	default: // the same bytes as a store returns
		s.out.finish.Output = event.CompactJSON(d.Output)
	}
	if !s.guards.allowOutput(s.out.finish.Output) {
		return s.guards.tripped
	}
	return nil
}

// receiveTransfer checks a transfer that is to be committed, and makes it the outcome of the step.
func (s *scope) receiveTransfer(e *event.Event, d *event.Transfer) error {
	if s.guards.tripped != nil { // a guard refused text of the same write
		return nil
	}
	if err := s.transfers.checkCommitted(s.ctx, s.draft.inv, d); err != nil {
		return err
	}
	s.draft.answerPending("not executed: the agent handed the conversation over", nil)
	s.draft.addEvent(e)
	s.out.transfer = d
	return nil
}

// checkOwn checks an event that the step's agent has made itself, and completes it.
func (s *scope) checkOwn(e *event.Event) (err error) {
	switch d := e.Data.(type) {
	case *event.User, *event.HarnessStart, *event.HarnessEnd:
		return fmt.Errorf("the agent yielded a %s event, which only the runner may", e.Type())
	case *event.ToolCall:
		e.ID = s.turn.newID() // endpoints may reuse ids; the agent needs the id for its result
		if a := s.openAnticipation(); a != nil && d.Name == agent.TransferTool {
			e.ID = a.claimCallID(e.ID)
		}
	case *event.ToolResult:
		if !s.draft.awaits(e.ID) {
			return fmt.Errorf("the agent yielded a tool_result for the call %q, and no call with this id waits for a result", e.ID)
		}
	case *event.File:
		return s.draft.checkFile(s.ctx, d)
	case *event.Relay:
		own := *d
		if s.outer != nil {
			own.Within = hosts(s)
		}
		if own.Digest == "" {
			own.Digest = tools.Digest(tools.Info{ToolSpec: llm.ToolSpec{Name: d.Tool, Description: d.Message, Parameters: d.Schema}}, d.By, d.Params)
		}
		e.Data = &own
	case *event.Transfer:
		e.Data, err = s.transfers.ownTransfer(d)
	}
	return err
}

// hosts returns the names of the agents that run the scope and the scopes around it, the conversation's agent first.
func hosts(s *scope) (names []string) {
	for ; s.outer != nil; s = s.outer {
		names = append(names, s.host)
	}
	slices.Reverse(names)
	return names
}

// endRun ends the run of an agent that has stopped. If the node's routes choose a target, it ends with a transfer.
func (s *scope) endRun(n *agent.Node, f event.Finish) (done bool, err error) {
	if f.Reason != event.FinishReasonInputRequired { // else the calls keep waiting
		s.draft.answerPending("not executed: the agent ended its run", nil)
	}
	f.Reason = cmp.Or(f.Reason, event.FinishReasonStop)
	if f.Reason == event.FinishReasonStop && len(n.Routes()) > 0 {
		switch to, err := s.route(n); {
		case err != nil:
			return false, s.failStep(n, err)
		case to != nil:
			s.draft.addData(to)
			return false, s.commitTransfer(to.To, f.Output)
		}
	}
	s.draft.addData(&event.HarnessEnd{AgentID: s.draft.run.AgentID, FinishReason: f.Reason, Output: f.Output})
	return true, s.commitEnd(s.ctx)
}

// commitEnd commits the events that end the scope. If they end the turn, the same write gives the lease back.
func (s *scope) commitEnd(ctx context.Context) error {
	if s.draft.scope != "" {
		return s.commit(ctx, s.draft.takeAll())
	}
	s.delta = ""
	if err := s.turn.writeLast(ctx, s.draft.takeAll()); err != nil {
		return err
	}
	s.deliver()
	return nil
}

// route returns the transfer to the target that the node's routes choose, nil if they choose none.
func (s *scope) route(n *agent.Node) (to *event.Transfer, err error) {
	defer s.recoverAgent(&err)
	return s.transfers.routeTransfer(s.ctx, n)
}

// commitTransfer ends the run with the transfer that the draft ends with, and starts the target's run, in one write.
// After a crash either nothing was stored, or the target's run is open and a resumed turn continues it.
func (s *scope) commitTransfer(to string, output json.RawMessage) error {
	run := s.draft.run
	s.draft.addData(&event.HarnessEnd{AgentID: run.AgentID, FinishReason: event.FinishReasonTransfer, Target: to, Output: output})
	s.draft.events = append(s.draft.events, s.targetStart(run, to))
	if err := s.commit(s.ctx, s.draft.takeAll()); err != nil {
		return err
	}
	s.activeChanged()
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, agent.ErrLimit) && !errors.Is(cause, agent.ErrTimeout) {
		return cause // the turn was canceled while a decision was stored
	}
	return nil
}

// targetStart returns the event that starts the run of a transfer's target.
func (s *scope) targetStart(run session.Run, to string) *event.Event {
	n := s.tree.Node(to)
	if n == nil { // the tree has changed since the transfer
		n = s.tree.Root()
	}
	return s.turn.startEvent(n, run.TurnID, endNode(run.ID), s.draft.scope, nil)
}

// activeChanged resets the state of the previous agent after a transfer.
func (s *scope) activeChanged() {
	s.steps = 0
	if s.draft.scope == "" {
		s.turn.mu.Lock()
		s.turn.cached.memos.markUnused()
		s.turn.mu.Unlock()
	}
}

// failStep ends the run with the error of its agent's step. If the agent has a fallback, the run ends with a transfer
// to that agent. If the turn was canceled, failStep stores nothing, unless a limit of time canceled it.
func (s *scope) failStep(n *agent.Node, err error) error {
	to := s.transfers.fallback(s.ctx, n, err)
	if err = s.guards.withhold(err); to != nil {
		failure := FailureOf(err)
		s.draft.answerRunning()
		s.draft.answerPending("not executed: "+agent.ForModel(err), nil)
		route, transfer := s.transfers.fallbackTransfer(n, to, failure)
		s.draft.addData(s.draft.discardUnfinished(failure.Code, notCompleted), route, transfer)
		return s.commitTransfer(transfer.To, nil)
	}
	if cause := context.Cause(s.ctx); cause != nil {
		if !errors.Is(cause, agent.ErrLimit) && !errors.Is(cause, agent.ErrTimeout) {
			return cause
		}
		err = cause
	}
	if errors.Is(err, agent.ErrConflict) {
		return err // another process writes the log now
	}
	if s.turn.r.outerRetries && !s.turn.lastAttempt && s.draft.scope == "" && len(s.draft.run.Pending) == 0 && llm.Retryable(err) && !errors.As(err, new(*agent.RunError)) {
		return s.leaveOpen(err)
	}
	s.draft.answerRunning()
	return s.failRun(err)
}

// leaveOpen ends the step with an error that the caller may retry, and leaves the run open. It stores only discards:
// those of the step, which have the usage, and one for the deltas that were shown.
func (s *scope) leaveOpen(err error) error {
	s.draft.events = slices.DeleteFunc(s.draft.events, func(e *event.Event) bool { _, void := e.Data.(*event.Discard); return !void })
	s.draft.addData(s.draft.discardUnfinished(FailureOf(err).Code, notCompleted))
	if storeErr := s.commit(s.ctx, s.draft.takeAll()); storeErr != nil {
		return errors.Join(err, storeErr)
	}
	return fmt.Errorf("agent %s: %w", s.draft.run.Agent, err)
}

// failRun stores the error event and the run's end, with an error as the result of each pending call. It returns the
// turn's error, which contains an *agent.RunError if the events were stored.
func (s *scope) failRun(err error) error {
	s.discardAnticipation()
	run, failure := s.draft.run, FailureOf(err)
	reason := event.FinishReasonError
	if errors.Is(err, agent.ErrLimit) || errors.Is(err, agent.ErrTransferLimit) {
		reason = event.FinishReasonLimit
	}
	s.draft.answerPending("not executed: "+agent.ForModel(err), nil)
	s.draft.addData(s.draft.discardUnfinished(failure.Code, notCompleted), failure, &event.HarnessEnd{AgentID: run.AgentID, FinishReason: reason})
	if storeErr := s.commitEnd(context.WithoutCancel(s.ctx)); storeErr != nil {
		return errors.Join(err, storeErr)
	}
	var runErr *agent.RunError
	if errors.As(err, &runErr) {
		return err
	}
	return &agent.RunError{Agent: run.Agent, Code: failure.Code, Err: err}
}
