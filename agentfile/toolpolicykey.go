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

// toolRule is a rule about tool calls, with its place.
type toolRule struct {
	tools.Rule
	key string // the key that contains it
	at  pos    // the place of the tool
	arg map[string]pos
}

// approveKey returns the key for the short form of rules about tools.
func approveKey(p *parser) yamldoc.Key {
	const example = "{book: user, 'delete_*': staff, refund: [refunds]}"
	return yamldoc.Custom("approve", "a list of names, or a mapping of names to who decides", example, func(k *yamldoc.Key, n yamldoc.Node) {
		if n.Kind() == yamldoc.Mapping {
			p.Labels(k, n, deciders, func(tool string, k *yamldoc.Key, n yamldoc.Node) {
				p.pattern(toolRule{Rule: tools.Rule{Tool: tool, Decision: tools.Ask, By: p.by(k, n)}, key: "approve", at: place(p.Key)})
			})
			return
		}
		for _, i := range p.names(k, n) {
			p.pattern(toolRule{Rule: tools.Rule{Tool: i.value, Decision: tools.Ask}, key: "approve", at: i.at})
		}
	})
}

// deciders is the type name of values that name who decides.
const deciders = "user, staff, or a list of rights"

// by reads who decides.
func (p *parser) by(k *yamldoc.Key, n yamldoc.Node) tools.By {
	var words []string
	if n.Kind() == yamldoc.List {
		words = p.Texts(k, n)
	} else if word, ok := p.String(k, n); ok {
		words = []string{word}
	} else {
		return tools.By{}
	}
	by, err := tools.ReadBy(words...)
	if err != nil {
		p.Add(n, "%s: %s", p.Name, err)
	}
	return by
}

// approverKey returns the key for the default approver.
func approverKey(p *parser) yamldoc.Key {
	return yamldoc.Custom("approver", deciders, "staff", func(k *yamldoc.Key, n yamldoc.Node) { p.d.approver = p.by(k, n) })
}

func (p *parser) pattern(r toolRule) {
	if _, err := path.Match(r.Tool, ""); err != nil {
		p.add(r.at, "%s: %q is not a pattern for names of tools, such as refund or delete_*", r.key, r.Tool)
		return
	}
	p.d.toolRules = append(p.d.toolRules, r)
}

// isToolRule reports whether an entry of rules is about tools, by its keys. Entries of routers have other keys.
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

func (p *parser) toolRule(n yamldoc.Node) {
	r, before := toolRule{key: "rules"}, p.Problems
	p.Mapping(toolRuleKeys(p, &r), "rules.", n)
	if r.By.Needs() != nil && r.Decision != tools.Ask {
		p.Add(n, "by says who decides about calls that wait: it goes with decision: ask")
	}
	p.Needs(n, "rules", "tool", "decision")
	if p.Problems == before {
		p.pattern(r)
	}
}

// toolRuleKeys returns the keys of one rule about a tool, which store into r.
func toolRuleKeys(p *parser, r *toolRule) []yamldoc.Key {
	decisions := map[string]tools.Decision{"allow": tools.Allow, "ask": tools.Ask, "deny": tools.Deny}
	return []yamldoc.Key{
		yamldoc.Custom("tool", "a text", "refund", func(k *yamldoc.Key, n yamldoc.Node) {
			r.Tool, _ = p.String(k, n)
			r.at = place(n)
		}),
		yamldoc.Custom("args", "a mapping", `{amount: {above: 100}}`, func(k *yamldoc.Key, n yamldoc.Node) {
			r.Args, r.arg = map[string]tools.Arg{}, map[string]pos{}
			p.Labels(k, n, "a pattern or a mapping", func(arg string, k *yamldoc.Key, n yamldoc.Node) {
				r.Args[arg], r.arg[arg] = p.arg(k, n), place(n)
			})
		}),
		yamldoc.Switch("read_only", func(b bool) { r.ReadOnly = &b }),
		yamldoc.OneOf("decision", "ask", func(v string) { r.Decision = decisions[v] }, "allow", "ask", "deny"),
		yamldoc.Custom("by", deciders, "staff", func(k *yamldoc.Key, n yamldoc.Node) { r.By = p.by(k, n) }),
	}
}

