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

// Split returns the agent as two agents, for a graph in which a separate node runs the agent's tools. The agent model
// asks the model and runs no call. The agent runs executes the calls of the last message, within the rules and limits
// of the agent's tools. If the last message has no calls, it returns its input.
//
// Both return an object with the key "messages": the messages of their input and the new ones. An input without that
// key is one message of the user; other keys of the input are returned unchanged. A message has the keys role ("user",
// "assistant" or "tool") and content. A message of the model that calls tools also has tool_calls, a list of {id,
// name, args}. A message with a result has tool_call_id, name and, after an error, is_error.
//
// The error is that the agent has sub-agents or a compaction, which need a conversation, or that its rules are wrong.
func (a *Agent) Split() (model, runs agent.Agent, err error) {
	if len(a.children) > 0 || a.compaction != nil {
		return nil, nil, fmt.Errorf("agent %q: its tools cannot run in a node of their own, because it has sub-agents or a compaction", a.name)
	}
	b, own := *a, *a.own
	own.agent, own.templates = &b, new(sync.Map)
	b.split, b.own, b.kits = true, &own, new(sync.Map)
	b.index = agent.Index(&b)
	runs, err = newToolRunner(a, a.name, "")
	return &b, runs, err
}

// ToolAgent returns an agent that calls one of the agent's tools with its input, as the package function [ToolAgent]
// does. The error is that the agent has no such tool. If the agent has sets, the tool may be one of a set, and an
// unknown tool is an error of the run.
func (a *Agent) ToolAgent(tool string) (agent.Agent, error) {
	if !a.own.has(tool) && len(a.sets) == 0 {
		return nil, a.own.noTool(tool)
	}
	return newToolRunner(a, tool, tool)
}

// ToolAgent returns an agent without a model that calls the tool with its input, which must be a JSON object, and
// returns the tool's output. A call that needs an approval pauses the turn. A call with a stored result does not run
// again. If the tool fails, the agent fails with a [*CallError].
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

// toolRunner runs calls of an agent's tools: of one tool, or those of the last message.
type toolRunner struct {
	agent *Agent
	tool  string // the only tool; "": the calls of the last message
}

func newToolRunner(a *Agent, name, tool string) (agent.Agent, error) {
	if wrong := a.checkRules(nil); wrong != nil { // the tree does not check the rules of this agent
		return nil, errors.New(strings.Join(wrong, "; "))
	}
	return agent.New(name, a.description, (&toolRunner{a, tool}).run, func(p *agent.Properties) {
		p.Stepwise, p.Inner, p.Tool = true, a.properties.Inner, tool
	})
}

// run runs one step: it stores the calls, runs them, or returns their results.
func (t *toolRunner) run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		x := &execution{ctx: ctx, inv: inv, yield: yield}
		x.yieldError(t.step(x))
	}
}

func (t *toolRunner) step(x *execution) error {
	notices, err := x.begin(t.agent)
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
			e.More = true // one write with the error, so that the error's code is not lost
			return cmp.Or(x.emit(e), t.failed(event.CodeToolRefused, event.OutputText(e.Data.(*event.ToolResult).Output)))
		}
		return x.runTools(calls)
	}
	var p splitMessages
	calls := []splitCall{{Name: t.tool, Args: x.inv.Input()}}
	if t.tool == "" {
		if p, err = readSplit(x.inv.Input()); err != nil {
			return err
		}
		calls = p.calls()
	}
	results, err := t.results(x)
	if err != nil {
		return err
	}
	if len(results) == 0 && len(calls) > 0 {
		return t.storeCalls(x, calls, notices)
	}
	output := p.output
	for i, r := range results {
		if t.tool == "" {
			p.add(splitMessage{Role: llm.RoleTool, CallID: calls[i].ID, Name: calls[i].Name, Content: event.OutputText(r.Output), IsError: r.IsError})
		} else if r.IsError {
			return t.failed(event.CodeToolFailed, event.OutputText(r.Output))
		} else {
			output = func() json.RawMessage { return r.Output }
		}
	}
	return x.emit(&event.Event{Data: &event.Finish{Output: output()}})
}

func (t *toolRunner) failed(code, message string) error {
	return &agent.RunError{Agent: t.tool, Code: code, Err: &CallError{Tool: t.tool, Message: message}}
}

// storeCalls stores the calls in one write. The next step runs them.
func (t *toolRunner) storeCalls(x *execution, calls []splitCall, notices []string) error {
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
	return x.continueRun()
}

// results returns the results of the run's calls, in the order of the calls.
func (t *toolRunner) results(x *execution) (all []*event.ToolResult, err error) {
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
