package a2a

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Ready implements agent.Readier: it returns nil if the card can be fetched and offers a supported interface. A card
// within its TTL is not fetched again.
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

// Run implements agent.Agent: it runs one exchange with the remote agent. If the peer has certainly not begun to work
// on the message, the error wraps an agent.RefusedError; see [ErrNotSent].
func (r *remote) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		x := &exchange{remote: r, inv: inv, outer: ctx, yield: yield}
		x.answer.limit, x.answer.secrets = int(min(r.maxBody, 1<<40)), r.credentials
		err := x.run()
		if x.stopped {
			return
		}
		if err == nil {
			if x.suspends {
				yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}}, nil)
			}
			return
		}
		if ctx.Err() != nil {
			yield(nil, context.Cause(ctx))
			return
		}
		if x.textID != "" { // the shown text will not be completed
			discard := &event.Discard{Code: string(err.Code), Message: err.Message, IDs: []string{x.textID}}
			if !yield(&event.Event{Data: discard, More: true}, nil) {
				return
			}
		}
		yield(nil, &agent.RunError{Agent: r.name, Code: string(err.Code), Err: x.refusal(err)})
	}
}

// exchange is one message to a remote agent and its answer.
type exchange struct {
	*remote
	inv    *agent.Invocation
	outer  context.Context // the turn's
	ctx    context.Context // outer within the time limits, requesting our extension
	peer   *peer
	answer answer
	yield  func(*event.Event, error) bool

	fresh    bool     // the run has not started a task yet
	shared   bool     // the last task began in the session that this one was forked from
	delivery delivery // the state of the message's delivery
	recorded bool     // the task's id is stored
	textID   string   // the id of the text that is being shown
	stopped  bool     // the consumer has stopped
	suspends bool     // the task waits for the user or for an action elsewhere
	taskGone bool     // the peer no longer has the task
}

func (x *exchange) run() *Error {
	ctx, cancel := context.WithCancel(x.outer)
	defer cancel()
	if x.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, x.timeout)
		defer stop()
	}
	x.ctx = withExtension(ctx)
	m, err := x.memory(ctx, x.inv)
	if err != nil {
		return x.classify(ctx, err)
	}
	x.fresh = m.Task.TaskID == "" || m.Recorded <= x.inv.Since()
	x.shared = m.sharesTask(x.inv)
	if m.asked != nil {
		if proceed, failed := x.resolveQuestion(m.asked); !proceed {
			return failed
		}
	}
	if x.peer, err = x.cards.get(ctx); err != nil {
		return x.cardError(ctx, err)
	}
	x.answer.contextID = m.Task.ContextID
	defer x.abandon()
	streams, failed := x.begin(m)
	if failed != nil || x.stopped {
		return failed
	}
	if err := x.follow(streams); err != nil || x.stopped {
		return err
	}
	return x.finish()
}

// begin resumes the task of the run, or sends a message. It reports whether the peer streams its answers.
func (x *exchange) begin(m *memory) (streams bool, failed *Error) {
	if m.asked != nil {
		return x.reply(m)
	}
	if joined, failed := x.rejoin(m); failed != nil || joined || x.stopped {
		return true, failed
	}
	return x.send(m)
}

// send sends the new messages to the peer.
func (x *exchange) send(m *memory) (streams bool, failed *Error) {
	parts := m.newParts(x.ctx, x.inv.Session().File, false)
	if len(parts) == 0 {
		return false, x.fault(CodeNothingToSend, "the conversation has no new messages for the remote agent")
	}
	msg := x.message(m, parts...)
	if state := m.Task.Status; m.Task.TaskID != "" && (state == status(sdk.TaskStateInputRequired) || state == status(sdk.TaskStateAuthRequired)) {
		// The task waits for this message, and its present content is not the answer to it. If the task has ended, is
		// gone or asks something else by now, the peer starts another one.
		task, err := x.getAsking(m, x.getTask)
		switch {
		case err == nil:
			said, err := m.lastQuestion(x.ctx, x.inv.Session())
			if err != nil {
				return false, x.classify(x.ctx, err)
			}
			switch {
			case x.takesAnswer(task, m.Task.Question, said):
				x.answer.excludeTask(task)
				m.answers(msg, task)
			case interrupted(canonicalState(task.Status.State)) && x.inv.Attempt() > 1 && !x.shared: // it has received the answer before a crash
				x.answer.excludeLogged(task, said)
				x.answer.taskID = task.ID
				x.apply(task)
				return true, nil
			}
		case !errors.Is(err, sdk.ErrTaskNotFound):
			return false, x.failed(err)
		}
	}
	if msg.TaskID == "" && m.sharesContext(x.inv) {
		x.answer.contextID, msg.ContextID = "", ""
		msg.Parts = m.newParts(x.ctx, x.inv.Session().File, true)
	}
	return x.deliver(m, msg)
}

// takesAnswer reports whether a task takes a message as the answer to a question in the log. A task that works may have
// been answered by the session that this one was forked from, or its peer is late.
func (x *exchange) takesAnswer(t *sdk.Task, question string, said []string) bool {
	state := canonicalState(t.Status.State)
	if !interrupted(state) {
		return !state.Terminal() && !x.shared
	}
	return x.stillAsks(t.Status.Message, question, said)
}

