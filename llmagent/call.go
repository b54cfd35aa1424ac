package llmagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// toolCall is a running call. It has its own goroutine.
type toolCall struct {
	*toolRound // read only
	call       view.Call
	send       func(...*event.Event) bool // sends events to the goroutine that yields them

	question *event.Relay // the question that the call asks
	inner    atomic.Bool  // an agent that the tool runs is paused
	done     tools.Result
}

// run runs the tool. It returns the events with the result, or that the call waits, or an error that ends the run.
func (c *toolCall) run(ctx context.Context) callEnd {
	if c.refuses(c.call) {
		return callEnd{events: []*event.Event{c.refuse(c.call)}}
	}
	info := agent.ToolCallInfo{Invocation: c.inv, ID: c.call.ID, Name: c.call.Name, Input: c.call.Input}
	res, err := c.inv.Runtime().Call(ctx, info, c.execute)
	switch waits := errors.Is(err, agent.ErrWaits); {
	case waits && (c.question != nil || c.inner.Load()):
		return callEnd{waits: true, asked: c.question}
	case waits: // the call would wait forever
		message := fmt.Sprintf("the tool %s returned that it waits, but it has neither asked a question nor run an agent that waits", c.call.Name)
		return callEnd{events: []*event.Event{result(c.call, event.EncodeJSON(message), true)}}
	case err != nil:
		return callEnd{err: err}
	}
	var events []*event.Event
	if len(c.done.State) > 0 {
		events = append(events, &event.Event{Data: &event.State{Delta: c.done.State}, More: true})
	}
	for _, f := range c.done.Files {
		f.ToolCallID = c.call.ID
		events = append(events, &event.Event{Data: f, More: true})
	}
	return callEnd{events: append(events, result(c.call, res.Output, res.IsError))}
}

// execute runs the tool inside the interceptors, which may call it several times.
func (c *toolCall) execute(ctx context.Context, input json.RawMessage) (*event.ToolResult, error) {
	c.question = nil
	c.inner.Store(false)
	if c.stale(c.call, input) { // an interceptor has changed the arguments, or the tool has just changed
		return &event.ToolResult{Name: c.call.Name, Output: event.EncodeJSON(notApproved), IsError: true}, nil
	}
	res, err := tools.Execute(ctx, c.byName[c.call.Name], c.info(), input)
	if err != nil {
		return nil, err
	}
	if res.IsError {
		if wrong := c.invalid(c.call.Name, input); wrong != "" {
			res.Output = event.EncodeJSON(c.correct(c.call, wrong))
		}
	}
	c.done = res
	return &event.ToolResult{Name: c.call.Name, Output: res.Output, IsError: res.IsError}, nil
}

// info returns what the tool may use.
func (c *toolCall) info() tools.CallInfo {
	inv, call := c.inv, c.call
	return tools.CallInfo{
		Session: inv.Session().Key(), Agent: inv.Agent().Name(), RunID: call.RunID, CallID: call.ID,
		Logger: inv.Logger(), Metadata: inv.Metadata(), State: inv.Session().State,
		SaveFile: inv.Runtime().SaveFile, File: inv.Session().File,
		Progress: func(content json.RawMessage) {
			c.send(&event.Event{Data: &event.ToolProgress{ToolCallID: call.ID, Name: call.Name, Content: content}})
		},
		RunAgent: func(ctx context.Context, inner agent.Agent, input llm.Content) (string, error) {
			answer, err := c.runAgent(ctx, inner, input)
			if errors.Is(err, agent.ErrWaits) {
				c.inner.Store(true)
			}
			return answer, err
		},
		Answers: call.Answers,
		Digest: func(message string, schema json.RawMessage) string {
			return tools.Digest(tools.Info{ToolSpec: llm.ToolSpec{Name: call.Name, Description: message, Parameters: schema}}, nil, call.Input)
		},
		Ask: func(message string, schema json.RawMessage) {
			c.question = &event.Relay{Kind: event.RelayInput, ToolCallID: call.ID, Tool: call.Name, Params: call.Input, Message: message, Schema: schema,
				Client: c.byName[call.Name].Info().Client}
		},
	}
}

// runAgent runs an agent in a scope of its own. It returns the last text of the agent that answers there, or the
// run's output if there is no text. The text of an agent before it transferred is not an answer.
func (c *toolCall) runAgent(ctx context.Context, inner agent.Agent, input llm.Content) (string, error) {
	var answer event.Answer
	scope := ""
	for e, err := range c.inv.Runtime().Run(ctx, inner, c.call.ID, input) {
		if err != nil {
			return "", innerError{err}
		}
		if scope == "" {
			scope = e.Scope // its first event comes before those of scopes inside it
		}
		if e.Scope == scope {
			answer.Apply(e)
		}
		if !c.send(e) {
			return "", context.Cause(ctx)
		}
	}
	switch {
	case answer.FinishReason == event.FinishReasonContentFilter: // its text may be a part of what the filter withheld
		return "", fmt.Errorf("the answer of the agent %s was withheld by its model's content filter", inner.Name())
	case strings.TrimSpace(answer.Text) == "":
		return "", fmt.Errorf("the agent %s ended without an answer", inner.Name())
	case answer.FinishReason == event.FinishReasonLength:
		answer.Text += "\n[cut here: the model reached its length limit]"
	}
	return answer.Text, nil
}

// innerError is the error of an inner run, with a text for the model that made the call.
type innerError struct{ error }

func (e innerError) Error() string { return agent.ForModel(e.error) }
func (e innerError) Unwrap() error { return e.error }
