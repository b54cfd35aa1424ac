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
	"github.com/agentarbor/arbor/session"
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

// heldBack returns how many characters of a streamed text the guards of the step hold back.
func (l *lane) heldBack() int {
	hold := -1
	for _, guards := range [...][]agent.Guard{l.guards, l.around} {
		for _, g := range guards {
			hold = max(hold, g.Held())
		}
	}
	return hold
}

// due returns what is to be shown now that a delta of the agent has come, nil if nothing is. No
// delta is shown past the guards elsewhere, so that no consumer sees more than another. Partial events
// of other kinds are not shown: what they stand for is stored when it is whole.
func (l *lane) due(e *event.Event) *event.Event {
	text, ok := wordsOf(e.Data)
	if !ok || l.hold == agent.HeldWhole || l.tripped != nil {
		return nil
	}
	b := l.block(e.ID)
	if b == nil {
		b = &heldBlock{id: e.ID, attempt: e.Attempt}
		l.held = append(l.held, b)
	}
	b.text.WriteString(text)
	text = b.text.String()
	end := allBut(text, l.hold)
	if b.refused || end <= b.shown || len(text)-b.asked < len(text)/askEvery {
		return nil
	}
	b.asked = len(text)
	if trip := l.refusing(l.ctx, text, true); trip != nil {
		if b.refused = true; e.Type() == event.TypeText {
			l.tripped = trip // and the answer is read to its end, because it is paid for
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
func (l *lane) showRest(e *event.Event) {
	b := l.block(e.ID)
	text, _ := wordsOf(e.Data)
	if b != nil && b.shown > 0 && b.shown < len(text) && strings.HasPrefix(text, b.text.String()[:b.shown]) {
		l.show(l.current, b.show(e.Data, text, len(text)))
	}
}

// block returns the held block of an id, nil if there is none.
func (l *lane) block(id string) *heldBlock {
	if i := slices.IndexFunc(l.held, func(b *heldBlock) bool { return b.id == id }); i >= 0 {
		return l.held[i]
	}
	return nil
}

// think asks the guards about reasoning, which ends nothing: of what they refuse no more is kept than was
// shown, which they had passed. It returns nil if nothing is left.
func (l *lane) think(e *event.Event, d *event.Reasoning) *event.Event {
	b := l.block(e.ID)
	trip := l.refusing(l.ctx, d.Content, true)
	if trip == nil && (b == nil || !b.refused) {
		l.showRest(e)
		return e
	}
	own := &event.Reasoning{Sealed: d.Sealed}
	if b != nil {
		own.Content = b.text.String()[:b.shown]
	}
	notice := &event.Notice{Code: event.NoticeWithheld, Message: "a guard withheld the reasoning of " + l.current.Agent}
	l.joined = append(l.joined, l.stamp(l.current, &event.Event{Data: notice}))
	if e.Data = own; own.Content == "" && own.Sealed == "" {
		return nil
	}
	return e
}

// voided returns the discard that voids only what was shown of what an agent takes back.
func (l *lane) voided(d *event.Discard) *event.Discard {
	own := *d
	own.Message = l.fit(d.Message)
	l.t.mu.Lock()
	shown := l.t.unsettled(l.scope, l.joined)
	l.t.mu.Unlock()
	own.IDs = slices.DeleteFunc(slices.Clone(d.IDs), func(id string) bool { return !slices.Contains(shown, id) })
	l.held = slices.DeleteFunc(l.held, func(b *heldBlock) bool { return slices.Contains(d.IDs, b.id) })
	return &own
}

// fit returns a message that may quote the agent, or what says that a guard has withheld it.
func (l *lane) fit(message string) string {
	if trip := l.quoted(message); trip != nil {
		return trip.Withheld()
	}
	return message
}

// quoted asks the guards about a message after the agent's step, which may have been canceled.
func (l *lane) quoted(message string) (trip *agent.TripwireError) {
	defer func() {
		if p := recover(); p != nil {
			trip = &agent.TripwireError{Agent: l.current.Agent, Err: fmt.Errorf("a guard panicked: %v", p)}
		}
	}()
	return l.refusing(context.WithoutCancel(l.ctx), message, false)
}

// quoting returns the error of a step, or the tripwire of a guard that refuses its message: a remote agent or a
// model may have written it, and the log, clients and other models are shown it.
func (l *lane) quoting(run session.Run, err error) error {
	if l.inv == nil || l.inv.RunID() != run.ID || errors.As(err, new(*agent.TripwireError)) {
		return err
	}
	if trip := l.quoted(err.Error()); trip != nil {
		trip.Err = err
		return &agent.RunError{Agent: run.Agent, Code: errorCode(err), Err: trip}
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
