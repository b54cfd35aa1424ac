package llmagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// Split returns the agent in two parts, for a graph in which a node of its own runs the
// agent's tools. The part model asks the model and runs no call. The part runs runs the calls of the last
// message, with the rules and limits of the agent's tools, and returns its input if the
// last message has no calls.
//
// Both parts return an object with the key "messages": the messages of their input and
// the new ones. An input without that key is one message of the user; other keys of the
// input are returned as they are. A message has the keys role ("user", "assistant" or
// "tool") and content; one of the model that calls tools also has tool_calls, a list of
// {id, name, args}; and one with a result has tool_call_id, name and, after an error,
// is_error.
//
// The error names what the agent has that needs a conversation: sub-agents or a
// compaction.
func (a *Agent) Split() (model, runs agent.Agent, err error) {
	if len(a.children) > 0 || a.compaction != nil {
		return nil, nil, fmt.Errorf("agent %q: its tools cannot run in a node of their own, because it has sub-agents or a compaction", a.name)
	}
	b, own := *a, *a.own
	own.agent, own.places = &b, new(sync.Map)
	b.split, b.own, b.kits = true, &own, new(sync.Map)
	b.index = agent.Index(&b)
	runs, err = newToolRuns(a, a.name, "")
	return &b, runs, err
}

// ToolAgent returns an agent that calls one of the agent's tools with its input, as the
// package function [ToolAgent] does. Tools of sets are looked up when it runs.
func (a *Agent) ToolAgent(tool string) (agent.Agent, error) {
	if !a.own.has(tool) && len(a.sets) == 0 {
		return nil, a.own.noTool(tool)
	}
	return newToolRuns(a, tool, tool)
}

// ToolAgent makes an agent, without a model, that calls the tool with its input, which must
// be a JSON object, and returns the tool's output. A call that needs an approval pauses
// the turn, and a stored result is never computed again. If the tool fails, the
// agent fails with a [*CallError].
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

// toolRuns runs calls of an agent's tools: of one tool, or those of the last message.
type toolRuns struct {
	of   *Agent
	tool string // "": those of the last message
}

func newToolRuns(a *Agent, name, tool string) (agent.Agent, error) {
	if wrong := a.checkRules(nil); wrong != nil { // no place in a tree reports them
		return nil, errors.New(strings.Join(wrong, "; "))
	}
	return agent.New(name, a.description, (&toolRuns{a, tool}).run, func(p *agent.Properties) {
		p.Stepwise, p.Inner, p.Tool = true, a.properties.Inner, tool
	})
}

// run takes one step: it stores the calls, runs them, or returns their results.
func (t *toolRuns) run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		x := &execution{ctx: ctx, inv: inv, yield: yield}
		x.finish(t.step(x))
	}
}

func (t *toolRuns) step(x *execution) error {
	notices, err := x.begin(t.of)
	if err == nil {
		err = x.openView()
	}
	if err != nil {
		return err
	}
	if calls := x.view.Pending(); len(calls) > 0 {
		r := &toolRound{execution: x}
		if _, later := r.sort(calls); t.tool != "" && len(later) == 0 && r.refuses(calls[0]) {
			e := r.refuse(calls[0])
			e.More = true // the error joins this write, so that its code is not lost
			return cmp.Or(x.emit(e), t.failed(event.CodeToolRefused, event.OutputText(e.Data.(*event.ToolResult).Output)))
		}
		return x.runTools(calls)
	}
	var p passed
	calls := []passedCall{{Name: t.tool, Args: x.inv.Input()}}
	if t.tool == "" {
		if p, err = readPassed(x.inv.Input()); err != nil {
			return err
		}
		calls = p.calls()
	}
	results, err := t.results(x)
	if err != nil {
		return err
	}
	if len(results) == 0 && len(calls) > 0 {
		return t.begin(x, calls, notices)
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
	return x.emit(&event.Event{Data: &event.Finish{Output: output()}})
}

func (t *toolRuns) failed(code, message string) error {
	return &agent.RunError{Agent: t.tool, Code: code, Err: &CallError{Tool: t.tool, Message: message}}
}

// begin stores the calls in one write. The next step runs them.
func (t *toolRuns) begin(x *execution, calls []passedCall, notices []string) error {
	if t.tool != "" {
		_, err := object(calls[0].Args)
		if tool := x.byName[t.tool]; err == nil && tool != nil {
			err = tools.Check(tool, calls[0].Args)
		}
		if err != nil {
			return t.failed(event.CodeToolRefused, "the input does not fit: "+err.Error())
		}
	}
	if err := x.notify(notices); err != nil {
		return err
	}
	events := make([]*event.Event, len(calls))
	for i, c := range calls {
		events[i] = &event.Event{Data: c.event()}
	}
	if err := x.write(events...); err != nil {
		return err
	}
	return x.next()
}

// results returns those of the run's calls, in the order of the calls.
func (t *toolRuns) results(x *execution) (all []*event.ToolResult, err error) {
	place := make(map[string]int)
	for e, err := range x.inv.Session().Events(x.ctx, x.inv.Since()) {
		if err != nil {
			return nil, err
		}
		if e.Scope != x.inv.Scope() || e.Agent != x.inv.Agent().Name() {
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
