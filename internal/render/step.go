package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

// The largest lengths of texts in a step, in characters.
const (
	maxStep = 100
	maxText = 40
)

// Step describes the events of one step in a few words.
func Step(events []*event.Event) string {
	var parts, closing []string
	transferCalls := make(map[string]bool) // the calls of transfers, which are shown by their own events
	for _, e := range events {
		if t, ok := e.Data.(*event.Transfer); ok {
			transferCalls[t.ToolCallID] = true
		}
	}
	for i, e := range events {
		words, isCall := eventText(e)
		switch {
		case words == "" || e.Type() == event.TypeToolResult && transferCalls[e.ID]:
			continue
		case isCall && i > 0 && continues(events, i): // in one part with the previous call
			parts[len(parts)-1] += ", " + visible.Line(e.Data.(*event.ToolCall).Name)
			continue
		case e.Scope != "":
			words = "↳ " + words
		}
		switch e.Type() {
		case event.TypeHarnessStart, event.TypeHarnessEnd:
			closing = append(closing, words)
		default:
			parts = append(parts, words)
		}
	}
	if len(parts) == 0 {
		parts = closing
	}
	if len(parts) == 0 {
		for _, e := range events {
			if !slices.Contains(parts, e.Type()) {
				parts = append(parts, visible.Line(e.Type()))
			}
		}
	}
	return visible.Cut(strings.Join(parts, "; "), maxStep)
}

// verdict describes the answer to a question.
func verdict(d *event.RelayResolved) string {
	switch {
	case !d.Approved:
		return "denied"
	case d.Content != nil:
		return "answered"
	}
	return "approved"
}

// continues reports whether a call directly follows another call of the same agent.
func continues(events []*event.Event, i int) bool {
	before := events[i-1]
	_, call := before.Data.(*event.ToolCall)
	return call && before.Agent == events[i].Agent
}

// eventText describes one event, or returns "" if it is not shown. isCall reports that it is a call, because
// consecutive calls are joined.
func eventText(e *event.Event) (words string, isCall bool) {
	who := visible.Line(e.Agent)
	quoted := func(text string) string { return `"` + visible.Cut(visible.Line(text), maxText) + `"` }
	switch d := e.Data.(type) {
	case *event.User:
		text := d.Content.PlainText()
		if text == "" {
			text = "(no text)"
		}
		return "user " + quoted(text), false
	case *event.Text:
		return who + " answers " + quoted(d.Content), false
	case *event.ToolCall:
		return who + " calls " + visible.Line(d.Name), true
	case *event.ToolResult:
		line, _ := resultLines(d)
		return visible.Line(d.Name) + ": " + visible.Cut(line, maxText), false
	case *event.Relay:
		if d.Kind == event.RelayInput {
			return who + ": " + visible.Line(d.Tool) + " asks " + quoted(d.Message), false
		}
		return who + " asks for approval of " + visible.Line(d.Tool), false
	case *event.RelayResolved:
		return verdict(d), false
	case *event.Transfer:
		return transferred(d), false
	case *event.Route:
		return visible.Line(routed(d)), false
	case *event.State:
		var keys []string
		for key := range d.Delta {
			keys = append(keys, visible.Line(key))
		}
		slices.Sort(keys)
		return "state " + strings.Join(keys, ", "), false
	case *event.File:
		return who + " creates " + visible.Line(d.Name), false
	case *event.Notice:
		return "(" + visible.Cut(visible.Line(d.Message), maxText) + ")", false
	case *event.Discard:
		return "answer discarded", false
	case *event.Failure:
		return who + " failed: " + visible.Cut(visible.Line(d.Message), maxText), false
	case *event.HarnessStart:
		return who + " begins", false
	case *event.HarnessEnd:
		return fmt.Sprintf("%s ends (%s)", who, visible.Line(string(d.FinishReason))), false
	}
	line, _ := new(eventLines).describe(e)
	return visible.Line(line), false
}

// unreadable describes a stored event that cannot be read, or returns "" for any other event.
func unreadable(e *event.Event, u *event.Unknown) string {
	damage, ok := u.Damage()
	if !ok {
		return ""
	}
	was := "event"
	if damage.Was != "" {
		was = visible.Line(damage.Was)
	}
	return fmt.Sprintf("%s %d cannot be read: %s", was, e.Seq, visible.Cut(visible.Line(damage.Reason), maxText))
}
