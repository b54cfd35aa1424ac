package render

import "github.com/agentarbor/arbor/event"

// eventLines describes events other than texts, calls and transfers. It records the last status of a handoff, so that an
// unchanged status is not repeated.
type eventLines struct{ last string }

// describe returns one line about an event, or "" if the event is not shown, or not on one line. bad reports a failure.
func (a *eventLines) describe(e *event.Event) (line string, bad bool) {
	switch d := e.Data.(type) {
	case *event.Route:
		if d.Failed != nil {
			line, bad = routed(d), true
		}
	case *event.HandoffStatus:
		line = a.statusLine(d)
	case *event.File:
		line = "file " + d.String()
	case *event.Notice:
		line = d.Message
	case *event.Unknown:
		line, bad = unreadable(e, d), true
	case *event.Compaction:
		line = compacted(e, d)
	case *event.Failure:
		line, bad = e.Agent+" failed: "+d.Message, true
	case *event.User, *event.Text, *event.ToolCall, *event.ToolResult, *event.ToolProgress, *event.Transfer, *event.Relay,
		*event.RelayResolved, *event.HarnessStart, *event.HarnessEnd, *event.Discard: // shown in other ways
	case *event.Reasoning, *event.State, *event.Usage, *event.RemoteTask: // not shown
	}
	return line, bad
}
