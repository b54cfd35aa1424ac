package runner_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

var treeSizes = rapid.OneOf(rapid.IntRange(1, 6), rapid.IntRange(1, 6), rapid.IntRange(1, 6), rapid.IntRange(7, 50))

// tree builds a random tree of at most 50 agents, at most 6 deep.
func (w *world) tree() {
	n := treeSizes.Draw(w.rt, "agents")
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
	w.script = rapid.SliceOfN(w.plans(), 0, 24).Draw(w.rt, "plans")
	kids := make([][]agent.Agent, n)
	for i := n - 1; i >= 0; i-- {
		a := w.agent(w.names[i], kids[i])
		if i == 0 {
			w.root = a
			break
		}
		var opts []agent.EdgeOption
		if oneInFour.Draw(w.rt, "show reason") == 3 {
			opts = append(opts, agent.ShowReason())
		}
		kids[parent[i]] = append([]agent.Agent{agent.Via(a, opts...)}, kids[parent[i]]...)
	}
}

var (
	someHistory = rapid.SampledFrom([]string{"full", "full", "text_only", "own", "last_turns:1", "last_turns:2"})
	oneInTen    = rapid.IntRange(0, 9)
	someSlots   = rapid.IntRange(1, 3)
)

func (w *world) agent(name string, kids []agent.Agent) agent.Agent {
	policy := agent.TransferPolicy{
		AllowTransferToParent: rapid.Bool().Draw(w.rt, "to parent"), AllowTransferToPeers: rapid.Bool().Draw(w.rt, "to peers")}
	if oneInTen.Draw(w.rt, "function agent") == 9 {
		a, err := agent.New(name, "A function.", w.function, agent.WithSubAgents(kids...), agent.WithTransferPolicy(policy))
		require.NoError(w.t, err)
		return a
	}
	history := someHistory.Draw(w.rt, "history")
	p, err := view.Parse(history)
	require.NoError(w.t, err)
	toolbox, err := propertyTools()
	require.NoError(w.t, err)
	m := &plannedModel{name: name, trims: strings.HasPrefix(history, "last")}
	a, err := llmagent.New(name, "You are "+name+".", m, llmagent.WithDescription("Agent "+name), llmagent.WithSubAgents(kids...),
		llmagent.WithTransferPolicy(policy), llmagent.WithHistory(p), llmagent.WithTools(toolbox...),
		llmagent.WithParallelTools(someSlots.Draw(w.rt, "parallel")))
	require.NoError(w.t, err)
	return a
}

// propertyTools makes the tools of all agents, once: schemas take long to compile.
var propertyTools = sync.OnceValues(func() ([]tools.Tool, error) {
	type in struct {
		N int `json:"n,omitempty"`
	}
	var errs []error
	once := func(name string, f func(tools.Context, in) (any, error), opts ...tools.Option) tools.Tool {
		t, err := tools.Func(name, "Does "+name+".", func(ctx tools.Context, in in) (any, error) {
			if w := worldOf(ctx); len(opts) == 0 {
				w.mu.Lock()
				w.runs[ctx.IdempotencyKey()]++
				w.mu.Unlock()
			}
			return f(ctx, in)
		}, opts...)
		errs = append(errs, err)
		return t
	}
	fine := once("fine", func(_ tools.Context, in in) (any, error) { return map[string]int{"n": in.N}, nil })
	inner, err := llmagent.New("inner", "", &plannedModel{name: "inner", inner: true}, llmagent.WithTools(fine),
		llmagent.WithInstructionFunc(func(_ context.Context, inv *agent.Invocation) (string, error) { return "inner " + inv.Scope(), nil }))
	if err != nil {
		return nil, err
	}
	nested, err := agenttool.New(inner, agenttool.WithName("nested"))
	errs = append(errs, err)
	return []tools.Tool{
		fine,
		once("again", func(tools.Context, in) (any, error) { return "again", nil }, tools.Idempotent()),
		once("broken", func(tools.Context, in) (any, error) { return nil, errors.New("on fire\nall of it") }),
		once("panics", func(tools.Context, in) (any, error) { panic("boom") }),
		once("remember", func(c tools.Context, in in) (any, error) {
			c.Set("seen", in.N)
			c.Progress(in.N)
			return strings.Repeat("é", 300), nil
		}),
		nested,
	}, errors.Join(errs...)
})
