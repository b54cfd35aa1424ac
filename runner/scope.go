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

// scope runs one scope of a turn: the conversation, or an inner one. Its loop is
// flat: a transfer changes what the next step reads from the log, and nothing
// nests.
type scope struct {
	delivery   // its context ends with the turn, an inner scope's also with its tool call
	tree       *agent.Tree
	session    agent.Session // what the scope's agents see of the session
	runtime    agent.Runtime // what they may ask for
	outer      *scope        // around an inner scope
	host       string        // the agent that runs it there
	ofWorkflow bool          // a workflow runs it

	guards    guards
	meter     meter
	transfers transfers

	steps int  // of the current run in this process
	again bool // the next step continues a run that was cut off
	out   outcome
	err   error // of what the step has yielded
}

// outcome is how an agent's step ended.
type outcome struct {
	more     bool
	finish   event.Finish
	transfer *event.Transfer
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

// bind gives the scope its context.
func (s *scope) bind(ctx context.Context, cancel context.CancelCauseFunc) {
	s.ctx, s.cancel, s.guards.ctx = ctx, cancel, ctx
}

// runSteps takes steps until the scope's last run has ended, other than by a
// transfer.
func (s *scope) runSteps() error {
	for {
		done, err := s.step()
		if done || err != nil || s.stopped {
			return err
		}
	}
}

// step does exactly one step of the scope: one model answer or one batch of tools of
// the active agent, with the transfer that ends it. It reports whether the turn is over.
func (s *scope) step() (done bool, err error) {
	turn, done, err := s.openRun()
	if done || err != nil || s.stopped {
		return done, err
	}
	run := s.draft.run
	n, err := s.transfers.findNode(run.Agent)
	switch {
	case n == nil || n.Agent.Name() != run.Agent: // a run that was cut off is no other agent's, by whatever name
		return false, s.failRun(&agent.RunError{Agent: run.Agent, Code: "agent_gone", Err: fmt.Errorf("the agent is no longer in the tree")})
	case err != nil:
		return false, s.failStep(n, err)
	}
	if err := s.meter.withinSteps(run, turn, s.steps); err != nil && !n.Virtual() { // a person needs no model
		return false, s.failRun(err)
	}
	if s.draft.scope != "" {
		defer s.meter.giveBack()
	}
	s.steps++
	if s.meter.time {
		stop, spent := s.meter.watch(s.cancel)
		if spent != nil {
			return false, s.failRun(spent)
		}
		defer stop()
	}
	out, err := s.runAgent(n)
	if a := s.ahead(); a != nil && !s.stopped && !s.mayFollow(a, out, err) {
		s.abandon()
	}
	switch {
	case s.stopped:
		return false, nil
	case err != nil:
		if back, notice := s.transfers.refusedTransfer(s.ctx, err); back != nil {
			s.draft.addData(notice, back)
			return false, s.handOver(back.To, nil)
		}
		return false, s.failStep(n, err)
	case out.transfer != nil:
		return false, s.handOver(out.transfer.To, nil)
	case out.more:
		return false, s.commit(s.ctx, s.draft.takeAll())
	}
	return s.endRun(n, out.finish)
}

// openRun finds the run whose step is next, and opens one if the log ends before it. It reports whether the turn is over.
func (s *scope) openRun() (turn session.Turn, done bool, err error) {
	run, turn := s.runAndTurn()
	switch {
	case turn.ID == "":
		return turn, true, nil // no user has sent a message
	case run.TurnID != turn.ID && s.draft.scope == "": // a message that was stored without anybody to answer it
		if err := s.commit(s.ctx, s.turn.startAnswer(nil, turn.ID, turn.UserRunID)); err != nil || s.stopped {
			return turn, false, err
		}
		run, turn = s.runAndTurn()
	}
	if !run.Open {
		if run.Finish != event.FinishReasonTransfer {
			return turn, true, nil
		}
		start := s.startOf(run, run.Target) // of a log that ends before that, such as a fork
		if err := s.commit(s.ctx, []*event.Event{start}); err != nil || s.stopped {
			return turn, false, err
		}
		s.activeChanged()
		run, turn = s.runAndTurn()
	}
	s.draft.run = run
	return turn, false, nil
}

// runAndTurn copies what the step needs of the fold.
func (s *scope) runAndTurn() (session.Run, session.Turn) {
	s.turn.mu.Lock()
	defer s.turn.mu.Unlock()
	return s.turn.fold().Scope(s.draft.scope).Run, s.turn.fold().Turn
}

// runAgent runs one step of an agent and stores what it yields. The events of
// the last, still open write stay in the draft.
func (s *scope) runAgent(n *agent.Node) (out outcome, err error) {
	defer func() {
		if s.out.transfer != nil { // the agent was done: what it did after its transfer changes nothing, nor does a panic
			out, err = s.out, nil
		}
	}()
	defer s.recoverAgent(&err)
	run := s.draft.run
	promised := s.transfers.ready == run.Agent
	s.out, s.err, s.transfers.ready = outcome{}, nil, ""
	s.guards.beginStep(n.Guards())
	s.draft.inv = s.invocation(n)
	s.again = false
	if first := s.steps == 1 && run.Answers == 0 && len(run.Pending) == 0 && run.Said == "" && !run.TakesUp; first {
		if err := s.guards.checkStart(); err != nil {
			return s.out, err
		}
		if run.Transfer != nil && run.Transfer.TransferType == event.TransferTypeBotToBot && !promised {
			if err := s.transfers.isReady(s.ctx, n); err != nil {
				return s.out, err
			}
		}
	}
	n.Agent.Run(s.ctx, s.draft.inv)(s.receive)
	return s.out, cmp.Or(s.err, s.guards.tripped)
}

// recoverAgent turns a panic of an agent, or of what it was given, into an error. It is deferred.
func (s *scope) recoverAgent(err *error) {
	if s.consuming {
		return // a panic of the consumer's own code is the consumer's
	}
	if p := recover(); p != nil {
		s.turn.forget()
		*err = s.turn.r.panicked("an agent", s.draft.run.Agent, p)
	}
}

// invocation is what the step's agent is told.
func (s *scope) invocation(n *agent.Node) *agent.Invocation {
	run, r := s.draft.run, s.turn.r
	p := agent.InvocationParams{Node: n, Tree: s.tree, Session: s.session, Runtime: s.runtime, TurnID: run.TurnID, RunID: run.ID,
		Scope: s.draft.scope, Since: run.Since, Attempt: 1, TakenUp: s.turn.lease.Head.Seq, Shared: s.turn.lease.Shared,
		Streaming: r.streaming, NewID: s.turn.newID, Logger: r.logger}
	if s.again {
		p.Attempt = 2
	}
	s.origin(run, &p)
	return agent.NewInvocation(p)
}

// origin fills in what a run was started with.
func (s *scope) origin(run session.Run, p *agent.InvocationParams) {
	if run.Transfer != nil {
		p.Payload = run.Transfer.Payload
	}
	s.turn.mu.Lock()
	defer s.turn.mu.Unlock()
	f := s.turn.fold()
	p.AtOnce = s.atOnce(p.Node)
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

// atOnce reports whether a transfer may be decided in the write of the answer that asks for it,
// by a call like any other: no interceptor or guard looks at the call or the text first, no target has to be asked whether it can start, and the limit of tool calls allows one
// more. In inner scopes transfers count in the order of the log. The caller holds mu.
func (s *scope) atOnce(n *agent.Node) bool {
	limit := s.meter.limits.ToolCalls
	if s.draft.scope != "" || len(s.turn.r.interceptors) > 0 || len(s.guards.own) > 0 || limit > 0 && s.turn.fold().Turn.ToolCalls >= limit {
		return false
	}
	return !slices.ContainsFunc(n.Targets(), func(to *agent.Node) bool { _, ok := agent.As[agent.Readier](to.Agent); return ok })
}

// surroundings returns what is around an inner scope: for the agent of a tool what was there
// when its model called, whatever other calls of the same answer have given since. The caller
// holds mu.
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

// receive receives what the agent's step yields, and reports whether to go on. What an agent says after its error does
// not count.
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
	if e.Seq != 0 || e.Partial { // stored already, of an inner scope; or never to be
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
			s.abandon()
		}
		s.err = cmp.Or(s.commit(s.ctx, s.draft.takeAll()), tripped)
	}
	return s.err == nil && !s.stopped
}

