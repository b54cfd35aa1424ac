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

// kitFor returns the kit of this step, and notices about its tools. The kit has the tools of the agent's sets. If the
// agent answers the user, it also has the tools that the user's client has sent for the turn, and the output form that
// the client wants.
func (a *Agent) kitFor(ctx context.Context, inv *agent.Invocation) (*kit, []string, error) {
	k, notices, err := a.withSets(ctx, inv.Node())
	if err != nil {
		return nil, nil, err
	}
	wanted, err := ClientOutputIn(inv.Metadata())
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
		return k, notices, fmt.Errorf("the client's tools: %w", err)
	}
	r, shared, err := a.withoutShared(ctx, inv.Node(), r)
	if err != nil {
		return k, notices, err
	}
	k = k.extend(inv.Node(), []*tools.Registry{r}, k.held, nil)
	k.choice = sent.Choice
	return k, slices.Concat(notices, shared, k.omitted), nil
}

// withSets returns the kit with the tools that the agent's sets have now, and notices about them. The error is that of
// a set that wraps tools.ErrRequired.
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
	held := a.lists.held(from)
	if last, ok := a.kits.Load(n); ok && slices.Equal(last.(*kit).registries, from) && slices.Equal(last.(*kit).held, held) {
		k = last.(*kit)
	} else {
		k = a.own.extend(n, from, held, a.sets)
		a.kits.Store(n, k)
	}
	notices = append(notices, k.omitted...)
	if !k.badPolicy {
		return k, notices, nil
	}
	restricted := *k
	forbidden, wrong := a.forbiddenTools(ctx, n, k.tools)
	restricted.forbidden = forbidden
	return &restricted, append(notices, wrong...), nil
}

// list asks all sets of an agent for their tools at the same time, so that the agent waits only for the slowest. The
// results are in the order of the sets.
func list(ctx context.Context, a *Agent) ([]*tools.Registry, []error) {
	from, errs := make([]*tools.Registry, len(a.sets)), make([]error, len(a.sets))
	var group sync.WaitGroup
	for i, s := range a.sets {
		group.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					errs[i] = fmt.Errorf("a toolset of agent %s panicked: %v", a.name, r)
				}
			}()
			from[i], errs[i] = s.Tools(ctx)
		})
	}
	group.Wait()
	return from, errs
}

// lastLists are the last lists of an agent's sets: the index of a set → *tools.Registry.
type lastLists struct{ sync.Map }

// held keeps the lists of the sets, and returns for each set without a list now the last one that it had.
func (l *lastLists) held(from []*tools.Registry) []*tools.Registry {
	held := make([]*tools.Registry, len(from))
	for i, r := range from {
		if r != nil {
			l.Store(i, r)
		} else if last, ok := l.Load(i); ok {
			held[i] = last.(*tools.Registry)
		}
	}
	return held
}

// extend returns a copy of the kit with the tools of the registries. If the registries are those of sets, sets has the
// set of each, and held the names that belong to sets that are away: the model means their tools by these names, so
// that no tool of a later set, or of the client, may take them.
func (k *kit) extend(n *agent.Node, from, held []*tools.Registry, sets []tools.Set) *kit {
	a, extended := k.agent, *k
	extended.templates, extended.hasExtraTools, extended.registries, extended.held, extended.omitted = new(sync.Map), true, from, held, nil
	extended.tools, extended.byName = slices.Clone(k.tools), maps.Clone(k.byName)
	targets, form := targetNames(n), k.formFor(n)
	for i, r := range from {
		taken := held
		if sets != nil {
			taken = held[:i]
		}
		if r == nil {
			if s, ok := sets[i].(fmt.Stringer); ok {
				extended.missingSets = append(extended.missingSets, s.String())
			}
		}
		for _, name := range r.Names() {
			target, transfers := form.TargetOf(n, name)
			if target != "" && n.Tree().Node(target) == nil {
				transfers = false // another framework may name a tool like that
			}
			switch {
			case extended.has(name):
				extended.omitted = append(extended.omitted, fmt.Sprintf("the tool %q is omitted: another tool of agent %q has this name", name, a.name))
			case slices.ContainsFunc(taken, func(h *tools.Registry) bool { return h.Get(name) != nil }):
				extended.omitted = append(extended.omitted, fmt.Sprintf("the tool %q is omitted: a toolset of agent %q that is away has a tool with this name", name, a.name))
			case slices.Contains(targets, name):
				extended.omitted = append(extended.omitted, fmt.Sprintf("the tool %q is omitted: an agent that %q can transfer to has this name", name, a.name))
			case transfers, name == agent.TransferTool, name == a.form.Name, name == malformedTool:
				extended.omitted = append(extended.omitted, fmt.Sprintf("the tool %q is omitted: the name is reserved", name))
			default:
				t := r.Get(name)
				extended.tools, extended.byName[name] = append(extended.tools, t), t
			}
		}
	}
	infos := make([]tools.Info, len(extended.tools))
	for i, t := range extended.tools {
		infos[i] = t.Info()
	}
	extended.badPolicy = len(a.rules.Mistakes(infos)) > 0
	return &extended
}