// arg reads the condition on an argument: a pattern or a mapping.
func (p *parser) arg(k *yamldoc.Key, n yamldoc.Node) (arg tools.Arg) {
	before, name := p.Problems, p.Name
	if n.Kind() != yamldoc.Mapping {
		arg.Matches, _ = p.String(k, n)
	} else {
		scalar := func(name string, to *any) yamldoc.Key {
			return yamldoc.Custom(name, "a number", "100", func(_ *yamldoc.Key, n yamldoc.Node) { *to = p.compared(n) })
		}
		list := func(name string, to *[]any) yamldoc.Key {
			return yamldoc.Custom(name, "a list of values", "[EUR, USD]", func(k *yamldoc.Key, n yamldoc.Node) {
				if n.Kind() != yamldoc.List {
					p.WrongType(k, n)
				} else if n.Len() == 0 {
					p.Add(n, "%s is empty", p.Name)
				}
				for i := range n.Len() {
					*to = append(*to, p.compared(n.Item(i)))
				}
			})
		}
		p.Mapping([]yamldoc.Key{
			yamldoc.String("matches", "", &arg.Matches),
			scalar("above", &arg.Above), scalar("below", &arg.Below),
			list("in", &arg.In), list("not_in", &arg.NotIn),
			yamldoc.Flag("trim", &arg.Trim), yamldoc.Flag("optional", &arg.Optional),
		}, name+".", n)
	}
	if err := arg.Check(); err != nil && p.Problems == before {
		p.Add(n, "%s: %s", name, err)
	}
	return arg
}

// compared reads a value to compare arguments with. Numbers keep all digits.
func (p *parser) compared(n yamldoc.Node) any {
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
	p.Add(n, "%s: arguments are compared with texts, numbers, true and false, not with %s", p.Name, n.Quote())
	return nil
}

// checkToolRules reports rules that match nothing, because the agent has no such tool or the tool has no such argument:
// calls that they should stop would run without an approval. Rules about tools that only a server can list are checked
// when the list is available.
func (l *config) checkToolRules(r *report, d *definition) {
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
	if err != nil { // already reported
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

// mistake reports a problem of a rule of the agent. names are the agent's tools.
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

// known returns the tools that the file names for a server. It does not know their arguments.
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

// checkApprove reports tool names that cannot match, if the file itself lists the server's tools.
func (s *mcpKeys) checkApprove(r *report, d *definition) {
	for _, i := range s.approve {
		policy, err := tools.NewPolicy(tools.Rule{Tool: i.value, Decision: tools.Ask})
		if err != nil || s.mayHave(i.value) {
			continue // the server reports a bad pattern itself
		}
		for _, m := range policy.Mistakes(s.known()) {
			r.add(d.file, i.at, "mcp.approve of the server %s: %s", s.server.Name, m)
		}
	}
}

// mayHave reports whether a rule may match a tool of the server that known does not return: because the file lists no
// tools, or lists a pattern or a tool whose name will change.
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

// whichTools lists an agent's tools for a message, if there are few.
func whichTools(names []string) string {
	if len(names) == 0 {
		return ": it has no tools"
	}
	if len(names) > 12 {
		return ""
	}
	return fmt.Sprintf("; it has %s", strings.Join(names, ", "))
}

// toolPolicy returns the policy of the agent's rules, or nil if there are none.
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

// transferApproveKey returns the key for the approval of transfers, which rules do not cover.
func transferApproveKey(p *parser) yamldoc.Key {
	return yamldoc.Custom("approve", "true or false, or "+deciders, "user", func(k *yamldoc.Key, n yamldoc.Node) {
		if ask, ok := n.Bool(); ok {
			p.d.askTransfer = ask
			return
		}
		p.d.askTransfer, p.d.transferBy = true, p.by(k, n)
	})
}
