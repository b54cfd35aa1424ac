package a2a

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/event"
)

// AskTool is the name of the tool call with which a remote agent asks the user from within an agent tool, a graph or a
// workflow. Its input is {message}, the remote agent's text. Models do not make this call, and no tool of that name
// runs.
const AskTool = "ask_user"

// CodeDeclined is the code of an [Error]: the user declined to answer a question that the remote agent asked from
// within an agent tool, a graph or a workflow. Its task was canceled, unless the session is a fork and the task is one
// of its parent session.
const CodeDeclined ErrorCode = "remote_question_declined"

// question is the last question that a task of an inner scope asked the user. It is kept until a message is sent after
// the answer.
type question struct {
	call, relay string
	message     string
	verdict     *event.RelayResolved
	hasResult   bool // the call has a result
}

// noteQuestion applies the agent's next event.
func (m *memory) noteQuestion(e *event.Event) {
	switch d := e.Data.(type) {
	case *event.ToolCall:
		if message, ok := parseQuestion(d); ok {
			m.asked = &question{call: e.ID, message: message}
		}
		return
	case *event.RemoteTask:
		if m.asked != nil && m.asked.hasResult {
			m.asked = nil
		}
		return
	}
	q := m.asked
	if q == nil {
		return
	}
	switch d := e.Data.(type) {
	case *event.Relay:
		if d.ToolCallID == q.call {
			q.relay = e.ID
		}
	case *event.RelayResolved:
		if d.RelayID == q.relay {
			q.verdict = d
		}
	case *event.ToolResult:
		switch {
		case e.ID != q.call:
		case q.verdict == nil: // withdrawn
			m.asked = nil
		default:
			q.hasResult = true
		}
	}
}

type askInput struct {
	Message string `json:"message"`
}

// parseQuestion returns the question of a call, and whether the call asks one.
func parseQuestion(d *event.ToolCall) (message string, ok bool) {
	var input askInput
	ok = d.Name == AskTool && json.Unmarshal(d.Input, &input) == nil
	return input.Message, ok
}

// askUser asks the user the question of the task, in one write with the end of the run.
func (x *exchange) askUser(text string) {
	if x.textID != "" { // the text shown as an answer is a question
		void := &event.Discard{Code: "replaced", Message: "the remote agent asks", IDs: []string{x.textID}}
		if !x.emit(&event.Event{Data: void, More: true}) {
			return
		}
	}
	input := event.EncodeJSON(askInput{text})
	call := &event.Event{Data: &event.ToolCall{Name: AskTool, Input: input}, More: true}
	x.suspends = x.emit(call) && x.emit(&event.Event{More: true,
		Data: &event.Relay{Kind: event.RelayInput, ToolCallID: call.ID, Tool: AskTool, Params: input, Message: text}})
}

// resolveQuestion yields the result of the call that asked, and reports whether the answer is to be sent. If the user
// has not answered yet, the question stays open.
//
// If the user declines, the task is canceled, except a task of the session that this one was forked from. The protocol
// has no message for it, and the remote agent could take a text that says so for the answer.
func (x *exchange) resolveQuestion(q *question) (send bool, failed *Error) {
	if q.verdict == nil {
		x.suspends = true
		return false, nil
	}
	if q.verdict.Approved {
		return q.hasResult || x.emit(&event.Event{ID: q.call, Data: &event.ToolResult{Name: AskTool, Output: q.verdict.Content}}), nil
	}
	data, err := x.Cancel(x.ctx, x.inv)
	if err != nil {
		return false, x.classify(x.ctx, err)
	}
	why := "denied"
	if q.verdict.Reason != "" {
		why += ": " + q.verdict.Reason
	}
	// Both events are stored with the error.
	x.emit(&event.Event{ID: q.call, More: true, Data: &event.ToolResult{Name: AskTool, Output: event.EncodeJSON(why), IsError: true}})
	for _, d := range data {
		if !x.stopped {
			x.emit(&event.Event{Data: d, More: true})
		}
	}
	outcome := "its task was canceled"
	if x.shared {
		outcome = "its task was not canceled, because a fork does not cancel a task of its parent session"
	}
	return false, x.fault(CodeDeclined, "the user declined to answer its question, and "+outcome+" ("+why+")")
}

