package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

var treeSizes = rapid.OneOf(rapid.IntRange(1, 6), rapid.IntRange(2, 6), rapid.IntRange(2, 6), rapid.IntRange(7, 50))

// tree builds a random tree of at most 50 agents, at most 6 deep, or of one that is a graph.
func (w *world) tree() {
	if w.shares = oneInTen.Draw(w.rt, "shared requests") >= 8; w.shares {
		w.opts = append(w.opts, runner.WithSharedRequests())
	}
	n := treeSizes.Draw(w.rt, "agents")
	alone := oneInTen.Draw(w.rt, "a graph alone") == 9
	if alone {
		n = 1
	}
	if n >= 40 {
		w.happened["forty agents"] = true
	}
	parent, depth := make([]int, n), make([]int, n)
	for i := range n {
		w.names = append(w.names, "a"+strconv.Itoa(i))
		if i > 0 {
			parent[i] = rapid.IntRange(0, i-1).Draw(w.rt, "parent")
			for depth[parent[i]] >= 5 {
				parent[i] = parent[parent[i]]
			}
			depth[i] = depth[parent[i]] + 1
		}
	}
	w.script = rapid.SliceOfN(w.plans(), 2*someOdds.Draw(w.rt, "plans at least"), 24).Draw(w.rt, "plans")
	if i := someOdds.Draw(w.rt, "insists from"); oneInTen.Draw(w.rt, "insists") == 9 && i <= len(w.script) {
		insists := plan{Calls: []plannedCall{{Name: "unknown", Args: `{"n": 3}`}}, Usage: true}
		w.script = slices.Insert(w.script, i, insists, insists, insists)
	}
	for range someInquiries.Draw(w.rt, "inquiries") {
		w.script = slices.Insert(w.script, rapid.IntRange(0, min(len(w.script), 7)).Draw(w.rt, "inquires at"), curious.Draw(w.rt, "inquires"))
	}
	if w.page = oneInTen.Draw(w.rt, "a page") >= 7; w.page {
		shows := plan{Calls: []plannedCall{{Name: pageTool, Args: `{}`}, {Name: pageTool, Args: `{}`}}[:rapid.IntRange(1, 2).Draw(w.rt, "shown")], Usage: true}
		w.script = slices.Insert(w.script, rapid.IntRange(0, min(len(w.script), 3)).Draw(w.rt, "shows at"), shows)
	}
	ahead := oneInTen.Draw(w.rt, "anticipates") >= 7
	if ahead {
		w.opts = append(w.opts, runner.AnticipatesFirst(), runner.WithAnticipation(w.predicts, 0.5))
		for i := range rapid.IntRange(0, 4).Draw(w.rt, "plain transfers") {
			plain := plan{Calls: []plannedCall{{Name: agent.TransferTool, Args: fmt.Sprintf(`{"agent_name":"@%d"}`, i%2)}}, Usage: true}
			w.script = slices.Insert(w.script, min(i, 1)*rapid.IntRange(0, min(len(w.script), 5)).Draw(w.rt, "transfers at"), plain)
		}
	}
	w.desk = w.newDesk()
	routers := make([]bool, n)
	for i := 1; i < n; i++ {
		if p := parent[i]; p == 0 && oneInFour.Draw(w.rt, "router in front") == 3 || p > 0 && oneInTen.Draw(w.rt, "router") == 9 {
			routers[p] = true
		}
	}
	below := func(i, j int) bool { // also if it is j
		for i > j {
			i = parent[i]
		}
		return i == j
	}
	kids, inputs := make([][]agent.Agent, n), make([]bool, n)
	for i := n - 1; i >= 0; i-- {
		history := someHistory.Draw(w.rt, "history")
		if i == 0 && history.onEdge || w.shares { // the root has no edge
			history = viewChoice{policy: view.Full()}
		}
		var routes []agent.Route
		if routers[i] && history.onEdge {
			history = viewChoice{policy: view.Full()}
		}
		for j := i + 1; j < n; j++ { // to children and later siblings: never in a circle
			if (parent[j] == i || i > 0 && parent[j] == parent[i]) && oneInTen.Draw(w.rt, "route") == 9 {
				if inputs[j] {
					continue // which a route cannot carry
				}
				routes = append(routes, agent.OnStop(w.names[j], w.condition))
			}
		}
		var a agent.Agent
		switch {
		case alone:
			a = w.planned(w.names[i])
		case routers[i]:
			if oneInFour.Draw(w.rt, "by rules") > 0 {
				a = w.ruled(w.names[i], kids[i])
				break
			}
			a = w.router(w.names[i], rapid.Bool().Draw(w.rt, "sticky"), kids[i])
		case i > 0 && len(kids[i])+len(routes) == 0:
			a = w.outside(w.names[i], routers[parent[i]])
		}
		if a == nil {
			a = w.agent(w.names[i], history, routes, kids[i])
		}
		if i == 0 {
			w.root = a
			if oneInFour.Draw(w.rt, "searches") == 3 {
				w.root = &searching{a, w.happen}
			}
			break
		}
		if len(kids[i])+len(routes) == 0 && oneInTen.Draw(w.rt, "away") == 9 {
			a, w.away[w.names[i]] = away{a}, true
		}
		var opts []agent.EdgeOption
		if oneInFour.Draw(w.rt, "hide reason") == 3 && !w.shares {
			opts = append(opts, agent.HideReason())
			w.hides[w.names[i]] = true
		}
		if oneInTen.Draw(w.rt, "on error") >= 7 { // to an earlier one: never in a circle
			if j := rapid.IntRange(0, i-1).Draw(w.rt, "goes on"); !below(i, j) {
				opts = append(opts, agent.OnError(w.names[j]))
			} else if w.desk != nil {
				opts = append(opts, agent.OnError(agent.Human))
			}
		}
		if history.onEdge {
			opts = append(opts, history.policy)
		}
		edge := oneInTen.Draw(w.rt, "edge")
		if ahead && i%4 > 0 {
			edge = 0 // what an edge may have keeps its target from being asked ahead
		}
		switch edge {
		case 5, 6, 7:
			guard := propertyGuard // which refuses single characters
			if n := oneInFour.Draw(w.rt, "window"); n > 0 {
				guard = guard.Window(n - 1)
			}
			opts = append(opts, agent.GuardedBy(guard))
			w.guarded[w.names[i]] = true
		case 8:
			if routers[parent[i]] {
				break // who cannot give one
			}
			opts = append(opts, someInput)
			inputs[i] = true
		case 9:
			opts = append(opts, agent.When(w.condition))
		}
		kids[parent[i]] = append([]agent.Agent{agent.Via(a, opts...)}, kids[parent[i]]...)
	}
}

