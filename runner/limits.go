package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Limits bound one turn, over all agents and inner scopes. Zero switches a
// limit off; start from [DefaultLimits] to change just one.
type Limits struct {
	// Transfers bounds committed transfers; without it nothing looks for circles.
	Transfers int
	// ModelCalls bounds the answers requested from models, discarded ones
	// included.
	ModelCalls int
	// ToolCalls bounds the calls of tools, in the order in which the log has them. Those
	// of one answer are run all or none.
	ToolCalls int
	// Steps bounds the answers of one run of one agent.
	Steps int
	// Time bounds the wall time of the turn.
	Time time.Duration
}

// DefaultLimits are the limits of a runner that sets none: 8 transfers, 50 model
// calls, 200 tool calls, 25 answers a run, and no bound on time.
func DefaultLimits() Limits {
	return Limits{Transfers: 8, ModelCalls: 50, ToolCalls: 200, Steps: 25}
}

// Limits returns the limits that hold for each turn.
func (r *Runner) Limits() Limits { return r.limits }

// legal checks a transfer that an agent yields as committed, so that function
// agents are held to the rules that bind models.
func (l *lane) legal(inv *agent.Invocation, d *event.Transfer) error {
	target, err := l.allowed(inv, d.To)
	if err == nil {
		if err = inv.Node().InputFor(target).Check(d.Payload); err != nil {
			return fmt.Errorf("%w: %w", agent.ErrTransferRejected, err)
		}
	}
	if err == nil && l.ready != d.To && !inv.Node().Properties.Router { // whose decision is stored before the target is asked
		err = l.isReady(l.ctx, target)
	}
	if errors.Is(err, agent.ErrUnknownTarget) {
		return fmt.Errorf("%w: %w", agent.ErrTransferRejected, err)
	}
	return err
}

// own returns a transfer that the step's agent yields as its own: nobody hands over in
// another's name. Without an outcome it is to be committed; the others say what became
// of an attempt, and move nothing.
func (l *lane) own(d *event.Transfer) (*event.Transfer, error) {
	from, to, outcome := l.inv.Agent().Name(), d.To, cmp.Or(d.Outcome, event.TransferCommitted)
	switch outcome {
	case event.TransferCommitted:
		if to == "" {
			return nil, fmt.Errorf("the agent %s yielded a transfer to nobody: its To is the target's name: %w", from, agent.ErrTransferRejected)
		}
		if n, _ := l.tree.Find(to); n != nil {
			to = n.Agent.Name()
		}
	case event.TransferRejected, event.TransferConflict, event.TransferFailed:
	default:
		return nil, fmt.Errorf("the agent %s yielded a transfer with the outcome %.40q: it is %s, or none, to hand over: %w",
			from, outcome, event.TransferCommitted, agent.ErrTransferRejected)
	}
	kind := d.TransferType
	if kind == "" && to == agent.Human {
		kind = event.TransferTypeBotToHuman
	}
	routed := d.Routed() && outcome == event.TransferCommitted && !l.inv.Node().Properties.Router // which only routers may say
	if from == d.From && to == d.To && outcome == d.Outcome && kind == d.TransferType && !routed {
		return d, nil
	}
	own := *d
	own.From, own.To, own.Outcome, own.TransferType = from, to, outcome, kind
	if routed {
		own.RouteDecision, own.GraphPath = nil, nil
	}
	return &own, nil
}

// CheckTransfer implements agent.Runtime.
func (l *lane) CheckTransfer(ctx context.Context, inv *agent.Invocation, to string) error {
	target, err := l.allowed(inv, to)
	if err != nil {
		return err
	}
	return l.isReady(ctx, target)
}

// Suspended implements agent.Runtime.
func (l *lane) Suspended() bool { return errors.Is(context.Cause(l.t.ctx), agent.ErrSuspended) }

