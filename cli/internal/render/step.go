package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

// How much of a step is told in a history, in characters.
const (
	maxStep  = 100
	maxWords = 40
)

// Step tells in a few words what the events of one step did.
func Step(events []*event.Event) string {
	var told, closing []string
	handed := make(map[string]bool) // calls of transfers, whose records tell more than their results
	for _, e := range events {
		if t, ok := e.Data.(*event.Transfer); ok {
			handed[t.ToolCallID] = true
		}
	}
	for i, e := range events {
		words, more := eventWords(e)
		switch {
		case words == "" || e.Type() == event.TypeToolResult && handed[e.ID]:
			continue
		case more && i > 0 && continues(events, i): // told with the call before
			told[len(told)-1] += ", " + visible.Line(e.Data.(*event.ToolCall).Name)
			continue
		case e.Scope != "":
			words = "↳ " + words
		}
		switch e.Type() {
		case event.TypeHarnessStart, event.TypeHarnessEnd:
			closing = append(closing, words)
		default:
			told = append(told, words)
		}
	}
	if len(told) == 0 {
		told = closing
	}
	if len(told) == 0 {
		for _, e := range events {
			if !slices.Contains(told, e.Type()) {
				told = append(told, visible.Line(e.Type()))
			}
		}
	}
	return Cut(strings.Join(told, "; "), maxStep)
}

// continues reports whether a call stands behind another one of the same agent.
func continues(events []*event.Event, i int) bool {
	before := events[i-1]
	_, call := before.Data.(*event.ToolCall)
	return call && before.Agent == events[i].Agent
}

// eventWords tells one event, "" if there is nothing to tell. isCall says that it is a
// call, of which several can be told together.
func eventWords(e *event.Event) (words string, isCall bool) {
	who := visible.Line(e.Agent)
	quoted := func(text string) string { return `"` + Cut(visible.Line(text), maxWords) + `"` }
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
		return visible.Line(d.Name) + ": " + Cut(line, maxWords), false
	case *event.Relay:
		return who + " asks for approval of " + visible.Line(d.Tool), false
	case *event.RelayResolved:
		if d.Approved {
			return "approved", false
		}
		return "denied", false
	case *event.Transfer:
		told := visible.Line(d.From) + " → " + visible.Line(d.To)
		if d.Outcome != event.TransferCommitted {
			told += " " + string(d.Outcome)
		}
		return told, false
	case *event.State:
		var keys []string
		for key := range d.Delta {
			keys = append(keys, visible.Line(key))
		}
		slices.Sort(keys)
		return "state " + strings.Join(keys, ", "), false
	case *event.Compaction:
		return visible.Line(compacted(e, d)), false
	case *event.Notice:
		return "(" + Cut(visible.Line(d.Message), maxWords) + ")", false
	case *event.Unknown:
		return unreadable(e, d), false
	case *event.Discard:
		return "answer discarded", false
	case *event.Failure:
		return who + " failed: " + Cut(visible.Line(d.Message), maxWords), false
	case *event.HarnessStart:
		return who + " begins", false
	case *event.HarnessEnd:
		return fmt.Sprintf("%s ends (%s)", who, visible.Line(string(d.FinishReason))), false
	case *event.Reasoning, *event.ToolProgress, *event.Usage, *event.RemoteTask: // not told
	}
	return "", false
}

// unreadable tells of a stored event that cannot be read, "" of another one.
func unreadable(e *event.Event, u *event.Unknown) string {
	damage, ok := u.Damage()
	if !ok {
		return ""
	}
	was := "event"
	if damage.Was != "" {
		was = visible.Line(damage.Was)
	}
	return fmt.Sprintf("%s %d cannot be read: %s", was, e.Seq, Cut(visible.Line(damage.Reason), maxWords))
}
