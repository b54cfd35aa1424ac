package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

// statusLine describes the status of a handoff, or returns "" if nothing has changed for the reader.
func (a *eventLines) statusLine(d *event.HandoffStatus) string {
	same := a.last == d.HandoffID+d.Status
	a.last = d.HandoffID + d.Status
	if same && d.TargetAgent == "" && d.Reason == "" && d.QueuePosition == nil && d.EstimatedWaitTime == nil {
		return ""
	}
	return handoff(d)
}

// handoff describes the status of a handoff to a person.
func handoff(d *event.HandoffStatus) string {
	text := "a person: " + strings.ReplaceAll(d.Status, "_", " ")
	if d.TargetAgent != "" {
		text += ", " + d.TargetAgent
	}
	if d.QueuePosition != nil {
		text += fmt.Sprintf(", place %d in the queue", *d.QueuePosition)
	}
	if d.EstimatedWaitTime != nil {
		text += fmt.Sprintf(", about %s to wait", time.Duration(*d.EstimatedWaitTime*float64(time.Second)).Round(time.Second))
	}
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	return text
}

// routed describes the decision of a router, or that another agent continues for a failed one.
func routed(d *event.Route) string {
	if d.Failed != nil {
		return fmt.Sprintf("%s failed: %s; %s continues", d.From, d.Failed.Message, d.To)
	}
	text := fmt.Sprintf("%s chose %s in %.3g ms", d.From, d.To, d.LatencyMs)
	if d.RuleIndex != nil {
		text += fmt.Sprintf(" by rule %d", *d.RuleIndex)
	}
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

// transferred describes a transfer, and its outcome if it was not committed.
func transferred(d *event.Transfer) string {
	text := visible.Line(d.From) + " → " + visible.Line(d.To)
	if d.Outcome != event.TransferCommitted {
		text += " " + string(d.Outcome)
	}
	return text
}
