package llmagent

import (
	"bytes"
	"encoding/json"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// sort parts the calls that can be settled now from those that wait for an
// approval or an answer. An approval of something else than what would run is none.
func (a *Agent) sort(inv *agent.Invocation, calls []view.Call) (now, later []view.Call) {
	for _, c := range calls {
		if !a.stays(c, inv) && (c.Asked || (c.Answer == nil || a.stale(c, c.Input) && !a.lost(c, inv)) && a.decision(c) == tools.Ask) {
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

// stale reports whether a call would not run with an input as it was approved, or, if an interceptor has changed the
// input, not as the rules allow.
func (a *Agent) stale(c view.Call, input json.RawMessage) bool {
	t := a.byName[c.Name]
	if t == nil {
		return false
	}
	if c.Answer != nil && c.Answer.Approved && a.decision(c) == tools.Ask {
		digest, _ := a.digest(t.Info(), input)
		return digest != c.Answer.Digest
	}
	return !bytes.Equal(input, c.Input) && a.rules.Decide(t.Info(), input) != tools.Allow
}

// digest identifies what an approval of a call is about, and says who may give it.
func (a *Agent) digest(info tools.Info, input json.RawMessage) (digest string, by tools.By) {
	by = a.rules.By(info, input, a.approver)
	return tools.Digest(info.ToolSpec, by.Needs(), input), by
}

// question asks for the approval of a call.
func (a *Agent) question(c view.Call) *event.Relay {
	digest, by := a.digest(a.byName[c.Name].Info(), c.Input)
	return &event.Relay{Kind: event.RelayPermission, ToolCallID: c.ID, Tool: c.Name, Params: c.Input, By: by.Needs(), Digest: digest}
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

// lost reports whether nobody knows if a call has run, and it must not run twice.
func (a *Agent) lost(c view.Call, inv *agent.Invocation) bool {
	if !begun(c, inv) {
		return false
	}
	info := a.byName[c.Name].Info()
	return !info.Idempotent && !info.Resumable
}

// stays reports whether a call belongs to the session that this one was forked from, and must not run
// here: it may run there, and needs an approval or must not run twice.
func (a *Agent) stays(c view.Call, inv *agent.Invocation) bool {
	if c.Seq > inv.Shared() || a.byName[c.Name] == nil {
		return false
	}
	info := a.byName[c.Name].Info()
	return a.decision(c) == tools.Ask || !info.Idempotent && !info.Resumable
}

func refusal(r *event.RelayResolved) string {
	if r.Reason == "" {
		return "denied"
	}
	return "denied: " + r.Reason
}

// permissions returns the questions about the calls that wait for an approval, but those that
// were asked before.
func (a *Agent) permissions(calls []view.Call) (asked []*event.Relay) {
	for _, c := range calls {
		if !c.Asked {
			asked = append(asked, a.question(c))
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
