package llmagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/tools"
)

// checkRules finds the rules of the agent's policy that match nothing: the calls that they are
// for would run without a question. A policy that several agents of a tree share may name a
// tool of any of them, and the first of them reports what it does not. What sets of tools will
// have is not known yet: see [Agent.Mistakes].
func (a *Agent) checkRules(n *agent.Node) (problems []string) {
	if a.rules == nil {
		return nil
	}
	all, sets, first := a.ruled(n)
	if first != a {
		return nil
	}
	for _, m := range a.rules.Mistakes(all) {
		if len(sets) == 0 || !m.Open {
			problems = append(problems, a.mistake(m))
		}
	}
	return problems
}

func (a *Agent) mistake(m tools.Mistake) string {
	return fmt.Sprintf("the tool policy of agent %q has a mistake: %s", a.name, m)
}

// ruled returns the tools of all agents of the tree that have the agent's policy, their sets, and
// the first of them; without a place in a tree those of the agent alone.
func (a *Agent) ruled(n *agent.Node) (all []tools.Info, sets []tools.Set, first *Agent) {
	add := func(b *Agent) {
		first, sets = cmp.Or(first, b), append(sets, b.sets...)
		for _, t := range b.tools {
			all = append(all, t.Info())
		}
	}
	if n == nil {
		add(a)
		return all, sets, first
	}
	var note func(*agent.Node)
	note = func(at *agent.Node) {
		if at == n { // whatever was put around it
			add(a)
		} else if b, ok := at.Agent.(*Agent); ok && b.rules == a.rules {
			add(b)
		}
		for _, child := range at.Children() {
			note(child)
		}
	}
	root := n
	for root.Parent != nil {
		root = root.Parent
	}
	note(root)
	return all, sets, first
}

// Mistakes returns what is wrong with the rules of the agent's policy, by what the sets of all agents
// with the policy have now; they are started if need be. Without a place in a tree it looks at the
// agent alone. Unknown is the error of a set that has no list: a mistake that is Open may then be none.
func (a *Agent) Mistakes(ctx context.Context, n *agent.Node) (wrong []tools.Mistake, unknown error) {
	all, sets, _ := a.ruled(n)
	for _, s := range sets {
		r, err := s.Tools(ctx)
		if r == nil {
			unknown = cmp.Or(unknown, err, errors.New("a set of tools has no list"))
		}
		for _, name := range r.Names() {
			all = append(all, r.Get(name).Info())
		}
	}
	return a.rules.Mistakes(all), unknown
}

// withheld returns, by their names, the tools of the agent that must not run while rules of its
// policy match nothing, and why. Those of sets are all refused, because a rule may have been meant
// for any of them; the agent's own are if a rule is about them, or has a name like theirs. While a
// set cannot be reached, the rule may be about a tool of that one, and only the latter holds.
func (a *Agent) withheld(ctx context.Context, n *agent.Node, all []tools.Tool) (refused map[string]string, problems []string) {
	wrong, unknown := a.Mistakes(ctx, n)
	refused = map[string]string{}
	for _, m := range wrong {
		before := len(refused)
		for _, t := range all {
			info := t.Info()
			of := a.byName[info.Name] == nil && (unknown == nil || !m.Open)
			if of || slices.Contains(m.About, info.Name) || nearest.Of(m.Tool, []string{info.Name, info.Own}) != "" {
				refused[info.Name] = a.mistake(m)
			}
		}
		if len(refused) > before {
			problems = append(problems, a.mistake(m)+". Until that is mended, calls that it may have been meant for are refused")
		}
	}
	return refused, problems
}
