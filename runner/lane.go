package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
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
	// deliver hands an event of an agent on, or with nil all that this lane has
	// stored since. It reports whether the consumer wants more.
	deliver func(e *agent.Event) bool

	takes   func(*agent.Event, error) bool // the method take, bound once
	current session.Run                    // whose step runs
	inv     *agent.Invocation
	out     outcome
	err     error

	joined    []*agent.Event // held back until the write they belong to is whole
	ready     string         // the target that said in this step that it can start
	shown     []string       // ids of deltas whose complete event is not stored yet
	steps     int            // of the current run in this process
	again     bool           // the next step goes on with a run that was cut off
	session   agent.Session  // what the scope's agents see of the session
	stopped   bool           // the consumer broke out of its loop
	consuming bool           // the consumer's code runs, not ours
}

// run takes steps until the scope's last run has ended for good.
func (l *lane) run() error {
	for {
		done, err := l.step()
		if done || err != nil || l.stopped {
			return err
		}
	}
}

// step does exactly one step of the scope: it starts the target of a committed
// transfer if that is due, then runs one model answer or one batch of tools of
// the active agent. It reports whether the turn is over.
func (l *lane) step() (done bool, err error) {
	run, turn := l.state()
	if run.ID == "" || run.TurnID != turn.ID {
		return true, nil // nothing to go on with
	}
	if !run.Open {
		if run.Finish != agent.FinishReasonTransfer {
			return true, nil
		}
		n := l.tree.Node(run.Target)
		if n == nil {
			n = l.tree.Root()
		}
		if err := l.append([]*agent.Event{l.t.start(n, turn.ID, endNode(run.ID), l.scope, nil)}); err != nil || l.stopped {
			return false, err
		}
		l.steps = 0
		run, turn = l.state()
	}
	n := l.tree.Node(run.Agent)
	if n == nil {
		return false, l.fail(run, &agent.RunError{Agent: run.Agent, Code: "agent_gone", Err: fmt.Errorf("the agent is no longer in the tree")})
	}
	if err := l.withinLimits(run, turn); err != nil {
		return false, l.fail(run, err)
	}
	if l.scope != "" {
		defer l.t.answered(l.scope)
	}
	l.steps++
	out, err := l.runAgent(n, run)
	switch {
	case l.stopped:
		return false, nil
	case err != nil:
		return false, l.failed(run, err)
	case out.transfer != nil:
		end := &agent.Event{Data: &agent.HarnessEnd{AgentID: run.Agent, FinishReason: agent.FinishReasonTransfer, Target: out.transfer.To}}
		return false, l.commit(run, end)
	case out.more:
		return false, l.commit(run)
	}
	if out.finish.Reason != agent.FinishReasonInputRequired { // else they wait for an approval
		l.answerPending(run, "not executed: the agent ended its run")
	}
	end := l.t.r.fixedOf(n).stop
	if (out.finish.Reason != "" && out.finish.Reason != agent.FinishReasonStop) || out.finish.Output != nil {
		end = &agent.HarnessEnd{AgentID: run.Agent, FinishReason: cmp.Or(out.finish.Reason, agent.FinishReasonStop), Output: out.finish.Output}
	}
	return true, l.commit(run, &agent.Event{Data: end})
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
	finish   agent.Finish
	transfer *agent.Transfer
}

// runAgent runs one step of an agent and stores what it yields. The events of
// the last, still open write stay in l.joined.
func (l *lane) runAgent(n *agent.Node, run session.Run) (out outcome, err error) {
	defer func() {
		if l.consuming {
			return // a panic of the consumer's own code is the consumer's
		}
		if p := recover(); p != nil {
			l.t.r.logger.Error("an agent panicked", "agent", run.Agent, "panic", p, "stack", string(debug.Stack()))
			err = &agent.RunError{Agent: run.Agent, Code: "internal", Err: fmt.Errorf("internal error: %v", p)}
		}
	}()
	l.current, l.out, l.err, l.ready = run, outcome{}, nil, ""
	attempt := 1
	if l.again {
		attempt = 2
	}
	l.again = false
	l.inv = agent.NewInvocation(agent.InvocationParams{Node: n, Tree: l.tree, Session: l.session, Runtime: l, TurnID: run.TurnID, RunID: run.ID,
		Scope: l.scope, Attempt: attempt, Streaming: l.t.r.streaming, NewID: l.t.newID, Logger: l.t.r.logger})
	if l.takes == nil {
		l.takes = l.take
	}
	n.Agent.Run(l.ctx, l.inv)(l.takes)
	return l.out, l.err
}

