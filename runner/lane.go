package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// lane runs one scope of a turn: the conversation, or an inner one. Its loop is
// flat: a transfer changes what the next step reads from the log, and nothing
// nests.
type lane struct {
	t      *turn
	ctx    context.Context // ends with the turn, an inner scope's also with its tool call
	cancel context.CancelCauseFunc
	scope  string
	tree   *agent.Tree
	outlet outlet // where its events go
	outer  *lane  // around an inner scope
	host   string // the agent that runs it there

	takes   func(*event.Event, error) bool // the method take, bound once
	current session.Run                    // whose step runs
	inv     *agent.Invocation
	out     outcome
	err     error

	guards  []agent.Guard // of the agent whose step runs
	around  []agent.Guard // of the workflows that the lane runs in: they check the words said here
	tripped error         // what a guard said about words of the open write
	hold    int           // how many characters of streamed text they hold back
	held    []*heldBlock

	room      [6]*event.Event // for a small write
	joined    []*event.Event  // held back until the write they belong to is whole
	ready     string          // the target that said in this step that it can start
	steps     int             // of the current run in this process
	again     bool            // the next step continues a run that was cut off
	session   agent.Session   // what the scope's agents see of the session
	stopped   bool            // the consumer broke out of its loop
	consuming bool            // the consumer's code runs, not ours
	estimate  string          // what a notice says about the usage of the last answer, "" if it was reported
	delta     string          // the id of the block whose delta was shown last, "" since something was stored
	asked     bool            // the turn counts a call of an inner scope's model as under way
}

// run takes steps until the scope's last run has ended, other than by a
// transfer.
func (l *lane) run() error {
	for {
		done, err := l.step()
		if done || err != nil || l.stopped {
			return err
		}
	}
}

// step does exactly one step of the scope: one model answer or one batch of tools of
// the active agent, with the transfer that ends it. It reports whether the turn is over.
func (l *lane) step() (done bool, err error) {
	run, turn := l.state()
	switch {
	case turn.ID == "":
		return true, nil // nobody has said anything
	case run.TurnID != turn.ID && l.scope == "": // a message that was stored without anybody to answer it
		if err := l.append(l.t.answer(nil, turn.ID, turn.UserRunID)); err != nil || l.stopped {
			return false, err
		}
		run, turn = l.state()
	}
	if !run.Open {
		if run.Finish != event.FinishReasonTransfer {
			return true, nil
		}
		if err := l.append([]*event.Event{l.takesOver(run, run.Target)}); err != nil || l.stopped { // of a log that ends before that, such as a fork
			return false, err
		}
		l.begun()
		run, turn = l.state()
	}
	n, err := l.find(run.Agent)
	switch {
	case n == nil || n.Agent.Name() != run.Agent: // a run that was cut off is no other agent's, by whatever name
		return false, l.fail(run, &agent.RunError{Agent: run.Agent, Code: "agent_gone", Err: fmt.Errorf("the agent is no longer in the tree")})
	case err != nil:
		return false, l.failed(run, n, err)
	}
	if err := l.withinLimits(run, turn); err != nil && !n.Virtual() { // a person needs no model
		return false, l.fail(run, err)
	}
	if l.scope != "" {
		defer l.rest()
	}
	l.steps++
	if l.t.r.budgeted.time {
		stop, spent := l.watch(run)
		if spent != nil {
			return false, l.fail(run, spent)
		}
		defer stop()
	}
	out, err := l.runAgent(n, run)
	switch {
	case l.stopped:
		return false, nil
	case err != nil:
		if refused := l.refusal(run, err); refused != nil {
			return false, l.handBack(run, refused)
		}
		return false, l.failed(run, n, err)
	case out.transfer != nil:
		return false, l.handOver(run, out.transfer.To, nil)
	case out.more:
		return false, l.commit(run)
	}
	if out.finish.Reason != event.FinishReasonInputRequired { // else they wait for somebody
		l.answerPending(run, "not executed: the agent ended its run", nil)
	}
	if stopped := cmp.Or(out.finish.Reason, event.FinishReasonStop) == event.FinishReasonStop; stopped && len(n.Routes()) > 0 {
		switch to, err := l.route(n, run); {
		case err != nil:
			return false, l.failed(run, n, err)
		case to != nil:
			return false, l.handOver(run, to.Data.(*event.Transfer).To, out.finish.Output, to)
		}
	}
	end := l.t.r.fixed[n].stop // shared
	if end == nil || (out.finish.Reason != "" && out.finish.Reason != event.FinishReasonStop) || out.finish.Output != nil {
		end = &event.HarnessEnd{AgentID: run.AgentID, FinishReason: cmp.Or(out.finish.Reason, event.FinishReasonStop), Output: out.finish.Output}
	}
	return true, l.finish(run, &event.Event{Data: end})
}

