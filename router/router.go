package router

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
)

const human = agent.Human

// Target is an agent or a person to which a rule can send a turn. Rules use it instead of a name, so that a misspelt
// name does not compile.
type Target struct {
	name    string
	agent   agent.Agent // nil for a person
	reason  string      // of a person
	onError *Target
	wrong   string // the problem of an option, "" without one
}

// TargetOption configures a [Target].
type TargetOption func(*Target)

// OnError sets the target that answers in the same turn if the specialist cannot start or ends with an error.
func OnError(t *Target) TargetOption {
	return func(s *Target) {
		if s.onError = t; t == nil {
			s.wrong = "the target of OnError is nil"
		}
	}
}

// Specialist returns an agent as a target: a local agent, a remote agent or another router, also within agent.Via.
// The agent becomes a sub-agent of the router. A router must have one Target for each agent.
func Specialist(a agent.Agent, opts ...TargetOption) *Target {
	t := &Target{agent: a}
	if a == nil {
		t.wrong = "the agent of a specialist is nil"
	} else {
		t.name = a.Name()
	}
	for _, o := range opts {
		if o == nil {
			t.wrong = "an option is nil"
			continue
		}
		o(t)
	}
	return t
}

// Human returns a person at the runner's desk as a target. The person reads the reason.
func Human(reason string) *Target { return &Target{name: human, reason: reason} }

// Rule sends the turns that a matcher matches to a target. [When] starts one.
type Rule struct {
	when   Matcher
	to     *Target
	reason string
}

// Clause is a rule without a target. [Clause.To] or [Clause.ToHuman] completes it.
type Clause struct{ when Matcher }

// When starts a rule for the turns that a matcher matches.
func When(m Matcher) Clause { return Clause{m} }

// To completes the rule with its target.
func (c Clause) To(t *Target) Rule { return Rule{when: c.when, to: t} }

// ToHuman completes the rule with a person as its target. It is To(Human(reason)).
func (c Clause) ToHuman(reason string) Rule { return c.To(Human(reason)) }

// Because sets the reason of the transfers by the rule. Defaults to the part of the message that matched.
func (r Rule) Because(reason string) Rule { r.reason = reason; return r }

// Option configures a [Router].
type Option func(*builder)

type builder struct {
	description string
	rules       []Rule
	specialists []*Target
	defaults    []*Target
	sticky      bool
	classifiers []Classifier
	now         func() time.Time
	wrong       []string
}

// Rules adds rules after those of earlier calls. The first rule that matches decides.
func Rules(rules ...Rule) Option { return func(b *builder) { b.rules = append(b.rules, rules...) } }

// Specialists adds sub-agents to which no rule leads, because other agents transfer to them, or sets which
// sub-agents come first.
func Specialists(t ...*Target) Option {
	return func(b *builder) { b.specialists = append(b.specialists, t...) }
}

// Default sets the target of messages that no rule matches.
func Default(t *Target) Option { return func(b *builder) { b.defaults = append(b.defaults, t) } }

// Wrap puts the router before an agent, which answers if no rule matches. It is [Default] for an agent that no rule
// needs as a target.
func Wrap(a agent.Agent) Option { return Default(Specialist(a)) }

// Sticky lets the specialist that answered before answer again if no rule matches.
func Sticky() Option { return func(b *builder) { b.sticky = true } }

// Description sets the router's description, which other agents and their models read. Defaults to "".
func Description(text string) Option { return func(b *builder) { b.description = text } }

// Signals adds classifiers, at most one of each kind. Without one of sentiments, the router uses
// [HeuristicSentiment].
func Signals(c ...Classifier) Option {
	return func(b *builder) { b.classifiers = append(b.classifiers, c...) }
}

// WithClock sets the clock that measures how long decisions take, for tests. Defaults to time.Now.
func WithClock(now func() time.Time) Option { return func(b *builder) { b.now = now } }

// Error reports every problem of a router.
type Error struct {
	Router   string
	Problems []string
}

func (e *Error) Error() string {
	return fmt.Sprintf("router %q: %s", e.Router, strings.Join(e.Problems, "\n  "))
}

// Router is an agent without a model: rules choose the agent that answers. It is immutable and safe for concurrent use.
type Router struct {
	description string
	engine      engine
	fallback    *Target
	sticky      bool
	now         func() time.Time
	targets     []*Target // the agents, in the order of the sub-agents
	people      []string  // the rules and defaults that lead to a person
	properties  agent.Properties
	children    []agent.Agent
	index       map[string]agent.Agent // all agents below the router, by name
}

