package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/tools"
)

// rulesOf is what checks must know of a router of package router.
type rulesOf struct {
	rules    []ruleShape
	fallback string
	sticky   bool
	onError  map[string]string // of its targets
	tree     *agent.Tree       // that it is in, nil for the conversation's
}

type ruleShape struct {
	to string
	matching
}

// matching is a matcher, and what it means.
type matching struct {
	router.Matcher
	holds func(said string, state map[string]any) bool
}

func keyword(words ...string) matching {
	return matching{router.Keyword(words...), func(said string, _ map[string]any) bool {
		for _, heard := range strings.FieldsFunc(strings.ToLower(said), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			for _, word := range words {
				if begins, found := strings.CutSuffix(word, "*"); heard == word || found && strings.HasPrefix(heard, begins) {
					return true
				}
			}
		}
		return false
	}}
}

func hasState(key string, value any) matching {
	return matching{router.State(key, value), func(_ string, state map[string]any) bool {
		return asJSON(state[key]) == asJSON(value)
	}}
}

func not(m matching) matching {
	return matching{router.Not(m.Matcher), func(said string, state map[string]any) bool { return !m.holds(said, state) }}
}

func anyOf(a, b matching) matching {
	return matching{router.Any(a.Matcher, b.Matcher), func(said string, state map[string]any) bool { return a.holds(said, state) || b.holds(said, state) }}
}

func allOf(a, b matching) matching {
	return matching{router.All(a.Matcher, b.Matcher), func(said string, state map[string]any) bool { return a.holds(said, state) && b.holds(said, state) }}
}

func asJSON(value any) string {
	data, _ := json.Marshal(value)
	return string(data)
}

// someMatchers are those of one idea.
var someMatchers = rapid.SampledFrom([]matching{keyword("hello"), keyword("see", "hello"), keyword("bo*"), keyword("nothing"), keyword("both"),
	keyword("no", "none"), keyword("world"),
	hasState("seen", 3), not(hasState("seen", nil)), hasState("seen", 0), hasState("seed", "é"), not(hasState("seed", nil)), hasState("turn:seed", nil), hasState("node", "a0-0")})

func (w *world) matching() matching {
	m := someMatchers.Draw(w.rt, "matcher")
	switch oneInTen.Draw(w.rt, "matchers") {
	case 6:
		return not(m)
	case 7:
		return anyOf(m, someMatchers.Draw(w.rt, "or"))
	case 8:
		return allOf(m, not(someMatchers.Draw(w.rt, "and not")))
	case 9:
		return allOf(m, someMatchers.Draw(w.rt, "and"))
	}
	return m
}

// ruled makes a router of package router. A rule leads to each of the agents, or the default.
func (w *world) ruled(name string, kids []agent.Agent) agent.Agent {
	shape := &rulesOf{sticky: rapid.Bool().Draw(w.rt, "sticky"), onError: make(map[string]string)}
	w.traits[name], w.ruleds[name] = traits{}, shape
	var targets []*router.Target
	for i, kid := range kids {
		var opts []router.TargetOption
		if i > 0 && oneInFour.Draw(w.rt, "the router goes on") == 3 { // to an earlier one: never in a circle
			j := rapid.IntRange(0, i-1).Draw(w.rt, "with")
			opts = append(opts, router.OnError(targets[j]))
			shape.onError[kid.Name()] = kids[j].Name()
		} else if w.desk != nil && oneInTen.Draw(w.rt, "the router goes on with a person") == 9 {
			opts = append(opts, router.OnError(router.Human("it failed")))
			shape.onError[kid.Name()] = agent.Human
		}
		targets = append(targets, router.Specialist(kid, opts...))
	}
	var rules []router.Rule
	rule := func(i int) {
		m, to, name := w.matching(), router.Human("by a rule"), agent.Human
		if i < len(kids) {
			to, name = targets[i], kids[i].Name()
		}
		rules = append(rules, router.When(m.Matcher).To(to))
		shape.rules = append(shape.rules, ruleShape{name, m})
	}
	most := len(kids) - 1
	if w.desk != nil {
		most++
	}
	for range someOdds.Draw(w.rt, "rules") {
		rule(rapid.IntRange(0, most).Draw(w.rt, "leads to"))
	}
	fallback := rapid.IntRange(0, len(kids)-1).Draw(w.rt, "default")
	for i := range kids { // who is not there otherwise
		if i != fallback && !slices.ContainsFunc(shape.rules, func(r ruleShape) bool { return r.to == kids[i].Name() }) {
			rule(i)
		}
	}
	shape.fallback = kids[fallback].Name()
	opts := []router.Option{router.Rules(rules...), router.Default(targets[fallback])}
	if shape.sticky {
		opts = append(opts, router.Sticky())
	}
	return must.Get(router.New(name, opts...))
}

