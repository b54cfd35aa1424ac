package graphs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"trpc.group/trpc-go/trpc-agent-go/agent"
	"trpc.group/trpc-go/trpc-agent-go/agent/graphagent"
	"trpc.group/trpc-go/trpc-agent-go/event"
	"trpc.group/trpc-go/trpc-agent-go/graph"
	"trpc.group/trpc-go/trpc-agent-go/model"
	"trpc.group/trpc-go/trpc-agent-go/runner"
	"trpc.group/trpc-go/trpc-agent-go/session"
	"trpc.group/trpc-go/trpc-agent-go/session/inmemory"
)

// trpcGraph is a StateGraph in a GraphAgent and a runner. Its nodes get no outputs of
// others, but read and write one state for all, and the documentation says where: the
// last response if every node has one source, the map of all nodes' responses if
// some have several.
type trpcGraph struct {
	agent    agent.Agent
	sessions *inmemory.SessionService
	runner   runner.Runner
	runs     int
}

func trpcCompile(w *Work) (*graph.Graph, error) {
	nodes := w.Shape.Nodes
	joins := false
	for i := range nodes {
		joins = joins || len(nodes[i].Sources) > 1
	}
	sg := graph.NewStateGraph(graph.MessagesStateSchema())
	for i := range nodes {
		n := &nodes[i]
		sg.AddNode(n.ID, func(_ context.Context, state graph.State) (any, error) {
			output := w.Call(n, trpcInput(nodes, n, joins, state))
			if !joins {
				return graph.State{graph.StateKeyLastResponse: output}, nil
			}
			update := graph.State{graph.StateKeyNodeResponses: map[string]any{n.ID: output}}
			if n == w.Shape.Last() {
				update[graph.StateKeyLastResponse] = output
			}
			return update, nil
		})
	}
	sg.SetEntryPoint(nodes[0].ID)
	for i := range nodes {
		n := &nodes[i]
		switch len(n.Sources) {
		case 0:
		case 1:
			sg.AddEdge(nodes[n.Sources[0]].ID, n.ID)
		default:
			from := make([]string, len(n.Sources))
			for j, source := range n.Sources {
				from[j] = nodes[source].ID
			}
			sg.AddJoinEdge(from, n.ID)
		}
	}
	sg.SetFinishPoint(w.Shape.Last().ID)
	return sg.Compile()
}

// trpcInput reads the values of a node's sources from the state.
func trpcInput(nodes []Node, n *Node, joins bool, state graph.State) any {
	switch {
	case len(n.Sources) == 0:
		return state[graph.StateKeyUserInput]
	case !joins:
		return state[graph.StateKeyLastResponse]
	}
	responses, _ := state[graph.StateKeyNodeResponses].(map[string]any)
	if len(n.Sources) == 1 {
		return responses[nodes[n.Sources[0]].ID]
	}
	values := make(map[string]any, len(n.Sources))
	for _, from := range n.Sources {
		values[nodes[from].ID] = responses[nodes[from].ID]
	}
	return values
}

// trpcSteps raises the limit of steps, which is 100 by default.
func trpcSteps(w *Work) graph.ExecutorOption { return graph.WithMaxSteps(len(w.Shape.Nodes) + 1) }

func buildTRPC(w *Work) (Graph, error) {
	compiled, err := trpcCompile(w)
	if err != nil {
		return nil, err
	}
	a, err := graphagent.New("graph", compiled, graphagent.WithExecutorOptions(trpcSteps(w)))
	if err != nil {
		return nil, err
	}
	return &trpcGraph{agent: a}, nil
}

func (g *trpcGraph) Run(ctx context.Context, input string) (string, error) {
	g.runs++
	events, err := g.runner.Run(ctx, userID, g.session(), model.NewUserMessage(input), agent.WithDisableTracing(true))
	if err != nil {
		return "", err
	}
	return trpcOutput(events, (*event.Event).IsRunnerCompletion)
}

// trpcOutput reads the events of a run to their end.
func trpcOutput(events <-chan *event.Event, last func(*event.Event) bool) (string, error) {
	var output string
	var err error
	for e := range events {
		if e.Error != nil {
			err = errors.New(e.Error.Message)
		}
		if last(e) {
			if text, ok := e.StateDelta[graph.StateKeyLastResponse]; ok {
				if fault := json.Unmarshal(text, &output); fault != nil {
					err = fault
				}
			}
		}
	}
	return output, err
}

func (g *trpcGraph) Events(ctx context.Context) (int, error) {
	s, err := g.sessions.GetSession(ctx, session.Key{AppName: appName, UserID: userID, SessionID: g.session()})
	if err != nil {
		return 0, err
	}
	return s.GetEventCount(), nil
}

func (g *trpcGraph) session() string { return fmt.Sprint("s", g.runs) }

func (g *trpcGraph) Reset() error {
	if g.runner != nil {
		if err := errors.Join(g.runner.Close(), g.sessions.Close()); err != nil {
			return err
		}
	}
	// By default a session is cut to its last 1,000 events.
	g.sessions = inmemory.NewSessionService(inmemory.WithSessionEventLimit(1_000_000))
	g.runner = runner.NewRunner(appName, g.agent, runner.WithSessionService(g.sessions))
	return nil
}

// trpcAlone is the executor without an agent, a runner and a session, and without
// events but the last one.
type trpcAlone struct {
	executor *graph.Executor
}

func buildTRPCAlone(w *Work) (Graph, error) {
	compiled, err := trpcCompile(w)
	if err != nil {
		return nil, err
	}
	executor, err := graph.NewExecutor(compiled, trpcSteps(w))
	if err != nil {
		return nil, err
	}
	return &trpcAlone{executor}, nil
}

func (g *trpcAlone) Run(ctx context.Context, input string) (string, error) {
	var opts agent.RunOptions
	agent.WithDisableTracing(true)(&opts)
	agent.WithDisableGraphExecutorEvents(true)(&opts)
	invocation := agent.NewInvocation(agent.WithInvocationRunOptions(opts))
	events, err := g.executor.Execute(ctx, graph.State{graph.StateKeyUserInput: input}, invocation)
	if err != nil {
		return "", err
	}
	return trpcOutput(events, func(e *event.Event) bool { return e.Object == graph.ObjectTypeGraphExecution })
}

func (g *trpcAlone) Reset() error { return nil }

func (g *trpcAlone) Events(context.Context) (int, error) { return 0, nil }
