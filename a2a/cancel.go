package a2a

import (
	"context"
	"errors"
	"time"

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
	r.cancelTask(ctx, inv, nil, sdk.TaskID(m.Task.TaskID))
	return []event.Data{&gone}, nil
}

// cancelTimeout bounds the call that cancels a task that no run waits for any more.
const cancelTimeout = 3 * time.Second

// cancelTask cancels a task at a peer, nil being the one of the card. It logs an error, unless there is nothing to cancel.
func (r *remote) cancelTask(ctx context.Context, inv *agent.Invocation, p *peer, id sdk.TaskID) {
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	var err error
	if p == nil {
		p, err = r.cards.get(ctx)
	}
	if err == nil {
		_, err = p.client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: id})
	}
	if err != nil && !errors.Is(err, sdk.ErrTaskNotCancelable) && !errors.Is(err, sdk.ErrTaskNotFound) {
		inv.Logger().Warn("the task of a remote agent could not be canceled", "agent", r.name, "task", string(id), "error", r.classify(ctx, err).Error())
	}
}
