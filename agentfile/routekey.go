package agentfile

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// routeKeys is a route that needs no model.
type routeKeys struct {
	to   item
	when *agentgraph.Expression // nil means always
	keys []string               // the state keys in the condition
}

func routesKey(p *parser) yamldoc.Key {
	const example = `[{to: review, when: "output contains 'refund'"}]`
	return yamldoc.Custom("routes", "a list of mappings", example, func(k *yamldoc.Key, n yamldoc.Node) {
		p.Entries(k, n, func(n yamldoc.Node) {
			var r routeKeys
			before := p.Problems
			p.Mapping(routeEntryKeys(p, &r), "routes.", n)
			p.Needs(n, "routes", "to")
			if p.Problems == before {
				p.d.routes = append(p.d.routes, r)
			}
		})
	}).WithKeys(routeEntryKeys(p, &routeKeys{})...)
}

// routeEntryKeys returns the keys of one route, which store into r.
func routeEntryKeys(p *parser, r *routeKeys) []yamldoc.Key {
	return []yamldoc.Key{
		target(p, "to", "review", &r.to),
		yamldoc.Custom("when", "a text", "output contains 'refund'", func(k *yamldoc.Key, n yamldoc.Node) {
			if source, ok := p.String(k, n); ok {
				r.when, r.keys = p.condition(source, n)
			}
		}),
	}
}

// condition compiles a condition, which may use any key of the state.
func (p *parser) condition(source string, n yamldoc.Node) (*agentgraph.Expression, []string) {
	keys := stateKeys(source)
	when, err := agentgraph.Condition(source, keys...)
	if err != nil {
		p.Add(n, "%s: %s", p.Name, err)
	}
	return when, keys
}

// holds evaluates the condition. A condition without a value, such as a comparison with a missing key, is false.
func (r routeKeys) holds(_ context.Context, inv *agent.Invocation, answer string) (bool, error) {
	state := stateOf(inv, r.keys)
	message := inv.Message().PlainText()
	if inv.Scope() != "" {
		message = event.OutputText(inv.Input())
	}
	input := map[string]any{"message": message, "metadata": inv.Metadata()}
	ok, err := r.when.WithState(state).Test(agentgraph.OutputValue(event.EncodeJSON(answer)), input)
	if err != nil {
		inv.Logger().Warn("the condition of a route has no value", "agent", inv.Agent().Name(), "to", r.to.value, "error", err)
		return false, nil
	}
	return ok, nil
}

// stateOf returns the values of the keys that have one.
func stateOf(inv *agent.Invocation, keys []string) map[string]any {
	state := make(map[string]any, len(keys))
	for _, key := range keys {
		if v, ok := inv.Session().State(key); ok {
			state[key] = v
		}
	}
	return state
}

// routeTarget returns the agent that a route leads to, or nil if the agent cannot reach it. For a person, it returns a
// definition named agent.Human.
func (d *definition) routeTarget(i item) *definition {
	if i.value == agent.Human {
		return &definition{name: agent.Human}
	}
	near := d.near(true, true)
	for _, other := range near {
		if other.name == i.value {
			return other
		}
	}
	if e := slices.IndexFunc(d.children, func(e *edge) bool { return e.as == i.value }); e >= 0 {
		return d.children[e].child
	}
	return byBase(near, i.value)
}

// near returns the sub-agents and, if selected, the parent and its other sub-agents.
func (d *definition) near(parent, peers bool) (all []*definition) {
	for _, e := range d.children {
		all = append(all, e.child)
	}
	for _, e := range d.parents {
		if d.inWorkflow() {
			break
		}
		if parent {
			all = append(all, e.parent)
		}
		for _, peer := range e.parent.children {
			if peers && peer.child != d {
				all = append(all, peer.child)
			}
		}
	}
	return all
}

func namesOf(all []*definition) (names []string) {
	for _, d := range all {
		names = append(names, d.name)
	}
	return names
}

// checkRoutes reports routes without a target and routes in a cycle.
func (d *definition) checkRoutes(r *report) {
	for _, route := range d.routes {
		to := d.routeTarget(route.to)
		if to == nil {
			known := append([]string{agent.Human}, namesOf(d.near(true, true))...)
			r.add(d.file, route.to.at, "the route to %q leads nowhere%s",
				route.to.value, cmp.Or(nearest.Hint(route.to.value, known), ": routes lead to a sub-agent, the parent, another sub-agent of the parent, or "+agent.Human))
			continue
		}
		if cycle := to.routePath(d, map[*definition]bool{}); cycle != nil {
			r.add(d.file, route.to.at, "routes lead in a circle, %s: without a model, nothing would end the cycle",
				strings.Join(append([]string{d.name}, cycle...), " → "))
		}
	}
}

// routePath returns the names along routes from d to another agent, or nil if no routes lead there.
func (d *definition) routePath(other *definition, seen map[*definition]bool) []string {
	if d == other {
		return []string{d.name}
	}
	if seen[d] {
		return nil
	}
	seen[d] = true
	for _, route := range d.routes {
		if to := d.routeTarget(route.to); to != nil {
			if rest := to.routePath(other, seen); rest != nil {
				return append([]string{d.name}, rest...)
			}
		}
	}
	return nil
}

// onStop returns the agent's routes.
func (l *loader) onStop(d *definition) (routes []agent.Route) {
	for _, route := range d.routes {
		to := d.routeTarget(route.to).name
		l.people = l.people || to == agent.Human
		if route.when == nil {
			routes = append(routes, agent.OnStop(to))
			continue
		}
		routes = append(routes, agent.OnStop(to, route.holds))
	}
	return routes
}