// propertyRouter is a router in front of another one, for inner scopes, and its tool.
var propertyRouter = sync.OnceValues(func() (made struct {
	agent.Agent
	shapes map[string]*rulesOf
	tool   tools.Tool
}, err error) {
	both := llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true})
	specialist := func(name string, opts ...router.TargetOption) *router.Target {
		a, failed := llmagent.New(name, "", &plannedModel{name: name, inner: true}, both, llmagent.WithInstructionFunc(func(_ context.Context, inv *agent.Invocation) (string, error) {
			return name + " in " + inv.Scope(), nil
		}))
		if strings.HasPrefix(name, "function") {
			var f agent.Agent
			if f, failed = llmagent.Func(name, "A function.", steps, both); failed == nil {
				return router.Specialist(f, opts...)
			}
		}
		if failed != nil {
			err = failed
		}
		return router.Specialist(a, opts...)
	}
	that, it := keyword("that"), keyword("it", "so")
	one, two := specialist("function_one"), specialist("inner_two")
	below, failed := router.New("switch_below", router.Rules(router.When(that.Matcher).To(one)), router.Default(two), router.Sticky())
	if failed != nil {
		return made, failed
	}
	three, below3 := specialist("function_three"), router.Specialist(below)
	four := specialist("inner_four", router.OnError(below3))
	top, failed := router.New("switch", router.Rules(router.When(it.Matcher).To(four), router.When(not(that).Matcher).To(three)), router.Default(below3))
	if failed != nil {
		return made, failed
	}
	tree, failed := agent.NewTree(top)
	if failed != nil {
		return made, failed
	}
	made.Agent = top
	made.shapes = map[string]*rulesOf{
		"switch_below": {rules: []ruleShape{{"function_one", that}}, fallback: "inner_two", sticky: true, tree: tree},
		"switch": {rules: []ruleShape{{"inner_four", it}, {"function_three", not(that)}}, fallback: "switch_below",
			onError: map[string]string{"inner_four": "switch_below"}, tree: tree},
	}
	made.tool, failed = agenttool.New(top, agenttool.WithName("nested_switch"))
	if failed != nil {
		return made, failed
	}
	return made, err
})

// away is an agent that cannot start.
type away struct{ agent.Agent }

func (a away) Ready(context.Context) error { return errors.New("nobody is at home") }
func (a away) Unwrap() agent.Agent         { return a.Agent }

// routing is what the log says that matters to a router, in its scope, up to a place.
type routing struct {
	said    string
	state   map[string]any
	before  string          // who was active when the turn began
	gone    map[string]bool // gave the conversation back in this turn, or failed
	waiting []string        // for the user's words, the latest last
}

// routing reads the log before its i-th event, from the beginning.
func (w *world) routing(i int, name string, tree *agent.Tree) routing {
	at := w.log[i]
	s := routing{state: make(map[string]any), gone: make(map[string]bool)}
	turn, active := "", ""
	runs, tasks := make(map[string]int), make(map[string]int) // when an agent's last one asked something
	relayed := make(map[string]bool)
	for n, e := range w.log[:i] {
		if d, ok := e.Data.(*event.State); ok {
			for key, value := range d.Delta {
				s.state[key] = value
			}
		}
		if d, ok := e.Data.(*event.User); ok {
			if at.Scope == "" {
				s.said = d.Content.PlainText()
			}
			for key := range s.state {
				if strings.HasPrefix(key, "turn:") {
					delete(s.state, key)
				}
			}
		}
		if e.Scope != at.Scope {
			continue
		}
		if e.TurnID != turn {
			turn, s.before = e.TurnID, active
			clear(s.gone)
		}
		switch d := e.Data.(type) {
		case *event.HarnessStart:
			if len(d.Input) > 0 {
				s.said = event.OutputText(d.Input)
			}
			delete(runs, e.Agent)
		case *event.Relay:
			relayed[e.RunID] = true
		case *event.HarnessEnd:
			if d.FinishReason == event.FinishReasonInputRequired && !relayed[e.RunID] {
				runs[e.Agent] = n + 1
			}
		case *event.RemoteTask:
			delete(tasks, e.Agent)
			if d.TaskID != "" && (d.Status == "input_required" || d.Status == "auth_required") {
				tasks[e.Agent] = n + 1
			}
		case *event.HandoffStatus:
			if event.HandoffOver(d.Status) && d.TargetAgent != "" && active == agent.Human {
				active = d.TargetAgent
			}
		case *event.Route:
			if d.Failed != nil {
				s.gone[d.From] = true
			}
		case *event.Transfer:
			if d.Outcome == event.TransferCommitted {
				if active = d.To; d.To == name && (d.From == agent.Human || isBelow(tree.Node(d.From), tree.Node(name))) {
					s.gone[d.From] = true
				}
			}
		}
	}
	if at.TurnID != turn {
		s.before = active
		clear(s.gone)
	}
	for name := range tasks {
		s.waiting = append(s.waiting, name)
	}
	for name := range runs {
		if tasks[name] == 0 {
			s.waiting = append(s.waiting, name)
		}
	}
	slices.SortFunc(s.waiting, func(a, b string) int { return max(runs[a], tasks[a]) - max(runs[b], tasks[b]) })
	return s
}

