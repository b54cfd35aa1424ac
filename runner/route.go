package runner

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// route returns the transfer that a stopped run makes without a model, nil if
// it makes none. A target that cannot start leaves the run stopped, with a
// record of the attempt in the write that is being put together.
func (l *lane) route(n *agent.Node, run session.Run) (transfer *event.Event, err error) {
	defer l.recovered(run, &err)
	to, err := n.Route(l.ctx, l.inv, l.answer())
	if err != nil || to == nil {
		return nil, err
	}
	record := &event.Transfer{From: run.Agent, To: to.Agent.Name(), Outcome: event.TransferCommitted, TransferType: event.TransferTypeRoute}
	err = l.withinTransfers(run.Agent, record.To, l.hasText())
	if err == nil {
		err = l.isReady(l.ctx, to)
	}
	var limit *agent.TransferLimitError
	switch {
	case errors.As(err, &limit):
		return nil, limit
	case err != nil:
		record.Outcome = event.TransferFailed
		l.joined = append(l.joined, l.stamp(run, &event.Event{Data: record}),
			l.stamp(run, &event.Event{Data: &event.Notice{Code: "route_failed", Message: err.Error()}}))
		return nil, context.Cause(l.ctx)
	}
	return &event.Event{Data: record}, nil
}

// hasText reports whether the write that is being put together has text in it.
func (l *lane) hasText() bool {
	return slices.ContainsFunc(l.joined, func(e *event.Event) bool {
		t, ok := e.Data.(*event.Text)
		return ok && strings.TrimSpace(t.Content) != ""
	})
}

// answer is what the run said last, as the log has it.
func (l *lane) answer() string {
	for _, e := range slices.Backward(l.joined) {
		if t, ok := e.Data.(*event.Text); ok && strings.TrimSpace(t.Content) != "" {
			return event.ValidText(t.Content)
		}
	}
	run, _ := l.state()
	return run.Said
}
