package agentfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// toolRule is a rule about calls of tools, with its place.
type toolRule struct {
	tools.Rule
	key string // that says it
	at  pos    // of the tool
	arg map[string]pos
}

// approveKey describes the short form of rules about tools.
func approveKey() key {
	return key{name: "approve", typ: "a list of names, or a mapping of names to who decides", example: "{book: user, 'delete_*': staff, refund: [refunds]}", def: "none",
		meaning: "The tools whose calls wait for [an approval](approvals.md): a list, or a mapping to [who decides](approvals.md#who-decides): `user`, `staff`, or a list of rights, all of which are needed. `*` matches anything.",
		read: func(p *parser, k *key, n yamldoc.Node) {
			if n.Kind() == yamldoc.Mapping {
				p.labels(k, n, deciders, func(tool string, k *key, n yamldoc.Node) {
					p.pattern(toolRule{Rule: tools.Rule{Tool: tool, Decision: tools.Ask, By: p.by(k, n)}, key: "approve", at: p.keyAt})
				})
				return
			}
			for _, i := range p.names(k, n) {
				p.pattern(toolRule{Rule: tools.Rule{Tool: i.value, Decision: tools.Ask}, key: k.name, at: i.at})
			}
		}}
}

// deciders is the type of values that say who decides.
const deciders = "user, staff, or a list of rights"

// by reads who decides.
func (p *parser) by(k *key, n yamldoc.Node) tools.By {
	var words []string
	if n.Kind() == yamldoc.List {
		for _, i := range p.list(k, n) {
			words = append(words, i.value)
		}
	} else if word, ok := p.text(k, n); ok {
		words = []string{word}
	} else {
		return tools.By{}
	}
	by, err := tools.ReadBy(words...)
	if err != nil {
		p.add(p.at(n), "%s: %s", p.name, err)
	}
	return by
}

