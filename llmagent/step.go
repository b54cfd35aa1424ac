package llmagent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Step is a run of an agent made by [Func]. It is valid until the function returns, and for
// the function's own goroutine. When one of its methods returns an error that wraps ErrOver,
// the run is over or pauses, and the function should return it.
type Step struct {
	ctx   context.Context
	inv   *agent.Invocation
	agent *Agent
	yield func(*event.Event, error) bool

	before  []any // what the run has stored before the function was called, and the function has not got yet: payloads, and *said
	writing *stream
	over    error
}

// said is the recorded answer of a model.
type said struct{ text string }

// ErrOver is what the methods of a Step return when nothing more can be done in the run:
// after a transfer, while a call waits for an approval, or because the turn was stopped.
var ErrOver = errors.New("the agent's run is over, or waits")

// CallError is the error of Step.Call when the tool has failed, or was not allowed to run.
type CallError struct {
	Tool string
	// Message is what a model would read.
	Message string
}

func (e *CallError) Error() string { return fmt.Sprintf("tool %s: %s", e.Tool, e.Message) }

// Context ends with the turn.
func (s *Step) Context() context.Context { return s.ctx }

// Invocation is what else there is to know of the turn: its session, its metadata, the tree.
func (s *Step) Invocation() *agent.Invocation { return s.inv }

// Message is what the user has said in this turn; in an inner scope, such as a node of a
// graph, it is the input, as text.
func (s *Step) Message() string {
	if in := s.inv.Input(); in != nil {
		return event.OutputText(in)
	}
	return s.inv.Message().PlainText()
}

// Say says something in the conversation. An empty text is not said.
func (s *Step) Say(text string) error {
	if text == "" {
		return nil
	}
	if _, done, err := recalled[*event.Text](s, "say something"); done || err != nil {
		return err
	}
	return s.emit(&event.Event{Data: &event.Text{Content: text}})
}

// Stream returns a writer whose text is said in the conversation, piece by piece as it is
// written. Close ends it, and so does the next thing that the step does.
func (s *Step) Stream() io.WriteCloser { return &stream{s: s} }

// goOn is what a model reads behind the agent's own words, because no request may end in
// those.
const goOn = "[These were your own words. Go on as you are instructed.]"

// Ask asks a model for the agent's next words in the conversation, says them, as they come
// if the turn is streamed, and returns them. The model is shown what WithHistory says of
// the conversation, under the instructions and those of [WithGlobalInstruction], and no
// tools. An answer that breaks off, or is empty, is asked for again; what it uses counts
// towards the turn's budgets. An answer that was cut off by its length limit is returned
// as it is. The function may go on after an error of the model, which is then in the log as a
// discard; a limit or a budget of the turn ends the run.
func (s *Step) Ask(model llm.Model, instructions string) (string, error) {
	if model == nil {
		return "", errors.New("llmagent: Step.Ask needs a model")
	}
	if text, again, err := s.answered(); again || err != nil {
		return text, err
	}
	v, err := s.agent.view(s.ctx, s.inv)
	if err != nil {
		return "", err
	}
	system := paragraphs(s.agent.place(s.inv.Node()).global, instructions)
	ans, err := reply(s.ctx, s.inv, v, model, nil, true, s.yield, func() (*llm.Request, error) {
		messages := v.Filled(s.ctx, s.inv.Session().File)
		if n := len(messages); n > 0 && messages[n-1].Role == llm.RoleAssistant {
			messages = append(messages[:n:n], llm.UserText(goOn))
		}
		return &llm.Request{System: system, Messages: messages, Stream: s.inv.Streaming(), Agent: s.inv.Node().Path, Settings: s.settings()}, nil
	})
	switch {
	case err != nil && (s.ctx.Err() != nil || spent(err)):
		s.yield(nil, err)
		s.over = fmt.Errorf("%w: %w", ErrOver, err)
		return "", s.over
	case err != nil:
		return "", err
	case ans == nil:
		return "", s.end()
	}
	text := ans.text.String()
	if text == "" { // but calls, of which there is nothing to make
		err = fmt.Errorf("%w: the model %s has answered without words", agent.ErrEmptyAnswer, model.Name())
		void := &event.Discard{Code: event.CodeEmptyAnswer, Message: err.Error(), IDs: ans.ids(), Usage: ans.used(model.Name())}
		return "", cmp.Or(s.emit(&event.Event{Data: void}), err)
	}
	if !ans.words() || !s.yield(&event.Event{Data: ans.usageOf(model.Name())}, nil) {
		return "", s.end()
	}
	return text, nil
}

// settings are those of the agent, without what is about tools.
func (s *Step) settings() llm.Settings {
	settings := s.agent.settings
	settings.ToolChoice, settings.ParallelToolCalls = "", nil
	return settings
}

