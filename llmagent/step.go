package llmagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// Step is a run of an agent made by [Func]. It is valid until the function returns, and only on
// the function's own goroutine. If a method returns an error that wraps ErrOver,
// the run is over or pauses, and the function should return that error.
type Step struct {
	execution

	before  []any     // what the run has stored before this call of the function, and the function has not received yet: payloads, and *said
	writing io.Closer // the open stream
	over    error     // why nothing more can be done in the run
}

// said is the recorded answer of a model.
type said struct{ text string }

// ErrOver is the error of a Step's methods when nothing more can be done in the run:
// after a transfer, while a call waits for an approval, or because the turn was stopped.
var ErrOver = errors.New("the agent's run is over, or waits")

// CallError is the error of Step.Call if the tool has failed, or was not allowed to run.
type CallError struct {
	Tool string
	// Message is what a model would read.
	Message string
}

func (e *CallError) Error() string { return fmt.Sprintf("tool %s: %s", e.Tool, e.Message) }

// Context returns the context of the turn.
func (s *Step) Context() context.Context { return s.ctx }

// Invocation returns the session, the metadata and the tree of the turn.
func (s *Step) Invocation() *agent.Invocation { return s.inv }

// Message returns the text of the user in this turn; in an inner scope, such as a node of a
// graph, the input as text.
func (s *Step) Message() string {
	if in := s.inv.Input(); in != nil {
		return event.OutputText(in)
	}
	return s.inv.Message().PlainText()
}

// Say says something in the conversation. It does nothing if the text is empty.
func (s *Step) Say(text string) error {
	if text == "" {
		return nil
	}
	if _, done, err := recalled[*event.Text](s, "say something"); done || err != nil {
		return err
	}
	return s.say(&event.Event{Data: &event.Text{Content: text}})
}

// Stream returns a writer that says its text in the conversation, piece by piece.
// Close ends it, and so does the next method that the function calls.
func (s *Step) Stream() io.WriteCloser { return &stream{s: s} }

// goOn follows the agent's own last message in a request, because no request may end with
// such a message.
const goOn = "[These were your own words. Go on as you are instructed.]"

// Ask asks a model for the agent's next message in the conversation, says it, in pieces
// if the turn is streamed, and returns it. The request has the conversation as WithHistory
// shows it, the instructions after those of [WithGlobalInstruction], and no
// tools.
//
// Ask repeats a request whose answer breaks off or is empty; what such an answer uses counts
// in the turn's budgets. It returns an answer that was cut off by its length limit
// as it is. The function may continue after an error of the model, which is then in the log as a
// discard; a limit or a budget of the turn ends the run.
func (s *Step) Ask(model llm.Model, instructions string) (string, error) {
	if model == nil {
		return "", errors.New("llmagent: Step.Ask needs a model")
	}
	if text, again, err := s.answered(); again || err != nil {
		return text, err
	}
	if err := s.openView(); err != nil {
		return "", err
	}
	ans, err := (&question{execution: &s.execution, model: model, continues: true}).reply(func() (*llm.Request, error) { return s.requestOf(instructions), nil })
	switch {
	case errors.Is(err, errStopped):
		return "", s.end()
	case err != nil && (s.ctx.Err() != nil || overLimit(err)):
		s.finish(err)
		s.over = fmt.Errorf("%w: %w", ErrOver, err)
		return "", s.over
	case err != nil:
		return "", err
	}
	text := ans.text.String()
	if text == "" { // it has only calls, which have no use here
		err = fmt.Errorf("%w: the model %s has answered without text", agent.ErrEmptyAnswer, model.Name())
		void := ans.discarded(event.CodeEmptyAnswer, err.Error(), model.Name())
		return "", cmp.Or(s.say(&event.Event{Data: void}), err)
	}
	if err := s.say(append(ans.texts(nil), &event.Event{Data: ans.usageOf(model.Name())})...); err != nil {
		return "", err
	}
	return text, nil
}

