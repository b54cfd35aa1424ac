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

// checkRules returns the rules of the agent's policy that match nothing: the calls for which they are meant would run
// without an approval. If several agents of a tree share a policy, a rule may name a tool of any of them, and the
// first of them reports its mistakes. The tools of sets are not known yet; see [Agent.Mistakes].
func (a *Agent) checkRules(n *agent.Node) (problems []string) {
	if a.rules == nil {
		return nil
	}
	all, sets, first := a.policyTools(n)
	if first != a {
		return nil
	}
	for _, m := range a.rules.Mistakes(all) {
		if len(sets) == 0 || !m.Open {
			problems = append(problems, mistakeText(a.name, m))
		}
	}
	return problems
}

func mistakeText(agent string, m tools.Mistake) string {
	return fmt.Sprintf("the tool policy of agent %q has a mistake: %s", agent, m)
}

// policyTools returns the tools of all agents of the tree that share the agent's policy, their sets, and the first of
// these agents. If n is nil, it returns those of the agent alone.
func (a *Agent) policyTools(n *agent.Node) (all []tools.Info, sets []tools.Set, first *Agent) {
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
		if at == n { // also if another agent wraps this one
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

// Mistakes returns the mistakes in the rules of the agent's policy. It asks the sets of all agents with the policy for
// their tools, which starts sets that are not running. If n is nil, it checks the agent alone. unknown is the error of
// a set that has no list now: a mistake that is Open may then be a rule about a tool of that set.
func (a *Agent) Mistakes(ctx context.Context, n *agent.Node) (wrong []tools.Mistake, unknown error) {
	all, sets, _ := a.policyTools(n)
	for _, s := range sets {
		r, err := s.Tools(ctx)
		if r == nil {
			unknown = cmp.Or(unknown, err, errors.New("a toolset has no list of tools"))
		}
		for _, name := range r.Names() {
			all = append(all, r.Get(name).Info())
		}
	}
	return a.rules.Mistakes(all), unknown
}

// forbiddenTools returns, by their names, the agent's tools that must not run while rules of its policy match nothing,
// and the reasons. It forbids all tools of sets, because a rule may be meant for any of them, and those of the agent's
// own tools that a rule names or that have a similar name. While a set cannot be reached, the rule may be about a tool
// of that set; then only the named and the similar tools are forbidden.
func (a *Agent) forbiddenTools(ctx context.Context, n *agent.Node, all []tools.Tool) (refused map[string]string, problems []string) {
	wrong, unknown := a.Mistakes(ctx, n)
	refused = map[string]string{}
	for _, m := range wrong {
		before := len(refused)
		for _, t := range all {
			info := t.Info()
			ofSet := !a.own.has(info.Name) && (unknown == nil || !m.Open)
			if ofSet || slices.Contains(m.About, info.Name) || nearest.Of(m.Tool, []string{info.Name, info.Own}) != "" {
				refused[info.Name] = mistakeText(a.name, m)
			}
		}
		if len(refused) > before {
			problems = append(problems, mistakeText(a.name, m)+". Calls for which the rule may be meant are refused until the rule is corrected")
		}
	}
	return refused, problems
}
