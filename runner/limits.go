package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// Limits bound one turn, over all agents and inner scopes. Zero switches a
// limit off; start from [DefaultLimits] to change just one.
type Limits struct {
	// Transfers bounds committed transfers; without it nothing looks for circles.
	Transfers int
	// ModelCalls bounds the answers asked of models, discarded ones included.
	ModelCalls int
	// ToolCalls bounds the results of tools.
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

// legal checks a transfer that an agent yields as committed, so that function
// agents are held to the rules that bind models.
func (l *lane) legal(inv *agent.Invocation, d *agent.Transfer) error {
	err := l.allowed(inv, d.To)
	if err == nil {
		if err = inv.Node().InputFor(l.tree.Node(d.To)).Check(d.Payload); err != nil {
			return fmt.Errorf("%w: %w", agent.ErrTransferRejected, err)
		}
	}
	if err == nil && l.ready != d.To {
		err = l.isReady(l.ctx, d.To)
	}
	if errors.Is(err, agent.ErrUnknownTarget) {
		return fmt.Errorf("%w: %w", agent.ErrTransferRejected, err)
	}
	return err
}

// own returns a transfer that the step's agent yields as its own: nobody hands over in
// another's name. Without an outcome it is to be committed; the others say what became
// of an attempt, and move nothing.
func (l *lane) own(d *agent.Transfer) (*agent.Transfer, error) {
	own := *d
	own.From, own.Outcome = l.inv.Agent().Name(), cmp.Or(d.Outcome, agent.TransferCommitted)
	switch own.Outcome {
	case agent.TransferCommitted:
		if own.To == "" {
			return nil, fmt.Errorf("the agent %s yielded a transfer to nobody: its To is the target's name: %w", own.From, agent.ErrTransferRejected)
		}
	case agent.TransferRejected, agent.TransferConflict, agent.TransferFailed:
	default:
		return nil, fmt.Errorf("the agent %s yielded a transfer with the outcome %.40q: it is %s, or none, to hand over: %w",
			own.From, own.Outcome, agent.TransferCommitted, agent.ErrTransferRejected)
	}
	if own.From == d.From && own.Outcome == d.Outcome {
		return d, nil
	}
	return &own, nil
}

// CheckTransfer implements agent.Runtime.
func (l *lane) CheckTransfer(ctx context.Context, inv *agent.Invocation, to string) error {
	if err := l.allowed(inv, to); err != nil {
		return err
	}
	return l.isReady(ctx, to)
}

// withinLimits reports the limit that forbids the next step, if one does.
func (l *lane) withinLimits(run session.Run, turn session.Turn) error {
	limits := l.t.r.limits
	answers := len(run.Pending) == 0
	switch {
	case answers && limits.ModelCalls > 0 && turn.ModelCalls >= limits.ModelCalls:
		return &agent.LimitError{Name: "model calls", Limit: int64(limits.ModelCalls)}
	case answers && limits.Steps > 0 && max(run.Answers, (l.steps+1)/2) >= limits.Steps:
		return &agent.LimitError{Name: "answers of one agent", Limit: int64(limits.Steps)}
	case !answers && limits.ToolCalls > 0 && turn.ToolCalls+len(run.Pending) > limits.ToolCalls:
		return &agent.LimitError{Name: "tool calls", Limit: int64(limits.ToolCalls)}
	}
	return nil
}
