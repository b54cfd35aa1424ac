package llmagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// Split returns the agent in two parts, for a graph in which a node of its own runs the
// agent's tools. model asks the model and runs no call. runs runs the calls of the last
// message, with the rules and limits of the agent's tools, and returns its input if the
// last message calls nothing.
//
// Both parts return an object with the key "messages": the messages of their input and
// the new ones. An input without that key is one message of the user; other keys of the
// input are returned as they are. A message has the keys role ("user", "assistant" or
// "tool") and content; one of the model that calls tools also has tool_calls, a list of
// {id, name, args}; and one with a result has tool_call_id, name and, after an error,
// is_error.
//
// The error says what the agent has that needs a conversation: sub-agents or a
// compaction.
func (a *Agent) Split() (model, runs agent.Agent, err error) {
	if len(a.children) > 0 || a.compaction != nil {
		return nil, nil, fmt.Errorf("agent %q: its tools cannot run in a node of their own, because it has sub-agents or a compaction", a.name)
	}
	b := *a
	b.split, b.offers, b.equipments = true, new(sync.Map), new(sync.Map)
	b.index = agent.Index(&b)
	runs, err = a.toolAgent(a.name, "")
	return &b, runs, err
}

// ToolAgent returns an agent that calls one of the agent's tools with its input, as the
// package function [ToolAgent] does. Tools of sets are looked up when it runs.
func (a *Agent) ToolAgent(tool string) (agent.Agent, error) {
	if !a.owns(tool) && len(a.sets) == 0 {
		return nil, a.noTool(tool)
	}
	return a.toolAgent(tool, tool)
}

// ToolAgent makes an agent, without a model, that calls the tool with its input, which must
// be a JSON object, and returns the tool's output. A call that waits for an approval pauses
// the turn, and a stored result is never computed again. If the tool fails, so does the
// agent, with a [*CallError].
func ToolAgent(t tools.Tool) (agent.Agent, error) {
	if t == nil {
		return nil, errors.New("llmagent: the tool is nil")
	}
	of := &Agent{name: t.Info().Name}
	if err := errors.Join(of.configure([]Option{WithDescription(t.Info().Description), WithTools(t)})...); err != nil {
		return nil, fmt.Errorf("tool %q: %w", of.name, err)
	}
	return of.ToolAgent(of.name)
}

// toolRuns runs calls of an agent's tools: of one tool, or those that the last message
// makes.
type toolRuns struct {
	of   *Agent
	tool string // "": whatever the last message calls
}

func (a *Agent) toolAgent(name, tool string) (agent.Agent, error) {
	if wrong := a.checkRules(nil); wrong != nil { // no place in a tree reports them
		return nil, errors.New(strings.Join(wrong, "; "))
	}
	return agent.New(name, a.description, (&toolRuns{a, tool}).run, func(p *agent.Properties) {
		p.Stepwise, p.Inner, p.Tool = true, a.properties.Inner, tool
	})
}

// run is a step: the calls are stored, then run, then their results returned.
func (t *toolRuns) run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := t.step(ctx, inv, yield); err != nil {
			yield(nil, err)
		}
	}
}

func (t *toolRuns) step(ctx context.Context, inv *agent.Invocation, yield func(*event.Event, error) bool) error {
	a, problems, err := t.of.withTools(ctx, inv)
	if err != nil {
		return err
	}
	v, err := a.view(ctx, inv)
	if err != nil {
		return err
	}
	if calls := v.Pending(); len(calls) > 0 {
		if _, later := a.sort(inv, calls); t.tool != "" && len(later) == 0 && a.quick(calls[0], inv) {
			e := a.refuse(calls[0], inv, v.Run())
			e.More = true // the error joins this write, so that its code is not lost
			if !yield(e, nil) {
				return nil
			}
			return t.failed(event.CodeToolRefused, event.OutputText(e.Data.(*event.ToolResult).Output))
		}
		a.runTools(ctx, inv, v.Run(), calls, yield)
		return nil
	}
	var p passed
	calls := []passedCall{{Name: t.tool, Args: inv.Input()}}
	if t.tool == "" {
		if p, err = readPassed(inv.Input()); err != nil {
			return err
		}
		calls = p.calls()
	}
	results, err := t.results(ctx, inv)
	if err != nil {
		return err
	}
	if len(results) == 0 && len(calls) > 0 {
		return t.begin(a, calls, problems, yield)
	}
	output := p.output
	for i, r := range results {
		if t.tool == "" {
			p.add(message{Role: llm.RoleTool, CallID: calls[i].ID, Name: calls[i].Name, Content: event.OutputText(r.Output), IsError: r.IsError})
		} else if r.IsError {
			return t.failed(event.CodeToolFailed, event.OutputText(r.Output))
		} else {
			output = func() json.RawMessage { return r.Output }
		}
	}
	yield(&event.Event{Data: &event.Finish{Output: output()}}, nil)
	return nil
}

