package llmagent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/tools"
)

// kitFor returns what the agent has now: with the tools of its sets and, if it answers the user, with the tools that
// the user's client has sent for the turn and the form of answers that the client wants. It also returns notices
// about the tools.
func (a *Agent) kitFor(ctx context.Context, inv *agent.Invocation) (*kit, []string, error) {
	k, notices, err := a.withSets(ctx, inv.Node())
	if err != nil {
		return nil, nil, err
	}
	wanted, err := WantedIn(inv.Metadata())
	if err != nil || inv.Scope() != "" {
		return k, notices, err
	}
	if wanted != nil {
		formed := *k
		if formed.output = wanted.output(); formed.output.err != nil {
			return k, notices, formed.output.err
		}
		k = &formed
	}
	sent, err := tools.ClientToolsIn(inv.Metadata())
	if err != nil || sent == nil || !sent.For(a.name) {
		return k, notices, err
	}
	r, err := sent.Registry()
	if err != nil {
		return k, notices, fmt.Errorf("the tools of the client: %w", err)
	}
	k = k.extend(inv.Node(), []*tools.Registry{r}, nil)
	k.choice = sent.Choice
	return k, slices.Concat(notices, k.left), nil
}

// withSets returns the agent's tools with those that its sets have now, and notices about
// them. The error is that of a set without which the agent must not run.
func (a *Agent) withSets(ctx context.Context, n *agent.Node) (*kit, []string, error) {
	if len(a.sets) == 0 {
		return a.own, nil, nil
	}
	from, errs := list(ctx, a)
	var notices []string
	for _, err := range errs {
		if errors.Is(err, tools.ErrRequired) {
			return nil, nil, fmt.Errorf("agent %s: %w", a.name, err)
		}
		if err != nil && ctx.Err() == nil {
			notices = append(notices, err.Error())
		}
	}
	var k *kit
	if last, ok := a.kits.Load(n); ok && slices.Equal(last.(*kit).from, from) {
		k = last.(*kit)
	} else {
		k = a.own.extend(n, from, a.sets)
		a.kits.Store(n, k)
	}
	notices = append(notices, k.left...)
	if !k.unsure {
		return k, notices, nil
	}
	careful := *k
	refused, wrong := a.withheld(ctx, n, k.tools)
	careful.denies = refused
	return &careful, append(notices, wrong...), nil
}

// list asks all sets of an agent for their tools at the same time, so that an agent waits only for the slowest.
func list(ctx context.Context, a *Agent) ([]*tools.Registry, []error) {
	from, errs := make([]*tools.Registry, len(a.sets)), make([]error, len(a.sets))
	var group sync.WaitGroup
	for i, s := range a.sets {
		group.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					errs[i] = fmt.Errorf("a set of tools of agent %s panics: %v", a.name, r)
				}
			}()
			from[i], errs[i] = s.Tools(ctx)
		})
	}
	group.Wait()
	return from, errs
}

// extend returns the kit with more tools. Sets are those that the tools are from, as far as they are from sets.
func (k *kit) extend(n *agent.Node, from []*tools.Registry, sets []tools.Set) *kit {
	a, more := k.agent, *k
	more.places, more.extended, more.from, more.left = new(sync.Map), true, from, nil
	more.tools, more.byName = slices.Clone(k.tools), maps.Clone(k.byName)
	targets, form := targetNames(n), k.formAt(n)
	for i, r := range from {
		if r == nil {
			if s, ok := sets[i].(fmt.Stringer); ok {
				more.lacks = append(more.lacks, s.String())
			}
		}
		for _, name := range r.Names() {
			target, transfers := form.Called(n, name)
			if target != "" && n.Tree().Node(target) == nil {
				transfers = false // a tool of another framework may be named like that
			}
			switch {
			case more.has(name):
				more.left = append(more.left, fmt.Sprintf("the tool %q is left out: another tool of agent %q has the name", name, a.name))
			case slices.Contains(targets, name):
				more.left = append(more.left, fmt.Sprintf("the tool %q is left out: it is named like an agent that %q can transfer to", name, a.name))
			case transfers, name == agent.TransferTool, name == a.form.Name, name == malformedTool:
				more.left = append(more.left, fmt.Sprintf("the tool %q is left out: the name is reserved", name))
			default:
				t := r.Get(name)
				more.tools, more.byName[name] = append(more.tools, t), t
			}
		}
	}
	infos := make([]tools.Info, len(more.tools))
	for i, t := range more.tools {
		infos[i] = t.Info()
	}
	more.unsure = len(a.rules.Mistakes(infos)) > 0
	return &more
}