// state copies what the step needs of the fold.
func (l *lane) state() (session.Run, session.Turn) {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return l.t.w.fold.Scope(l.scope).Run, l.t.w.fold.Turn
}

// outcome is how an agent's step ended.
type outcome struct {
	more     bool
	finish   event.Finish
	transfer *event.Transfer
}

// runAgent runs one step of an agent and stores what it yields. The events of
// the last, still open write stay in l.joined.
func (l *lane) runAgent(n *agent.Node, run session.Run) (out outcome, err error) {
	defer func() {
		if l.out.transfer != nil { // the agent was done: what it did behind its transfer changes nothing, nor does a panic
			out, err = l.out, nil
		}
	}()
	defer l.recovered(run, &err)
	asked := l.ready == run.Agent
	l.current, l.out, l.err, l.ready = run, outcome{}, nil, ""
	l.guards, l.tripped, l.held = n.Guards(), nil, nil
	l.hold = l.heldBack()
	attempt := 1
	if l.again {
		attempt = 2
	}
	l.again = false
	params := agent.InvocationParams{Node: n, Tree: l.tree, Session: l.session, Runtime: l, TurnID: run.TurnID, RunID: run.ID,
		Scope: l.scope, Since: run.Since, Attempt: attempt, TakenUp: l.t.lease.Head.Seq, Shared: l.t.lease.Shared, Streaming: l.t.r.streaming, NewID: l.t.newID, Logger: l.t.r.logger}
	l.origin(run, &params)
	l.inv = agent.NewInvocation(params)
	if l.takes == nil {
		l.takes = l.take
	}
	if first := l.steps == 1 && run.Answers == 0 && len(run.Pending) == 0 && run.Said == "" && !run.TakesUp; first {
		if len(l.guards) > 0 {
			if err := l.guardIn(run); err != nil {
				return l.out, err
			}
		}
		if run.Transfer != nil && run.Transfer.TransferType == event.TransferTypeBotToBot && !asked {
			if err := l.isReady(l.ctx, n); err != nil {
				return l.out, err
			}
		}
	}
	n.Agent.Run(l.ctx, l.inv)(l.takes)
	return l.out, cmp.Or(l.err, l.tripped)
}

// recovered turns a panic of an agent, or of what it was given, into an error.
func (l *lane) recovered(run session.Run, err *error) {
	if l.consuming {
		return // a panic of the consumer's own code is the consumer's
	}
	if p := recover(); p != nil {
		l.t.forget()
		l.t.r.logger.Error("an agent panicked", "agent", run.Agent, "panic", p, "stack", string(debug.Stack()))
		*err = &agent.RunError{Agent: run.Agent, Code: event.CodeInternal, Err: fmt.Errorf("internal error: %v", p)}
	}
}

