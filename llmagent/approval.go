package llmagent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/nearest"
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
	if t := a.byName[c.Name]; t != nil {
		return a.rules.Decide(t.Info(), c.Input)
	}
	return tools.Allow
}

// denied returns why a call must not run, "" if it may.
func (a *Agent) denied(c view.Call) string {
	switch {
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

// checkRules finds the rules of the agent's policy that name no tool: a call that
// somebody meant to hold up would go through. A policy that several agents of a tree
// share may name a tool of any of them, and the first of them tells what it does not.
func (a *Agent) checkRules(n *agent.Node) (problems []string) {
	if a.rules == nil {
		return nil
	}
	root := n
	for root.Parent != nil {
		root = root.Parent
	}
	var first *Agent
	var names []string
	sets := false // nobody knows yet which tools these will have
	var note func(*agent.Node)
	note = func(at *agent.Node) {
		b, ok := at.Agent.(*Agent)
		if at == n { // whatever was put around it
			b, ok = a, true
		}
		if ok && b.rules == a.rules {
			sets = sets || len(b.sets) > 0
			first = cmp.Or(first, b)
			names = slices.AppendSeq(names, maps.Keys(b.byName))
		}
		for _, child := range at.Children() {
			note(child)
		}
	}
	note(root)
	if first != a || sets {
		return nil
	}
	slices.Sort(names) // for the same hint every time
	for _, rule := range a.rules.Unmatched(names) {
		problems = append(problems, fmt.Sprintf("a rule of the tool policy of agent %q is about %q, and no agent with this policy has such a tool%s",
			a.name, rule, nearest.Hint(rule, names)))
	}
	return problems
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
