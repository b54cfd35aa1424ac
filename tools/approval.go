package tools

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"

	"github.com/agentarbor/arbor/event"
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

// NeedsApproval makes every call of the tool wait for an approval.
func NeedsApproval() Option { return func(i *Info) { i.Approval = Ask } }

// Rule decides about the calls that match it.
type Rule struct {
	// Tool is a tool's name, or a pattern as of path.Match, such as "refund_*".
	Tool string
	// Args maps names of arguments to RE2 expressions. Each must match its
	// argument: a string's content, any other value's JSON. An argument that is
	// absent matches nothing.
	Args map[string]string
	// ReadOnly, if it is not nil, must be what [Info.ReadOnly] says of the tool.
	ReadOnly *bool
	// Decision holds for calls that match; [Allow] takes nothing back that
	// another rule or the tool itself demands.
	Decision Decision
}

// Policy decides about calls by rules. A denial always wins, then a question.
type Policy struct{ rules []compiledRule }

type compiledRule struct {
	Rule
	args map[string]*regexp.Regexp
}

// NewPolicy compiles rules. The error names the rule and what is wrong with it.
func NewPolicy(rules ...Rule) (*Policy, error) {
	p := &Policy{}
	for i, r := range rules {
		c := compiledRule{Rule: r, args: make(map[string]*regexp.Regexp, len(r.Args))}
		if _, err := path.Match(r.Tool, ""); err != nil || r.Tool == "" {
			return nil, fmt.Errorf("rule %d: %q is no pattern for tools' names", i, r.Tool)
		}
		if r.Decision < Allow || r.Decision > Deny {
			return nil, fmt.Errorf("rule %d for %q: there is no decision %d", i, r.Tool, r.Decision)
		}
		for name, expr := range r.Args {
			re, err := regexp.Compile(expr)
			if err != nil {
				return nil, fmt.Errorf("rule %d for %q, argument %q: %w", i, r.Tool, name, err)
			}
			c.args[name] = re
		}
		p.rules = append(p.rules, c)
	}
	return p, nil
}

// Unmatched returns the names and patterns of the rules that are about none of these
// tools, and so decide nothing. "*" is about whatever tools there are, also none.
func (p *Policy) Unmatched(tools []string) (rules []string) {
	if p == nil {
		return nil
	}
	for i := range p.rules {
		if r := &p.rules[i]; r.Tool != "*" && !slices.ContainsFunc(tools, r.about) {
			rules = append(rules, r.Tool)
		}
	}
	return rules
}

// Decide returns the strictest decision of the tool itself and of all rules that
// match the call. A nil policy has no rules.
func (p *Policy) Decide(info Info, input json.RawMessage) Decision {
	decision := info.Approval
	if p == nil {
		return decision
	}
	var args map[string]json.RawMessage
	_ = json.Unmarshal(input, &args) // what is no object has no arguments that match
	for i := range p.rules {
		if r := &p.rules[i]; r.Decision > decision && r.matches(info, args) {
			decision = r.Decision
		}
	}
	return decision
}

// about reports whether the rule names a tool.
func (r *compiledRule) about(tool string) bool {
	ok, _ := path.Match(r.Tool, tool)
	return ok
}

func (r *compiledRule) matches(info Info, args map[string]json.RawMessage) bool {
	if !r.about(info.Name) || r.ReadOnly != nil && *r.ReadOnly != info.ReadOnly {
		return false
	}
	for arg, re := range r.args {
		value, ok := args[arg]
		if !ok || !re.MatchString(event.OutputText(value)) {
			return false
		}
	}
	return true
}
