package agentgraph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// guarded puts a guard on the edge to an agent that refuses words with 4111. It notes who
// has said what.
type guarded struct {
	mu   sync.Mutex
	said []string
}

func (g *guarded) put(a agent.Agent) agent.Agent {
	return agent.Via(a, agent.GuardedBy(agent.Guard{Name: "no-cards", Out: func(_ context.Context, inv *agent.Invocation, text string) error {
		g.mu.Lock()
		g.said = append(g.said, inv.Agent().Name()+": "+text)
		g.mu.Unlock()
		if strings.Contains(text, "4111") {
			return fmt.Errorf("there is a card number in %q", text)
		}
		return nil
	}}))
}

// talks makes an agent whose model gives the answers of one call after the other.
func talks(t testing.TB, name string, answers []scripted.Answer, opts ...llmagent.Option) agent.Agent {
	t.Helper()
	return must.Get(llmagent.New(name, "", scripted.New().Add(name, answers...).Model(name), opts...))
}

func words(deltas ...string) []scripted.Answer {
	return []scripted.Answer{scripted.Reply(scripted.Text(deltas...))}
}

const card = "It is 4111."

// TestGuardsOfGraphs: what a guard on a graph refuses is not seen whole by anybody,
// whichever agent inside of the graph says it and by which way, streamed and not.
func TestGuardsOfGraphs(t *testing.T) {
	says := func(t *testing.T) agent.Agent { return talks(t, "writer", words("It is ", "4111", ".")) }
	calls := func(t *testing.T, inner agent.Agent, then string) agent.Agent {
		tool := must.Get(agenttool.New(inner))
		return talks(t, "caller", append([]scripted.Answer{scripted.Reply(scripted.Call(inner.Name(), `{"input":"go"}`))}, words(then)...), llmagent.WithTools(tool))
	}
	graph := func(t *testing.T, name string, node agent.Agent, opts ...agentgraph.NodeOption) *agentgraph.Agent {
		a := must.Get(agentgraph.NewBuilder(name).Node("first", gives(t, "fine")).Node("node", node, opts...).Node("last", gives(t, "done")).
			Edge("first", "node").Edge("node", "last").Build())
		return a
	}
	for name, c := range map[string]struct {
		root   func(t *testing.T, g *guarded) agent.Agent
		passes bool // the turn goes on
		who    string
	}{
		"a node": {func(t *testing.T, g *guarded) agent.Agent { return g.put(graph(t, "graph", says(t))) }, false, "node"},
		"the only node": {func(t *testing.T, g *guarded) agent.Agent {
			return g.put(must.Get(agentgraph.NewBuilder("graph").Node("node", says(t)).Build()))
		}, false, "node"},
		"the output of a function": {func(t *testing.T, g *guarded) agent.Agent {
			return g.put(graph(t, "graph", gives(t, map[string]string{"answer": card})))
		}, false, "node"},
		"the graph's own output": {func(t *testing.T, g *guarded) agent.Agent {
			a := must.Get(agentgraph.NewBuilder("graph").Node("a", gives(t, 1)).Node("b", gives(t, 1)).Node("4111", gives(t, 1)).Edge("a", "b").Edge("a", "4111").Build())
			return g.put(a)
		}, false, "graph"},
		"a node by a transfer": {func(t *testing.T, g *guarded) agent.Agent {
			return g.put(graph(t, "graph", talks(t, "front", []scripted.Answer{scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"writer"}`))}, llmagent.WithSubAgents(says(t)))))
		}, false, "writer"},
		"an agent tool of a node": {func(t *testing.T, g *guarded) agent.Agent {
			return g.put(graph(t, "graph", calls(t, says(t), "I do not know.")))
		}, true, "writer"},
		"an agent tool of an agent tool of a node": {func(t *testing.T, g *guarded) agent.Agent {
			return g.put(graph(t, "graph", calls(t, talks(t, "middle", append([]scripted.Answer{scripted.Reply(scripted.Call("writer", `{"input":"go"}`))}, words("Neither do I.")...),
				llmagent.WithTools(must.Get(agenttool.New(says(t))))), "I do not know.")))
		}, true, "writer"},
		"a graph in a graph": {func(t *testing.T, g *guarded) agent.Agent {
			return g.put(graph(t, "outer", graph(t, "inner", says(t))))
		}, false, "node"},
		"a guarded graph in a graph": {func(t *testing.T, g *guarded) agent.Agent {
			return graph(t, "outer", g.put(graph(t, "inner", says(t))))
		}, false, "node"},
		"a guarded node": {func(t *testing.T, g *guarded) agent.Agent { return graph(t, "graph", g.put(says(t))) }, false, "node"},
		"a node with a guard of its own": {func(t *testing.T, g *guarded) agent.Agent {
			return graph(t, "graph", agent.Via(talks(t, "writer", words(card), llmagent.WithGuards(agent.Guard{Name: "no-cards", Out: func(_ context.Context, inv *agent.Invocation, text string) error {
				g.said = append(g.said, inv.Agent().Name()+": "+text)
				return errors.New("no")
			}}))))
		}, false, "node"},
		"a graph behind a transfer": {func(t *testing.T, g *guarded) agent.Agent {
			return talks(t, "support", []scripted.Answer{scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"graph"}`))}, llmagent.WithSubAgents(g.put(graph(t, "graph", says(t)))))
		}, false, "node"},
		"a graph behind an agent tool": {func(t *testing.T, g *guarded) agent.Agent {
			return calls(t, g.put(graph(t, "graph", says(t))), "Fine.")
		}, true, "node"},
		"the output of a graph behind an agent tool": {func(t *testing.T, g *guarded) agent.Agent {
			a := must.Get(agentgraph.NewBuilder("graph").Node("a", gives(t, 1)).Node("b", gives(t, 1)).Node("4111", gives(t, 1)).Edge("a", "b").Edge("a", "4111").Build())
			return calls(t, g.put(a), "Fine.")
		}, true, "graph"},
		"after an approval": {func(t *testing.T, g *guarded) agent.Agent {
			return g.put(graph(t, "graph", says(t), agentgraph.AskFirst("May it?")))
		}, false, "node"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, streaming := range []bool{false, true} {
				var opts []runner.Option
				if streaming {
					opts = append(opts, runner.WithStreaming())
				}
				g := &guarded{}
				r := must.Get(runner.New(c.root(t, g), sessiontest.Memory(t), opts...))
				var shown []*event.Event
				var failed error
				take := func(e *event.Event, err error) bool {
					if failed = err; err == nil {
						shown = append(shown, e)
					}
					return true
				}
				r.Run(context.Background(), session.ID("s"), llm.UserText("Go."))(take)
				if name == "after an approval" {
					require.NoError(t, failed)
					r.Resume(context.Background(), session.ID("s"), runner.Approve(waitingCall(t, shown)))(take)
				}
				var trip *agent.TripwireError
				require.Equal(t, !c.passes, errors.As(failed, &trip), "%v", failed)
				if trip != nil {
					require.Equal(t, "no-cards", trip.Guard)
					require.Equal(t, c.who, trip.Agent)
				}
				require.Contains(t, strings.Join(g.said, "\n"), c.who+": ")
				requireWithheld(t, shown)
				log := must.All(r.History(context.Background(), session.ID("s")))
				requireWithheld(t, log)
			}
		})
	}
}

