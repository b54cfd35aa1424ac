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

// guards check the input and the output of an agent in a step. The agent's own guards check both. The guards of the
// workflows around it check the output.
type guards struct {
	ctx     context.Context // of the scope
	draft   *draft
	show    func(*event.Event) bool // shows a partial event
	own     []agent.Guard           // of the agent whose step runs
	around  []agent.Guard           // of the workflows around the scope, the innermost first
	tripped error                   // a guard refused text of the draft
	hold    int                     // characters of streamed text to hold back, -1 to show deltas unchecked
	held    []*heldBlock
}

// beginStep sets the guards of the agent whose step begins.
func (s *guards) beginStep(own []agent.Guard) {
	s.own, s.tripped, s.held, s.hold = own, nil, nil, -1
	for _, g := range s.all() {
		s.hold = max(s.hold, g.Held())
	}
}

// checkStart asks the guards about the message, input or transfer that started the run.
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

// checkIngress returns the *agent.TripwireError of the first own guard that refuses the input.
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

// allowText asks the guards about text of the draft. After a refusal it allows no other text of the same write.
func (s *guards) allowText(text string) bool {
	if s.tripped == nil {
		if trip := s.refusedBy(s.ctx, text, false); trip != nil {
			s.tripped = trip
		}
	}
	return s.tripped == nil
}

// refusedBy asks the guards about text of the agent: its own guards, then those of the workflows around it, the
// innermost first. If holding is true, it asks only the guards that hold streamed text back. It returns the first
// refusal, nil without one.
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

// allowOutput asks the guards about the output of an agent's run. It does not ask again about text of the draft.
func (s *guards) allowOutput(output json.RawMessage) bool {
	if len(output) == 0 || len(s.own)+len(s.around) == 0 {
		return true
	}
	text := event.OutputText(output)
	said := slices.ContainsFunc(s.draft.events, func(e *event.Event) bool { d, ok := e.Data.(*event.Text); return ok && d.Content == text })
	return said || s.allowText(text)
}

// all returns all guards, the innermost first. If the step's agent is a workflow, they also check the text of its
// children.
func (s *guards) all() []agent.Guard {
	if len(s.around) == 0 {
		return s.own
	}
	return slices.Concat(s.own, s.around)
}

// checkEvent asks the guards about an event that is to be stored, and returns the event to store, nil to drop it. If
// the guards refuse text, checkEvent drops it and sets tripped. The rest of the answer is stored, above all its usage.
// If they refuse the result of a tool, checkEvent replaces it, because every call needs one, and returns the error.
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
		e.Data = &event.Notice{Code: d.Code, Message: s.allowedMessage(d.Message)}
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
			// The state that the tool has set is dropped together with its result.
			s.draft.events = slices.DeleteFunc(s.draft.events, func(e *event.Event) bool { _, ok := e.Data.(*event.State); return ok })
			e.Data = &event.ToolResult{Name: d.Name, Output: event.EncodeJSON(trip.Withheld()), IsError: true}
			return e, err
		}
	}
	return e, nil
}

// heldBlock is a streamed block whose deltas are held back until the guards have checked them.
type heldBlock struct {
	id      string
	attempt int
	text    strings.Builder // all deltas so far
	checked int             // the length of the text at the last check, in bytes
	shown   int             // the length of the text that was shown, in bytes
	refused bool
}

// checkShare limits the cost of guards that check streamed text: they are asked again when 1/checkShare of the text is
// new. So the cost of a long answer grows with its length and not with the square of it.
const checkShare = 64

// deltaUpTo returns the delta that shows the block's text up to end, as data of the same type as like.
func (b *heldBlock) deltaUpTo(like event.Data, text string, end int) *event.Event {
	e := &event.Event{ID: b.id, Partial: true, Attempt: b.attempt, Data: withText(like, text[b.shown:end])}
	b.shown = end
	return e
}