func (t *toolRuns) failed(code, message string) error {
	return &agent.RunError{Agent: t.tool, Code: code, Err: &CallError{Tool: t.tool, Message: message}}
}

// begin stores the calls in one write. The next step runs them.
func (t *toolRuns) begin(a *Agent, calls []passedCall, problems []string, yield func(*event.Event, error) bool) error {
	if t.tool != "" {
		_, err := object(calls[0].Args)
		if tool := a.byName[t.tool]; err == nil && tool != nil {
			err = tools.Check(tool, calls[0].Args)
		}
		if err != nil {
			return t.failed(event.CodeToolRefused, "the input does not fit: "+err.Error())
		}
	}
	if !tell(problems, yield) {
		return nil
	}
	for i, c := range calls {
		if !yield(&event.Event{Data: c.event(), More: i < len(calls)-1}, nil) {
			return nil
		}
	}
	yield(&event.Event{Data: &event.Continue{}}, nil)
	return nil
}

// results returns those of the run's calls, in the order of the calls.
func (t *toolRuns) results(ctx context.Context, inv *agent.Invocation) (all []*event.ToolResult, err error) {
	place := make(map[string]int)
	for e, err := range inv.Session().Events(ctx, inv.Since()) {
		if err != nil {
			return nil, err
		}
		if e.Scope != inv.Scope() || e.Agent != inv.Agent().Name() {
			continue
		}
		switch d := e.Data.(type) {
		case *event.ToolCall:
			place[e.ID] = len(all)
			all = append(all, &event.ToolResult{Output: event.EncodeJSON("the result cannot be read any more"), IsError: true})
		case *event.ToolResult:
			all[place[e.ID]] = d
		}
	}
	return all, nil
}

// passed is what the parts of a split agent take and return.
type passed struct {
	keys     map[string]json.RawMessage // of the input
	messages []message
}

// message is an entry of passed.messages.
type message struct {
	Role      llm.Role     `json:"role"`
	Content   string       `json:"content"`
	ToolCalls []passedCall `json:"tool_calls,omitempty"`
	Reasoning string       `json:"reasoning,omitempty"`
	Sealed    string       `json:"sealed,omitempty"` // what the endpoint wants back with the reasoning
	CallID    string       `json:"tool_call_id,omitempty"`
	Name      string       `json:"name,omitempty"`
	IsError   bool         `json:"is_error,omitempty"`
}

type passedCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

func (c *passedCall) event() *event.ToolCall { return &event.ToolCall{Name: c.Name, Input: c.Args} }

// readPassed reads an input.
func readPassed(input json.RawMessage) (p passed, err error) {
	if json.Unmarshal(input, &p.keys) != nil || p.keys["messages"] == nil {
		p.keys = map[string]json.RawMessage{}
		text := event.OutputText(input)
		if strings.TrimSpace(text) == "" {
			text = view.NoInput
		}
		p.add(message{Role: llm.RoleUser, Content: text})
		return p, nil
	}
	var raw []json.RawMessage
	if json.Unmarshal(p.keys["messages"], &raw) != nil || len(raw) == 0 {
		return p, errors.New("the input's messages must be a list of at least one message")
	}
	for i, r := range raw {
		var m message
		if json.Unmarshal(r, &m) != nil || !m.valid() {
			return p, fmt.Errorf("message %d of the input's messages must have a role (user, assistant or tool), a text as content, and tool_calls that are a list of {id, name, args}", i+1)
		}
		p.add(m)
	}
	return p, nil
}

