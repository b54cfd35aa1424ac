package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

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

// beginStep takes the guards of the agent whose step begins.
func (s *guards) beginStep(own []agent.Guard) {
	s.own, s.tripped, s.held, s.hold = own, nil, nil, -1
	for _, g := range s.all() {
		s.hold = max(s.hold, g.Held())
	}
}

// checkStart asks the guards about what a run was started with.
func (s *guards) checkStart() error {
	from := s.draft.run.Transfer
	in := agent.Ingress{Kind: agent.IngressUser, Content: s.draft.inv.Message(), Transfer: from}
	if s.draft.scope != "" {
		in.Kind, in.Content = agent.IngressInput, llm.Content{Text: event.OutputText(s.draft.inv.Input())}
	}
	if from != nil {
		in.Kind = agent.IngressTransfer
	}
	return s.checkIngress(in)
}

func (s *guards) checkIngress(in agent.Ingress) error {
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

// allowText asks the guards about text of the agent, in a write that is being put together. After
// text that they have refused, no other of the same write is released.
func (s *guards) allowText(text string) bool {
	if s.tripped == nil {
		if trip := s.refusedBy(s.ctx, text, false); trip != nil {
			s.tripped = trip
		}
	}
	return s.tripped == nil
}

// refusedBy asks the guards about text of the agent: its own, then those of the workflows
// around it, the innermost first; of all those only the ones that hold streamed text, if it
// says so.
func (s *guards) refusedBy(ctx context.Context, text string, holding bool) *agent.TripwireError {
	for _, g := range s.all() {
		if g.Out == nil || text == "" || holding && g.Held() < 0 {
			continue
		}
		if err := g.Out(ctx, s.draft.inv, text); err != nil {
			return &agent.TripwireError{Guard: g.Name, Agent: s.draft.run.Agent, Err: err}
		}
	}
	return nil
}

// allowOutput asks the guards about what an agent finishes with, which is stored and
// given on as its words are. What it has just said they have been asked about.
func (s *guards) allowOutput(output json.RawMessage) bool {
	if len(output) == 0 || len(s.own)+len(s.around) == 0 {
		return true
	}
	text := event.OutputText(output)
	said := slices.ContainsFunc(s.draft.events, func(e *event.Event) bool { d, ok := e.Data.(*event.Text); return ok && d.Content == text })
	return said || s.allowText(text)
}

// all returns all of them, the innermost first. They also check the words of the children of the step's
// agent, if it is a workflow.
func (s *guards) all() []agent.Guard {
	if len(s.around) == 0 {
		return s.own
	}
	return slices.Concat(s.own, s.around)
}

// checkEvent asks the guards about an event that is to be stored. Words that they
// refuse are dropped, and l.tripped says so when the write is whole: what else
// the answer holds, its usage above all, is kept. A refused result of a tool is
// replaced, because every call has one, and the error is returned.
func (s *guards) checkEvent(e *event.Event) (*event.Event, error) {
	switch d := e.Data.(type) {
	case *event.Text:
		if !s.allowText(d.Content) {
			return nil, nil
		}
		s.showRest(e)
	case *event.Reasoning:
		return s.checkReasoning(e, d), nil
	case *event.Discard:
		e.Data = s.checkDiscard(d)
	case *event.Relay:
		if !s.allowText(d.Message) {
			return nil, nil
		}
	case *event.Notice:
		e.Data = &event.Notice{Code: d.Code, Message: s.fitting(d.Message)}
	case *event.Compaction:
		if !s.allowText(d.Summary) {
			return nil, nil
		}
	case *event.ToolResult:
		if d.Name == agent.TransferTool {
			return e, nil
		}
		err := s.checkIngress(agent.Ingress{Kind: agent.IngressTool, Content: llm.Content{Text: event.OutputText(d.Output)}, Tool: d.Name, CallID: e.ID})
		if trip, ok := err.(*agent.TripwireError); ok {
			// What the tool wanted to keep goes with its result.
			s.draft.events = slices.DeleteFunc(s.draft.events, func(e *event.Event) bool { _, ok := e.Data.(*event.State); return ok })
			e.Data = &event.ToolResult{Name: d.Name, Output: event.EncodeJSON(trip.Withheld()), IsError: true}
			return e, err
		}
	}
	return e, nil
}

// heldBlock is a streamed block of an agent whose deltas wait for its guards.
type heldBlock struct {
	id      string
	attempt int
	text    strings.Builder
	asked   int // the length of the text when the guards were asked last
	shown   int // how many bytes of the text were shown
	refused bool
}

// askEvery bounds what guards with a window cost: of a text, this share has to be new before they are asked again, which
// for a text of fewer bytes is every delta. So a long answer costs in proportion to its length.
const askEvery = 64

// deltaUpTo returns the delta that shows the block up to end.
func (b *heldBlock) deltaUpTo(like event.Data, text string, end int) *event.Event {
	e := &event.Event{ID: b.id, Partial: true, Attempt: b.attempt, Data: withWords(like, text[b.shown:end])}
	b.shown = end
	return e
}

// dueDelta returns what is to be shown now that a delta of the agent has come, nil if nothing is. No
// delta is shown past the guards elsewhere, so that no consumer sees more than another. Partial events
// of other kinds are not shown: what they stand for is stored when it is whole.
func (s *guards) dueDelta(e *event.Event) *event.Event {
	text, ok := wordsOf(e.Data)
	if !ok || s.hold == agent.HeldWhole || s.tripped != nil {
		return nil
	}
	b := s.heldBlockOf(e.ID)
	if b == nil {
		b = &heldBlock{id: e.ID, attempt: e.Attempt}
		s.held = append(s.held, b)
	}
	b.text.WriteString(text)
	text = b.text.String()
	end := allBut(text, s.hold)
	if b.refused || end <= b.shown || len(text)-b.asked < len(text)/askEvery {
		return nil
	}
	b.asked = len(text)
	if trip := s.refusedBy(s.ctx, text, true); trip != nil {
		if b.refused = true; e.Type() == event.TypeText {
			s.tripped = trip // and the answer is read to its end, because it is paid for
		}
		return nil
	}
	return b.deltaUpTo(e.Data, text, end)
}

// showRest shows what is missing of a block that the guards have passed as a whole.
func (s *guards) showRest(e *event.Event) {
	b := s.heldBlockOf(e.ID)
	text, _ := wordsOf(e.Data)
	if b != nil && b.shown > 0 && b.shown < len(text) && strings.HasPrefix(text, b.text.String()[:b.shown]) {
		s.show(b.deltaUpTo(e.Data, text, len(text)))
	}
}

// heldBlockOf returns the held block of an id, nil if there is none.
func (s *guards) heldBlockOf(id string) *heldBlock {
	if i := slices.IndexFunc(s.held, func(b *heldBlock) bool { return b.id == id }); i >= 0 {
		return s.held[i]
	}
	return nil
}

// checkReasoning asks the guards about reasoning, which ends nothing: of what they refuse no more is kept than was
// shown, which they had passed. It returns nil if nothing is left.
func (s *guards) checkReasoning(e *event.Event, d *event.Reasoning) *event.Event {
	b := s.heldBlockOf(e.ID)
	trip := s.refusedBy(s.ctx, d.Content, true)
	if trip == nil && (b == nil || !b.refused) {
		s.showRest(e)
		return e
	}
	own := &event.Reasoning{Sealed: d.Sealed}
	if b != nil {
		own.Content = b.text.String()[:b.shown]
	}
	notice := &event.Notice{Code: event.NoticeWithheld, Message: "a guard withheld the reasoning of " + s.draft.run.Agent}
	s.draft.addData(notice)
	if e.Data = own; own.Content == "" && own.Sealed == "" {
		return nil
	}
	return e
}

// checkDiscard returns the discard that voids only what was shown of what an agent takes back.
func (s *guards) checkDiscard(d *event.Discard) *event.Discard {
	own := *d
	own.Message = s.fitting(d.Message)
	shown := s.draft.shown()
	own.IDs = slices.DeleteFunc(slices.Clone(d.IDs), func(id string) bool { return !slices.Contains(shown, id) })
	s.held = slices.DeleteFunc(s.held, func(b *heldBlock) bool { return slices.Contains(d.IDs, b.id) })
	return &own
}

// fitting returns a message that may quote the agent, or what says that a guard has withheld it.
func (s *guards) fitting(message string) string {
	if trip := s.quoted(message); trip != nil {
		return trip.Withheld()
	}
	return message
}

// quoted asks the guards about a message after the agent's step, which may have been canceled.
func (s *guards) quoted(message string) (trip *agent.TripwireError) {
	defer func() {
		if p := recover(); p != nil {
			trip = &agent.TripwireError{Agent: s.draft.run.Agent, Err: fmt.Errorf("a guard panicked: %v", p)}
		}
	}()
	return s.refusedBy(context.WithoutCancel(s.ctx), message, false)
}

// quoting returns the error of a step, or the tripwire of a guard that refuses its message: a remote agent or a
// model may have written it, and the log, clients and other models are shown it.
func (s *guards) quoting(err error) error {
	if s.draft.inv == nil || s.draft.inv.RunID() != s.draft.run.ID || errors.As(err, new(*agent.TripwireError)) {
		return err
	}
	if trip := s.quoted(err.Error()); trip != nil {
		trip.Err = err
		return &agent.RunError{Agent: s.draft.run.Agent, Code: errorCode(err), Err: trip}
	}
	return err
}

// wordsOf returns the text of a payload that has one and can come in pieces.
func wordsOf(d event.Data) (string, bool) {
	switch d := d.(type) {
	case *event.Text:
		return d.Content, true
	case *event.Reasoning:
		return d.Content, true
	}
	return "", false
}

// withWords returns a payload of the same type with other text.
func withWords(like event.Data, text string) event.Data {
	if _, ok := like.(*event.Reasoning); ok {
		return &event.Reasoning{Content: text}
	}
	return &event.Text{Content: text}
}

// allBut returns the length of a text without its last n characters.
func allBut(text string, n int) int {
	end := len(text)
	for ; n > 0 && end > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(text[:end])
		end -= size
	}
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) { // in the middle of a character that is not complete
		end--
	}
	return end
}