// viewChoice is how much of the conversation an agent sees. On an edge the policy
// takes the place of the agent's own.
type viewChoice struct {
	policy        view.Policy
	trims, onEdge bool
	words, own    bool // of others it shows words alone, or nothing
	redacts       bool // Hello
}

var (
	someHistory = rapid.SampledFrom([]viewChoice{{policy: view.Full()}, {policy: view.Full()}, {policy: view.TextOnly(), words: true}, {policy: view.Own(), own: true},
		{policy: view.Full().Redact(func(s string) string { return strings.ReplaceAll(s, "Hello", "***") }), redacts: true},
		{policy: view.LastTurns(1), trims: true}, {policy: view.LastTurns(2), trims: true}, {policy: view.LastTurns(2), trims: true, onEdge: true},
		{policy: view.TextOnly(), words: true, onEdge: true}})
	// The tools alone have more than a thousand tokens.
	someCompaction = rapid.SampledFrom([]llmagent.Compaction{{}, {}, {}, {}, {}, {}, {Window: 2000}, {Window: 1800, Keep: 0.1, Summarizer: summarizer{}},
		{Window: 1600, Summarizer: summarizer{}}, {Window: 400}})
	somePolicy = rapid.SampledFrom(propertyPolicies())
	someForm   = rapid.SampledFrom([]transfer.Tools{0, transfer.OneTool, transfer.ToolPerTarget})
	oneInTen   = rapid.IntRange(0, 9)
	someSlots  = rapid.IntRange(1, 3)
)

