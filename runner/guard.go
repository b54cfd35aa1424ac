package runner

import (
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

// released asks the guards about words of the agent: its own, then those of the
// workflows around it, the innermost first. After words that they have refused, no others
// of the same write are.
func (l *lane) released(text string) bool {
	for _, guards := range [...][]agent.Guard{l.guards, l.around} {
		for _, g := range guards {
			if l.tripped != nil || g.Out == nil || text == "" {
				continue
			}
			if err := g.Out(l.ctx, l.inv, text); err != nil {
				l.tripped = &agent.TripwireError{Guard: g.Name, Agent: l.current.Agent, Err: err}
			}
		}
	}
	return l.tripped == nil
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