// getAsking gets the last task, to compare what it asks with the log. If the message has another id than the question of
// the log, it gets the task once more. If the id differs again, the peer makes a new one for each answer, so the task is
// returned without it.
func (x *exchange) getAsking(m *memory, get func(sdk.TaskID) (*sdk.Task, error)) (*sdk.Task, error) {
	id := sdk.TaskID(m.Task.TaskID)
	task, err := get(id)
	if err != nil || m.Task.Question == "" || !interrupted(canonicalState(task.Status.State)) {
		return task, err
	}
	asks := task.Status.Message
	if asks == nil || asks.ID == "" || asks.ID == m.Task.Question {
		return task, nil
	}
	if task, err = get(id); err == nil && task.Status.Message != nil && task.Status.Message.ID != asks.ID {
		task.Status.Message.ID = ""
	}
	return task, err
}

// stillAsks reports whether a task that asks something still asks what the log says: in a message with the id of the
// question, for a peer with such ids, and in the same words. If the message has no text, a task of the session that this
// one was forked from may ask something else, unless the ids are equal.
func (x *exchange) stillAsks(asks *sdk.Message, question string, said []string) bool {
	id, text := "", ""
	if asks != nil {
		id, text = asks.ID, strings.ToValidUTF8(x.answer.redactedText(asks.Parts), "\uFFFD")
	}
	switch {
	case id != "" && question != "" && id != question:
		return false
	case text == "":
		return !x.shared || id != "" && id == question
	}
	return slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, text) })
}

// reply sends the user's answer to the task that asked. If the run was interrupted before, the answer may have arrived.
// A task that asks nothing or another question has received it. A task that asks the same question receives the answer
// again, under the same message id.
func (x *exchange) reply(m *memory) (streams bool, failed *Error) {
	id, resent := sdk.TaskID(m.Task.TaskID), x.inv.Attempt() > 1
	task, err := x.getAsking(m, x.getTaskWithRetry)
	switch {
	case errors.Is(err, sdk.ErrTaskNotFound):
		return false, x.failTaskGone(id)
	case err != nil:
		return false, x.failed(err)
	}
	state := canonicalState(task.Status.State)
	if resent {
		said, err := m.loggedTexts(x.ctx, x.inv.Session(), m.Since)
		if err != nil {
			return false, x.classify(x.ctx, err)
		}
		x.answer.excludeLogged(task, said)
	} else {
		x.answer.excludeTask(task)
	}
	x.answer.taskID = id
	if !x.waits(m, task) {
		if !resent && (!state.Terminal() || state == sdk.TaskStateCompleted) {
			return false, x.failAnswered(state)
		}
		x.apply(task)
		return true, nil
	}
	content := ""
	if json.Unmarshal(m.asked.verdict.Content, &content) != nil {
		content = string(m.asked.verdict.Content)
	}
	msg := x.message(m, sdk.NewTextPart(content))
	m.answers(msg, task)
	if streams, failed = x.deliver(m, msg); failed == nil || !x.delivery.refused || !isAnswer(failed) {
		return streams, failed
	}
	// Another client may have answered before this answer arrived.
	if task, err = x.getAsking(m, x.getTaskWithRetry); err == nil && !x.waits(m, task) {
		failed = x.failAnswered(canonicalState(task.Status.State))
	}
	return false, failed
}

// waits reports whether a task waits for the answer to the question of the log.
func (x *exchange) waits(m *memory, task *sdk.Task) bool {
	return canonicalState(task.Status.State) == sdk.TaskStateInputRequired &&
		x.stillAsks(task.Status.Message, m.Task.Question, []string{m.asked.message})
}

// failAnswered returns the error for a task whose question another client answered. Such a task must not be canceled.
func (x *exchange) failAnswered(state sdk.TaskState) *Error {
	x.taskGone = true
	return x.fault(CodeTaskGone, "the task does not wait for this answer any more: it is "+status(state)+" without it")
}
