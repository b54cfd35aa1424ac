package a2a

import (
	"context"
	"errors"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Cancel implements agent.Canceler: it cancels at the peer a task that waits for the user, or that a crash left
// unfinished. An unreachable peer is not an error: its task keeps waiting, and no later run asks for it. The same holds
// for a task of the session that a fork was taken from: Cancel leaves it to that session.
func (r *remote) Cancel(ctx context.Context, inv *agent.Invocation) ([]event.Data, error) {
	m, err := r.memory(ctx, inv)
	if err != nil {
		return nil, err
	}
	switch m.Task.Status {
	case status(sdk.TaskStateInputRequired), status(sdk.TaskStateAuthRequired), status(sdk.TaskStateWorking):
	default:
		return nil, nil
	}
	if m.Task.TaskID == "" {
		return nil, nil
	}
	gone := m.Task
	gone.Status = status(sdk.TaskStateCanceled)
	if m.sharesTask(inv) {
		return []event.Data{&gone}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	p, err := r.cards.get(ctx)
	if err == nil {
		_, err = p.client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: sdk.TaskID(m.Task.TaskID)})
	}
	if err != nil && !errors.Is(err, sdk.ErrTaskNotCancelable) && !errors.Is(err, sdk.ErrTaskNotFound) {
		inv.Logger().Warn("the task of a remote agent could not be canceled", "agent", r.name, "task", m.Task.TaskID, "error", r.classify(ctx, err).Error())
	}
	return []event.Data{&gone}, nil
}