// searching is a root of a type of its own. Its FindAgent keeps no index, and also takes "the_" before a name.
type searching struct {
	agent.Agent
	happen func(string)
}

func (s *searching) Unwrap() agent.Agent { return s.Agent }

func (s *searching) FindAgent(name string) agent.Agent {
	name, meant := strings.CutPrefix(name, "the_")
	if name == s.Name() {
		return s
	}
	for _, child := range s.SubAgents() {
		if found := child.FindAgent(name); found != nil {
			if meant {
				s.happen("an agent found by another name")
			}
			return found
		}
	}
	return nil
}

// propertyPolicies returns rules about tools, most often none.
func propertyPolicies() []*tools.Policy {
	all := make([]*tools.Policy, 4)
	for _, rules := range [][]tools.Rule{
		{{Tool: "fine", Decision: tools.Ask}},
		{{Tool: "*", Decision: tools.Ask}},
		{{Tool: "nested*", Decision: tools.Ask}, {Tool: "again", Decision: tools.Deny}},
		{{Tool: "*", Args: map[string]tools.Arg{"n": {Matches: "^3$"}}, Decision: tools.Deny}, {Tool: "again", Decision: tools.Ask}},
		{{Tool: "ask", Decision: tools.Deny}, {Tool: "remember", Decision: tools.Ask}, {Tool: "fine", Decision: tools.Allow}},
	} {
		p := must.Get(tools.NewPolicy(rules...))
		all = append(all, p)
	}
	return all
}

var (
	errGuard     = errors.New("not this")
	errCondition = errors.New("no way on")
	someInput    = agent.WithTransferInput[struct {
		N int `json:"n"`
	}]()
	someOutput = llmagent.WithOutput[struct {
		N int `json:"n"`
	}]()
	// propertyGuard refuses some words of its agent, some of users and of tools.
	propertyGuard = agent.Guard{Name: "guard",
		In: func(_ context.Context, _ *agent.Invocation, in agent.Ingress) error {
			if text := in.Content.PlainText(); text == "asked" || text == "again" || text == "Both" {
				return errGuard
			}
			return nil
		},
		Out: func(_ context.Context, _ *agent.Invocation, text string) error {
			if strings.Contains(text, "é") {
				return errGuard
			}
			return nil
		}}
)

// condition is that of all routes: some words lead on, and some are an error.
func (w *world) condition(_ context.Context, inv *agent.Invocation, answer string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.routed = append(w.routed, routed{inv.RunID(), answer})
	if strings.Contains(answer, "line") {
		return false, errCondition
	}
	return strings.Contains(answer, "o"), nil
}

