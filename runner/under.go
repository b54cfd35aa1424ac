package runner

import (
	"fmt"
	"maps"
	"strings"

	"github.com/agentarbor/arbor/agent"
)

// ErrNoAgent says that the tree has no agent at a path.
var ErrNoAgent = fmt.Errorf("no such agent: %w", agent.ErrBadInput)

// Under returns a runner of the agent at a path and all below it, as a tree of its own on the same
// store: for sessions that begin at a specialist. The path is the names below the root, such as
// support/billing; "" is the runner itself. Everything else is as with this runner, its
// limits and budgets included; see also [agent.Node.Subtree]. Both share no session: what is a
// session of one must not be given to the other. The error is [ErrNoAgent].
func (r *Runner) Under(path string) (*Runner, error) {
	if path == "" {
		return r, nil
	}
	n := r.tree.Root()
	for name := range strings.SplitSeq(path, "/") {
		below := r.tree.Node(name)
		if below == nil || below.Parent != n {
			return nil, fmt.Errorf("%w: the tree has none at the path %q below %s", ErrNoAgent, path, r.tree.Root().Agent.Name())
		}
		n = below
	}
	u := &Runner{config: r.config, cache: newCache(r.cache.bound)}
	if err := u.plant(n.Subtree); err != nil {
		return nil, err
	}
	names := u.tree.Names()
	u.budgets.Agents = maps.Clone(u.budgets.Agents)
	maps.DeleteFunc(u.budgets.Agents, func(name string, _ Budget) bool {
		for called, own := range names {
			if means(name, called, own) {
				return false
			}
		}
		return true
	})
	return u, u.checkBudgets()
}
