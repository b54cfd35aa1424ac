package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/cenkalti/backoff/v5"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/sleep"
)

// CodeTaskGone is the code of an [Error]: the peer took a task and does not know it any more,
// or it went on without the answer that it asked for.
const CodeTaskGone ErrorCode = "remote_task_gone"

// maxFailures bounds how often in a row a task is asked for in vain: for about twenty
// seconds, in which a peer can restart.
const maxFailures = 10

// messageID is the id of the message that a run sends: the same however often it is
// sent, so that a server that drops what it has seen recognises a message that is sent
// again after a crash between the sending and the handle. Only when the task of the
// first one is known to be canceled does the run send another message.
func (x *exchange) messageID(m *memory) string {
	key := x.inv.Session().Key()
	h := sha256.New()
	for _, s := range []string{key.App, key.User, key.ID, x.inv.Scope(), x.inv.Agent().Name(), x.inv.RunID()} {
		_ = binary.Write(h, binary.BigEndian, uint32(len(s))) // a hash has no errors
		h.Write([]byte(s))
	}
	fmt.Fprint(h, m.tasks(x.inv.Since()))
	id := h.Sum(nil)[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8, as RFC 9562 has it
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// rejoin takes up the task of a run that a crash cut off, or that waited for an
// authorization, instead of sending its words a second time. It reports whether there
// is one to follow.
//
// A task that the peer does not know any more, after it has taken it, is an error: it
// may have done all or nothing of it, and the next message of the user begins a new one.
func (x *exchange) rejoin(m *memory) (bool, *Error) {
	if x.fresh {
		return false, nil
	}
	waited := m.Task.Status == status(sdk.TaskStateAuthRequired)
	if !waited && m.Task.Status != status(sdk.TaskStateWorking) {
		return false, nil
	}
	id := sdk.TaskID(m.Task.TaskID)
	task, err := x.reach(id)
	switch {
	case errors.Is(err, sdk.ErrTaskNotFound):
		return true, x.lost(id)
	case err != nil:
		return true, x.failed(err)
	}
	if known(task.Status.State) == sdk.TaskStateCanceled && !waited && len(m.news(x.ctx, x.inv.Session().File)) > 0 {
		return false, nil // by us, when the turn was cut off
	}
	said, err := m.said(x.ctx, x.inv.Session())
	if err != nil {
		return true, x.classify(x.ctx, err)
	}
	x.answer.recall(task, said)
	x.answer.quiet = waited
	x.recorded = !waited && m.RunID == x.inv.RunID()
	x.answer.taskID = id
	x.take(task)
	return true, nil
}

// reach gets a task, and asks again a bounded number of times while the connection breaks.
func (x *exchange) reach(id sdk.TaskID) (*sdk.Task, error) {
	return backoff.Retry(x.ctx, func() (*sdk.Task, error) {
		task, err := x.getTask(id)
		if err != nil && !x.broke(err) {
			err = backoff.Permanent(err)
		}
		return task, err
	}, backoff.WithBackOff(newBackOff()), backoff.WithMaxTries(maxFailures+1), backoff.WithMaxElapsedTime(0))
}

func (x *exchange) getTask(id sdk.TaskID) (*sdk.Task, error) {
	task, err := x.peer.client.GetTask(x.ctx, &sdk.GetTaskRequest{ID: id})
	if err == nil && task == nil {
		err = errors.New("the answer holds no task")
	}
	return task, err
}

// lost records that the peer does not know a task any more, and says so.
func (x *exchange) lost(id sdk.TaskID) *Error {
	x.gone, x.answer.taskID = true, id
	x.give(&event.Event{More: true, Data: &event.RemoteTask{TaskID: string(id), ContextID: x.answer.contextID, Status: "unknown", URL: x.peer.endpoint}})
	e := x.fault(CodeTaskGone, "the task was taken, and is not known any more: what it has done is unknown")
	e.Err = sdk.ErrTaskNotFound
	return e
}

func newBackOff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.RandomizationFactor, b.Multiplier, b.MaxInterval = 100*time.Millisecond, 0.2, 2, 5*time.Second
	b.Reset()
	return b
}

// follow waits for the end of a task that is not settled although its stream has
// ended: it subscribes to the task again, and where the peer has no streams, polls it.
// A connection that breaks is tried again, a bounded number of times in a row.
func (x *exchange) follow(streams bool) *Error {
	if x.answer.settled() {
		return nil
	}
	id := x.answer.taskID
	if id == "" {
		return x.failed(errors.New("the answer ended before it was complete"))
	}
	x.inv.Logger().Debug("the task of a remote agent is followed", "agent", x.name, "task", string(id), "streams", streams)
	wait, failures := newBackOff(), 0
	for {
		var err error
		if streams {
			before := x.answer.progress()
			if err = x.subscribe(id); x.answer.progress() != before {
				failures = 0
				wait.Reset()
			}
			switch {
			case x.stopped:
				return nil
			case x.answer.tooLarge():
				return x.failed(errTooLarge)
			case x.answer.settled():
				x.complete(id)
				return nil
			case err != nil && !x.broke(err): // it has no streams, or none of this task any more
				streams, err = false, nil
			}
		}
		if err == nil {
			var task *sdk.Task
			switch task, err = x.getTask(id); {
			case err == nil:
				failures = 0
				if !x.take(task) || x.answer.settled() {
					return nil
				}
				if x.answer.tooLarge() {
					return x.failed(errTooLarge)
				}
			case errors.Is(err, sdk.ErrTaskNotFound):
				return x.lost(id)
			}
		}
		if err != nil {
			if failures++; failures > maxFailures || !x.broke(err) {
				return x.failed(err)
			}
			x.inv.Logger().Warn("the connection to a remote agent broke: its task is fetched again", "agent", x.name, "card", x.cards.shown, "failures", failures)
		}
		if sleep.For(x.ctx, wait.NextBackOff()) != nil {
			return x.failed(context.Cause(x.ctx))
		}
	}
}

// subscribe takes in a stream of the task until it ends. What it missed before is in
// the snapshot with which streams begin (A2A 1.0, section 3.1.6); until there is one
// nothing is shown.
func (x *exchange) subscribe(id sdk.TaskID) error {
	x.answer.gap()
	for e, err := range x.peer.client.SubscribeToTask(x.ctx, &sdk.SubscribeToTaskRequest{ID: id}) {
		if err != nil {
			return err
		}
		if !x.take(e) || x.answer.settled() || x.answer.tooLarge() {
			return nil
		}
	}
	return x.ctx.Err()
}

// complete gets the whole task after a stream that may have missed some of it.
func (x *exchange) complete(id sdk.TaskID) {
	if x.answer.message {
		return
	}
	task, err := x.getTask(id)
	if err != nil {
		x.inv.Logger().Warn("the whole answer of a remote agent cannot be fetched: some of its text may be missing", "agent", x.name, "task", string(id), "error", x.classify(x.ctx, err).Error())
		return
	}
	x.take(task)
}