func (w *world) agent(name string, history viewChoice, routes []agent.Route, kids []agent.Agent) agent.Agent {
	policy := agent.TransferPolicy{
		AllowTransferToParent: rapid.Bool().Draw(w.rt, "to parent"), AllowTransferToPeers: rapid.Bool().Draw(w.rt, "to peers"),
		HoldOnArrival: oneInFour.Draw(w.rt, "holds") == 3, NoHuman: oneInFour.Draw(w.rt, "no human") == 3}
	returns := agent.StayActive
	if oneInFour.Draw(w.rt, "returns") == 2 {
		returns = agent.ReturnToParent
	}
	function := oneInTen.Draw(w.rt, "function agent")
	if function == 9 {
		w.traits[name] = traits{}
		return must.Get(agent.New(name, "A function.", w.function, agent.WithSubAgents(kids...), agent.WithTransferPolicy(policy), agent.WithReturn(returns),
			agent.WithRoutes(routes...)))
	}
	box := must.Get(propertyTools())
	if oneInTen.Draw(w.rt, "outside tool") == 9 && !w.shares { // each differs from the others
		out := must.Get(w.outsideTool())
		box = append(slices.Clip(box), out)
	}
	if function == 8 {
		opts := []llmagent.Option{llmagent.WithSubAgents(kids...), llmagent.WithTransferPolicy(policy), llmagent.WithReturn(returns), llmagent.WithRoutes(routes...)}
		if !history.onEdge {
			opts = append(opts, llmagent.WithHistory(history.policy))
		}
		return w.stepping(name, box, opts...)
	}
	t := traits{rules: somePolicy.Draw(w.rt, "rules"), asks: oneInFour.Draw(w.rt, "transfers are approved") == 3, holds: policy.HoldOnArrival, model: true}
	form := someForm.Draw(w.rt, "transfer tools")
	compaction := someCompaction.Draw(w.rt, "compaction")
	if w.shares {
		form, compaction = 0, llmagent.Compaction{}
		if without := rapid.IntRange(0, 2*len(box)).Draw(w.rt, "without"); without < len(box) && t.rules == nil { // which may be about that tool
			t.without = box[without].Info().Name
			box = slices.Delete(slices.Clone(box), without, without+1)
		}
	}
	t.each = form == transfer.ToolPerTarget
	w.traits[name] = t
	m := &plannedModel{name: name, history: history, each: form == transfer.ToolPerTarget, shares: w.shares}
	opts := []llmagent.Option{llmagent.WithDescription("Agent " + name), llmagent.WithSubAgents(kids...),
		llmagent.WithTransferPolicy(policy), llmagent.WithReturn(returns), llmagent.WithRoutes(routes...), llmagent.WithTransferTools(form), llmagent.WithTools(box...), llmagent.WithToolPolicy(t.rules),
		llmagent.WithParallelTools(someSlots.Draw(w.rt, "parallel"))}
	if compaction.Window > 0 {
		opts = append(opts, llmagent.WithCompaction(compaction))
	}
	if t.asks {
		opts = append(opts, llmagent.WithTransferApproval())
	}
	if m.typed = oneInTen.Draw(w.rt, "typed") == 9; m.typed {
		t.typed = true
		w.traits[name] = t
		opts = append(opts, someOutput)
	}
	if decides := someDecision.Draw(w.rt, "decides"); decides != nil {
		t.decides = true
		w.traits[name] = t
		opts = append(opts, decides)
	}
	if !history.onEdge {
		opts = append(opts, llmagent.WithHistory(history.policy))
	}
	return must.Get(llmagent.New(name, "You are "+name+".", w.withFallback(m), opts...))
}

