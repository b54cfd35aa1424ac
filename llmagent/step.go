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

// Step is a run of an agent made by [Func]. It is valid until the function returns, and only on the function's own
// goroutine. If a method returns an error that wraps [ErrOver], the run is over or paused, and the function should
// return that error.
type Step struct {
	execution

	// recorded is what the run recorded before this call of the function and no method has replayed yet: payloads of
	// events, and *recordedAnswer.
	recorded   []any
	openStream io.Closer // the open stream, or nil
	overErr    error     // the error of all further methods; nil while the run is active
}

// recordedAnswer is the recorded answer of a model.
type recordedAnswer struct{ text string }

// ErrOver is the error of a Step's methods when the run can do nothing more: after a transfer, while a call waits for
// an approval, or because the turn was stopped. Test with [errors.Is].
var ErrOver = errors.New("the agent's run is over or paused")

// CallError is the error of [Step.Call] and [ToolAgent] if the tool has failed, or was not allowed to run.
type CallError struct {
	Tool string
	// Message is the result that a model would read.
	Message string
}

func (e *CallError) Error() string { return fmt.Sprintf("tool %s: %s", e.Tool, e.Message) }

// Context returns the context of the turn.
func (s *Step) Context() context.Context { return s.ctx }

// Invocation returns the session, the metadata and the tree of the turn.
func (s *Step) Invocation() *agent.Invocation { return s.inv }

// Message returns the text of the user's message of this turn. In an inner scope, such as a node of a graph, it
// returns the input as text.
func (s *Step) Message() string {
	if in := s.inv.Input(); in != nil {
		return event.OutputText(in)
	}
	return s.inv.Message().PlainText()
}

// Say says a text in the conversation. It does nothing if the text is empty.
func (s *Step) Say(text string) error {
	if text == "" {
		return nil
	}
	if _, done, err := replay[*event.Text](s, "say something"); done || err != nil {
		return err
	}
	return s.send(&event.Event{Data: &event.Text{Content: text}})
}

// Stream returns a writer that says its text in the conversation, piece by piece. Its Close ends the text, and so does
// the next method that the function calls.
func (s *Step) Stream() io.WriteCloser { return &stream{s: s} }

// continueNote follows the agent's own last message in a request, because a request must not end with such a
// message.
const continueNote = "[These were your own words. Go on as you are instructed.]"

// Ask asks a model for the agent's next message in the conversation, says the message and returns it. If the turn is
// streamed, the message arrives in pieces. The request has the conversation as [WithHistory] shows it, the text of
// [WithGlobalInstruction] followed by instructions, and no tools.
//
// Ask repeats a request whose answer breaks off or is empty. The usage of such an answer counts in the turn's budgets.
// An answer that its length limit cut off is returned as it is. After an error of the model, which the log records as
// a discard, the function may continue. A limit or a budget of the turn ends the run.
func (s *Step) Ask(model llm.Model, instructions string) (string, error) {
	if model == nil {
		return "", errors.New("llmagent: Step.Ask needs a model")
	}
	if text, again, err := s.replayAnswer(); again || err != nil {
		return text, err
	}
	if err := s.openView(); err != nil {
		return "", err
	}
	ans, err := (&modelCall{execution: &s.execution, model: model, continues: true}).reply(func() (*llm.Request, error) { return s.requestOf(instructions), nil })
	switch {
	case errors.Is(err, errStopped):
		return "", s.stop()
	case err != nil && (s.ctx.Err() != nil || overLimit(err)):
		s.yieldError(err)
		s.overErr = fmt.Errorf("%w: %w", ErrOver, err)
		return "", s.overErr
	case err != nil:
		return "", err
	}
	text := ans.text.String()
	if text == "" { // it has only calls, which have no use here
		err = fmt.Errorf("%w: the model %s has answered without text", agent.ErrEmptyAnswer, model.Name())
		void := ans.discarded(event.CodeEmptyAnswer, err.Error(), model.Name())
		return "", cmp.Or(s.send(&event.Event{Data: void}), err)
	}
	if err := s.send(append(ans.appendTexts(nil), &event.Event{Data: ans.usageOf(model.Name())})...); err != nil {
		return "", err
	}
	return text, nil
}