// deliver sends a message and applies the immediate answer. It reports whether the peer streams its answers.
func (x *exchange) deliver(m *memory, msg *sdk.Message) (streams bool, failed *Error) {
	events := 0
	listening, end := x.untilSilent(false)
	defer end()
	sending, stop := x.sendContext(x.delivery.watch(listening))
	defer stop()
	for e, err := range x.peer.client.SendStreamingMessage(sending, &sdk.SendMessageRequest{Message: msg}) {
		if err != nil {
			err = silence(sending, err)
			if x.answer.taskID == "" || !x.connectionBroke(err) && !unreadable(err) {
				x.delivery.failed(err)
				return false, x.failed(err)
			}
			x.answer.markIncomplete()
			return !unreadable(err), nil
		}
		x.delivery.gotEvent.Store(true)
		if x.outer.Err() != nil { // the turn is over: note the task to cancel
			if !isNilEvent(e) {
				x.answer.add(e)
			}
			return false, x.failed(context.Cause(x.ctx))
		}
		if events == 0 && msg.TaskID == "" && m.Task.TaskID != "" && !isNilEvent(e) && string(e.TaskInfo().TaskID) == m.Task.TaskID {
			if x.answer.said, err = m.loggedTexts(x.ctx, x.inv.Session(), m.Since); err != nil { // the peer uses the id of the last task again
				return false, x.classify(x.ctx, err)
			}
		}
		if events++; !x.apply(e) {
			return false, nil
		}
		if x.answer.tooLarge() {
			return false, x.failed(errTooLarge)
		}
		if x.answer.complete() {
			break
		}
	}
	return events != 1, nil
}

// connectionBroke reports whether an error is a connection error, after which the task may still exist, rather than the
// peer's answer.
func (x *exchange) connectionBroke(err error) bool {
	return x.ctx.Err() == nil && !isAnswer(err) && !unreadable(err) && !errors.Is(err, errTooLarge)
}

// apply applies one event. It stores the id of a new task before waiting for anything else, and yields new text. It
// reports whether to continue.
func (x *exchange) apply(e sdk.Event) bool {
	if isNilEvent(e) {
		return true
	}
	x.answer.add(e)
	if x.answer.taskID != "" && !x.recorded && !x.answer.complete() {
		x.recorded = true
		if !x.record(sdk.TaskStateWorking, false) {
			return false
		}
	}
	if !x.inv.Streaming() {
		return true
	}
	delta := x.answer.nextDelta()
	if delta == "" {
		return true
	}
	if x.textID == "" {
		x.textID = x.inv.NewID()
	}
	return x.emit(&event.Event{ID: x.textID, Partial: true, Attempt: 1, Data: &event.Text{Content: delta}})
}

func (x *exchange) emit(e *event.Event) bool {
	if !x.yield(e, nil) {
		x.stopped = true
	}
	return !x.stopped
}

// record stores the state of the task, or only the peer's context id if there is no task.
func (x *exchange) record(state sdk.TaskState, more bool) bool {
	return x.emit(&event.Event{More: more, Data: &event.RemoteTask{TaskID: string(x.answer.taskID), ContextID: x.answer.contextID,
		Status: status(state), Question: x.answer.question, URL: x.peer.endpoint, Usage: x.answer.usage}})
}

// status returns the log's name for a task state: working, input_required, ….
func status(s sdk.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_"))
}

// finish yields the state of the task and the whole answer.
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
			message += ": " + x.answer.final
		}
		return x.fault(code, message)
	}
	m, err := x.memory(x.ctx, x.inv)
	if err != nil {
		return x.failed(err)
	}
	lines, err := x.saveFiles(m.Files)
	if err != nil {
		return x.failed(err)
	}
	text = appendFileLines(text, lines)
	asks := state == sdk.TaskStateInputRequired && x.inv.Scope() != "" // where no user message arrives
	if text == "" && interrupted(state) && (asks || !x.answer.omitRepeated) {
		text = "(" + strings.ReplaceAll(status(state), "_", " ") + ")"
	}
	if asks {
		x.askUser(text)
		return nil
	}
	x.suspends = state == sdk.TaskStateAuthRequired
	if x.textID != "" && !x.showRest(text) || text == "" {
		return nil
	}
	x.emit(&event.Event{ID: x.textID, Data: &event.Text{Content: text}, More: true})
	return nil
}

// showRest yields the rest of the answer, such as the question after its text, or discards the shown text if the answer
// no longer begins with it. It reports whether to continue.
func (x *exchange) showRest(text string) bool {
	rest, ok := strings.CutPrefix(text, strings.ToValidUTF8(string(x.answer.shown), "\uFFFD"))
	switch {
	case !ok:
		id := x.textID
		x.textID = ""
		return x.emit(&event.Event{Data: &event.Discard{Code: "replaced", Message: "the remote agent replaced its text", IDs: []string{id}}, More: true})
	case rest != "":
		return x.emit(&event.Event{ID: x.textID, Partial: true, Attempt: 1, Data: &event.Text{Content: rest}})
	}
	return true
}

// failed classifies the error of a call, and lets the card expire.
func (x *exchange) failed(err error) *Error {
	x.cards.drop(x.peer)
	return x.classify(x.ctx, err)
}

// abandon cancels a task that still runs after the exchange ended: because the turn was canceled, the consumer stopped,
// a time limit was exceeded or the exchange failed.
func (x *exchange) abandon() {
	if x.suspended() {
		return // the process that resumes the turn follows the task
	}
	if x.shared && !x.delivery.begun {
		return // the session that this one was forked from uses the task
	}
	if x.answer.taskID != "" && !x.answer.complete() && !x.taskGone {
		x.cancelTask(context.WithoutCancel(x.outer), x.inv, x.peer, x.answer.taskID) // even if the turn is over
	}
}

// suspended reports whether the turn is suspended. It asks the runtime, because an enclosing agent may stop this one
// before its context ends, with no other reason than the suspension.
func (x *exchange) suspended() bool { return x.inv.Runtime().Suspended() }