func waitingCall(t *testing.T, events []*event.Event) string {
	for _, e := range events {
		if d, ok := e.Data.(*event.Relay); ok {
			return d.ToolCallID
		}
	}
	t.Fatal("nobody was asked")
	return ""
}

// requireWithheld makes sure that no whole event has the refused words, and that deltas
// of words which were not completed are taken back.
func requireWithheld(t *testing.T, events []*event.Event) {
	t.Helper()
	open := make(map[string]bool)
	for _, e := range events {
		if e.Partial {
			open[e.ID] = true
			continue
		}
		delete(open, e.ID)
		switch d := e.Data.(type) {
		case *event.Discard:
			for _, id := range d.IDs {
				delete(open, id)
			}
			continue
		case *event.Failure: // the guard's own error may quote
			continue
		}
		text := string(event.EncodeJSON(e.Data))
		if _, ok := e.Data.(*event.HarnessStart); ok || e.Agent == "4111" { // the id of a node
			continue
		}
		require.NotContains(t, text, "4111", "%s of %s", e.Type(), e.Agent)
	}
	require.Empty(t, open, "shown and neither completed nor taken back")
}

// TestGuardsOfGraphsWithStrategies: a node whose words the graph's guard refuses has
// failed, and the graph's strategy decides how to continue. The guard checks nodes
// beside it and after it as well.
func TestGuardsOfGraphsWithStrategies(t *testing.T) {
	g := &guarded{}
	var given string
	fallback := does(t, "fallback", func(_ context.Context, in any) (any, error) {
		given = fmt.Sprint(in)
		return "instead", nil
	})
	a := must.Get(agentgraph.NewBuilder("graph").Node("a", gives(t, "start")).Node("bad", talks(t, "writer", words(card))).Node("good", talks(t, "clerk", words("Hello."))).
		Node("end", gives(t, "end")).Node("fallback", fallback).
		Edge("a", "bad").Edge("a", "good").Edge("bad", "end").Edge("good", "end").
		OnError(agentgraph.ErrorHandling{Strategy: agentgraph.Continue, Fallback: "fallback"}).Build())
	r := must.Get(runner.New(g.put(a), sessiontest.Memory(t)))
	for _, err := range r.Run(context.Background(), session.ID("s"), llm.UserText("Go.")) {
		require.NoError(t, err)
	}
	results := must.Get(a.Runs(r.History(context.Background(), session.ID("s"))))
	require.Equal(t, agentgraph.CompletedWithErrors, results[0].Status)
	require.Equal(t, []string{"bad"}, results[0].Failed)
	require.NotContains(t, given, "4111")
	said := make(map[string]int)
	for _, s := range g.said {
		said[s]++
	}
	require.Equal(t, map[string]int{"a: start": 1, "bad: " + card: 1, "good: Hello.": 1, "fallback: instead": 1, "end: end": 1, "graph: end": 1}, said)
}