// Call calls a tool of the agent's: with its timeout, within the tool policy, through
// interceptors. Args become a JSON object; nil is the empty one. The output is decoded
// into result as by json.Unmarshal, unless that is nil. If the call has to be approved, or
// waits for somebody, the turn pauses, and Call returns ErrOver; after that the function is
// called again.
// A tool that fails, or is denied, is a *CallError, after which the function may go on.
func (s *Step) Call(tool string, args, result any) error {
	if !s.agent.owns(tool) {
		return s.agent.noTool(tool)
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
		if err := s.emit(&event.Event{Data: &event.ToolCall{Name: tool, Input: input}}); err != nil {
			return err
		}
	case len(s.before) > 0:
		given, _, err := recalled[*event.ToolResult](s, "call "+tool)
		if err != nil {
			return err
		}
		return outcome(given, result)
	}
	v, err := s.agent.view(s.ctx, s.inv)
	if err != nil {
		return err
	}
	run, calls := v.Run(), v.Pending()
	if _, later := s.agent.sort(s.inv, calls); len(later) > 0 {
		pause(s.agent.permissions(later), s.yield)
		return s.end()
	}
	var given *event.ToolResult
	w, goOn := s.agent.execute(s.ctx, s.inv, run, calls, func(e *event.Event, err error) bool {
		if e != nil {
			if r, ok := e.Data.(*event.ToolResult); ok && e.ID == calls[0].ID {
				given = r
			}
		}
		return s.yield(e, err)
	})
	if goOn && w.any {
		pause(w.asked, s.yield)
	}
	if !goOn || given == nil {
		return s.end()
	}
	return outcome(given, result)
}

// SaveFile makes a file of the session. The name is one element of a path, and an empty
// media type is found out from the bytes; what is wrong with them is an [agent.ErrBadInput],
// after which the function may go on.
func (s *Step) SaveFile(name, mediaType string, data []byte) (*event.File, error) {
	if err := s.may(); err != nil {
		return nil, err
	}
	f, err := s.inv.Runtime().SaveFile(s.ctx, name, mediaType, data) // again, too, so that what is refused is refused again
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
	return f, s.emit(&event.Event{Data: f})
}

// ReadFile returns the bytes of a file of the session, see [agent.Session].
func (s *Step) ReadFile(name string) ([]byte, error) {
	_, data, err := s.inv.Session().File(s.ctx, name)
	return data, err
}

// outcome is what came of a call.
func outcome(r *event.ToolResult, into any) error {
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

// Transfer hands the conversation over, and the run is over with that: the function should
// return. The error is that of the runner if the target is not legal, not ready, or beyond
// a limit; it wraps one of agent's errors, and the function may go on after it. The reason
// may be empty.
func (s *Step) Transfer(to, reason string) error { return s.TransferWith(to, reason, nil) }

// TransferWith is Transfer over an edge that wants an input, see [agent.WithTransferInput].
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
	if len(s.before) > 0 { // what the function did then shows that it was refused
		return fmt.Errorf("%w: the run has continued without it before", agent.ErrTransferRejected)
	}
	s.yield(&event.Event{Data: t}, nil)
	s.over = ErrOver
	return nil
}

// emit yields an event that is stored at once.
func (s *Step) emit(e *event.Event) error {
	if !s.yield(e, nil) {
		return s.end()
	}
	return nil
}

// end notes that nothing more can be yielded.
func (s *Step) end() error {
	s.over, s.writing = ErrOver, nil
	if cause := context.Cause(s.ctx); cause != nil {
		s.over = fmt.Errorf("%w: %w", ErrOver, cause)
	}
	return s.over
}

// may ends what is being streamed, and reports whether the run still goes on.
func (s *Step) may() error {
	if s.over == nil && s.writing != nil {
		return s.writing.Close()
	}
	return s.over
}

// recall reads what the run has said, asked and called before the function was called.
func (s *Step) recall() error {
	for e, err := range s.inv.Session().Events(s.ctx, s.inv.Since()) {
		if err != nil {
			return err
		}
		if e.Scope != s.inv.Scope() || e.Agent != s.inv.Agent().Name() { // in a graph it has the name of its node
			continue
		}
		switch d := e.Data.(type) {
		case *event.Usage: // makes an answer of the words before it
			if n := len(s.before); n > 0 {
				if t, ok := s.before[n-1].(*event.Text); ok {
					s.before[n-1] = &said{t.Content}
				}
			}
		case *event.File:
			if d.ToolCallID == "" { // else it comes again with what the call has given
				s.before = append(s.before, d)
			}
		case *event.Text, *event.ToolCall, *event.ToolResult, *event.Discard:
			s.before = append(s.before, d)
		}
	}
	return nil
}

// recalled returns what the run has stored at this point before, if the function is called
// again. What says what the function wants to do there.
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

// failures takes what is recorded of failed answers, and returns the last.
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
// function went on without an answer.
func (s *Step) answered() (text string, again bool, err error) {
	if err := s.may(); err != nil {
		return "", false, err
	}
	failed := s.failures()
	if len(s.before) == 0 {
		return "", false, nil // or the process did not live to give the function the error
	}
	if a, ok := s.before[0].(*said); !ok && failed != nil {
		return "", true, &llm.Error{Code: llm.ErrorCode(failed.Code), Message: failed.Message}
	} else if ok {
		s.before = s.before[1:]
		return a.text, true, nil
	}
	return "", false, s.strayed("ask a model")
}

func (s *Step) strayed(what string) error {
	return fmt.Errorf("the function of agent %q is called again, after a pause or a crash, and wants to %s where it did something else before: it must do the same when it gets the same",
		s.agent.name, what)
}

// object encodes arguments, which have to be a JSON object.
func object(args any) (json.RawMessage, error) {
	if args == nil {
		return json.RawMessage("{}"), nil
	}
	b, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	if b = bytes.TrimSpace(b); b[0] != '{' {
		return nil, fmt.Errorf("%.40s is no JSON object", b)
	}
	return b, nil
}