// take receives what the agent's step yields, and reports whether to go on.
func (l *lane) take(e *agent.Event, err error) bool {
	if err == nil && (e == nil || e.Data == nil) {
		err = errors.New("the agent yielded an event without payload")
	}
	if err != nil {
		l.err = err
		return false
	}
	switch d := e.Data.(type) {
	case *agent.Continue:
		l.out.more = true
		return false
	case *agent.Finish:
		l.out.finish = *d
		return false
	case *agent.User, *agent.HarnessStart, *agent.HarnessEnd:
		if e.Seq == 0 {
			l.err = fmt.Errorf("the agent yielded a %s event, which only the runner may", e.Type())
			return false
		}
	case *agent.ToolCall:
		if e.Seq == 0 {
			l.t.identify(e, l.joined) // now, so that the agent knows what to answer
		}
	case *agent.ToolResult:
		if e.Seq == 0 && !l.awaits(e.ID) {
			l.err = fmt.Errorf("the agent yielded a tool_result for %q, which is no call that waits for one", e.ID)
			return false
		}
	case *agent.Transfer:
		if d.Outcome == agent.TransferCommitted && e.Seq == 0 {
			if l.err = l.legal(l.inv, d); l.err == nil {
				l.answerPending(l.current, "not executed: the agent handed the conversation over")
				l.joined = append(l.joined, l.stamp(l.current, e))
				l.out.transfer = d
			}
			return false
		}
	}
	switch {
	case e.Seq != 0, e.Partial: // stored already, of an inner scope; or never to be
		return l.show(l.current, e)
	}
	more := e.More
	l.joined = append(l.joined, l.stamp(l.current, e))
	if !more {
		l.err = l.commit(l.current)
	}
	return l.err == nil && !l.stopped
}

// legal checks a transfer that an agent yields as committed, so that function
// agents are held to the rules that bind models.
func (l *lane) legal(inv *agent.Invocation, d *agent.Transfer) error {
	if d.From == "" {
		d.From = inv.Agent().Name()
	}
	err := l.allowed(inv, d.To)
	if err == nil && l.ready != d.To {
		err = l.isReady(l.ctx, d.To)
	}
	if errors.Is(err, agent.ErrUnknownTarget) {
		return fmt.Errorf("%w: %w", agent.ErrTransferRejected, err)
	}
	return err
}

// CheckTransfer implements agent.Runtime.
func (l *lane) CheckTransfer(ctx context.Context, inv *agent.Invocation, to string) error {
	if err := l.allowed(inv, to); err != nil {
		return err
	}
	return l.isReady(ctx, to)
}

// isReady asks the target whether it can start, and remembers that it can: a
// target that was promised to a model must not be asked again before the commit.
func (l *lane) isReady(ctx context.Context, to string) error {
	if a, ok := l.tree.Node(to).Agent.(agent.Readier); ok {
		if err := a.Ready(ctx); err != nil {
			return fmt.Errorf("%w: %s: %w", agent.ErrTargetNotReady, to, err)
		}
	}
	l.ready = to
	return nil
}

// allowed holds a transfer against the policy and the limits.
func (l *lane) allowed(inv *agent.Invocation, to string) error {
	target := l.tree.Node(to)
	if !inv.Node().MayTransferTo(target) {
		return fmt.Errorf("%s may not transfer to %q: %w", inv.Agent().Name(), to, agent.ErrUnknownTarget)
	}
	if limit := l.t.r.limits.Transfers; limit > 0 {
		l.t.mu.Lock()
		turn := l.t.w.fold.Turn
		circle := l.t.w.fold.Scope(l.scope).Repeats(inv.Agent().Name(), to)
		l.t.mu.Unlock()
		final := turn.LimitHits > 0
		if turn.Transfers >= limit {
			return &agent.TransferLimitError{Reason: fmt.Sprintf("at most %d transfers a turn", limit), Final: final}
		}
		if circle {
			return &agent.TransferLimitError{Reason: fmt.Sprintf("%s handed over to %s before in this turn, and nothing was said since", inv.Agent().Name(), to), Final: final}
		}
	}
	return nil
}