// requestOf returns a request of Ask.
func (s *Step) requestOf(instructions string) *llm.Request {
	messages := s.view.Filled(s.ctx, s.inv.Session().File)
	if n := len(messages); n > 0 && messages[n-1].Role == llm.RoleAssistant {
		messages = append(messages[:n:n], llm.UserText(goOn))
	}
	system := paragraphs(s.place(s.inv.Node()).global, instructions)
	settings := s.settings()
	settings.ToolChoice, settings.ParallelToolCalls = "", nil
	return &llm.Request{System: system, Messages: messages, Stream: s.inv.Streaming(), Agent: s.inv.Node().Path, Settings: settings}
}

// Call calls a tool of the agent's: with its timeout, within the tool policy, through
// interceptors. Args become a JSON object; nil is the empty one. The output is decoded
// into result as by json.Unmarshal, unless that is nil. If the call needs an approval, or
// waits for an answer, the turn pauses, and Call returns ErrOver; after that the function is
// called again.
// If the tool fails, or is denied, the error is a *CallError, after which the function may continue.
func (s *Step) Call(tool string, args, result any) error {
	if !s.has(tool) {
		return s.noTool(tool)
	}
	call, again, err := recalled[*event.ToolCall](s, "call "+tool)
	switch {
	case err != nil:
		return err
	case again && call.Name != tool:
		return s.strayed("call " + tool)
	case !again:
		input, err := object(args)
		if err != nil {
			return fmt.Errorf("the arguments of tool %s: %w", tool, err)
		}
		if err := s.say(&event.Event{Data: &event.ToolCall{Name: tool, Input: input}}); err != nil {
			return err
		}
	case len(s.before) > 0:
		given, _, err := recalled[*event.ToolResult](s, "call "+tool)
		if err != nil {
			return err
		}
		return decode(given, result)
	}
	if err := s.openView(); err != nil {
		return err
	}
	given, err := s.runCall(s.view.Pending())
	if err != nil {
		return err
	}
	return decode(given, result)
}

// runCall runs the function's open call and returns its result.
func (s *Step) runCall(calls []view.Call) (given *event.ToolResult, err error) {
	x := s.execution
	r := &toolRound{execution: &x}
	if _, later := r.sort(calls); len(later) > 0 {
		s.pause(r.questions(later))
		return nil, s.end()
	}
	x.yield = func(e *event.Event, err error) bool {
		if e != nil {
			if r, ok := e.Data.(*event.ToolResult); ok && e.ID == calls[0].ID {
				given = r
			}
		}
		return s.yield(e, err)
	}
	err = r.execute(calls)
	if err == nil && r.waits {
		err = s.pause(r.asked)
	}
	if s.finish(err); err != nil || given == nil {
		return nil, s.end()
	}
	return given, nil
}

