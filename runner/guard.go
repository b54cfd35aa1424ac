package runner

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// guards check what an agent is given and says in a step: those of its own, and those of the workflows
// around it.
type guards struct {
	ctx     context.Context // of the scope
	draft   *draft
	show    func(*event.Event) bool // shows a partial event
	own     []agent.Guard           // of the agent whose step runs
	around  []agent.Guard           // of the workflows that the scope runs in: they check the words said here
	tripped error                   // what a guard said about words of the open write
	hold    int                     // how many characters of streamed text they hold back
	held    []*heldBlock
}

// begin takes the guards of the agent whose step begins.
func (s *guards) begin(own []agent.Guard) {
	s.own, s.tripped, s.held, s.hold = own, nil, nil, -1
	for _, g := range s.inside() {
		s.hold = max(s.hold, g.Held())
	}
}

// guardIn asks the guards about what a run was started with.
func (s *guards) guardIn() error {
	from := s.draft.run.Transfer
	in := agent.Ingress{Kind: agent.IngressUser, Content: s.draft.inv.Message(), Transfer: from}
	if s.draft.scope != "" {
		in.Kind, in.Content = agent.IngressInput, llm.Content{Text: event.OutputText(s.draft.inv.Input())}
	}
	if from != nil {
		in.Kind = agent.IngressTransfer
	}
	return s.admit(in)
}

func (s *guards) admit(in agent.Ingress) error {
	for _, g := range s.own {
		if g.In == nil {
			continue
		}
		if err := g.In(s.ctx, s.draft.inv, in); err != nil {
			return &agent.TripwireError{Guard: g.Name, Agent: s.draft.run.Agent, Kind: in.Kind, Tool: in.Tool, Err: err}
		}
	}
	return nil
}

// released asks the guards about text of the agent, in a write that is being put together. After
// text that they have refused, no other of the same write is released.
func (s *guards) released(text string) bool {
	if s.tripped == nil {
		if trip := s.refusing(s.ctx, text, false); trip != nil {
			s.tripped = trip
		}
	}
	return s.tripped == nil
}

// refusing asks the guards about text of the agent: its own, then those of the workflows
// around it, the innermost first; of all those only the ones that hold streamed text, if it
// says so.
func (s *guards) refusing(ctx context.Context, text string, holding bool) *agent.TripwireError {
	for _, g := range s.inside() {
		if g.Out == nil || text == "" || holding && g.Held() < 0 {
			continue
		}
		if err := g.Out(ctx, s.draft.inv, text); err != nil {
			return &agent.TripwireError{Guard: g.Name, Agent: s.draft.run.Agent, Err: err}
		}
	}
	return nil
}

// releasedOutput asks the guards about what an agent finishes with, which is stored and
// given on as its words are. What it has just said they have been asked about.
func (s *guards) releasedOutput(output json.RawMessage) bool {
	if len(output) == 0 || len(s.own)+len(s.around) == 0 {
		return true
	}
	text := event.OutputText(output)
	said := slices.ContainsFunc(s.draft.events, func(e *event.Event) bool { d, ok := e.Data.(*event.Text); return ok && d.Content == text })
	return said || s.released(text)
}

// inside returns all of them, the innermost first. They also check the words of the children of the step's
// agent, if it is a workflow.
func (s *guards) inside() []agent.Guard {
	if len(s.around) == 0 {
		return s.own
	}
	return slices.Concat(s.own, s.around)
}

// guard asks the guards about an event that is to be stored. Words that they
// refuse are dropped, and l.tripped says so when the write is whole: what else
// the answer holds, its usage above all, is kept. A refused result of a tool is
// replaced, because every call has one, and the error is returned.
func (s *guards) guard(e *event.Event) (*event.Event, error) {
	switch d := e.Data.(type) {
	case *event.Text:
		if !s.released(d.Content) {
			return nil, nil
		}
		s.showRest(e)
	case *event.Reasoning:
		return s.think(e, d), nil
	case *event.Discard:
		e.Data = s.voided(d)
	case *event.Relay:
		if !s.released(d.Message) {
			return nil, nil
		}
	case *event.Notice:
		e.Data = &event.Notice{Code: d.Code, Message: s.fit(d.Message)}
	case *event.Compaction:
		if !s.released(d.Summary) {
			return nil, nil
		}
	case *event.ToolResult:
		if d.Name == agent.TransferTool {
			return e, nil
		}
		err := s.admit(agent.Ingress{Kind: agent.IngressTool, Content: llm.Content{Text: event.OutputText(d.Output)}, Tool: d.Name, CallID: e.ID})
		if trip, ok := err.(*agent.TripwireError); ok {
			// What the tool wanted to keep goes with its result.
			s.draft.events = slices.DeleteFunc(s.draft.events, func(e *event.Event) bool { _, ok := e.Data.(*event.State); return ok })
			e.Data = &event.ToolResult{Name: d.Name, Output: event.EncodeJSON(trip.Withheld()), IsError: true}
			return e, err
		}
	}
	return e, nil
}
