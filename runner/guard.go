package runner

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// guardIn asks the guards about what a run was started with.
func (l *lane) guardIn(run session.Run) error {
	in := agent.Ingress{Kind: agent.IngressUser, Content: l.inv.Message(), Transfer: run.Transfer}
	if l.scope != "" {
		in.Kind, in.Content = agent.IngressInput, llm.Content{Text: event.OutputText(l.inv.Input())}
	}
	if run.Transfer != nil {
		in.Kind = agent.IngressTransfer
	}
	return l.admit(in)
}

func (l *lane) admit(in agent.Ingress) error {
	for _, g := range l.guards {
		if g.In == nil {
			continue
		}
		if err := g.In(l.ctx, l.inv, in); err != nil {
			return &agent.TripwireError{Guard: g.Name, Agent: l.current.Agent, Kind: in.Kind, Tool: in.Tool, Err: err}
		}
	}
	return nil
}

// released asks the guards about text of the agent, in a write that is being put together. After
// text that they have refused, no other of the same write is released.
func (l *lane) released(text string) bool {
	if l.tripped == nil {
		if trip := l.refusing(l.ctx, text, false); trip != nil {
			l.tripped = trip
		}
	}
	return l.tripped == nil
}

// refusing asks the guards about text of the agent: its own, then those of the workflows
// around it, the innermost first; of all those only the ones that hold streamed text, if it
// says so.
func (l *lane) refusing(ctx context.Context, text string, holding bool) *agent.TripwireError {
	for _, guards := range [...][]agent.Guard{l.guards, l.around} {
		for _, g := range guards {
			if g.Out == nil || text == "" || holding && g.Held() < 0 {
				continue
			}
			if err := g.Out(ctx, l.inv, text); err != nil {
				return &agent.TripwireError{Guard: g.Name, Agent: l.current.Agent, Err: err}
			}
		}
	}
	return nil
}

// releasedOutput asks the guards about what an agent finishes with, which is stored and
// given on as its words are. What it has just said they have been asked about.
func (l *lane) releasedOutput(output json.RawMessage) bool {
	if len(output) == 0 || len(l.guards)+len(l.around) == 0 {
		return true
	}
	text := event.OutputText(output)
	said := slices.ContainsFunc(l.joined, func(e *event.Event) bool { d, ok := e.Data.(*event.Text); return ok && d.Content == text })
	return said || l.released(text)
}

// inside returns the guards that check the words of the children of this lane's agent, a
// workflow.
func (l *lane) inside() []agent.Guard {
	if len(l.around) == 0 {
		return l.guards
	}
	return slices.Concat(l.guards, l.around)
}

// guard asks the guards about an event that is to be stored. Words that they
// refuse are dropped, and l.tripped says so when the write is whole: what else
// the answer holds, its usage above all, is kept. A refused result of a tool is
// replaced, because every call has one, and the error is returned.
func (l *lane) guard(e *event.Event) (*event.Event, error) {
	switch d := e.Data.(type) {
	case *event.Text:
		if !l.released(d.Content) {
			return nil, nil
		}
		l.showRest(e)
	case *event.Reasoning:
		return l.think(e, d), nil
	case *event.Discard:
		e.Data = l.voided(d)
	case *event.Relay:
		if !l.released(d.Message) {
			return nil, nil
		}
	case *event.Notice:
		e.Data = &event.Notice{Code: d.Code, Message: l.fit(d.Message)}
	case *event.Compaction:
		if !l.released(d.Summary) {
			return nil, nil
		}
	case *event.ToolResult:
		if d.Name == agent.TransferTool {
			return e, nil
		}
		err := l.admit(agent.Ingress{Kind: agent.IngressTool, Content: llm.Content{Text: event.OutputText(d.Output)}, Tool: d.Name, CallID: e.ID})
		if trip, ok := err.(*agent.TripwireError); ok {
			// What the tool wanted to keep goes with its result.
			l.joined = slices.DeleteFunc(l.joined, func(e *event.Event) bool { _, ok := e.Data.(*event.State); return ok })
			e.Data = &event.ToolResult{Name: d.Name, Output: event.EncodeJSON(trip.Withheld()), IsError: true}
			return e, err
		}
	}
	return e, nil
}
