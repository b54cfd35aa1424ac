package agentfile

import (
	"cmp"
	"math"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// propertyKeys returns the keys that agents of all kinds can have, because the runner applies them: guards, budgets and
// others.
func propertyKeys(p *parser) []yamldoc.Key {
	d := p.d
	budget := func(b *agent.Budget) []yamldoc.Key {
		return []yamldoc.Key{
			yamldoc.Int("tokens", "200000", &b.Tokens),
			yamldoc.Positive("cost", "0.5", math.Inf(1), &b.Cost),
			yamldoc.Duration("time", "2m", &b.Time),
		}
	}
	return []yamldoc.Key{
		yamldoc.Custom("ignore", "a list of texts", "[notes.md, docs]", func(k *yamldoc.Key, n yamldoc.Node) { d.ignore = p.list(k, n) }),
		yamldoc.OneOf("requests", "shared", func(string) { d.shares = true }, "shared"),
		yamldoc.Positive("anticipate", "0.6", 1, &d.anticipates),
		namesKey(p, "guards", "[no-cards]", &d.guards),
		yamldoc.Object("budgets", "", append(budget(&d.budgets.Own),
			yamldoc.Object("turn", "", budget(&d.budgets.Turn)...),
			yamldoc.Object("session", "", budget(&d.budgets.Session)...))...),
	}
}

// checkProperties reports unregistered guards, keys that only the root may have, and budgets without effect.
func (l *config) checkProperties(r *report, d *definition, isRoot bool) {
	for _, g := range d.guards {
		if _, present := l.guards[g.value]; !present {
			known := make([]string, 0, len(l.guards))
			for name := range l.guards {
				known = append(known, name)
			}
			r.add(d.file, g.at, "there is no guard %q%s", g.value, cmp.Or(nearest.Hint(g.value, known), ": guards are functions in Go, and the program registers those that files can name"))
		}
	}
	const own = ", and its own limits are budgets.tokens, budgets.cost and budgets.time"
	for of, hint := range map[string]string{"budgets.turn": own, "budgets.session": own, "requests": "", "anticipate": ""} {
		if at, present := d.at[of]; present && !isRoot {
			r.add(d.file, at, "%s is for the root of the tree: %q is another agent%s", of, d.name, hint)
		}
	}
	for _, unit := range []string{"budgets.tokens", "budgets.cost"} {
		if at, present := d.at[unit]; present && (d.leaf() || d.isWorkflow()) {
			what := "it asks no model, and its agents have budgets of their own"
			if d.isRemote {
				what = "what a remote agent uses is counted where it runs"
			}
			r.add(d.file, at, "%s has no effect: %s", unit, what)
		}
	}
}

// guardsOf returns the guards that a definition names.
func (l *config) guardsOf(d *definition) (guards []agent.Guard) {
	for _, g := range d.guards {
		guards = append(guards, l.guards[g.value])
	}
	return guards
}

// asRoot adds the properties about the requests of all agents to the root of a tree.
func asRoot(a agent.Agent, d *definition) agent.Agent {
	if a == nil || !d.shares && d.anticipates == 0 {
		return a
	}
	properties := agent.PropertiesOf(a)
	properties.SharedRequests, properties.Anticipation = properties.SharedRequests || d.shares, d.anticipates
	return &extended{a, properties}
}

// extended is an agent with the properties from its file in addition to its own.
type extended struct {
	agent.Agent
	properties agent.Properties
}

func (e *extended) Unwrap() agent.Agent          { return e.Agent }
func (e *extended) Properties() agent.Properties { return e.properties }

// extend adds the guards and budgets from its file to an agent.
func (l *config) extend(a agent.Agent, d *definition) agent.Agent {
	if a == nil || len(d.guards) == 0 && d.budgets == (agent.Budgets{}) {
		return a
	}
	properties := agent.PropertiesOf(a)
	properties.Guards = append(properties.Guards[:len(properties.Guards):len(properties.Guards)], l.guardsOf(d)...)
	properties.Budgets = d.budgets
	return &extended{a, properties}
}