// origin fills in what a run was started with.
func (l *lane) origin(run session.Run, p *agent.InvocationParams) {
	if run.Transfer != nil {
		p.Payload = run.Transfer.Payload
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	p.AtOnce = l.atOnce(p.Node)
	user := l.t.w.fold.Turn.User
	if user != nil {
		p.Metadata = user.Metadata
	}
	switch {
	case l.scope != "":
		p.Input = l.t.w.fold.Scope(l.scope).Input
		if l.tree.Root().Edge.Around != nil {
			p.Around = l.surroundings()
		}
	case user != nil:
		p.Message = user.Content
	}
}

// atOnce reports whether a transfer may be decided in the write of the answer that asks for it,
// by a call like any other: nobody wants to see the call before that, or what is said beside
// it, no target has to be asked whether it can start, and the limit of tool calls allows one
// more. In inner scopes transfers count in the order of the log. The caller holds mu.
func (l *lane) atOnce(n *agent.Node) bool {
	r, limit := l.t.r, l.t.r.limits.ToolCalls
	return l.scope == "" && len(r.interceptors) == 0 && len(l.guards) == 0 && r.fixed[n].atOnce && (limit == 0 || l.t.w.fold.Turn.ToolCalls < limit)
}

// surroundings returns what is around an inner scope: for the agent of a tool what was there
// when its model called, whatever other calls of the same answer have given since. The caller
// holds mu.
func (l *lane) surroundings() *agent.Around {
	if l.outer == nil {
		return nil
	}
	f := &l.t.w.fold
	upTo := f.Scope(l.scope).First - 1
	if call := f.Scope(l.outer.scope).Run.Call(f.Opener(l.scope)); call != nil {
		upTo = call.Made
	}
	return &agent.Around{Session: l.outer.session, Scope: l.outer.scope, Tree: l.outer.tree, UpTo: upTo, Around: l.outer.surroundings()}
}

// take receives what the agent's step yields, and reports whether to go on.
func (l *lane) take(e *event.Event, err error) bool {
	if err == nil && (e == nil || e.Data == nil) {
		err = errors.New("the agent yielded an event without payload")
	}
	if err != nil {
		l.err = err
		return false
	}
	switch d := e.Data.(type) {
	case *event.Continue:
		l.out.more = true
		return false
	case *event.Finish:
		l.out.finish = *d
		switch {
		case d.Reason == event.FinishReasonCanceled && l.ofWorkflow(): // for which this is its own doing
			l.err = errors.New("the agent gave up: it says that it was canceled")
		case d.Output == nil:
		case event.TooDeep(d.Output):
			end, notice := event.Bound(&event.HarnessEnd{AgentID: l.current.AgentID, Output: d.Output})
			l.out.finish.Output = end.(*event.HarnessEnd).Output
			l.joined = append(l.joined, l.stamp(l.current, &event.Event{Data: notice}))
		case !json.Valid(d.Output):
			l.err = errors.New("the agent gave an output that is no JSON")
		default: // whoever runs it sees what a store gives back
			l.out.finish.Output = event.CompactJSON(d.Output)
		}
		if l.err == nil && !l.releasedOutput(l.out.finish.Output) {
			l.err = l.tripped
		}
		return false
	case *event.User, *event.HarnessStart, *event.HarnessEnd:
		if e.Seq == 0 {
			l.err = fmt.Errorf("the agent yielded a %s event, which only the runner may", e.Type())
			return false
		}
	case *event.ToolCall:
		if e.Seq == 0 {
			e.ID = l.t.newID() // endpoints give one id to several calls; the agent has to know it now, to answer
		}
	case *event.ToolResult:
		if e.Seq == 0 && !l.awaits(e.ID) {
			l.err = fmt.Errorf("the agent yielded a tool_result for %q, which is no call that waits for one", e.ID)
			return false
		}
	case *event.File:
		if e.Seq == 0 {
			if l.err = l.checkFile(d); l.err != nil {
				return false
			}
		}
	case *event.Relay:
		if e.Seq == 0 && (l.outer != nil || d.Digest == "") {
			own := *d
			if l.outer != nil {
				own.Within = l.hosts()
			}
			if own.Digest == "" {
				own.Digest = tools.Digest(llm.ToolSpec{Name: d.Tool, Description: d.Message, Parameters: d.Schema}, d.By, d.Params)
			}
			e.Data = &own
		}
	case *event.Transfer:
		if e.Seq == 0 {
			if d, l.err = l.own(d); l.err != nil {
				return false
			}
			e.Data = d
		}
		if d.Outcome == event.TransferCommitted && e.Seq == 0 {
			if l.tripped != nil { // words of the same write were refused
				return false
			}
			if l.err = l.legal(l.inv, d); l.err == nil {
				l.answerPending(l.current, "not executed: the agent handed the conversation over", nil)
				l.joined = append(l.joined, l.stamp(l.current, e))
				l.out.transfer = d
			}
			return false
		}
	}
	if e.Partial && e.RunID == "" && l.hold >= 0 {
		if e = l.due(e); e == nil {
			return true
		}
	}
	if e.Seq != 0 || e.Partial { // stored already, of an inner scope; or never to be
		return l.show(l.current, e)
	}
	more, tripped := e.More, error(nil)
	if len(l.guards)+len(l.around) > 0 {
		e, tripped = l.guard(e)
	}
	if e != nil {
		l.joined = append(l.joined, l.stamp(l.current, e))
		if notice := l.estimated(e); notice != nil {
			l.joined = append(l.joined, l.stamp(l.current, notice))
		}
	}
	switch {
	case more:
	case l.tripped != nil:
		l.err = l.tripped
	default:
		l.err = cmp.Or(l.commit(l.current), tripped)
	}
	return l.err == nil && !l.stopped
}

// hosts names the agents around the lane's own, the conversation's first.
func (l *lane) hosts() (names []string) {
	for ; l.outer != nil; l = l.outer {
		names = append(names, l.host)
	}
	slices.Reverse(names)
	return names
}

// find is [agent.Tree.Find], and logs an error.
func (l *lane) find(name string) (*agent.Node, error) {
	n, err := l.tree.Find(name)
	if wrong, ok := err.(*agent.FindError); ok {
		l.t.r.logger.Error("FindAgent contradicts the tree", "error", err, "panic", wrong.Panic)
	}
	return n, err
}

// isReady asks the target whether it can start, and remembers that it can: a
// target that was promised to a model must not be asked again before the commit.
func (l *lane) isReady(ctx context.Context, to *agent.Node) error {
	name := to.Agent.Name()
	_, err := l.find(name)
	if a, ok := agent.As[agent.Readier](to.Agent); ok && err == nil {
		err = a.Ready(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", agent.ErrTargetNotReady, name, err)
	}
	l.ready = name
	return nil
}

// allowed holds a transfer against the policy and the limits, and returns the target.
func (l *lane) allowed(inv *agent.Invocation, to string) (*agent.Node, error) {
	target, _ := l.tree.Find(to) // an error means that it is not ready
	if !inv.Node().MayTransferTo(target) {
		return nil, fmt.Errorf("%s may not transfer to %q: %w", inv.Agent().Name(), to, agent.ErrUnknownTarget)
	}
	if n := inv.Node(); n.Properties.Router || n.Virtual() { // they ask no model, and cannot go round without those who do
		return target, nil
	}
	return target, l.withinTransfers(inv.Agent().Name(), target.Agent.Name(), l.hasText())
}

// commit stores the joined events and the given ones in one write, and delivers
// them.
func (l *lane) commit(run session.Run, closing ...*event.Event) error {
	return l.append(l.whole(run, closing))
}

// whole ends the write that is being put together.
func (l *lane) whole(run session.Run, closing []*event.Event) []*event.Event {
	for _, e := range closing {
		l.joined = append(l.joined, l.stamp(run, e))
	}
	events := l.joined
	l.joined = l.joined[:0]
	return events
}

// finish is commit for what ends the scope.
func (l *lane) finish(run session.Run, end *event.Event) error {
	if l.scope != "" {
		return l.commit(run, end)
	}
	if err := l.t.finish(l.ctx, l.whole(run, []*event.Event{end})); err != nil {
		return err
	}
	l.deliver()
	return nil
}

// handOver ends a run with a transfer, whose events are the last of the write that is being
// put together, and starts the run of who takes over. All of it is one write: either nothing
// has happened, or the target's run is open, and whoever resumes the turn goes on with it.
func (l *lane) handOver(run session.Run, to string, output json.RawMessage, closing ...*event.Event) error {
	l.joined = l.whole(run, closing)
	end := &event.Event{Data: &event.HarnessEnd{AgentID: run.AgentID, FinishReason: event.FinishReasonTransfer, Target: to, Output: output}}
	l.joined = append(l.joined, l.stamp(run, end), l.takesOver(run, to))
	if err := l.commit(run); err != nil {
		return err
	}
	l.begun()
	if cause := context.Cause(l.ctx); cause != nil && !errors.Is(cause, agent.ErrLimit) && !errors.Is(cause, agent.ErrTimeout) {
		return cause // it was cancelled while a decision was stored
	}
	return nil
}

// takesOver makes the event that opens the run of a transfer's target.
func (l *lane) takesOver(run session.Run, to string) *event.Event {
	n := l.tree.Node(to)
	if n == nil { // the tree is another one than when the transfer was made
		n = l.tree.Root()
	}
	return l.t.start(n, run.TurnID, endNode(run.ID), l.scope, nil)
}

// begun notes that another agent is active now.
func (l *lane) begun() {
	l.steps = 0
	if l.scope == "" {
		l.t.mu.Lock()
		l.t.w.memos.rest()
		l.t.mu.Unlock()
	}
}

func (l *lane) append(events []*event.Event) error {
	if err := l.store(l.ctx, events); err != nil {
		return err
	}
	l.deliver()
	return nil
}

// store stores events in one write.
func (l *lane) store(ctx context.Context, events []*event.Event) error {
	l.delta = ""
	return l.outlet.store(ctx, events)
}

// deliver hands on what was stored, and notes whether the consumer wants more.
func (l *lane) deliver() bool {
	return !l.stopped && l.goOn(l.outlet.deliver())
}

// show hands on a partial event, or one that an inner scope has stored, and notes whether
// the consumer wants more.
func (l *lane) show(run session.Run, e *event.Event) bool {
	if l.stopped { // of several who had something to show, one before was the last
		return false
	}
	if e.RunID == "" {
		l.stamp(run, e)
		e.Time = l.t.r.now().UTC()
		if e.ID != l.delta { // else the last one was of the same block
			l.t.showing(l.scope, e.ID)
			l.delta = e.ID
		}
		e.Data, _ = event.Bound(e.Data) // whoever follows must be able to read it
		if e.Partial && l.t.r.tail != nil {
			l.t.publish(e)
		}
	}
	return l.goOn(l.outlet.show(e))
}

func (l *lane) goOn(wanted bool) bool {
	if !wanted {
		l.stopped = true
		l.cancel(context.Canceled)
	}
	return wanted
}

// hand runs the consumer's code for one event.
func (l *lane) hand(e *event.Event, yield func(*event.Event, error) bool) bool {
	l.consuming = true
	goOn := yield(e, nil)
	l.consuming = false
	return goOn
}

// stamp fills in what an event of a run shares with the others.
func (l *lane) stamp(run session.Run, e *event.Event) *event.Event {
	e.TurnID, e.RunID, e.Scope, e.Agent, e.Path = run.TurnID, run.ID, l.scope, run.Agent, run.Path
	return e
}
