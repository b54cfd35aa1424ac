package a2a

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/cenkalti/backoff/v5"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/sleep"
)

// CodeTaskGone is the code of an [Error]: the peer accepted a task and no longer knows it, or the task continued
// without the answer that it asked for.
const CodeTaskGone ErrorCode = "remote_task_gone"

// maxFailures bounds the consecutive failed requests for a task, which take about twenty seconds, in which a peer can
// restart. maxSilences bounds those among them that took a whole idle limit, because the peer was silent.
const (
	maxFailures = 10
	maxSilences = 1
)

// retries are the consecutive failed requests for a task, and the time until the next one.
type retries struct {
	backoff.ExponentialBackOff
	failures, silences int
}

func newRetries() *retries {
	r := &retries{ExponentialBackOff: backoff.ExponentialBackOff{InitialInterval: 100 * time.Millisecond, RandomizationFactor: 0.2, Multiplier: 2, MaxInterval: 5 * time.Second}}
	r.Reset()
	return r
}

// succeeded forgets the failures before a request that succeeded.
func (r *retries) succeeded() { r.failures, r.silences = 0, 0 }

// failed counts a failed request by its errors, and reports whether there may be another one.
func (r *retries) failed(errs ...error) bool {
	r.failures++
	if slices.Contains(errs, errIdle) {
		r.silences++
	}
	return r.failures <= maxFailures && r.silences <= maxSilences
}

// messageID returns the id of the run's message. It stays the same however often the message is sent, so that a server
// that drops duplicates recognizes a message that is sent again after a crash before its task was recorded. The id
// changes only if the run sends another message, after the task of the first one was canceled.
func (x *exchange) messageID(m *memory) string {
	inv := x.inv
	id := sha256.Sum256(event.EncodeJSON([]any{inv.Session().Key(), inv.Scope(), inv.Agent().Name(), inv.RunID(), m.tasksSince(inv.Since())}))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8 (RFC 9562)
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// rejoin resumes the task of a run that a crash interrupted, or that waited for an authorization, instead of sending
// the message a second time. It reports whether there is a task to follow.
//
// If the peer no longer knows a task that it accepted, the run fails: the peer may have done all or none of the work.
// The user's next message starts a new task.
func (x *exchange) rejoin(m *memory) (bool, *Error) {
	if x.fresh {
		return false, nil
	}
	waited := m.Task.Status == status(sdk.TaskStateAuthRequired)
	if !waited && m.Task.Status != status(sdk.TaskStateWorking) {
		return false, nil
	}
	id := sdk.TaskID(m.Task.TaskID)
	task, err := x.getTaskWithRetry(id)
	switch {
	case errors.Is(err, sdk.ErrTaskNotFound):
		return true, x.failTaskGone(id)
	case err != nil:
		return true, x.failed(err)
	}
	if canonicalState(task.Status.State) == sdk.TaskStateCanceled && !waited && len(m.newParts(x.ctx, x.inv.Session().File, false)) > 0 {
		return false, nil // canceled by us when the turn was interrupted
	}
	said, err := m.loggedTexts(x.ctx, x.inv.Session(), m.Since)
	if err != nil {
		return true, x.classify(x.ctx, err)
	}
	x.answer.excludeLogged(task, said)
	x.answer.omitRepeated = waited
	x.recorded = !waited && m.RunID == x.inv.RunID()
	x.answer.taskID = id
	x.apply(task)
	return true, nil
}

// getTaskWithRetry gets a task. After a failure that may pass, it tries again as often as retries allow.
func (x *exchange) getTaskWithRetry(id sdk.TaskID) (*sdk.Task, error) {
	return x.retry(func() (*sdk.Task, error) { return x.getTask(id) })
}

func (x *exchange) retry(get func() (*sdk.Task, error)) (*sdk.Task, error) {
	for r := newRetries(); ; {
		task, err := get()
		if err == nil || !x.transient(err) || !r.failed(err) {
			return task, err
		}
		if err := sleep.For(x.ctx, r.NextBackOff()); err != nil {
			return nil, err
		}
	}
}

// untilSilent returns a context for one call. It ends with errIdle after the idle limit without a byte of the response,
// counted from its first byte, or from now on if the response has to begin at once.
func (x *exchange) untilSilent(atOnce bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(x.ctx)
	stop := func() { cancel(nil) }
	if x.idle == 0 {
		return ctx, stop
	}
	watch := newIdleTimer(x.idle, func() { cancel(errIdle) })
	if atOnce {
		watch.reset()
	}
	return context.WithValue(ctx, idleTimerKey{}, watch), func() { watch.stop(); stop() }
}

// silence returns errIdle for a call that ended because of the idle limit, and err for any other.
func silence(call context.Context, err error) error {
	if errors.Is(context.Cause(call), errIdle) {
		return errIdle
	}
	return err
}

// transient reports whether a request for a task may succeed later: its connection broke or fell silent, or a proxy or
// an overloaded server answered.
func (x *exchange) transient(err error) bool {
	var status *statusError
	if !errors.As(err, &status) {
		return x.connectionBroke(err)
	}
	switch status.status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return x.ctx.Err() == nil
	case http.StatusNotImplemented:
		return false
	}
	return status.status >= 500 && x.ctx.Err() == nil
}

