package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

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

// due returns what is to be shown now that a delta of the agent has come, nil if nothing is. No
// delta is shown past the guards elsewhere, so that no consumer sees more than another. Partial events
// of other kinds are not shown: what they stand for is stored when it is whole.
func (s *guards) due(e *event.Event) *event.Event {
	text, ok := wordsOf(e.Data)
	if !ok || s.hold == agent.HeldWhole || s.tripped != nil {
		return nil
	}
	b := s.block(e.ID)
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
	if trip := s.refusing(s.ctx, text, true); trip != nil {
		if b.refused = true; e.Type() == event.TypeText {
			s.tripped = trip // and the answer is read to its end, because it is paid for
		}
		return nil
	}
	return b.show(e.Data, text, end)
}

// show returns the delta that shows the block up to end.
func (b *heldBlock) show(like event.Data, text string, end int) *event.Event {
	e := &event.Event{ID: b.id, Partial: true, Attempt: b.attempt, Data: withWords(like, text[b.shown:end])}
	b.shown = end
	return e
}

// showRest shows what is missing of a block that the guards have passed as a whole.
func (s *guards) showRest(e *event.Event) {
	b := s.block(e.ID)
	text, _ := wordsOf(e.Data)
	if b != nil && b.shown > 0 && b.shown < len(text) && strings.HasPrefix(text, b.text.String()[:b.shown]) {
		s.show(b.show(e.Data, text, len(text)))
	}
}

// block returns the held block of an id, nil if there is none.
func (s *guards) block(id string) *heldBlock {
	if i := slices.IndexFunc(s.held, func(b *heldBlock) bool { return b.id == id }); i >= 0 {
		return s.held[i]
	}
	return nil
}

// think asks the guards about reasoning, which ends nothing: of what they refuse no more is kept than was
// shown, which they had passed. It returns nil if nothing is left.
func (s *guards) think(e *event.Event, d *event.Reasoning) *event.Event {
	b := s.block(e.ID)
	trip := s.refusing(s.ctx, d.Content, true)
	if trip == nil && (b == nil || !b.refused) {
		s.showRest(e)
		return e
	}
	own := &event.Reasoning{Sealed: d.Sealed}
	if b != nil {
		own.Content = b.text.String()[:b.shown]
	}
	notice := &event.Notice{Code: event.NoticeWithheld, Message: "a guard withheld the reasoning of " + s.draft.run.Agent}
	s.draft.add(notice)
	if e.Data = own; own.Content == "" && own.Sealed == "" {
		return nil
	}
	return e
}

// voided returns the discard that voids only what was shown of what an agent takes back.
func (s *guards) voided(d *event.Discard) *event.Discard {
	own := *d
	own.Message = s.fit(d.Message)
	shown := s.draft.shown()
	own.IDs = slices.DeleteFunc(slices.Clone(d.IDs), func(id string) bool { return !slices.Contains(shown, id) })
	s.held = slices.DeleteFunc(s.held, func(b *heldBlock) bool { return slices.Contains(d.IDs, b.id) })
	return &own
}

// fit returns a message that may quote the agent, or what says that a guard has withheld it.
func (s *guards) fit(message string) string {
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
	return s.refusing(context.WithoutCancel(s.ctx), message, false)
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
