package a2a

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/agent"
)

// cancelTimeout bounds the call that cancels a task nobody waits for any more.
const cancelTimeout = 3 * time.Second

// Ready implements agent.Readier: the card can be fetched and offers an interface
// that we speak. A card that was fetched within its TTL counts.
func (r *remote) Ready(ctx context.Context) error {
	if _, err := r.cards.get(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return r.cardError(ctx, err)
	}
	return nil
}

func (r *remote) cardError(ctx context.Context, err error) *Error {
	e := r.classify(ctx, err)
	if e.Code == CodeProtocol {
		e.Code = CodeCard
	}
	e.Message = "the agent card: " + e.Message
	return e
}

// Run implements agent.Agent: one exchange with the remote agent.
func (r *remote) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*agent.Event, error] {
	return func(yield func(*agent.Event, error) bool) {
		x := &exchange{remote: r, inv: inv, outer: ctx, yield: yield}
		err := x.run()
		if err == nil || x.stopped {
			return
		}
		if ctx.Err() != nil {
			yield(nil, context.Cause(ctx))
			return
		}
		if x.textID != "" { // what was shown will not be completed
			discard := &agent.Discard{Code: string(err.Code), Message: err.Message, IDs: []string{x.textID}}
			if !yield(&agent.Event{Data: discard, More: true}, nil) {
				return
			}
		}
		yield(nil, &agent.RunError{Agent: r.name, Code: string(err.Code), Err: err})
	}
}

// exchange is one message to a remote agent and all that comes back.
type exchange struct {
	*remote
	inv    *agent.Invocation
	outer  context.Context // the turn's
	ctx    context.Context // the same within the time limits
	peer   *peer
	answer answer
	yield  func(*agent.Event, error) bool

	recorded bool   // the handle of the task is stored
	textID   string // of the block whose deltas were shown
	stopped  bool   // the consumer wants no more
}

func (x *exchange) run() *Error {
	ctx, cancel := context.WithCancelCause(x.outer)
	defer cancel(nil)
	if x.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, x.timeout)
		defer stop()
	}
	if x.idle > 0 {
		watch := newSilence(x.idle, func() { cancel(errIdle) })
		defer watch.over()
		ctx = context.WithValue(ctx, silenceKey{}, watch)
	}
	x.ctx = ctx
	m, err := x.memory(ctx, x.inv)
	if err != nil {
		return x.classify(ctx, err)
	}
	if x.peer, err = x.cards.get(ctx); err != nil {
		return x.cardError(ctx, err)
	}
	x.answer.contextID = m.task.ContextID
	defer x.abandon()
	if !x.rejoin(m) && !x.stopped {
		if err := x.send(m); err != nil || x.stopped {
			return err
		}
	}
	if err := x.follow(); err != nil || x.stopped {
		return err
	}
	return x.finish()
}

// rejoin takes up the task of a run that a crash cut off, instead of sending its
// words a second time. It reports whether there is one to follow.
func (x *exchange) rejoin(m *memory) bool {
	if m.runID != x.inv.RunID() || m.task.TaskID == "" || m.task.Status == status(sdk.TaskStateCanceled) {
		return false
	}
	task, err := x.peer.client.GetTask(x.ctx, &sdk.GetTaskRequest{ID: sdk.TaskID(m.task.TaskID)})
	if err != nil || task == nil || task.Status.State == sdk.TaskStateCanceled {
		return false
	}
	x.recorded = true
	x.take(task)
	return true
}

// send gives the peer the new words and takes in what it answers at once.
func (x *exchange) send(m *memory) *Error {
	parts := m.news()
	if len(parts) == 0 {
		return &Error{Agent: x.name, Card: x.cards.shown, Code: CodeNothingToSend, Message: "there are no new words for the remote agent"}
	}
	msg := sdk.NewMessage(sdk.MessageRoleUser, parts...)
	msg.ContextID = m.task.ContextID
	if state := m.task.Status; m.task.TaskID != "" && (state == status(sdk.TaskStateInputRequired) || state == status(sdk.TaskStateAuthRequired)) {
		// The task waits for these words. What it holds already is not its answer
		// to them; a task that is gone or over meanwhile gets a successor.
		task, err := x.peer.client.GetTask(x.ctx, &sdk.GetTaskRequest{ID: sdk.TaskID(m.task.TaskID)})
		switch {
		case err == nil && task != nil && !task.Status.State.Terminal():
			x.answer.baseline(task)
			msg.TaskID = task.ID
		case err != nil && !errors.Is(err, sdk.ErrTaskNotFound):
			return x.failed(err)
		}
	}
	for e, err := range x.peer.client.SendStreamingMessage(x.ctx, &sdk.SendMessageRequest{Message: msg}) {
		if err != nil {
			var protocol *sdk.Error
			if x.answer.taskID != "" && x.ctx.Err() == nil && !errors.As(err, &protocol) && !errors.Is(err, errTooLarge) {
				x.inv.Logger().Warn("the stream of a remote agent broke, its task is polled", "agent", x.name, "card", x.cards.shown)
				return nil
			}
			return x.failed(err)
		}
		if !x.take(e) {
			return nil
		}
		if x.answer.settled() {
			break
		}
	}
	return nil
}