func (x *exchange) getTask(id sdk.TaskID) (*sdk.Task, error) {
	ctx, stop := x.untilSilent(true)
	defer stop()
	task, err := x.peer.client.GetTask(ctx, &sdk.GetTaskRequest{ID: id})
	if err == nil && task == nil {
		err = errors.New("the answer contains no task")
	}
	return task, silence(ctx, err)
}

// failTaskGone records that the peer no longer knows a task, and returns the error.
func (x *exchange) failTaskGone(id sdk.TaskID) *Error {
	x.taskGone, x.answer.taskID = true, id
	x.emit(&event.Event{More: true, Data: &event.RemoteTask{TaskID: string(id), ContextID: x.answer.contextID, Status: "unknown", URL: x.peer.endpoint}})
	e := x.fault(CodeTaskGone, "the remote agent accepted the task and no longer knows it: check what it has done before asking again")
	e.Err = sdk.ErrTaskNotFound
	return e
}

// follow waits until a task whose stream has ended is settled. It subscribes to the task again, or polls it if the peer
// does not stream. It retries after a broken connection, as often as retries allow. A stream that falls silent is
// like a broken one: the work on a task may take longer than the idle limit, and not all peers send keep-alives.
func (x *exchange) follow(streams bool) *Error {
	if x.answer.complete() {
		return nil
	}
	id := x.answer.taskID
	if id == "" {
		return x.failed(errors.New("the answer ended before it was complete"))
	}
	x.inv.Logger().Debug("waiting for the task of a remote agent", "agent", x.name, "task", string(id), "streams", streams)
	r := newRetries()
	for {
		var cut error
		broke := false
		if streams {
			before := x.answer.progress()
			cut = x.subscribe(id)
			broke = cut != nil && x.connectionBroke(cut)
			if x.answer.progress() != before {
				r.succeeded()
				r.Reset()
			}
			switch {
			case x.stopped:
				return nil
			case x.answer.tooLarge():
				return x.failed(errTooLarge)
			case x.answer.complete():
				return x.fetchWhole(id)
			case cut != nil && !broke: // the peer does not stream this task
				streams = false
			}
		}
		// Where a proxy cuts the streams of a healthy task, only its state counts.
		switch task, err := x.getTask(id); {
		case err == nil:
			r.succeeded()
			if !x.apply(task) || x.answer.complete() {
				return nil
			}
			if x.answer.tooLarge() {
				return x.failed(errTooLarge)
			}
		case errors.Is(err, sdk.ErrTaskNotFound):
			return x.failTaskGone(id)
		default:
			if isAnswer(err) && !x.transient(err) {
				cut = nil // the peer is not silent, only its stream
			}
			if !r.failed(cut, err) || !broke && !x.transient(err) {
				return x.failed(err)
			}
			x.inv.Logger().Warn("the connection to a remote agent broke; retrying", "agent", x.name, "card", x.cards.displayURL, "failures", r.failures)
		}
		if sleep.For(x.ctx, r.NextBackOff()) != nil {
			return x.failed(context.Cause(x.ctx))
		}
	}
}

// subscribe applies a stream of the task until it ends. Streams begin with a snapshot (A2A 1.0, section 3.1.6), which
// contains what was missed; nothing is shown before it.
func (x *exchange) subscribe(id sdk.TaskID) error {
	x.answer.markIncomplete()
	ctx, stop := x.untilSilent(true)
	defer stop()
	for e, err := range x.peer.client.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: id}) {
		if err != nil {
			return silence(ctx, err)
		}
		if !x.apply(e) || x.answer.complete() || x.answer.tooLarge() {
			return nil
		}
	}
	return x.ctx.Err()
}

// fetchWhole gets the whole task after a stream that may have missed a part of it. If a part is missing and cannot be
// fetched, the answer cannot be used.
func (x *exchange) fetchWhole(id sdk.TaskID) *Error {
	if x.answer.message {
		return nil
	}
	task, err := x.getSettled(id)
	if x.answer.incomplete && err != nil && x.transient(err) {
		task, err = x.retry(func() (*sdk.Task, error) { return x.getSettled(id) })
	}
	switch {
	case err == nil:
		x.apply(task)
	case x.answer.incomplete:
		return x.failed(fmt.Errorf("the task has ended, but a part of its answer is missing: %w", err))
	default:
		x.inv.Logger().Warn("the whole answer of a remote agent cannot be fetched", "agent", x.name, "task", string(id), "error", x.classify(x.ctx, err).Error())
	}
	return nil
}

// errOutdated is a task as it was before the last event of its stream, from another replica of the peer for example.
var errOutdated = errors.New("the peer answered with an earlier state of the task")

// getSettled gets a task whose stream has ended with its last state. An earlier state lacks the end of the answer.
func (x *exchange) getSettled(id sdk.TaskID) (*sdk.Task, error) {
	task, err := x.getTask(id)
	if err != nil {
		return nil, err
	}
	if s := canonicalState(task.Status.State); s != x.answer.state && !s.Terminal() {
		return nil, errOutdated
	}
	return task, nil
}
