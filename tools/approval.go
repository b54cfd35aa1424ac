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

// Decision says whether a call may run. If several apply, the greatest one counts.
type Decision int

// The decisions about a call.
const (
	// Allow runs the call.
	Allow Decision = iota
	// Ask pauses the turn until a person approves or denies the call.
	Ask
	// Deny does not run the call; its result is an error.
	Deny
)

// NeedsApproval makes every call of the tool wait for an approval. by says who may approve; if there are several, the
// strictest counts.
func NeedsApproval(by ...By) Option {
	return func(i *Info) { i.Approval, i.By = Ask, Strictest(by...) }
}

// Rule decides about the calls that match it.
type Rule struct {
	// Tool is the name of a tool, or a pattern of path.Match, such as "refund_*". A tool of a server matches by its
	// name at the server, too; see [Info.Own].
	Tool string
	// Args are conditions on arguments, by name; all of them must match. A dot separates the keys of nested objects. A
	// list matches if one of its items does: "items.price" is the price of any item.
	Args map[string]Arg
	// ReadOnly must equal the tool's [Info.ReadOnly]. nil matches all tools.
	ReadOnly *bool
	// Decision applies to calls that match. [Allow] does not overrule the tool itself or another rule.
	Decision Decision
	// By says who may approve the call if the decision is [Ask].
	By By
}

// Policy decides about calls by rules. The strictest matching rule counts. A Policy is immutable.
type Policy struct{ rules []compiledRule }

type compiledRule struct {
	Rule
	args []compiledArg // sorted by name
}

// NewPolicy returns a policy of rules. The error names the first invalid rule and its problem.
func NewPolicy(rules ...Rule) (*Policy, error) {
	p := &Policy{}
	for i, r := range rules {
		c := compiledRule{Rule: r}
		c.Tool = norm.NFC.String(r.Tool)
		if _, err := path.Match(r.Tool, ""); err != nil || r.Tool == "" {
			return nil, fmt.Errorf("rule %d: %q is not a pattern for names of tools", i, r.Tool)
		}
		if r.Decision < Allow || r.Decision > Deny {
			return nil, fmt.Errorf("rule %d for %q: unknown decision %d", i, r.Tool, r.Decision)
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

// Decide returns the strictest decision of the tool itself and of all rules that match the call. A nil policy has no
// rules.
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

// By returns who may approve a call: the strictest By of the tool and of the matching rules that ask, see [Strictest].
// If they leave it open, standard applies; if that leaves it open too, a destructive tool needs [ByStaff].
func (p *Policy) By(info Info, input json.RawMessage, standard By) By {
	var all []By
	if info.Approval == Ask {
		all = append(all, info.By)
	}
	for r := range p.matching(info, input) {
		if r.Decision == Ask {
			all = append(all, r.By)
		}
	}
	by := Strictest(all...).Or(standard)
	if by.needs == nil && info.Destructive {
		by = ByStaff()
	}
	return by
}

// about reports whether the rule's name or pattern matches a tool.
func (r *compiledRule) about(info Info) bool {
	own := norm.NFC.String(info.Own)
	byName, _ := path.Match(r.Tool, info.Name)
	byOwn, _ := path.Match(r.Tool, own)
	return byName || own != "" && (byOwn || own == r.Tool)
}

// names reports whether the rule has the name of one tool, and not a pattern.
func (r *compiledRule) names() bool { return !strings.ContainsAny(r.Tool, `*?[\\`) }

// meets reports whether the arguments match the rule. Arguments that cannot be read match.
func (r *compiledRule) meets(info Info, input json.RawMessage) bool {
	if len(r.args) == 0 {
		return true
	}
	args, err := schema.Decode(input)
	if _, ok := args.(map[string]any); err != nil || !ok {
		return true
	}
	for i := range r.args {
		if !r.args[i].holds(args, func() bool { // a pattern does not apply to tools without the argument
			found, _ := schema.Find(info.Parameters, r.args[i].name)
			return !r.names() && found == schema.Absent
		}) {
			return false
		}
	}
	return true
}