// propertyTools makes the tools of all agents, once: schemas take long to compile.
var propertyTools = sync.OnceValues(func() ([]tools.Tool, error) {
	type in struct {
		N int `json:"n,omitempty"`
	}
	var errs []error
	tool := func(name string, f func(tools.Context, in) (any, error), opts ...tools.Option) tools.Tool {
		var info tools.Info
		t, err := tools.Func(name, "Does "+name+".", func(ctx tools.Context, in in) (any, error) {
			worldOf(ctx).runs(ctx, info)
			return f(ctx, in)
		}, opts...)
		if err == nil {
			info = t.Info()
		}
		errs = append(errs, err)
		return t
	}
	inner := func(name string, opts ...llmagent.Option) agent.Agent {
		a, err := llmagent.New(name, "", &plannedModel{name: name, inner: true}, append(opts,
			llmagent.WithInstructionFunc(instructed))...)
		errs = append(errs, err)
		return a
	}
	function := func(name string, box []tools.Tool, opts ...llmagent.Option) agent.Agent {
		a, err := llmagent.Func(name, "A function.", steps, append(opts, llmagent.WithTools(box...))...)
		errs = append(errs, err)
		return a
	}
	around := agenttool.WithHistory(view.LastTurns(2))
	nested := func(a agent.Agent, opts ...agenttool.Option) tools.Tool {
		t, err := agenttool.New(a, opts...)
		errs = append(errs, err)
		return t
	}
	fine := tool("fine", func(_ tools.Context, in in) (any, error) { return map[string]int{"n": in.N}, nil })
	again := tool("again", func(tools.Context, in) (any, error) { return "again", nil }, tools.Idempotent())
	inquire := tool(inquiry, func(c tools.Context, in in) (any, error) { return inquires(c, in.N) })
	ask := tool("ask", func(tools.Context, in) (any, error) { return "asked", nil }, tools.NeedsApproval())
	// Agents inside of agent tools, in two levels. One has the name of an agent of
	// the conversation, all can be handed over to.
	deep := nested(inner("deep_inner", llmagent.WithTools(fine, again, inquire)), agenttool.WithName("nested"))
	both := agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}
	tree := inner("inner", llmagent.WithTools(fine, ask, inquire, deep), llmagent.WithSubAgents(
		inner("left", llmagent.WithTransferPolicy(both), llmagent.WithDecision(nil), llmagent.WithTools(fine)),
		function("right", []tools.Tool{fine, again, ask, inquire, deep}, llmagent.WithTransferPolicy(both)),
		inner("a1", llmagent.WithTransferPolicy(both), llmagent.WithTransferTools(transfer.OneTool), llmagent.WithTransferApproval(), llmagent.WithTools(deep))))
	routing, err := propertyRouter()
	errs = append(errs, err)
	return []tools.Tool{
		fine, again, ask, inquire,
		tool("broken", func(tools.Context, in) (any, error) { return nil, errors.New("on fire\nall of it") }),
		tool("panics", func(tools.Context, in) (any, error) { panic("boom") }),
		tool("remember", func(c tools.Context, in in) (any, error) {
			c.Set("seen", in.N)
			c.Progress(in.N)
			f, err := c.SaveFile(fmt.Sprintf("%d.txt", in.N), "", fmt.Append(nil, in.N))
			if err != nil {
				return nil, err
			}
			if data, err := c.ReadFile(f.Name); err != nil || string(data) != fmt.Sprint(in.N) {
				return nil, fmt.Errorf("%q is read, %w", data, err)
			}
			return strings.Repeat("é", 300), nil
		}),
		tool("stop", func(c tools.Context, _ in) (any, error) {
			worldOf(c).interrupt()
			return "stopped", nil
		}),
		tool("odd", func(c tools.Context, in in) (any, error) { return odd(c, in.N) }),
		nested(tree, agenttool.WithName("nested"), around), routing.tool,
		nested(function("steps", []tools.Tool{fine, again, ask, inquire, deep}, llmagent.WithSubAgents(
			function("steps_aside", []tools.Tool{fine}, llmagent.WithTransferPolicy(both)))), agenttool.WithName("nested_steps")),
		nested(function("steps_again", []tools.Tool{fine, again}), agenttool.WithName("nested_steps_again")),
		nested(inner("alone", llmagent.WithTools(again)), agenttool.WithName("nested_again"), agenttool.WithHistory(view.Full())),
	}, errors.Join(errs...)
})

// innerTargets says to whom the models of inner scopes may transfer.
var innerTargets = map[string][]string{"inner": {"left", "right", "a1"}, "left": {"inner", "right", "a1"}, "a1": {"inner", "left", "right"},
	"inner_two": {"switch_below", "function_one"}, "inner_four": {"switch", "function_three", "switch_below"},
	"pair": {"second", "third"}, "second": {"pair", "third"}, "fourth": {"steps_on", "steps_back"}}

// runs notes that a tool runs.
func (w *world) runs(ctx tools.Context, info tools.Info) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acted++
	x := w.ran[ctx.CallID()]
	if x == nil {
		x = &execution{info: info, agent: ctx.Agent()}
		w.ran[ctx.CallID()] = x
	}
	x.times++
}