// withinLimits reports the limit that forbids the next step, if one does. Scopes may run
// side by side: calls of tools are held against the limit by their place in the log, so
// that those under way elsewhere count, and the same ones are run each time.
func (l *lane) withinLimits(run session.Run, turn session.Turn) error {
	limits := l.t.r.limits
	answers := len(run.Pending) == 0
	switch {
	case answers && limits.ModelCalls > 0 && turn.ModelCalls >= limits.ModelCalls:
		return &agent.LimitError{Name: "model calls", Limit: int64(limits.ModelCalls)}
	case answers && limits.Steps > 0 && max(run.Answers, (l.steps+1)/2) >= limits.Steps:
		return &agent.LimitError{Name: "answers of one agent", Limit: int64(limits.Steps)}
	case !answers && limits.ToolCalls > 0 && run.Pending[len(run.Pending)-1].Number > limits.ToolCalls:
		return &agent.LimitError{Name: "tool calls", Limit: int64(limits.ToolCalls)}
	}
	return nil
}

// withinToolCalls holds a call that is about to run against the limit. That of a model has
// been held against it with all of its answer; a function makes its calls one by one.
func (l *lane) withinToolCalls(id string) error {
	limit := l.t.r.limits.ToolCalls
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if limit == 0 || l.t.w.fold.Turn.ToolCalls <= limit {
		return nil
	}
	for _, c := range l.t.w.fold.Scope(l.scope).Run.Pending {
		if c.ID == id && c.Number > limit {
			return &agent.LimitError{Name: "tool calls", Limit: int64(limit)}
		}
	}
	return nil
}

// withinTransfers holds one more transfer against the limit of the turn, and
// against those that were made in it.
func (l *lane) withinTransfers(from, to string, spoke bool) error {
	limit := l.t.r.limits.Transfers
	if limit == 0 {
		return nil
	}
	l.t.mu.Lock()
	for _, e := range l.joined { // scopes that end with the write of this very transfer
		if _, over := e.Data.(*event.HarnessEnd); over {
			delete(l.t.passages, e.Scope)
		}
	}
	p := l.t.passage(l.scope)
	circle := !spoke && l.t.w.fold.Scope(l.scope).Repeats(from, to)
	l.t.mu.Unlock()
	switch {
	case !p.granted:
		return &agent.TransferLimitError{Reason: fmt.Sprintf("at most %d transfers a turn", limit)}
	case circle:
		return &agent.TransferLimitError{Reason: fmt.Sprintf("%s handed over to %s before in this turn, and nothing was said since", from, to)}
	}
	return nil
}

// passage is what the limit of transfers says about the transfer that a scope has under
// way. That of an inner scope holds until the log has what became of it, so that scopes
// side by side cannot pass the limit together. It is given when the log gets the call
// that asks for the transfer, in the order of the log; else when it is first asked about.
type passage struct {
	granted bool
}

// passage returns the one of a scope. The caller holds mu.
func (t *turn) passage(scope string) passage {
	p, known := t.passages[scope]
	if known {
		return p
	}
	taken := t.w.fold.Turn.Transfers
	for _, other := range t.passages {
		if other.granted {
			taken++
		}
	}
	p.granted = taken < t.r.limits.Transfers
	if scope != "" {
		if t.passages == nil {
			t.passages = make(map[string]passage)
		}
		t.passages[scope] = p
	}
	return p
}

// account notes what a stored event means for what is reserved for its scope. The caller
// holds mu.
func (t *turn) account(e *event.Event) {
	if e.Scope == "" {
		return
	}
	switch d := e.Data.(type) {
	case *event.Usage, *event.Discard:
		delete(t.asking, e.Scope)
	case *event.ToolCall:
		if d.Name == agent.TransferTool && t.r.limits.Transfers > 0 {
			t.passage(e.Scope)
		}
	case *event.ToolResult:
		if d.Name == agent.TransferTool {
			delete(t.passages, e.Scope)
		}
	case *event.Transfer, *event.HarnessEnd:
		delete(t.passages, e.Scope)
	}
}

// rest gives back what a step of an inner scope has reserved and not used. A transfer
// whose call has no result in the log yet is still under way.
func (l *lane) rest() {
	l.answered()
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if !slices.ContainsFunc(l.t.w.fold.Scope(l.scope).Run.Pending, func(c session.Call) bool { return c.Name == agent.TransferTool }) {
		delete(l.t.passages, l.scope)
	}
}