// dueDelta takes a delta of the agent and returns the delta to show now, nil for none. All consumers see the same
// deltas. Partial events without text are not shown; the complete events follow.
func (s *guards) dueDelta(e *event.Event) *event.Event {
	text, ok := streamedText(e.Data)
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
	end := lengthWithoutLast(text, s.hold)
	if b.refused || end <= b.shown || len(text)-b.checked < len(text)/checkShare {
		return nil
	}
	b.checked = len(text)
	if trip := s.refusedBy(s.ctx, text, true); trip != nil {
		if b.refused = true; e.Type() == event.TypeText {
			s.tripped = trip // the answer is still read to its end, for its usage
		}
		return nil
	}
	return b.deltaUpTo(e.Data, text, end)
}

// showRest shows the rest of a block after the guards have allowed its whole text. It shows nothing of a block without
// deltas so far, because the complete event follows.
func (s *guards) showRest(e *event.Event) {
	b := s.heldBlockOf(e.ID)
	text, _ := streamedText(e.Data)
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

// checkReasoning asks the guards about reasoning. A refusal does not end the run: checkReasoning then keeps only the
// text that was shown, which the guards had allowed, and adds a notice. It returns nil if nothing is left.
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

// checkDiscard returns a discard with only the ids of blocks that were shown, and forgets the held blocks.
func (s *guards) checkDiscard(d *event.Discard) *event.Discard {
	own := *d
	own.Message = s.allowedMessage(d.Message)
	shown := s.draft.shown()
	own.IDs = slices.DeleteFunc(slices.Clone(d.IDs), func(id string) bool { return !slices.Contains(shown, id) })
	s.held = slices.DeleteFunc(s.held, func(b *heldBlock) bool { return slices.Contains(d.IDs, b.id) })
	return &own
}

// allowedMessage returns a message that may quote the agent, or a replacement if a guard refuses the message.
func (s *guards) allowedMessage(message string) string {
	if trip := s.checkMessage(message); trip != nil {
		return trip.Withheld()
	}
	return message
}

// checkMessage asks the guards about a message, also when the step was canceled. A panic of a guard refuses it.
func (s *guards) checkMessage(message string) (trip *agent.TripwireError) {
	defer func() {
		if p := recover(); p != nil {
			trip = &agent.TripwireError{Agent: s.draft.run.Agent, Err: fmt.Errorf("a guard panicked: %v", p)}
		}
	}()
	return s.refusedBy(context.WithoutCancel(s.ctx), message, false)
}

// withhold returns the error of a step, or an error without its message if a guard refuses the message. A remote agent
// or a model may have written the message, and the log, clients and other models read it.
func (s *guards) withhold(err error) error {
	if s.draft.inv == nil || s.draft.inv.RunID() != s.draft.run.ID || errors.As(err, new(*agent.TripwireError)) {
		return err
	}
	if trip := s.checkMessage(err.Error()); trip != nil {
		trip.Err = err
		return &agent.RunError{Agent: s.draft.run.Agent, Code: errorCode(err), Err: trip}
	}
	return err
}

// streamedText returns the text of data that can come in deltas.
func streamedText(d event.Data) (string, bool) {
	switch d := d.(type) {
	case *event.Text:
		return d.Content, true
	case *event.Reasoning:
		return d.Content, true
	}
	return "", false
}

// withText returns data of the same type with another text.
func withText(like event.Data, text string) event.Data {
	if _, ok := like.(*event.Reasoning); ok {
		return &event.Reasoning{Content: text}
	}
	return &event.Text{Content: text}
}

// lengthWithoutLast returns the length in bytes of a text without its last n characters. It never ends inside a
// character that is not complete yet.
func lengthWithoutLast(text string, n int) int {
	end := len(text)
	for ; n > 0 && end > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(text[:end])
		end -= size
	}
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) { // inside an incomplete character
		end--
	}
	return end
}
