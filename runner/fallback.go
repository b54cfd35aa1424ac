package runner

import (
	"errors"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// fallback returns who goes on for a run that ends with an error, after agent.OnError, nil if
// the error ends the turn.
func (l *lane) fallback(n *agent.Node, err error) *agent.Node {
	to := n.OnError()
	if to == nil || l.ctx.Err() != nil || errors.As(err, new(*agent.TripwireError)) {
		return nil
	}
	for _, over := range []error{agent.ErrLimit, agent.ErrTransferLimit, agent.ErrConflict, agent.ErrUnknownPrice, agent.ErrUnknownUsage} {
		if errors.Is(err, over) {
			return nil
		}
	}
	if l.withinTransfers(n.Agent.Name(), to.Agent.Name(), false) != nil {
		return nil
	}
	return to
}

// handOn ends a run that has failed and gives the conversation to another agent, in one write
// with what the run wanted to have stored.
func (l *lane) handOn(run session.Run, n, to *agent.Node, err error) error {
	failure, name := FailureOf(err), to.Agent.Name()
	l.answerRunning(run)
	l.answerPending(run, "not executed: "+agent.ForModel(err), nil)
	path, kind := slices.Concat(n.GraphPath(), []string{name}), event.TransferTypeBotToBot
	if to.GraphPath() != nil {
		path = to.GraphPath()
	}
	if to.Virtual() {
		kind = event.TransferTypeBotToHuman
	}
	var closing []*event.Event
	if void := l.void(failure.Code, "the answer was not completed"); void != nil {
		closing = append(closing, &event.Event{Data: void})
	}
	return l.handOver(run, name, nil, append(closing,
		&event.Event{Data: &event.Route{From: run.Agent, To: name, Reason: run.Agent + " failed", GraphPath: path, Failed: failure}},
		&event.Event{Data: &event.Transfer{From: run.Agent, To: name, Reason: run.Agent + " failed", Outcome: event.TransferCommitted, TransferType: kind}})...)
}
