package llmagent

import (
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// sort parts the calls that can be settled now from those that wait for an
// approval or an answer.
func (a *Agent) sort(calls []view.Call) (now, later []view.Call) {
	for _, c := range calls {
		if c.Asked || c.Answer == nil && a.decision(c) == tools.Ask {
			later = append(later, c)
		} else {
			now = append(now, c)
		}
	}
	return now, later
}

func (a *Agent) decision(c view.Call) tools.Decision {
	if a.refused[c.Name] != "" {
		return tools.Deny
	}
	if t := a.byName[c.Name]; t != nil {
		return a.rules.Decide(t.Info(), c.Input)
	}
	return tools.Allow
}

// denied returns why a call must not run, "" if it may.
func (a *Agent) denied(c view.Call) string {
	switch {
	case a.refused[c.Name] != "":
		return "refused: " + a.refused[c.Name]
	case a.decision(c) == tools.Deny:
		return "denied: this call is not allowed"
	case c.Answer != nil && !c.Answer.Approved:
		return refusal(c.Answer)
	}
	return ""
}

// begun reports whether a call may have run before, in another process. It has not if
// this process has stored the call, or the decision that allows it.
func begun(c view.Call, inv *agent.Invocation) bool {
	return inv.Attempt() > 1 && max(c.Seq, c.Answered) <= inv.TakenUp()
}

func refusal(r *event.RelayResolved) string {
	if r.Reason == "" {
		return "denied"
	}
	return "denied: " + r.Reason
}

// permissions returns the questions about the calls that wait for an approval, but those that
// were asked before.
func permissions(calls []view.Call) (asked []*event.Relay) {
	for _, c := range calls {
		if !c.Asked {
			asked = append(asked, &event.Relay{Kind: event.RelayPermission, ToolCallID: c.ID, Tool: c.Name, Params: c.Input})
		}
	}
	return asked
}

// pause yields the questions, and ends the run until somebody answers.
func pause(asked []*event.Relay, yield func(*event.Event, error) bool) {
	for _, q := range asked {
		if !yield(&event.Event{Data: q, More: true}, nil) {
			return
		}
	}
	yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}}, nil)
}
