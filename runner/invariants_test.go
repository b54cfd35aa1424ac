package runner_test

import (
	"context"
	"slices"
	"testing"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/integrity"
)

func load(t testing.TB, r *runner.Runner, key session.Key) []*event.Event {
	return must.All(r.History(context.Background(), key))
}

// find returns the payloads of one type, in order.
func find[T event.Data](events []*event.Event) (found []T) {
	for _, e := range events {
		if d, ok := e.Data.(T); ok {
			found = append(found, d)
		}
	}
	return found
}

// checkStore checks the logs of the usual user's sessions in a store that is still open.
func checkStore(t testing.TB, r *runner.Runner, store session.Store) {
	all, err := store.List(context.Background(), s1, session.Page{})
	if err != nil {
		return
	}
	for _, s := range all {
		checkLog(t, r, load(t, r, s.Key))
	}
}

// checkLog holds a log against the laws of every log, and against the tree: each run of
// the conversation is one of the agent that the conversation went to.
func checkLog(t testing.TB, r *runner.Runner, events []*event.Event) {
	checkLogOf(t, r, events, false)
}

// checkLogOf is checkLog for runners that were made with ResumeRoot, too.
func checkLogOf(t testing.TB, r *runner.Runner, events []*event.Event, resumeRoot bool) {
	var laws integrity.Checker
	who := inCharge{tree: r.Tree(), resumeRoot: resumeRoot}
	for _, e := range events {
		laws.Add(e)
		if e.Scope != "" {
			continue
		}
		if n := who.next(e); n != nil && n.Agent.Name() != e.Agent {
			t.Fatalf("seq %d: %s starts, but the conversation went to %s", e.Seq, e.Agent, n.Agent.Name())
		}
	}
	if found := laws.Violations(); len(found) > 0 {
		t.Fatalf("%v", found)
	}
}

// inCharge follows a log to say who must run next.
type inCharge struct {
	tree       *agent.Tree
	resumeRoot bool
	active     string // the target of the last transfer
	begun      bool   // a run of this turn has ended
	goesOn     bool   // the next run takes up one that waits or, in a fork, one that is open
}

// next takes in an event of the conversation, and returns who must start if one does,
// nil if the tree is not the one of that time.
func (c *inCharge) next(e *event.Event) *agent.Node {
	switch d := e.Data.(type) {
	case *event.User:
		c.begun, c.goesOn = false, false
	case *event.Transfer:
		if d.Outcome == event.TransferCommitted {
			c.active = d.To
		}
	case *event.HandoffStatus:
		switch over := slices.Contains([]string{"completed", "ended", "cancelled", "failed"}, d.Status); {
		case !over:
			c.active = agent.Human
		case d.TargetAgent != "" && c.active == agent.Human:
			c.active = d.TargetAgent
		}
	case *event.HarnessEnd:
		c.begun, c.goesOn = true, d.FinishReason == event.FinishReasonInputRequired
	case *event.HarnessStart:
		takesUp := c.goesOn
		c.goesOn = true
		if takesUp || c.tree.Node(e.Agent) == nil {
			return nil
		}
		return c.responsible()
	}
	return nil
}

func (c *inCharge) responsible() *agent.Node {
	n := c.tree.Root()
	if c.active != "" {
		n = c.tree.Node(c.active)
	}
	switch {
	case n == nil || c.begun, n.Agent.Name() == agent.Human: // in mid-turn nobody returns, and a person stays
		return n
	case c.resumeRoot:
		return c.tree.Root()
	}
	return returned(n)
}

// returned follows the agents' return policies up the tree, and then goes to the outermost
// router.
func returned(n *agent.Node) *agent.Node {
	for n.Parent != nil {
		if n.Properties.Return != agent.ReturnToParent {
			break
		}
		n = n.Parent
	}
	for above := n; above != nil; above = above.Parent {
		if above.Properties.Router {
			n = above
		}
	}
	return n
}
