package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
)

// How much of a step is told in a history, in characters.
const (
	maxStep  = 100
	maxWords = 40
)

// stepLine tells in a few words what the events of one step did.
func stepLine(events []*agent.Event) string {
	var told, closing []string
	handed := make(map[string]bool) // calls of transfers, whose records tell more than their results
	for _, e := range events {
		if t, ok := e.Data.(*agent.Transfer); ok {
			handed[t.ToolCallID] = true
		}
	}
	for i, e := range events {
		words, more := eventWords(e)
		switch {
		case words == "" || e.Type() == agent.TypeToolResult && handed[e.ID]:
			continue
		case more && i > 0 && continues(events, i): // told with the call before
			told[len(told)-1] += ", " + oneLine(e.Data.(*agent.ToolCall).Name)
			continue
		case e.Scope != "":
			words = "↳ " + words
		}
		switch e.Type() {
		case agent.TypeHarnessStart, agent.TypeHarnessEnd:
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
				told = append(told, oneLine(e.Type()))
			}
		}
	}
	return cut(strings.Join(told, "; "), maxStep)
}

// continues reports whether a call stands behind another one of the same agent.
func continues(events []*agent.Event, i int) bool {
	before := events[i-1]
	_, call := before.Data.(*agent.ToolCall)
	return call && before.Agent == events[i].Agent
}

// eventWords tells one event, "" if there is nothing to tell. isCall says that it is a
// call, of which several can be told together.
func eventWords(e *agent.Event) (words string, isCall bool) {
	who := oneLine(e.Agent)
	quoted := func(text string) string { return `"` + cut(oneLine(text), maxWords) + `"` }
	switch d := e.Data.(type) {
	case *agent.User:
		text := d.Content.PlainText()
		if text == "" {
			text = "(no text)"
		}
		return "user " + quoted(text), false
	case *agent.Text:
		return who + " answers " + quoted(d.Content), false
	case *agent.ToolCall:
		return who + " calls " + oneLine(d.Name), true
	case *agent.ToolResult:
		line, _ := resultLines(d)
		return oneLine(d.Name) + ": " + cut(line, maxWords), false
	case *agent.Relay:
		return who + " asks for approval of " + oneLine(d.Tool), false
	case *agent.RelayResolved:
		if d.Approved {
			return "approved", false
		}
		return "denied", false
	case *agent.Transfer:
		told := oneLine(d.From) + " → " + oneLine(d.To)
		if d.Outcome != agent.TransferCommitted {
			told += " " + string(d.Outcome)
		}
		return told, false
	case *agent.State:
		var keys []string
		for key := range d.Delta {
			keys = append(keys, oneLine(key))
		}
		slices.Sort(keys)
		return "state " + strings.Join(keys, ", "), false
	case *agent.Compaction:
		return oneLine(compacted(e, d)), false
	case *agent.Notice:
		return "(" + cut(oneLine(d.Message), maxWords) + ")", false
	case *agent.Unknown:
		return unreadable(e, d), false
	case *agent.Discard:
		return "answer discarded", false
	case *agent.Failure:
		return who + " failed: " + cut(oneLine(d.Message), maxWords), false
	case *agent.HarnessStart:
		return who + " begins", false
	case *agent.HarnessEnd:
		return fmt.Sprintf("%s ends (%s)", who, oneLine(string(d.FinishReason))), false
	}
	return "", false
}

// unreadable tells of a stored event that cannot be read, "" of another one.
func unreadable(e *agent.Event, u *agent.Unknown) string {
	damage, ok := u.Damage()
	if !ok {
		return ""
	}
	was := "event"
	if damage.Was != "" {
		was = oneLine(damage.Was)
	}
	return fmt.Sprintf("%s %d cannot be read: %s", was, e.Seq, cut(oneLine(damage.Reason), maxWords))
}