func isBelow(n, above *agent.Node) bool {
	for n != nil && n != above {
		n = n.Parent
	}
	return n != nil
}

// expected says who must be chosen, and by which rule; nobody is "".
func (w *world) expected(i int, name string, shape *rulesOf) (rule *int, to string) {
	tree := shape.tree
	if tree == nil {
		tree = w.processes[0].Tree()
	}
	self := tree.Node(name)
	s := w.routing(i, name, tree)
	out := func(to string) bool {
		for gone := range s.gone {
			if gone == to || to != agent.Human && isBelow(tree.Node(gone), tree.Node(to)) {
				w.happen("a router that leaves out who gave up")
				return true
			}
		}
		return false
	}
	for n, r := range shape.rules {
		if to == "" && !out(r.to) && r.holds(s.said, s.state) {
			rule, to = &n, r.to
			w.happen("a rule of a router" + map[bool]string{true: " that leads to a person"}[to == agent.Human])
		}
	}
	// led is who gets what an agent is to go on with: it, or the first router on the way there.
	led := func(name string) string {
		var path []*agent.Node // from the agent up to below the router
		for at := returnsTo(tree.Node(name)); at != self; at = at.Parent {
			if at == nil {
				return ""
			}
			path = append(path, at)
		}
		for _, at := range slices.Backward(path) {
			if at.Properties.Router {
				return at.Agent.Name()
			}
		}
		if len(path) == 0 {
			return ""
		}
		return path[0].Agent.Name()
	}
	if to == "" && len(s.gone) == 0 {
		if shape.sticky {
			if to = led(s.before); to != "" {
				w.happen("a router that keeps to who was active")
			}
		}
		for _, name := range slices.Backward(s.waiting) {
			if to == "" {
				if to = led(name); to != "" {
					w.happen("a router that goes on with who has asked")
				}
			}
		}
	}
	if to == "" && !out(shape.fallback) {
		to = shape.fallback
	}
	return rule, to
}

func returnsTo(n *agent.Node) *agent.Node {
	for n != nil && n.Parent != nil && n.Properties.Return == agent.ReturnToParent {
		n = n.Parent
	}
	return n
}

// ruledBy returns the rules of the router that an event is of, nil if it is of none, and the
// name that it has there.
func (w *world) ruledBy(e *event.Event) *rulesOf {
	own := w.story.runs[e.RunID]
	if own == nil {
		return nil
	}
	if name, conversation := strings.CutPrefix(own.agent, "/"); conversation {
		return w.ruleds[name]
	}
	return must.Get(propertyRouter()).shapes[own.agent]
}

// checkRuled holds the i-th event of the log, of a router, against its rules.
func (w *world) checkRuled(i int) {
	e := w.log[i]
	shape := w.ruledBy(e)
	if shape == nil {
		return
	}
	where := ""
	if e.Scope != "" {
		where = map[bool]string{true: " in an agent tool", false: " in a graph"}[event.ParentRun(e.Scope) == ""]
	}
	switch d := e.Data.(type) {
	case *event.Route:
		if d.Failed != nil {
			w.checkNobody(i, shape, d.Failed)
			return
		}
		rule, to := w.expected(i, e.Agent, shape)
		require.Equal(w.t, to, d.To, "seq %d: who is chosen", e.Seq)
		require.Equal(w.t, rule, d.RuleIndex, "seq %d: the rule", e.Seq)
		w.happen("a router that decides by rules" + where)
	case *event.Transfer:
		if d.Outcome != event.TransferCommitted {
			return
		}
		before, ok := w.log[i-1].Data.(*event.Route)
		if ok && before.Failed != nil || !d.Routed() { // of the runner, in its name
			return
		}
		require.True(w.t, ok && before.To == d.To && w.log[i-1].RunID == e.RunID, "seq %d: a router hands over without a decision", e.Seq)
		kind := map[bool]string{true: event.TransferTypeBotToHuman, false: event.TransferTypeBotToBot}[d.To == agent.Human]
		require.Equal(w.t, []string{kind, fmt.Sprintf("%q", d.To)}, []string{d.TransferType, string(d.RouteDecision)}, "seq %d", e.Seq)
		require.Equal(w.t, before.GraphPath, d.GraphPath, "seq %d", e.Seq)
		require.Equal(w.t, d.To, d.GraphPath[len(d.GraphPath)-1], "seq %d", e.Seq)
	case *event.Failure:
		require.NotEqual(w.t, "transfer_limit", d.Code, "seq %d: a limit is no router's", e.Seq)
		w.checkNobody(i, shape, d)
	}
}

// checkNobody: there is nobody whom the router might have chosen in the place of the i-th event.
func (w *world) checkNobody(i int, shape *rulesOf, d *event.Failure) {
	if d.Code != "agent_error" {
		return
	}
	_, to := w.expected(i, w.log[i].Agent, shape)
	require.Empty(w.t, to, "seq %d: somebody is left: %s", w.log[i].Seq, d.Message)
	w.happen("a router with nobody left")
}
