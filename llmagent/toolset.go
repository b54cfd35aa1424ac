package llmagent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/tools"
)

// WithToolset gives the agent's model the tools of sets, after those of WithTools and in
// the order of their names. A set is asked in every step: a change of its list
// counts from the next one on. A tool whose name is taken, by another tool of the agent,
// by an agent that it can transfer to or by the tools for that, is left out, and a notice
// says so. A notice also says if a set fails, and if a set that is a [fmt.Stringer] has tools again. The turn
// continues without those tools, unless the set's error wraps tools.ErrRequired: that ends it. If a rule of the
// agent's policy then matches nothing, because no tool has its name or its argument, calls of the
// tools of all sets are refused until that is mended.
func WithToolset(sets ...tools.Set) Option {
	return func(a *Agent) { a.sets = append(a.sets, sets...) }
}

// Toolsets returns the sets of tools that the agent has besides its Tools.
func (a *Agent) Toolsets() []tools.Set { return a.sets }

// equipment is an agent with the tools that its sets had at a time.
type equipment struct {
	from  []*tools.Registry
	agent *Agent
	left  []string // what was left out, and why
	wrong bool     // a rule may hold up nothing
}

// withTools returns the agent with the tools that its sets have now, and, if it answers the user, with those that the
// user's client has brought for the turn and the form of answers that the client wants. It also returns what is wrong
// with the tools, as withSets does.
func (a *Agent) withTools(ctx context.Context, inv *agent.Invocation) (*Agent, []string, error) {
	of, problems, err := a.withSets(ctx, inv.Node())
	if err == nil {
		of, err = of.asWanted(inv)
	}
	if err != nil || inv.Scope() != "" {
		return of, problems, err
	}
	brought, err := tools.ClientToolsIn(inv.Metadata())
	if err != nil || brought == nil || !brought.For(a.name) {
		return of, problems, err
	}
	r, err := brought.Registry()
	if err != nil {
		return of, problems, fmt.Errorf("the tools of the client: %w", err)
	}
	e := of.equip(inv.Node(), []*tools.Registry{r})
	if brought.Choice != "" {
		e.agent.settings.ToolChoice = brought.Choice
	}
	return e.agent, slices.Concat(problems, e.left), nil
}

// withSets returns the agent with the tools that its sets have now, and what is wrong
// with them. The error is that of a set that the agent must not go without.
func (a *Agent) withSets(ctx context.Context, n *agent.Node) (*Agent, []string, error) {
	if len(a.sets) == 0 {
		return a, nil, nil
	}
	from, errs := a.list(ctx)
	var problems []string
	for _, err := range errs {
		if errors.Is(err, tools.ErrRequired) {
			return a, nil, fmt.Errorf("agent %s: %w", a.name, err)
		}
		if err != nil && ctx.Err() == nil {
			problems = append(problems, err.Error())
		}
	}
	e, ok := a.equipments.Load(n)
	if !ok || !slices.Equal(e.(*equipment).from, from) {
		e = a.equip(n, from)
		a.equipments.Store(n, e)
	}
	of := e.(*equipment)
	if problems = append(problems, of.left...); !of.wrong {
		return of.agent, problems, nil
	}
	b := *of.agent
	refused, wrong := a.withheld(ctx, n, b.tools)
	b.refused = refused
	return &b, append(problems, wrong...), nil
}

// list asks all sets for their tools at the same time: an agent waits for the slowest, and not for one
// after the other.
func (a *Agent) list(ctx context.Context) ([]*tools.Registry, []error) {
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

type lacksKey struct{ view any }

// arrived returns a notice for each set that has tools now and had none in the conversation's step before.
func (a *Agent) arrived(inv *agent.Invocation) (news []string) {
	if !a.equipped {
		return nil
	}
	before := inv.Session().Memo(lacksKey{a.viewKey(inv.Node(), inv.Scope())}, func() any { return new([]string) }).(*[]string)
	for _, name := range *before {
		if !slices.Contains(a.lacks, name) {
			news = append(news, fmt.Sprintf("the tools of %s can be used now", name))
		}
	}
	*before = a.lacks
	return news
}

func (a *Agent) equip(n *agent.Node, from []*tools.Registry) *equipment {
	b := *a // with places of its own, because it offers other tools
	b.sets, b.offers, b.equipped = nil, new(sync.Map), true
	b.tools, b.byName = slices.Clone(a.tools), maps.Clone(a.byName)
	e := &equipment{from: from, agent: &b}
	targets, form := targetNames(n), a.formAt(n)
	for i, r := range from {
		if r == nil {
			if s, ok := a.sets[i].(fmt.Stringer); ok {
				b.lacks = append(b.lacks, s.String())
			}
		}
		for _, name := range r.Names() {
			target, transfers := form.Called(n, name)
			if target != "" && n.Tree().Node(target) == nil {
				transfers = false // a tool of another framework may be named like that
			}
			switch {
			case b.owns(name):
				e.left = append(e.left, fmt.Sprintf("the tool %q is left out: another tool of agent %q has the name", name, a.name))
			case slices.Contains(targets, name):
				e.left = append(e.left, fmt.Sprintf("the tool %q is left out: it is named like an agent that %q can transfer to", name, a.name))
			case transfers, name == agent.TransferTool, name == a.form.Name, name == malformedTool:
				e.left = append(e.left, fmt.Sprintf("the tool %q is left out: the name is reserved", name))
			default:
				t := r.Get(name)
				b.tools, b.byName[name] = append(b.tools, t), t
			}
		}
	}
	infos := make([]tools.Info, len(b.tools))
	for i, t := range b.tools {
		infos[i] = t.Info()
	}
	e.wrong = len(a.rules.Mistakes(infos)) > 0
	return e
}

// tell yields notices about sets of tools, and reports whether to go on.
func tell(problems []string, yield func(*event.Event, error) bool) bool {
	for _, p := range problems {
		if !yield(&event.Event{Data: &event.Notice{Code: event.NoticeToolset, Message: p}}, nil) {
			return false
		}
	}
	return true
}