// withinLimits reports the limit that forbids the next step, if one does.
func (l *lane) withinLimits(run session.Run, turn session.Turn) error {
	limits := l.t.r.limits
	answers := len(run.Pending) == 0
	switch {
	case answers && limits.ModelCalls > 0 && !l.mayAsk(turn):
		return &agent.LimitError{Name: "model calls", Limit: int64(limits.ModelCalls)}
	case answers && limits.Steps > 0 && max(run.Answers, (l.steps+1)/2) >= limits.Steps:
		return &agent.LimitError{Name: "answers of one agent", Limit: int64(limits.Steps)}
	case !answers && limits.ToolCalls > 0 && turn.ToolCalls+len(run.Pending) > limits.ToolCalls:
		return &agent.LimitError{Name: "tool calls", Limit: int64(limits.ToolCalls)}
	}
	return nil
}

// mayAsk reports whether one more model call is within the limit. Inner scopes
// run side by side, so a call of theirs counts from here on, not only when its
// answer is stored.
func (l *lane) mayAsk(turn session.Turn) bool {
	limit := l.t.r.limits.ModelCalls
	if l.scope == "" {
		return turn.ModelCalls < limit
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if l.t.w.fold.Turn.ModelCalls+len(l.t.asking) >= limit {
		return false
	}
	if l.t.asking == nil {
		l.t.asking = make(map[string]struct{})
	}
	l.t.asking[l.scope] = struct{}{}
	return true
}

// failed ends a run with the error of its agent's step. A cancelled turn stores
// nothing; a time limit that cancelled it does.
func (l *lane) failed(run session.Run, err error) error {
	if cause := context.Cause(l.ctx); cause != nil {
		if !errors.Is(cause, agent.ErrLimit) {
			return cause
		}
		err = cause
	}
	if errors.Is(err, agent.ErrConflict) {
		return err // the log belongs to another writer now
	}
	if len(run.Pending) > 0 { // the step ran their tools, and some may have done their work
		l.answerPending(run, "interrupted; outcome unknown; check before you repeat it", agent.TransferTool)
	}
	return l.fail(run, err)
}

// fail stores the error event and the run's end, together with the answers to
// calls that will never get another, and returns the turn's error.
func (l *lane) fail(run session.Run, err error) error {
	failure := &agent.Failure{Code: errorCode(err), Message: err.Error(), Retryable: llm.Retryable(err)}
	reason := agent.FinishReasonError
	if errors.Is(err, agent.ErrLimit) || errors.Is(err, agent.ErrTransferLimit) {
		reason = agent.FinishReasonLimit
	}
	l.answerPending(run, "not executed: "+err.Error())
	ends := []agent.EventData{failure, &agent.HarnessEnd{AgentID: run.Agent, FinishReason: reason}}
	if void := l.void(failure.Code, "the answer was not completed"); void != nil {
		ends = append([]agent.EventData{void}, ends...)
	}
	for _, d := range ends {
		l.joined = append(l.joined, l.stamp(run, &agent.Event{Data: d}))
	}
	events := l.joined
	l.joined = nil
	if storeErr := l.t.append(context.WithoutCancel(l.ctx), events); storeErr != nil {
		return errors.Join(err, storeErr)
	}
	l.flushDelivery()
	var runErr *agent.RunError
	if errors.As(err, &runErr) {
		return err
	}
	return &agent.RunError{Agent: run.Agent, Code: failure.Code, Err: err}
}

// void returns what tells the consumer to drop the deltas of an answer that
// will not be completed, nil if it was shown none.
func (l *lane) void(code, message string) agent.EventData {
	settle(&l.shown, l.joined)
	if len(l.shown) == 0 {
		return nil
	}
	ids := l.shown
	l.shown = nil
	return &agent.Discard{Code: code, Message: message, IDs: ids}
}

// settle takes the ids of stored blocks, and of discarded ones, out of shown.
func settle(shown *[]string, stored []*agent.Event) {
	for _, e := range stored {
		if len(*shown) == 0 {
			return
		}
		ids := []string{e.ID}
		if d, ok := e.Data.(*agent.Discard); ok && d != nil {
			ids = d.IDs
		}
		*shown = slices.DeleteFunc(*shown, func(id string) bool { return slices.Contains(ids, id) })
	}
}

// pending returns the calls that have a result neither in the log nor in the
// write that is being put together. Calls of that write itself are among them.
func (l *lane) pending() []session.Call {
	run, _ := l.state()
	pending := append([]session.Call(nil), run.Pending...)
	for _, e := range l.joined {
		switch d := e.Data.(type) {
		case *agent.ToolCall:
			pending = append(pending, session.Call{ID: e.ID, Name: d.Name})
		case *agent.ToolResult:
			for i := range pending {
				if pending[i].ID == e.ID {
					pending = append(pending[:i], pending[i+1:]...)
					break
				}
			}
		}
	}
	return pending
}

// answerPending gives every call that still waits for a result one, in the
// write that is being put together; calls of the tools named are left out.
func (l *lane) answerPending(run session.Run, message string, except ...string) {
	for _, c := range l.pending() {
		if slices.Contains(except, c.Name) {
			continue
		}
		e := &agent.Event{ID: c.ID, Data: &agent.ToolResult{Name: c.Name, Output: agent.EncodeJSON(message), IsError: true}}
		l.joined = append(l.joined, l.stamp(run, e))
	}
}

// awaits reports whether a call of this id waits for its result.
func (l *lane) awaits(id string) bool {
	for i := len(l.joined) - 1; i >= 0; i-- {
		if e := l.joined[i]; e.ID == id {
			_, isCall := e.Data.(*agent.ToolCall)
			return isCall
		}
	}
	run, _ := l.state()
	return slices.ContainsFunc(run.Pending, func(c session.Call) bool { return c.ID == id })
}

func errorCode(err error) string {
	var runErr *agent.RunError
	var modelErr *llm.Error
	switch {
	case errors.As(err, &runErr):
		return runErr.Code
	case errors.Is(err, agent.ErrTransferLimit):
		return "transfer_limit"
	case errors.Is(err, agent.ErrTransferRejected):
		return "transfer_rejected"
	case errors.Is(err, agent.ErrLimit):
		return "limit"
	case errors.As(err, &modelErr):
		return string(modelErr.Code)
	}
	return "agent_error"
}

// commit stores the joined events and the given ones in one write, and delivers
// them.
func (l *lane) commit(run session.Run, closing ...*agent.Event) error {
	for _, e := range closing {
		l.joined = append(l.joined, l.stamp(run, e))
	}
	events := l.joined
	l.joined = l.joined[:0]
	return l.append(events)
}

func (l *lane) append(events []*agent.Event) error {
	if err := l.t.append(l.ctx, events); err != nil {
		return err
	}
	settle(&l.shown, events)
	l.flushDelivery()
	return nil
}

func (l *lane) flushDelivery() bool { return l.show(session.Run{}, nil) }

// show hands on a partial event, one that an inner scope has stored, or with nil
// what was stored here, and notes whether the consumer wants more.
func (l *lane) show(run session.Run, e *agent.Event) bool {
	if e != nil {
		if e.RunID == "" {
			l.stamp(run, e)
			e.Time = l.t.r.now().UTC()
			if !slices.Contains(l.shown, e.ID) {
				l.shown = append(l.shown, e.ID)
			}
		}
	}
	if !l.deliver(e) {
		l.stopped = true
		l.cancel(context.Canceled)
	}
	return !l.stopped
}

// hand runs the consumer's code for one event.
func (l *lane) hand(e *agent.Event, yield func(*agent.Event, error) bool) bool {
	l.consuming = true
	goOn := yield(e, nil)
	l.consuming = false
	return goOn
}

// stamp fills in what an event of a run shares with the others.
func (l *lane) stamp(run session.Run, e *agent.Event) *agent.Event {
	e.TurnID, e.RunID, e.Scope, e.Agent, e.Path = run.TurnID, run.ID, l.scope, run.Agent, run.Path
	return e
}

// inputJSON is what an inner scope was given, as its first event keeps it.
func inputJSON(c llm.Content) json.RawMessage {
	if len(c.Parts) == 0 {
		return agent.EncodeJSON(c.Text)
	}
	return agent.EncodeJSON(strings.TrimSpace(c.PlainText()))
}
