package agentfile

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/tools"
)

// toolRule is a rule about calls of tools, with its place.
type toolRule struct {
	tools.Rule
	key string // that says it
	at  pos    // of the tool
}

// approveKey describes the short form of rules about tools.
func approveKey() key {
	return key{name: "approve", typ: "a list of names", example: "[refund, 'delete_*']", def: "none",
		meaning: "The tools whose calls wait until [a person approves them](approvals.md). A `*` in a name stands for anything.",
		read: func(p *parser, k *key, n yamldoc.Node) {
			for _, i := range p.names(k, n) {
				p.pattern(toolRule{tools.Rule{Tool: i.value, Decision: tools.Ask}, k.name, i.at})
			}
		}}
}

func (p *parser) pattern(r toolRule) {
	if _, err := path.Match(r.Tool, ""); err != nil {
		p.add(r.at, "%s: %q is no pattern for tools' names, such as refund or delete_*", r.key, r.Tool)
		return
	}
	p.d.toolRules = append(p.d.toolRules, r)
}

// isToolRule reports by its keys whether an entry of rules is about tools; those of routers have
// others.
func isToolRule(n yamldoc.Node) bool {
	about := false
	for i := range n.Len() {
		switch name, _ := n.Pair(i).Key.Word(); name {
		case "tool", "args", "read_only", "decision":
			about = true
		case "when", "to":
			return false
		}
	}
	return about
}

func readToolRule(p *parser, n yamldoc.Node) {
	r, before := toolRule{key: "rules"}, len(p.report.problems)
	p.pairs([]key{
		{name: "tool", typ: "a text", example: "refund", read: func(p *parser, k *key, n yamldoc.Node) {
			r.Tool, _ = p.text(k, n)
			r.at = p.at(n)
		}},
		{name: "args", typ: "a mapping", example: `{amount: '^\d{3,}$'}`, read: func(p *parser, k *key, n yamldoc.Node) {
			r.Args = map[string]string{}
			p.labels(k, n, "a text", func(arg string, k *key, n yamldoc.Node) {
				text, ok := p.text(k, n)
				if _, err := regexp.Compile(text); ok && err != nil {
					p.add(p.at(n), "the regular expression cannot be read: %s", err)
				}
				r.Args[arg] = text
			})
		}},
		{name: "read_only", typ: "true or false", example: "false", read: boolean(func(_ *definition, b bool) { r.ReadOnly = &b })},
		{name: "decision", typ: "a text", example: "ask", read: func(p *parser, k *key, n yamldoc.Node) {
			v, ok := p.text(k, n)
			decision, known := map[string]tools.Decision{"allow": tools.Allow, "ask": tools.Ask, "deny": tools.Deny}[v]
			if r.Decision = decision; ok && !known {
				p.add(p.at(n), "%s must be allow, ask or deny, not %q", p.name, v)
			}
		}},
	}, "rules.", n)
	p.needs(n, "rules", "tool", "decision")
	if len(p.report.problems) == before {
		p.pattern(r)
	}
}

// checkToolRules reports rules about tools that the agent does not have: calls that somebody
// meant to hold up would go through.
func (l *loader) checkToolRules(r *report, d *definition) {
	if len(d.mcp) > 0 { // nobody knows yet which tools these have
		return
	}
	var own []string
	for _, t := range d.tools {
		own = append(own, t.value)
	}
	for _, rule := range d.toolRules {
		policy, err := tools.NewPolicy(rule.Rule)
		if err != nil || len(policy.Unmatched(own)) == 0 { // what is wrong with it is reported already
			continue
		}
		hint := nearest.Hint(rule.Tool, own)
		switch {
		case strings.HasPrefix(rule.Tool, "transfer_to_"):
			hint = "; for transfers write transfer: {approve: true}"
		case hint == "" && slices.Contains(append(l.registry.Names(), builtin()...), rule.Tool):
			hint = "; it is there, but not in the list tools of this agent"
		}
		r.add(d.file, rule.at, "%s is about the tool %q, and the agent %q has none of that name%s", rule.key, rule.Tool, d.name, cmp.Or(hint, whichTools(own)))
	}
}

// whichTools says which tools an agent has, if they are few.
func whichTools(names []string) string {
	if len(names) == 0 {
		return ": it has no tools"
	}
	if len(names) > 12 {
		return ""
	}
	return fmt.Sprintf("; it has %s", strings.Join(names, ", "))
}

// toolPolicy makes the policy of the agent's rules, nil if there are none.
func (d *definition) toolPolicy() (*tools.Policy, error) {
	if len(d.toolRules) == 0 {
		return nil, nil
	}
	rules := make([]tools.Rule, len(d.toolRules))
	for i, r := range d.toolRules {
		rules[i] = r.Rule
	}
	return tools.NewPolicy(rules...)
}

// transferApproveKey describes the approval of transfers, which no rule is about.
func transferApproveKey() key {
	return key{name: "approve", typ: "true or false", example: "true", def: "false",
		meaning: "Whether each transfer waits until [a person approves it](approvals.md).",
		read:    boolean(func(d *definition, b bool) { d.askTransfer = b })}
}