// approverKey describes the default for what waits.
func approverKey() key {
	return key{name: "approver", typ: deciders, example: "staff", def: "the server's default, which is `staff`",
		meaning: "[Who decides](approvals.md#who-decides) about waiting calls and transfers, unless the tool or a rule says it: `user`, `staff`, or a list of rights.",
		read:    func(p *parser, k *key, n yamldoc.Node) { p.d.approver = p.by(k, n) }}
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
		case "tool", "args", "read_only", "decision", "by":
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
		{name: "args", typ: "a mapping", example: `{amount: {above: 100}}`, read: func(p *parser, k *key, n yamldoc.Node) {
			r.Args, r.arg = map[string]tools.Arg{}, map[string]pos{}
			p.labels(k, n, "a pattern or a mapping", func(arg string, k *key, n yamldoc.Node) {
				r.Args[arg], r.arg[arg] = readArg(p, k, n), p.at(n)
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
		{name: "by", typ: deciders, example: "staff", read: func(p *parser, k *key, n yamldoc.Node) { r.By = p.by(k, n) }},
	}, "rules.", n)
	if r.By.Needs() != nil && r.Decision != tools.Ask {
		p.add(p.at(n), "by says who decides about calls that wait: it goes with decision: ask")
	}
	p.needs(n, "rules", "tool", "decision")
	if len(p.report.problems) == before {
		p.pattern(r)
	}
}

// readArg reads what an argument must be: a pattern, or a mapping.
func readArg(p *parser, k *key, n yamldoc.Node) (arg tools.Arg) {
	before, name := len(p.report.problems), p.name
	if n.Kind() != yamldoc.Mapping {
		arg.Matches, _ = p.text(k, n)
	} else {
		scalar := func(name string, field *any) key {
			return key{name: name, typ: "a number", example: "100", read: func(p *parser, k *key, n yamldoc.Node) { *field = p.compared(k, n) }}
		}
		list := func(name string, field *[]any) key {
			return key{name: name, typ: "a list of values", example: "[EUR, USD]", read: func(p *parser, k *key, n yamldoc.Node) {
				if n.Kind() != yamldoc.List {
					p.wrongType(k, n)
				} else if n.Len() == 0 {
					p.add(p.at(n), "%s is empty", p.name)
				}
				for i := range n.Len() {
					*field = append(*field, p.compared(k, n.Item(i)))
				}
			}}
		}
		flag := func(name string, field *bool) key {
			return key{name: name, typ: "true or false", read: boolean(func(_ *definition, b bool) { *field = b })}
		}
		p.pairs([]key{
			{name: "matches", typ: "a text", read: func(p *parser, k *key, n yamldoc.Node) { arg.Matches, _ = p.text(k, n) }},
			scalar("above", &arg.Above), scalar("below", &arg.Below), list("in", &arg.In), list("not_in", &arg.NotIn), flag("trim", &arg.Trim), flag("optional", &arg.Optional),
		}, name+".", n)
	}
	if err := arg.Check(); err != nil && len(p.report.problems) == before {
		p.add(p.at(n), "%s: %s", name, err)
	}
	return arg
}

// compared reads a value that arguments are compared with, a number with all of its digits.
func (p *parser) compared(k *key, n yamldoc.Node) any {
	switch n.Kind() {
	case yamldoc.Number:
		return json.Number(n.Written())
	case yamldoc.Bool:
		v, _ := n.Bool()
		return v
	case yamldoc.Text:
		v, _ := n.Text()
		return v
	}
	p.add(p.at(n), "%s: arguments are compared with texts, numbers, true and false, not with %s", p.name, describe(n))
	return nil
}

// checkToolRules reports rules that match nothing, because the agent has no such tool or the tool no
// such argument: the calls that they are for would run without a question. What a server might have
// that the file does not say is left to when its list is there.
func (l *loader) checkToolRules(r *report, d *definition) {
	all := make([]tools.Info, 0, len(d.tools))
	for _, t := range d.tools {
		info := tools.Info{ToolSpec: llm.ToolSpec{Name: t.value}}
		if tool := l.registry.Get(t.value); tool != nil {
			info = tool.Info()
		}
		all = append(all, info)
	}
	for _, s := range d.mcp {
		all = append(all, s.known()...)
	}
	policy, err := d.toolPolicy()
	if err != nil { // reported already
		return
	}
	var own []string
	for _, info := range all {
		own = append(own, info.Name)
	}
	for _, m := range policy.Mistakes(all) {
		rule := d.toolRules[m.Rule].Tool
		switch {
		case m.Open && slices.ContainsFunc(d.mcp, func(s *mcpKeys) bool { return s.mayHave(rule) }):
			continue
		case len(m.About) > 0:
		case strings.HasPrefix(rule, "transfer_to_"):
			m.Hint = "; for transfers write transfer: {approve: true}"
		case m.Hint == "" && slices.Contains(append(l.registry.Names(), builtin()...), rule):
			m.Hint = "; it is there, but not in the list tools of this agent"
		}
		d.mistake(r, m, own)
	}
}

// mistake reports what is wrong with a rule of the agent, which has tools of these names.
func (d *definition) mistake(r *report, m tools.Mistake, names []string) {
	switch rule := d.toolRules[m.Rule]; {
	case m.Arg != "":
		r.add(d.file, rule.arg[m.Arg], "%s: %s", rule.key, m)
	case len(m.About) > 0:
		r.add(d.file, rule.at, "%s: %s", rule.key, m)
	default:
		r.add(d.file, rule.at, "%s is about the tool %+q, and the agent %q has none of that name%s", rule.key, rule.Tool, d.name, cmp.Or(m.Hint, whichTools(names)))
	}
}

// known returns the tools that the file names of a server. It does not know their arguments.
func (s *mcpKeys) known() (all []tools.Info) {
	names := slices.Clone(s.server.Tools)
	if s.server.Resources {
		names = append(names, "list_resources", "read_resource")
	}
	if s.server.Prompts {
		names = append(names, "list_prompts", "get_prompt")
	}
	for _, name := range names {
		if prefixed := s.server.Prefix + name; tools.CheckName(prefixed) == nil {
			all = append(all, tools.Info{ToolSpec: llm.ToolSpec{Name: prefixed}, Own: name})
		}
	}
	return all
}

// checkApprove reports names of tools of which the file itself says that the server's are others.
func (s *mcpKeys) checkApprove(r *report, d *definition) {
	for _, i := range s.approve {
		policy, err := tools.NewPolicy(tools.Rule{Tool: i.value, Decision: tools.Ask})
		if err != nil || s.mayHave(i.value) {
			continue // the server itself reports a bad pattern
		}
		for _, m := range policy.Mistakes(s.known()) {
			r.add(d.file, i.at, "mcp.approve of the server %s: %s", s.server.Name, m)
		}
	}
}

// mayHave reports whether a rule may be about a tool of the server that known does not return: because
// the file names none, or by a pattern, or one that gets another name.
func (s *mcpKeys) mayHave(rule string) bool {
	const wild = `*?[\`
	return len(s.server.Tools) == 0 || slices.ContainsFunc(s.server.Tools, func(name string) bool {
		prefixed := s.server.Prefix + name
		if tools.CheckName(prefixed) == nil {
			return false
		}
		other := strings.Map(func(c rune) rune {
			if tools.CheckName(string(c)) == nil || strings.ContainsRune(wild+"]", c) {
				return c
			}
			return '?'
		}, prefixed)
		byOwn, _ := path.Match(name, rule)
		byName, _ := path.Match(other, rule)
		return byOwn || byName || len(prefixed) > 64 || strings.ContainsAny(rule, wild)
	})
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
	return key{name: "approve", typ: "true or false, or " + deciders, example: "user", def: "false",
		meaning: "Each transfer waits for [an approval](approvals.md): `true`, or [who decides](approvals.md#who-decides), as of `approver`.",
		read: func(p *parser, k *key, n yamldoc.Node) {
			if n.Kind() == yamldoc.Bool {
				boolean(func(d *definition, b bool) { d.askTransfer = b })(p, k, n)
				return
			}
			p.d.askTransfer, p.d.transferBy = true, p.by(k, n)
		}}
}