// New returns a router. The error is an [*Error] with every problem.
func New(name string, opts ...Option) (*Router, error) {
	b := builder{now: time.Now}
	for i, o := range opts {
		if o == nil {
			b.problem("option %d is nil", i)
			continue
		}
		o(&b)
	}
	if err := agent.CheckName(name); err != nil {
		b.problem("%v", err)
	}
	if b.now == nil {
		b.problem("the clock is nil")
	}
	r := &Router{description: b.description, sticky: b.sticky, now: b.now}
	c := compiler{classifiers: b.classifiersByKind()}
	handles := make(map[string]*Target)
	for i, t := range b.specialists {
		b.target(r, handles, fmt.Sprintf("specialist %d", i), t)
	}
	for i, rule := range b.rules {
		c.rule = i
		made := compiledRule{when: c.compile(rule.when), to: rule.to, reason: rule.reason}
		if rule.when != nil {
			made.written = rule.when.String()
		}
		if b.target(r, handles, fmt.Sprintf("rule %d", i), rule.to); rule.to != nil {
			made.reason = cmp.Or(rule.reason, rule.to.reason)
		}
		r.engine.rules = append(r.engine.rules, made)
	}
	if n := len(b.defaults); n == 1 {
		r.fallback = b.defaults[0]
		b.target(r, handles, "the default", r.fallback)
	} else {
		b.problem("there are %d defaults: set one target, by Default or Wrap, for messages that no rule matches", n)
	}
	if problems := append(b.wrong, c.problems...); len(problems) > 0 {
		return nil, &Error{name, problems}
	}
	e := &r.engine
	e.name, e.words, e.slots, e.classifiers = name, c.words.Build(), c.slots, c.classifiers
	e.turns = c.turns
	r.properties.Router = true
	for _, t := range r.targets {
		edge := agent.EdgesOf([]agent.Agent{t.agent})[0]
		if t.onError != nil {
			edge.OnError = t.onError.name
		}
		r.properties.Edges = append(r.properties.Edges, edge)
	}
	r.children = agent.AgentsOf(r.properties.Edges)
	r.index = agent.Index(r)
	return r, nil
}

func (b *builder) problem(format string, args ...any) {
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// classifiersByKind returns the classifiers by kind.
func (b *builder) classifiersByKind() map[Kind]*source {
	given := make(map[Kind]*source)
	for i, c := range b.classifiers {
		switch {
		case c == nil:
			b.problem("classifier %d is nil", i)
		case c.Kind().place() < 0:
			b.problem("classifier %d is of the unknown kind %q", i, c.Kind())
		case given[c.Kind()] != nil:
			b.problem("there are two classifiers of the kind %s", c.Kind())
		default:
			inner, deadline := unwrapped(c)
			if _, asks := inner.(*byModel); asks && deadline == 0 {
				b.problem("the classifier of intents asks a model and has no deadline: set one by Within")
			} else if deadline < 0 {
				b.problem("the deadline %s of the classifier of the kind %s is negative", deadline, c.Kind())
			}
			given[c.Kind()] = &source{Classifier: inner, deadline: cmp.Or(deadline, defaultDeadline)}
		}
	}
	if given[KindSentiment] == nil {
		given[KindSentiment] = &source{Classifier: HeuristicSentiment(), deadline: defaultDeadline}
	}
	return given
}

// target adds the target of a rule, of a default or of OnError to the router, and reports its problems. from is what
// leads to the target.
func (b *builder) target(r *Router, handles map[string]*Target, from string, t *Target) {
	switch {
	case t == nil:
		b.problem("%s has no target", from)
		return
	case t.wrong != "" && handles[t.name] != t:
		b.problem("%s: %s", from, t.wrong)
	case t.agent == nil && t.name == human:
		if strings.TrimSpace(t.reason) == "" {
			b.problem("%s leads to a person without a reason", from)
		}
		r.people = append(r.people, from)
		return
	case t.name == human:
		b.problem("%s: the name %q is reserved for people", from, human)
		return
	case handles[t.name] != nil && handles[t.name] != t:
		b.problem("%s: the agent %q has two targets: create one by Specialist and use it everywhere", from, t.name)
		return
	}
	if handles[t.name] == nil && t.agent != nil {
		handles[t.name] = t
		r.targets = append(r.targets, t)
		if t.onError != nil {
			b.target(r, handles, "OnError of "+t.name, t.onError)
		}
	}
}

// Name implements agent.Agent.
func (r *Router) Name() string { return r.engine.name }

// Description implements agent.Agent.
func (r *Router) Description() string { return r.description }

// SubAgents implements agent.Agent. It returns the specialists in the order in which Specialists, the rules with their
// OnError targets, and the default name them first.
func (r *Router) SubAgents() []agent.Agent { return r.children }

// FindAgent implements agent.Agent.
func (r *Router) FindAgent(name string) agent.Agent { return r.index[name] }

// Properties returns what the tree and the runner need to know about the router.
func (r *Router) Properties() agent.Properties { return r.properties }

// RuleInfo is a rule as data.
type RuleInfo struct {
	Index  int    `json:"index"`
	When   string `json:"when"` // the text of the matcher
	To     string `json:"to"`   // the agent's name, or "human"
	Reason string `json:"reason,omitempty"`
}

// Rules returns the rules as data.
func (r *Router) Rules() []RuleInfo {
	infos := make([]RuleInfo, len(r.engine.rules))
	for i, rule := range r.engine.rules {
		infos[i] = RuleInfo{i, rule.written, rule.to.name, rule.reason}
	}
	return infos
}

// Default returns the name of the agent that answers if no rule matches.
func (r *Router) Default() string { return r.fallback.name }

// Sticky reports whether a specialist answers again if no rule matches.
func (r *Router) Sticky() bool { return r.sticky }

// CheckNode implements agent.Checker.
func (r *Router) CheckNode(n *agent.Node) (wrong []string) {
	if n.Human() == nil && len(r.people) > 0 {
		wrong = append(wrong, "the router leads to a person ("+strings.Join(r.people, ", ")+"), but the runner has no desk: set one by runner.WithDesk")
	}
	return wrong
}

// target returns the handle of a sub-agent, or nil for any other name.
func (r *Router) target(name string) *Target {
	if i := slices.IndexFunc(r.targets, func(t *Target) bool { return t.name == name }); i >= 0 {
		return r.targets[i]
	}
	return nil
}