// requestOf returns the request of Ask.
func (s *Step) requestOf(instructions string) *llm.Request {
	messages := s.view.Filled(s.ctx, s.inv.Session().File)
	if n := len(messages); n > 0 && messages[n-1].Role == llm.RoleAssistant {
		messages = append(messages[:n:n], llm.UserText(continueNote))
	}
	system := paragraphs(s.template(s.inv.Node()).global, instructions)
	settings := s.settings()
	settings.ToolChoice, settings.ParallelToolCalls = "", nil
	return &llm.Request{System: system, Messages: messages, Stream: s.inv.Streaming(), Agent: s.inv.Node().Path, Settings: settings}
}

// Call calls a tool of the agent with the tool's timeout, within the tool policy, and through the interceptors. args
// is encoded as a JSON object; nil is the empty object. The output is decoded into result as by [json.Unmarshal],
// unless result is nil. If the call needs an approval, or waits for an answer, the turn pauses and Call returns
// [ErrOver]. When the turn resumes, the function is called again. If the tool fails, or is denied, the error is a
// [*CallError], after which the function may continue.
func (s *Step) Call(tool string, args, result any) error {
	if !s.has(tool) {
		return s.noTool(tool)
	}
	call, again, err := replay[*event.ToolCall](s, "call "+tool)
	switch {
	case err != nil:
		return err
	case again && call.Name != tool:
		return s.divergence("call " + tool)
	case !again:
		input, err := object(args)
		if err != nil {
			return fmt.Errorf("the arguments of tool %s: %w", tool, err)
		}
		if err := s.send(&event.Event{Data: &event.ToolCall{Name: tool, Input: input}}); err != nil {
			return err
		}
	case len(s.recorded) > 0:
		given, _, err := replay[*event.ToolResult](s, "call "+tool)
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
		return nil, s.stop()
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
	if s.yieldError(err); err != nil || given == nil {
		return nil, s.stop()
	}
	return given, nil
}

// decode decodes the output of a call, or returns the error of a failed call.
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

// SaveFile creates a file of the session. The name is one element of a path. If the media type is empty, it is
// detected from the bytes. If the name or the media type is invalid, the error is an [agent.ErrBadInput]; if there are
// too many bytes, an [agent.ErrFileTooLarge]. After these errors the function may continue.
func (s *Step) SaveFile(name, mediaType string, data []byte) (*event.File, error) {
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	f, err := s.inv.Runtime().SaveFile(s.ctx, name, mediaType, data) // also in a replay, so that a refused file is refused again
	if err != nil {
		return nil, err
	}
	switch before, again, err := replay[*event.File](s, "save a file"); {
	case err != nil:
		return nil, err
	case again && (before.Name != name || before.Digest != f.Digest):
		return nil, s.divergence("save " + name)
	case again:
		return before, nil
	}
	return f, s.send(&event.Event{Data: f})
}

// ReadFile returns the bytes of a file of the session; see [agent.Session]. They are shared and must not be changed.
func (s *Step) ReadFile(name string) ([]byte, error) {
	_, data, err := s.inv.Session().File(s.ctx, name)
	return data, err
}

// Transfer transfers the conversation, which ends the run: the function should return. The reason may be empty. If the
// target is not legal, not ready, or beyond a limit, the error wraps one of package agent's errors, and the function
// may continue.
func (s *Step) Transfer(to, reason string) error { return s.TransferWith(to, reason, nil) }

// TransferWith is Transfer with an input, for an edge with [agent.WithTransferInput].
func (s *Step) TransferWith(to, reason string, input any) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	s.skipDiscards()
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
	if len(s.recorded) > 0 { // the run continued after it, so the transfer was refused
		return fmt.Errorf("%w: the run continued without it before", agent.ErrTransferRejected)
	}
	s.yield(&event.Event{Data: t}, nil)
	s.overErr = ErrOver
	return nil
}

