package agentfile

import (
	"cmp"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// propertyKeys describe what agents of all kinds can have, because it is no matter of theirs but
// of who runs them: guards and budgets.
func propertyKeys() []key {
	budget := func(of string, field func(*definition) *agent.Budget) []key {
		return []key{
			{name: "tokens", typ: "a whole number", example: "200000", def: "no bound",
				meaning: "Tokens of requests and answers" + of + ".",
				read: func(p *parser, k *key, n yamldoc.Node) {
					v, ok := p.integer(k, n)
					if field(p.d).Tokens = v; ok && v < 1 {
						p.add(p.at(n), "%s must be a whole number from 1, not %d", p.name, v)
					}
				}},
			{name: "cost", typ: "a number", example: "0.5", def: "no bound",
				meaning: "Cost" + of + ", which needs [prices](limits.md#prices).",
				read: func(p *parser, k *key, n yamldoc.Node) {
					v, ok := p.number(k, n)
					if field(p.d).Cost = v; ok && !(v > 0) {
						p.add(p.at(n), "%s must be a number over 0, not %g", p.name, v)
					}
				}},
			{name: "time", typ: "a time with its unit", example: "2m", def: "no bound",
				meaning: "Running time" + of + ".",
				read:    duration(func(d *definition) *time.Duration { return &field(d).Time })},
		}
	}
	keys := budget(" of this agent in a session", func(d *definition) *agent.Budget { return &d.budgets.Own })
	return []key{
		{name: "ignore", typ: "a list of texts", example: "[notes.md, docs]", def: "none",
			meaning: "Markdown files other than `README.md` that are no agents: paths or folders relative to this file's folder, or patterns such as `docs/*`.",
			read:    func(p *parser, k *key, n yamldoc.Node) { p.d.ignore = p.list(k, n) }},
		{name: "requests", typ: "a text", example: "shared", def: "each agent has its own",
			meaning: "`shared`: agents of one model send [requests that differ only in the last message](cost-of-a-transfer.md), for prompt caches. Only for the root.",
			read: func(p *parser, k *key, n yamldoc.Node) {
				v, ok := p.text(k, n)
				if p.d.shares = v == "shared"; ok && v != "shared" {
					p.add(p.at(n), "%s must be shared, not %q", p.name, v)
				}
			}},
		{name: "anticipate", typ: "a number", example: "0.6", def: "never",
			meaning: "From 0 to 1: while the first agent of a turn is asked, [the probable target is asked as well](cost-of-a-transfer.md#ask-the-target-ahead) if it is at least this probable. Only for the root.",
			read: func(p *parser, k *key, n yamldoc.Node) {
				v, ok := p.number(k, n)
				if p.d.anticipates = v; ok && !(v > 0 && v <= 1) {
					p.add(p.at(n), "%s must be a number over 0 and at most 1, not %g", p.name, v)
				}
			}},
		{name: "guards", typ: "a list of names", example: "[no-cards]", def: "none",
			meaning: "The program's [guards](guards.md) that check the agent's input and output.",
			read:    func(p *parser, k *key, n yamldoc.Node) { p.d.guards = p.names(k, n) }},
		{name: "budgets", typ: "a mapping", def: "no bounds",
			meaning: "What may be spent before the turn ends: [budgets](limits.md#budgets).",
			keys: append(keys,
				key{name: "turn", typ: "a mapping", def: "no bounds", meaning: "Of all agents in a turn. Only for the root.",
					keys: budget(" in a turn", func(d *definition) *agent.Budget { return &d.budgets.Turn })},
				key{name: "session", typ: "a mapping", def: "no bounds", meaning: "Of all agents in a session. Only for the root.",
					keys: budget(" in a session", func(d *definition) *agent.Budget { return &d.budgets.Session })})},
	}
}

// duration reads a time that is more than none.
func duration(field func(*definition) *time.Duration) func(*parser, *key, yamldoc.Node) {
	return func(p *parser, k *key, n yamldoc.Node) {
		v, _ := n.Text()
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			p.wrongType(k, n)
			return
		}
		*field(p.d) = d
	}
}

// checkProperties reports guards that nobody has registered, and budgets that would bound nothing.
func (l *loader) checkProperties(r *report, d *definition, isRoot bool) {
	for _, g := range d.guards {
		if _, there := l.guards[g.value]; !there {
			known := make([]string, 0, len(l.guards))
			for name := range l.guards {
				known = append(known, name)
			}
			r.add(d.file, g.at, "there is no guard %q%s", g.value, cmp.Or(nearest.Hint(g.value, known), ": guards are functions in Go, and the program registers those that files can name"))
		}
	}
	for _, of := range []string{"budgets.turn", "budgets.session"} {
		if at, there := d.at[of]; there && !isRoot {
			r.add(d.file, at, "%s is for the root of the tree: %q is another agent, and its own tokens, cost and time stand below budgets itself", of, d.name)
		}
	}
	for _, of := range []string{"requests", "anticipate"} {
		if at, there := d.at[of]; there && !isRoot {
			r.add(d.file, at, "%s is for the root of the tree: %q is another agent", of, d.name)
		}
	}
	for _, unit := range []string{"budgets.tokens", "budgets.cost"} {
		if at, there := d.at[unit]; there && (d.leaf() || d.isWorkflow()) {
			what := "it asks no model, and its agents have budgets of their own"
			if d.isRemote {
				what = "what a remote agent uses is counted where it runs"
			}
			r.add(d.file, at, "%s would bound nothing: %s", unit, what)
		}
	}
}

// guardsOf returns the guards that a definition names.
func (l *loader) guardsOf(d *definition) (guards []agent.Guard) {
	for _, g := range d.guards {
		guards = append(guards, l.guards[g.value])
	}
	return guards
}

// asRoot gives the root of a tree what its file says about the requests of all agents.
func asRoot(a agent.Agent, d *definition) agent.Agent {
	if a == nil || !d.shares && d.anticipates == 0 {
		return a
	}
	properties := agent.PropertiesOf(a)
	properties.SharedRequests, properties.Anticipation = properties.SharedRequests || d.shares, d.anticipates
	return &extended{a, properties}
}

// extended is an agent with what its file says beside what its own package makes of it.
type extended struct {
	agent.Agent
	properties agent.Properties
}

func (e *extended) Unwrap() agent.Agent          { return e.Agent }
func (e *extended) Properties() agent.Properties { return e.properties }

// extend gives an agent the guards and budgets of its file.
func (l *loader) extend(a agent.Agent, d *definition) agent.Agent {
	if a == nil || len(d.guards) == 0 && d.budgets == (agent.Budgets{}) {
		return a
	}
	properties := agent.PropertiesOf(a)
	properties.Guards = append(properties.Guards[:len(properties.Guards):len(properties.Guards)], l.guardsOf(d)...)
	properties.Budgets = d.budgets
	return &extended{a, properties}
}
