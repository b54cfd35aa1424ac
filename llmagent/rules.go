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

// checkRules finds the rules of the agent's policy that match nothing: the calls that they are meant
// for would run without an approval. A policy that several agents of a tree share may name a
// tool of any of them, and the first of them reports its mistakes. The tools of sets
// are not known yet: see [Agent.Mistakes].
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
// the first of these agents. Without a place in a tree it returns those of the agent alone.
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
		if at == n { // also if another agent wraps it
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

// Mistakes returns what is wrong with the rules of the agent's policy, given the tools that the sets of all agents
// with the policy have now; it starts sets that are not running. Without a place in a tree it checks the
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
// policy match nothing, and why. It refuses all tools of sets, because a rule may have been meant
// for any of them, and those of the agent's own tools that a rule is about or that have a similar name. While a
// set cannot be reached, the rule may be about a tool of that set, and then only the similar ones are refused.
func (a *Agent) withheld(ctx context.Context, n *agent.Node, all []tools.Tool) (refused map[string]string, problems []string) {
	wrong, unknown := a.Mistakes(ctx, n)
	refused = map[string]string{}
	for _, m := range wrong {
		before := len(refused)
		for _, t := range all {
			info := t.Info()
			ofSet := !a.own.has(info.Name) && (unknown == nil || !m.Open)
			if ofSet || slices.Contains(m.About, info.Name) || nearest.Of(m.Tool, []string{info.Name, info.Own}) != "" {
				refused[info.Name] = a.mistake(m)
			}
		}
		if len(refused) > before {
			problems = append(problems, a.mistake(m)+". Until that is mended, calls that it may have been meant for are refused")
		}
	}
	return refused, problems
}