// send yields events, or returns ErrOver if the consumer has stopped.
func (s *Step) send(events ...*event.Event) error {
	if s.emit(events...) != nil {
		return s.stop()
	}
	return nil
}

// stop records that the run can yield nothing more, and returns the error.
func (s *Step) stop() error {
	s.overErr, s.openStream = ErrOver, nil
	if cause := context.Cause(s.ctx); cause != nil {
		s.overErr = fmt.Errorf("%w: %w", ErrOver, cause)
	}
	return s.overErr
}

// checkOpen closes the open stream, and returns an error if the run can do nothing more.
func (s *Step) checkOpen() error {
	if s.overErr == nil && s.openStream != nil {
		return s.openStream.Close()
	}
	return s.overErr
}

// loadRecorded reads from the log what the run has said, asked and called before this call of the function.
func (s *Step) loadRecorded() error {
	for e, err := range s.inv.Session().Events(s.ctx, s.inv.Since()) {
		if err != nil {
			return err
		}
		if e.Scope != s.inv.Scope() || e.Agent != s.inv.Agent().Name() { // in a graph it has the name of its node
			continue
		}
		switch d := e.Data.(type) {
		case *event.Usage: // the text before the usage is a model's answer
			if n := len(s.recorded); n > 0 {
				if t, ok := s.recorded[n-1].(*event.Text); ok {
					s.recorded[n-1] = &recordedAnswer{t.Content}
				}
			}
		case *event.File:
			if d.ToolCallID == "" { // a file with a call belongs to the call's result
				s.recorded = append(s.recorded, d)
			}
		case *event.Text, *event.ToolCall, *event.ToolResult, *event.Discard:
			s.recorded = append(s.recorded, d)
		}
	}
	return nil
}

// replay returns what the run recorded at this point in an earlier call of the function. again is false if there is
// nothing: the function must do it now. what describes it for the error of a function that does something else than
// before.
func replay[T any](s *Step, what string) (before T, again bool, err error) {
	if err := s.checkOpen(); err != nil {
		return before, false, err
	}
	s.skipDiscards()
	if len(s.recorded) == 0 {
		return before, false, nil
	}
	if before, again = s.recorded[0].(T); !again {
		return before, false, s.divergence(what)
	}
	s.recorded = s.recorded[1:]
	return before, true, nil
}

// skipDiscards skips the records of failed answers, and returns the last, or nil.
func (s *Step) skipDiscards() (last *event.Discard) {
	for len(s.recorded) > 0 {
		d, ok := s.recorded[0].(*event.Discard)
		if !ok {
			break
		}
		last, s.recorded = d, s.recorded[1:]
	}
	return last
}

// replayAnswer returns the recorded answer of a model at this point, or the error if the function continued without an
// answer. again is false if nothing is recorded.
func (s *Step) replayAnswer() (text string, again bool, err error) {
	if err := s.checkOpen(); err != nil {
		return "", false, err
	}
	failed := s.skipDiscards()
	if len(s.recorded) == 0 {
		return "", false, nil // nothing was recorded, or the process died before the function got the error
	}
	if a, ok := s.recorded[0].(*recordedAnswer); !ok && failed != nil {
		return "", true, &llm.Error{Code: llm.ErrorCode(failed.Code), Message: failed.Message}
	} else if ok {
		s.recorded = s.recorded[1:]
		return a.text, true, nil
	}
	return "", false, s.divergence("ask a model")
}

// divergence returns the error of a function that does something else in a replay than before.
func (s *Step) divergence(what string) error {
	return fmt.Errorf("the function of agent %q was called again after a pause or a crash, and tries to %s where it did something else before: with the same results it must make the same calls",
		s.agent.name, what)
}