// follow polls a task that is not settled although its stream has ended.
func (x *exchange) follow() *Error {
	for wait := 100 * time.Millisecond; !x.answer.settled() && !x.stopped; wait = min(2*wait, 5*time.Second) {
		if x.ctx.Err() != nil {
			return x.failed(context.Cause(x.ctx))
		}
		if x.answer.taskID == "" {
			return x.failed(errors.New("the answer ended before it was complete"))
		}
		task, err := x.peer.client.GetTask(x.ctx, &sdk.GetTaskRequest{ID: x.answer.taskID})
		if err != nil {
			return x.failed(err)
		}
		if !x.take(task) || x.answer.settled() {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-x.ctx.Done():
			timer.Stop()
		}
	}
	return nil
}

// take takes in one event: it stores the handle of a new task before anything
// else is waited for, and shows what text there is. It reports whether to go on.
func (x *exchange) take(e sdk.Event) bool {
	if meta := e.Meta(); len(meta) > 0 {
		x.inv.Logger().Debug("the metadata of a remote agent is ignored", "agent", x.name, "keys", len(meta))
	}
	x.answer.add(e)
	if x.answer.taskID != "" && !x.recorded && !x.answer.settled() {
		x.recorded = true
		if !x.record(sdk.TaskStateWorking, false) {
			return false
		}
	}
	if !x.inv.Streaming() {
		return true
	}
	delta := x.answer.next()
	if delta == "" {
		return true
	}
	if x.textID == "" {
		x.textID = x.inv.NewID()
	}
	return x.give(&agent.Event{ID: x.textID, Partial: true, Attempt: 1, Data: &agent.Text{Content: delta}})
}

func (x *exchange) give(e *agent.Event) bool {
	if !x.yield(e, nil) {
		x.stopped = true
	}
	return !x.stopped
}

// record stores the handle of the task, or of the peer's context alone.
func (x *exchange) record(state sdk.TaskState, more bool) bool {
	return x.give(&agent.Event{More: more, Data: &agent.RemoteTask{TaskID: string(x.answer.taskID), ContextID: x.answer.contextID,
		Status: status(state), URL: x.peer.endpoint}})
}

// status is a task's state as the log has it: working, input_required, ….
func status(s sdk.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_"))
}

// finish yields the whole answer, and how the task stands.
func (x *exchange) finish() *Error {
	state := x.answer.state
	if x.answer.message {
		state = sdk.TaskStateCompleted
	}
	if !x.record(state, true) {
		return nil
	}
	text := x.answer.text()
	code := ErrorCode("")
	switch state {
	case sdk.TaskStateFailed:
		code = CodeTaskFailed
	case sdk.TaskStateRejected:
		code = CodeTaskRejected
	case sdk.TaskStateCanceled:
		code = CodeTaskCanceled
	}
	if code != "" {
		message := fmt.Sprintf("the task ended as %s", status(state))
		if x.answer.final != "" {
			message += ": " + clip(strings.ToValidUTF8(x.answer.final, "\uFFFD"), 2000)
		}
		return &Error{Agent: x.name, Card: x.cards.shown, Code: code, Message: message}
	}
	if text == "" && interrupted(state) {
		text = "(" + strings.ReplaceAll(status(state), "_", " ") + ")"
	}
	if text != "" {
		x.give(&agent.Event{ID: x.textID, Data: &agent.Text{Content: text}, More: true})
	} else if x.textID != "" {
		x.give(&agent.Event{Data: &agent.Discard{Code: "replaced", Message: "the remote agent took its words back", IDs: []string{x.textID}}, More: true})
	}
	return nil
}

// failed makes the exchange's error of a call's, and has the card fetched anew.
func (x *exchange) failed(err error) *Error {
	x.cards.drop(x.peer)
	return x.classify(x.ctx, err)
}

// abandon cancels a task that goes on although nobody waits for it: the turn was
// canceled, the consumer has gone, a time limit passed or the exchange failed.
func (x *exchange) abandon() {
	if x.answer.taskID == "" || x.answer.settled() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.outer), cancelTimeout)
	defer cancel()
	if _, err := x.peer.client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: x.answer.taskID}); err != nil && !errors.Is(err, sdk.ErrTaskNotCancelable) {
		x.inv.Logger().Warn("the task of a remote agent could not be canceled", "agent", x.name, "task", string(x.answer.taskID), "error", x.classify(ctx, err).Error())
	}
}