func (m *message) valid() bool {
	for _, c := range m.ToolCalls {
		if _, err := object(c.Args); err != nil || !toolName(c.Name) {
			return false
		}
	}
	return m.Role == llm.RoleUser || m.Role == llm.RoleAssistant || m.Role == llm.RoleTool
}

// calls are those of the last message.
func (p *passed) calls() []passedCall { return p.messages[len(p.messages)-1].ToolCalls }

// callIDs returns the ids of the calls of all messages. They pair calls with results here only: the log has other ones.
func (p *passed) callIDs() map[string]bool {
	ids := make(map[string]bool)
	for _, m := range p.messages {
		for _, c := range m.ToolCalls {
			ids[c.ID] = true
		}
	}
	return ids
}

func (p *passed) add(m message) { p.messages = append(p.messages, m) }

func (p *passed) output() json.RawMessage {
	p.keys["messages"] = event.EncodeJSON(p.messages)
	return event.EncodeJSON(p.keys)
}

// PassedCalls yields the calls, with their ids, that the model's part of a split agent has
// passed on in its output.
func PassedCalls(output json.RawMessage) iter.Seq2[string, *event.ToolCall] {
	return func(yield func(string, *event.ToolCall) bool) {
		p, err := readPassed(output)
		if err != nil {
			return
		}
		for _, c := range p.calls() {
			if !yield(c.ID, c.event()) {
				return
			}
		}
	}
}

// readMessages returns the messages of an input as a model reads them.
func readMessages(input json.RawMessage) (all []llm.Message) {
	p, _ := readPassed(input) // an error ends the run
	for _, m := range p.messages {
		out := llm.Message{Role: m.Role, Content: llm.Content{Text: m.Content}}
		switch {
		case m.Role == llm.RoleTool:
			out.Content = llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: m.CallID, Name: m.Name, Output: m.Content, IsError: m.IsError}}}
		case strings.TrimSpace(m.Content) == "" && len(m.ToolCalls) == 0: // some endpoints refuse it
			continue
		}
		if len(m.ToolCalls) > 0 && m.Reasoning != "" || m.Sealed != "" {
			out.Parts = append(out.Parts, llm.Reasoning{Text: m.Reasoning, Sealed: m.Sealed})
		}
		for _, c := range m.ToolCalls {
			out.Parts = append(out.Parts, llm.ToolCall{ID: c.ID, Name: c.Name, Arguments: string(c.Args)})
		}
		all = append(all, out)
	}
	return all
}

// passOn ends the run of a split agent's model with its answer, and the calls in it.
func (ans *answer) passOn(inv *agent.Invocation, a *Agent) {
	if !ans.yield(&event.Event{Data: ans.usageOf(a.model.Name()), More: true}, nil) {
		return
	}
	p, err := readPassed(inv.Input())
	if err != nil {
		ans.yield(nil, err)
		return
	}
	m := message{Role: llm.RoleAssistant, Content: ans.text.String(), Reasoning: ans.reasoning.String(), Sealed: ans.sealed}
	used := p.callIDs()
	for _, c := range ans.calls {
		d, id := a.called(inv, c).Data.(*event.ToolCall), cmp.Or(c.ID, "call")
		for n := 2; used[id]; n++ {
			id = cmp.Or(c.ID, "call") + "-" + strconv.Itoa(n)
		}
		used[id] = true
		m.ToolCalls = append(m.ToolCalls, passedCall{id, d.Name, d.Input})
	}
	p.add(m)
	finish := &event.Finish{Output: p.output()}
	switch {
	case len(ans.calls) > 0:
	case ans.finish == llm.FinishLength:
		finish = &event.Finish{Reason: event.FinishReasonLength}
	case ans.finish == llm.FinishContentFilter:
		finish = &event.Finish{Reason: event.FinishReasonContentFilter}
	}
	ans.yield(&event.Event{Data: finish}, nil)
}
