package transcript

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/workflowagent"
)

// Tools returns the tools that agents of transcripts can have. A tool named second… waits for one that is named first…,
// so that parallel calls end in a known order.
func Tools(t testing.TB) *tools.Registry {
	type in struct {
		ID int `json:"id,omitempty"`
	}
	tool := func(name string, f func(tools.Context, in) (any, error)) tools.Tool {
		made, err := tools.Func(name, "Does "+name+".", f)
		require.NoError(t, err)
		return made
	}
	var firsts sync.Map // run → channel closed by "first"
	gate := func(ctx tools.Context) chan struct{} {
		run, _, _ := strings.Cut(ctx.IdempotencyKey(), "/")
		ch, _ := firsts.LoadOrStore(run, make(chan struct{}))
		return ch.(chan struct{})
	}
	exit, err := workflowagent.ExitTool()
	require.NoError(t, err)
	pay, err := tools.Func("pay", "Does pay.", func(tools.Context, in) (any, error) { return "paid", nil }, tools.NeedsApproval(tools.ByUser()))
	require.NoError(t, err)
	r, err := tools.NewRegistry(exit,
		tool("lookup", func(_ tools.Context, in in) (any, error) { return map[string]any{"id": in.ID, "amount": 19}, nil }),
		tool("broken", func(tools.Context, in) (any, error) { return nil, errors.New("the database is on fire") }),
		tool("panics", func(tools.Context, in) (any, error) { panic("boom") }),
		tool("remember", func(ctx tools.Context, in in) (any, error) { ctx.Set("seen", in.ID); return "noted", nil }),
		tool("first", func(ctx tools.Context, in in) (any, error) {
			// The result is stored after this returns; second waits for it by reading the state that comes with it.
			ctx.Set("turn:first", true)
			close(gate(ctx))
			return "first", nil
		}),
		tool("second", func(ctx tools.Context, in in) (any, error) {
			select {
			case <-gate(ctx):
			case <-ctx.Done():
			}
			for ctx.Err() == nil { // the store has no notification; the result is stored within microseconds
				if _, ok := ctx.Get("turn:first"); ok {
					return "second", nil
				}
				time.Sleep(time.Microsecond)
			}
			return nil, ctx.Err()
		}),
		tool("ask", func(ctx tools.Context, _ in) (any, error) {
			return ctx.Ask("How many?", json.RawMessage(`{"type":"integer"}`))
		}),
		pay,
	)
	require.NoError(t, err)
	return r
}

// Tree builds the tree of a transcript. The options apply to all agents.
func Tree(t testing.TB, text string, model func(name string) llm.Model, all ...llmagent.Option) agent.Agent {
	b := &builder{t: t, model: model, all: all, registry: Tools(t)}
	var open []*spec
	closeTo := func(depth int) {
		for len(open) > 1 && open[len(open)-1].depth >= depth {
			last := open[len(open)-1]
			open = open[:len(open)-1]
			parent, built := open[len(open)-1], b.build(last)
			if slices.Contains(last.words, "tool") {
				made, err := agenttool.New(built)
				require.NoError(t, err)
				parent.tools = append(parent.tools, made)
				continue
			}
			parent.kids, parent.nodes = append(parent.kids, built), append(parent.nodes, last)
		}
	}
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		head, desc, _ := strings.Cut(line, "|")
		words := strings.Fields(head)
		s := &spec{depth: len(line) - len(strings.TrimLeft(line, " ")), name: words[0], words: words[1:], desc: strings.TrimSpace(desc)}
		closeTo(s.depth)
		open = append(open, s)
	}
	closeTo(1)
	require.Len(t, open, 1, "one root")
	return b.build(open[0])
}

// spec is a line of a tree, with the lines below it.
type spec struct {
	depth int
	name  string
	desc  string
	words []string
	kids  []agent.Agent
	tools []tools.Tool
	nodes []*spec
}

// builder builds agents from the lines of a tree.
type builder struct {
	t        testing.TB
	model    func(name string) llm.Model
	all      []llmagent.Option
	registry *tools.Registry
}

func (b *builder) build(s *spec) agent.Agent {
	for kind, make := range map[string]func(string, string, []agent.Agent, ...workflowagent.Option) (agent.Agent, error){
		"sequential": workflowagent.Sequential, "parallel": workflowagent.Parallel, "loop": workflowagent.Loop} {
		if slices.Contains(s.words, kind) {
			a, err := make(s.name, s.desc, s.kids)
			require.NoError(b.t, err)
			return a
		}
	}
	if slices.Contains(s.words, "graph") {
		return b.graph(s)
	}
	var policy agent.TransferPolicy
	opts := slices.Concat([]llmagent.Option{llmagent.WithDescription(s.desc), llmagent.WithSubAgents(s.kids...), llmagent.WithTools(s.tools...)}, b.all)
	for _, w := range s.words {
		opts = append(opts, b.options(w, &policy)...)
	}
	a, err := llmagent.New(s.name, "You are "+s.name+".", b.model(s.name), append(opts, llmagent.WithTransferPolicy(policy))...)
	require.NoError(b.t, err)
	return a
}

// graph builds a chain of the agents below the line.
func (b *builder) graph(s *spec) agent.Agent {
	graph, last := agentgraph.NewBuilder(s.name), ""
	for i, node := range s.nodes {
		var opts []agentgraph.NodeOption
		if slices.Contains(node.words, "human") {
			opts = append(opts, agentgraph.AskFirst("Shall it?"))
		}
		graph.Node(node.name, s.kids[i], opts...)
		if last != "" {
			graph.Edge(last, node.name)
		}
		last = node.name
	}
	g, err := graph.Build(agentgraph.WithDescription(s.desc))
	require.NoError(b.t, err)
	return g
}

// options returns the options for a word of an agent's line. Other words change its policy.
func (b *builder) options(word string, policy *agent.TransferPolicy) []llmagent.Option {
	if w, other, ok := strings.Cut(word, "="); ok && w == "decide" {
		return []llmagent.Option{llmagent.WithDecision(b.model(other))}
	}
	switch word {
	case "tool", "human":
	case "asks":
		return []llmagent.Option{llmagent.WithTransferApproval(tools.ByUser())}
	case "mcp":
		server, err := Server(func(string, string) {})
		require.NoError(b.t, err)
		b.t.Cleanup(func() { require.NoError(b.t, server.Close()) })
		return []llmagent.Option{llmagent.WithToolset(server)}
	case "decide":
		return []llmagent.Option{llmagent.WithDecision(nil)}
	case "parent":
		policy.AllowTransferToParent = true
	case "peers":
		policy.AllowTransferToPeers = true
	case "hold":
		policy.HoldOnArrival = true
	case "small":
		return []llmagent.Option{llmagent.WithSmallModels()}
	case "each":
		return []llmagent.Option{llmagent.WithTransferTools(transfer.ToolPerTarget)}
	default:
		require.NotNil(b.t, b.registry.Get(word), word)
		return []llmagent.Option{llmagent.WithTools(b.registry.Get(word))}
	}
	return nil
}