// receiveFinish receives what an agent's run ends with.
func (s *scope) receiveFinish(d *event.Finish) error {
	s.out.finish = *d
	switch {
	case d.Reason == event.FinishReasonCanceled && s.ofWorkflow: // for which this is its own doing
		return errors.New("the agent gave up: it says that it was canceled")
	case d.Output == nil:
	case event.TooDeep(d.Output):
		end, notice := event.Bound(&event.HarnessEnd{AgentID: s.draft.run.AgentID, Output: d.Output})
		s.out.finish.Output = end.(*event.HarnessEnd).Output
		s.draft.addData(notice)
	case !json.Valid(d.Output):
		return errors.New("the agent gave an output that is no JSON")
	default: // the caller sees what a store returns
		s.out.finish.Output = event.CompactJSON(d.Output)
	}
	if !s.guards.allowOutput(s.out.finish.Output) {
		return s.guards.tripped
	}
	return nil
}

// receiveTransfer receives a transfer that is to be committed.
func (s *scope) receiveTransfer(e *event.Event, d *event.Transfer) error {
	if s.guards.tripped != nil { // words of the same write were refused
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

// checkOwn checks an event that the step's agent yields as its own, and completes it.
func (s *scope) checkOwn(e *event.Event) (err error) {
	switch d := e.Data.(type) {
	case *event.User, *event.HarnessStart, *event.HarnessEnd:
		return fmt.Errorf("the agent yielded a %s event, which only the runner may", e.Type())
	case *event.ToolCall:
		e.ID = s.turn.newID() // endpoints give one id to several calls; the agent has to know it now, to answer
		if a := s.ahead(); a != nil && d.Name == agent.TransferTool {
			e.ID = a.chooses(e.ID)
		}
	case *event.ToolResult:
		if !s.draft.awaits(e.ID) {
			return fmt.Errorf("the agent yielded a tool_result for %q, which is no call that waits for one", e.ID)
		}
	case *event.File:
		return s.draft.checkFile(s.ctx, d)
	case *event.Relay:
		own := *d
		if s.outer != nil {
			own.Within = hosts(s)
		}
		if own.Digest == "" {
			own.Digest = tools.Digest(llm.ToolSpec{Name: d.Tool, Description: d.Message, Parameters: d.Schema}, d.By, d.Params)
		}
		e.Data = &own
	case *event.Transfer:
		e.Data, err = s.transfers.ownTransfer(d)
	}
	return err
}

// hosts names the agents around a scope's own, the conversation's first.
func hosts(s *scope) (names []string) {
	for ; s.outer != nil; s = s.outer {
		names = append(names, s.host)
	}
	slices.Reverse(names)
	return names
}

// endRun ends the run of an agent that has stopped, with a transfer if its node has a route.
func (s *scope) endRun(n *agent.Node, f event.Finish) (done bool, err error) {
	if f.Reason != event.FinishReasonInputRequired { // else they wait
		s.draft.answerPending("not executed: the agent ended its run", nil)
	}
	f.Reason = cmp.Or(f.Reason, event.FinishReasonStop)
	if f.Reason == event.FinishReasonStop && len(n.Routes()) > 0 {
		switch to, err := s.route(n); {
		case err != nil:
			return false, s.failStep(n, err)
		case to != nil:
			s.draft.addData(to)
			return false, s.handOver(to.To, f.Output)
		}
	}
	s.draft.addData(&event.HarnessEnd{AgentID: s.draft.run.AgentID, FinishReason: f.Reason, Output: f.Output})
	if s.draft.scope != "" {
		return true, s.commit(s.ctx, s.draft.takeAll())
	}
	s.delta = ""
	if err := s.turn.writeLast(s.ctx, s.draft.takeAll()); err != nil {
		return true, err
	}
	s.deliver()
	return true, nil
}

// route returns the transfer that a stopped run makes without a model, nil if it makes none.
func (s *scope) route(n *agent.Node) (to *event.Transfer, err error) {
	defer s.recoverAgent(&err)
	return s.transfers.routeTransfer(s.ctx, n)
}

// handOver ends the run with a transfer, whose events are the last of the write that is being
// put together, and starts the run of the target. All of it is one write: either nothing has
// happened, or the target's run is open and a resumed turn continues it.
func (s *scope) handOver(to string, output json.RawMessage) error {
	run := s.draft.run
	s.draft.addData(&event.HarnessEnd{AgentID: run.AgentID, FinishReason: event.FinishReasonTransfer, Target: to, Output: output})
	s.draft.events = append(s.draft.events, s.startOf(run, to))
	if err := s.commit(s.ctx, s.draft.takeAll()); err != nil {
		return err
	}
	s.activeChanged()
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, agent.ErrLimit) && !errors.Is(cause, agent.ErrTimeout) {
		return cause // it was cancelled while a decision was stored
	}
	return nil
}

// startOf makes the event that opens the run of a transfer's target.
func (s *scope) startOf(run session.Run, to string) *event.Event {
	n := s.tree.Node(to)
	if n == nil { // the tree is another one than when the transfer was made
		n = s.tree.Root()
	}
	return s.turn.startEvent(n, run.TurnID, endNode(run.ID), s.draft.scope, nil)
}

// activeChanged notes that another agent is active now.
func (s *scope) activeChanged() {
	s.steps = 0
	if s.draft.scope == "" {
		s.turn.mu.Lock()
		s.turn.cached.memos.unuse()
		s.turn.mu.Unlock()
	}
}

// failStep ends the run with the error of its agent's step, and with the transfer to the agent's
// fallback, if it has one. A cancelled turn stores nothing; a limit of time that
// cancelled it does.
func (s *scope) failStep(n *agent.Node, err error) error {
	to := s.transfers.fallback(s.ctx, n, err)
	if err = s.guards.quoting(err); to != nil {
		failure := FailureOf(err)
		s.draft.answerRunning()
		s.draft.answerPending("not executed: "+agent.ForModel(err), nil)
		route, transfer := s.transfers.handOn(n, to, failure)
		s.draft.addData(s.draft.void(failure.Code, notCompleted), route, transfer)
		return s.handOver(transfer.To, nil)
	}
	if cause := context.Cause(s.ctx); cause != nil {
		if !errors.Is(cause, agent.ErrLimit) && !errors.Is(cause, agent.ErrTimeout) {
			return cause
		}
		err = cause
	}
	if errors.Is(err, agent.ErrConflict) {
		return err // the log belongs to another writer now
	}
	if s.turn.r.outer && !s.turn.last && s.draft.scope == "" && len(s.draft.run.Pending) == 0 && llm.Retryable(err) && !errors.As(err, new(*agent.RunError)) {
		return s.leaveOpen(err)
	}
	s.draft.answerRunning()
	return s.failRun(err)
}

// leaveOpen ends the step with an error and stores nothing of it, but that what was shown is void.
func (s *scope) leaveOpen(err error) error {
	s.draft.events = slices.DeleteFunc(s.draft.events, func(e *event.Event) bool { _, void := e.Data.(*event.Discard); return !void }) // which has its usage
	s.draft.addData(s.draft.void(FailureOf(err).Code, notCompleted))
	if storeErr := s.commit(s.ctx, s.draft.takeAll()); storeErr != nil {
		return errors.Join(err, storeErr)
	}
	return fmt.Errorf("agent %s: %w", s.draft.run.Agent, err)
}

// failRun stores the error event and the run's end, together with the answers to
// calls that will never get another, and returns the turn's error.
func (s *scope) failRun(err error) error {
	s.abandon()
	run, failure := s.draft.run, FailureOf(err)
	reason := event.FinishReasonError
	if errors.Is(err, agent.ErrLimit) || errors.Is(err, agent.ErrTransferLimit) {
		reason = event.FinishReasonLimit
	}
	s.draft.answerPending("not executed: "+agent.ForModel(err), nil)
	s.draft.addData(s.draft.void(failure.Code, notCompleted), failure, &event.HarnessEnd{AgentID: run.AgentID, FinishReason: reason})
	if storeErr := s.commit(context.WithoutCancel(s.ctx), s.draft.takeAll()); storeErr != nil {
		return errors.Join(err, storeErr)
	}
	var runErr *agent.RunError
	if errors.As(err, &runErr) {
		return err
	}
	return &agent.RunError{Agent: run.Agent, Code: failure.Code, Err: err}
}
