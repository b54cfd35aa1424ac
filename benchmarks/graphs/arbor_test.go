package graphs

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// arborGraph is a graph of agents with the default options. An agent gets its input as
// JSON, and its output is the same value as JSON.
type arborGraph struct {
	agent     *agentgraph.Agent
	forgetful bool
	store     *session.Memory
	runner    *runner.Runner
	runs      int
}

// buildArbor is the usual way: a runner that stores every event, from the start and
// the end of each node's run on.
func buildArbor(w *Work) (Graph, error) { return newArbor(w, false) }

// buildArborAlone has a store that does not keep the events. They are made all the same:
// the engine cannot be called without a runner.
func buildArborAlone(w *Work) (Graph, error) { return newArbor(w, true) }

func newArbor(w *Work, forgetful bool) (Graph, error) {
	nodes := w.Shape.Nodes
	b := agentgraph.NewBuilder(w.Shape.Name)
	for i := range nodes {
		n := &nodes[i]
		output := json.RawMessage(`"` + n.Value + `"`)
		a, err := agent.New("value", "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				w.Call(n, inv.Input())
				yield(&event.Event{Data: &event.Finish{Output: output}}, nil)
			}
		})
		if err != nil {
			return nil, err
		}
		b.Node(n.ID, a)
	}
	for i := range nodes {
		for _, from := range nodes[i].Sources {
			b.Edge(nodes[from].ID, nodes[i].ID)
		}
	}
	a, err := b.Build()
	if err != nil {
		return nil, err
	}
	return &arborGraph{agent: a, forgetful: forgetful}, nil
}

func (g *arborGraph) Run(ctx context.Context, input string) (string, error) {
	g.runs++
	var output string
	for e, err := range g.runner.Run(ctx, g.session(), llm.UserText(input)) {
		if err != nil {
			return "", err
		}
		if text, ok := e.Data.(*event.Text); ok && e.Agent == g.agent.Name() {
			output = text.Content
		}
	}
	return output, nil
}

func (g *arborGraph) Events(ctx context.Context) (int, error) {
	events := 0
	for _, err := range g.store.Load(ctx, g.session(), 0) {
		if err != nil {
			return 0, err
		}
		events++
	}
	return events, nil
}

func (g *arborGraph) session() session.Key { return session.ID(fmt.Sprint("s", g.runs)) }

func (g *arborGraph) Reset() error {
	g.store = session.NewMemory()
	var store session.Store = g.store
	if g.forgetful {
		store = forgetful{g.store}
	}
	var err error
	g.runner, err = runner.New(g.agent, store)
	return err
}

// forgetful is a store that says it has stored events and does not keep them. It can
// hold a session for one turn, in which nobody reads what was stored.
type forgetful struct{ session.Store }

func (f forgetful) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	w.Events = nil
	return f.Store.Write(ctx, key, w)
}