// decode returns the error of a call, or decodes its output.
func decode(r *event.ToolResult, into any) error {
	switch {
	case r.IsError:
		return &CallError{Tool: r.Name, Message: event.OutputText(r.Output)}
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(r.Output, into); err != nil {
		return fmt.Errorf("the output of tool %s: %w", r.Name, err)
	}
	return nil
}

// SaveFile creates a file of the session. The name is one element of a path. An empty
// media type is detected from the bytes. If the name or the media type is invalid, the error is an [agent.ErrBadInput],
// after which the function may continue.
func (s *Step) SaveFile(name, mediaType string, data []byte) (*event.File, error) {
	if err := s.may(); err != nil {
		return nil, err
	}
	f, err := s.inv.Runtime().SaveFile(s.ctx, name, mediaType, data) // also when called again, so that what was refused is refused again
	if err != nil {
		return nil, err
	}
	switch before, again, err := recalled[*event.File](s, "save a file"); {
	case err != nil:
		return nil, err
	case again && (before.Name != name || before.Digest != f.Digest):
		return nil, s.strayed("save " + name)
	case again:
		return before, nil
	}
	return f, s.say(&event.Event{Data: f})
}

// ReadFile returns the bytes of a file of the session, see [agent.Session].
func (s *Step) ReadFile(name string) ([]byte, error) {
	_, data, err := s.inv.Session().File(s.ctx, name)
	return data, err
}

// Transfer transfers the conversation, which ends the run: the function should
// return. The error is that of the runner if the target is not legal, not ready, or beyond
// a limit; it wraps one of agent's errors, and the function may continue after it. The reason
// may be empty.
func (s *Step) Transfer(to, reason string) error { return s.TransferWith(to, reason, nil) }

// TransferWith is Transfer with an input, for an edge with [agent.WithTransferInput].
func (s *Step) TransferWith(to, reason string, input any) error {
	if err := s.may(); err != nil {
		return err
	}
	s.failures()
	t := &event.Transfer{From: s.inv.Agent().Name(), To: to, Reason: reason, Outcome: event.TransferCommitted}
	if input != nil {
		var err error
		if t.Payload, err = object(input); err != nil {
			return fmt.Errorf("the input of the transfer to %s: %w", to, err)
		}
	}
	if err := s.inv.Runtime().CheckTransfer(s.ctx, s.inv, to); err != nil {
		return err
	}
	if len(s.before) > 0 { // what the function did next shows that the transfer was refused
		return fmt.Errorf("%w: the run has continued without it before", agent.ErrTransferRejected)
	}
	s.yield(&event.Event{Data: t}, nil)
	s.over = ErrOver
	return nil
}

// say yields events.
func (s *Step) say(events ...*event.Event) error {
	if s.emit(events...) != nil {
		return s.end()
	}
	return nil
}

// end records that nothing more can be yielded.
func (s *Step) end() error {
	s.over, s.writing = ErrOver, nil
	if cause := context.Cause(s.ctx); cause != nil {
		s.over = fmt.Errorf("%w: %w", ErrOver, cause)
	}
	return s.over
}

// may closes the open stream, and returns an error if nothing more can be done in the run.
func (s *Step) may() error {
	if s.over == nil && s.writing != nil {
		return s.writing.Close()
	}
	return s.over
}

// recall reads what the run has said, asked and called before this call of the function.
func (s *Step) recall() error {
	for e, err := range s.inv.Session().Events(s.ctx, s.inv.Since()) {
		if err != nil {
			return err
		}
		if e.Scope != s.inv.Scope() || e.Agent != s.inv.Agent().Name() { // in a graph it has the name of its node
			continue
		}
		switch d := e.Data.(type) {
		case *event.Usage: // the text before it is an answer
			if n := len(s.before); n > 0 {
				if t, ok := s.before[n-1].(*event.Text); ok {
					s.before[n-1] = &said{t.Content}
				}
			}
		case *event.File:
			if d.ToolCallID == "" { // else it belongs to the result of a call
				s.before = append(s.before, d)
			}
		case *event.Text, *event.ToolCall, *event.ToolResult, *event.Discard:
			s.before = append(s.before, d)
		}
	}
	return nil
}

// recalled returns what the run has stored at this point before, if the function is called
// again. What describes what the function wants to do now.
func recalled[T any](s *Step, what string) (before T, again bool, err error) {
	if err := s.may(); err != nil {
		return before, false, err
	}
	s.failures()
	if len(s.before) == 0 {
		return before, false, nil
	}
	if before, again = s.before[0].(T); !again {
		return before, false, s.strayed(what)
	}
	s.before = s.before[1:]
	return before, true, nil
}

// failures skips the records of failed answers, and returns the last.
func (s *Step) failures() (last *event.Discard) {
	for len(s.before) > 0 {
		d, ok := s.before[0].(*event.Discard)
		if !ok {
			break
		}
		last, s.before = d, s.before[1:]
	}
	return last
}

// answered returns what a model has answered at this point before, or the error if the
// function continued without an answer.
func (s *Step) answered() (text string, again bool, err error) {
	if err := s.may(); err != nil {
		return "", false, err
	}
	failed := s.failures()
	if len(s.before) == 0 {
		return "", false, nil // or the process died before the function got the error
	}
	if a, ok := s.before[0].(*said); !ok && failed != nil {
		return "", true, &llm.Error{Code: llm.ErrorCode(failed.Code), Message: failed.Message}
	} else if ok {
		s.before = s.before[1:]
		return a.text, true, nil
	}
	return "", false, s.strayed("ask a model")
}

// strayed returns the error of a function that does not do the same again.
func (s *Step) strayed(what string) error {
	return fmt.Errorf("the function of agent %q is called again, after a pause or a crash, and tries to %s where it did something else before: with the same input it must do the same",
		s.agent.name, what)
}
