package tools

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/agentarbor/arbor/internal/schema"
)

// Decision says whether a call may run. The greater one wins where several
// apply.
type Decision int

// The decisions about a call.
const (
	// Allow runs the call.
	Allow Decision = iota
	// Ask pauses the turn until somebody approves or denies the call.
	Ask
	// Deny answers the call with an error and never runs it.
	Deny
)

// NeedsApproval makes every call of the tool wait for an approval. By says who may give it;
// of several the strictest counts.
func NeedsApproval(by ...By) Option {
	return func(i *Info) { i.Approval, i.By = Ask, Strictest(by...) }
}

// Rule decides about the calls that match it.
type Rule struct {
	// Tool is a tool's name, or a pattern as of path.Match, such as "refund_*". A tool of a
	// server can also be named as the server calls it, see [Info.Own].
	Tool string
	// Args says by the names of arguments what they must be, each of them. A dot leads into an
	// object, and a list stands for each of its items: "items.price" is the price of any item.
	Args map[string]Arg
	// ReadOnly, if it is not nil, must be what [Info.ReadOnly] says of the tool.
	ReadOnly *bool
	// Decision holds for calls that match; [Allow] takes nothing back that
	// another rule or the tool itself demands.
	Decision Decision
	// By says who may decide where the decision is [Ask].
	By By
}

// Policy decides about calls by rules. A denial always wins, then a question.
type Policy struct{ rules []compiledRule }

type compiledRule struct {
	Rule
	args []compiledArg // in the order of their names
}

// NewPolicy compiles rules. The error names the rule and what is wrong with it.
func NewPolicy(rules ...Rule) (*Policy, error) {
	p := &Policy{}
	for i, r := range rules {
		c := compiledRule{Rule: r}
		c.Tool = norm.NFC.String(r.Tool)
		if _, err := path.Match(r.Tool, ""); err != nil || r.Tool == "" {
			return nil, fmt.Errorf("rule %d: %q is no pattern for tools' names", i, r.Tool)
		}
		if r.Decision < Allow || r.Decision > Deny {
			return nil, fmt.Errorf("rule %d for %q: there is no decision %d", i, r.Tool, r.Decision)
		}
		if err := r.By.Check(); err != nil {
			return nil, fmt.Errorf("rule %d for %q: %w", i, r.Tool, err)
		}
		for _, name := range slices.Sorted(maps.Keys(r.Args)) {
			arg, err := r.Args[name].compile(name)
			if err != nil {
				return nil, fmt.Errorf("rule %d for %q, argument %q: %w", i, r.Tool, name, err)
			}
			c.args = append(c.args, arg)
		}
		p.rules = append(p.rules, c)
	}
	return p, nil
}

// Decide returns the strictest decision of the tool itself and of all rules that
// match the call. A nil policy has no rules.
func (p *Policy) Decide(info Info, input json.RawMessage) Decision {
	decision := info.Approval
	for r := range p.matching(info, input) {
		decision = max(decision, r.Decision)
	}
	return decision
}

// matching returns the rules that match a call.
func (p *Policy) matching(info Info, input json.RawMessage) iter.Seq[*compiledRule] {
	return func(yield func(*compiledRule) bool) {
		for i := 0; p != nil && i < len(p.rules); i++ {
			if r := &p.rules[i]; r.about(info) && (r.ReadOnly == nil || *r.ReadOnly == info.ReadOnly) && r.meets(info, input) && !yield(r) {
				return
			}
		}
	}
}

// By returns who may decide about a call that the tool or a rule has wait: the strictest of
// what they say, where rights are stricter than silence, and silence than consent. Standard is
// what silence means; if that is silent too, a destructive tool needs [ByStaff].
func (p *Policy) By(info Info, input json.RawMessage, standard By) By {
	var said []By
	if info.Approval == Ask {
		said = append(said, info.By)
	}
	for r := range p.matching(info, input) {
		if r.Decision == Ask {
			said = append(said, r.By)
		}
	}
	by := Strictest(said...).Or(standard)
	if by.needs == nil && info.Destructive {
		by = ByStaff()
	}
	return by
}

// about reports whether the rule names a tool, or is a pattern of its name.
func (r *compiledRule) about(info Info) bool {
	own := norm.NFC.String(info.Own)
	byName, _ := path.Match(r.Tool, info.Name)
	byOwn, _ := path.Match(r.Tool, own)
	return byName || own != "" && (byOwn || own == r.Tool)
}

// names reports whether the rule is about one tool, by its name.
func (r *compiledRule) names() bool { return !strings.ContainsAny(r.Tool, `*?[\\`) }

// meets reports whether the arguments are what the rule says. What cannot be read is.
func (r *compiledRule) meets(info Info, input json.RawMessage) bool {
	if len(r.args) == 0 {
		return true
	}
	args, err := schema.Decode(input)
	if _, ok := args.(map[string]any); err != nil || !ok {
		return true
	}
	for i := range r.args {
		if !r.args[i].holds(args, func() bool { // a pattern is about the tools that have the argument
			found, _ := schema.Find(info.Parameters, r.args[i].name)
			return !r.names() && found == schema.Absent
		}) {
			return false
		}
	}
	return true
}
