package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

// handoffs notes how handoffs stand, so that news which say nothing to people are not shown.
type handoffs struct{ last string }

// news says how a handoff stands, "" if there is nothing new about it.
func (h *handoffs) news(d *event.HandoffStatus) string {
	same := h.last == d.HandoffID+d.Status
	h.last = d.HandoffID + d.Status
	if same && d.TargetAgent == "" && d.Reason == "" && d.QueuePosition == nil && d.EstimatedWaitTime == nil {
		return ""
	}
	return handoff(d)
}

// handoff says how a handoff to a person stands.
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

// routed says what a router decided, or that somebody goes on for an agent that failed.
func routed(d *event.Route) string {
	if d.Failed != nil {
		return fmt.Sprintf("%s failed: %s; %s goes on", d.From, d.Failed.Message, d.To)
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

// transferred says from whom to whom a transfer leads, and what became of it if it was not committed.
func transferred(d *event.Transfer) string {
	text := visible.Line(d.From) + " → " + visible.Line(d.To)
	if d.Outcome != event.TransferCommitted {
		text += " " + string(d.Outcome)
	}
	return text
}
