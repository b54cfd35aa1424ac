package graphs

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/workflowagent"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/workflow"
	"google.golang.org/genai"
)

// The app and the user that all sessions belong to.
const (
	appName = "graphs"
	userID  = "user"
)

// adkGraph is a workflow of ADK-Go 2: a function node for each node. Only a
// JoinNode may have several sources there, and it runs no function, so that a node
// with several becomes two: the join, and the function after it.
type adkGraph struct {
	agent    agent.Agent
	last     string // the path of the last node
	sessions session.Service
	runner   *runner.Runner
	runs     int
}

func adkEdges(w *Work) []workflow.Edge {
	nodes := w.Shape.Nodes
	edges := workflow.NewEdgeBuilder()
	made := make([]workflow.Node, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		made[i] = workflow.NewFunctionNode(n.ID, func(_ agent.Context, input any) (string, error) {
			return w.Call(n, input), nil
		}, workflow.NodeConfig{})
		switch len(n.Sources) {
		case 0:
			edges.Add(workflow.Start, made[i])
		case 1:
			edges.Add(made[n.Sources[0]], made[i])
		default:
			join := workflow.NewJoinNode("join-" + n.ID)
			for _, from := range n.Sources {
				edges.Add(made[from], join)
			}
			edges.Add(join, made[i])
		}
	}
	return edges.Build()
}

func adkPath(n *Node) string { return "graph@1/" + n.ID + "@1" }

// buildADK is the usual way: a workflow agent, in a runner that stores every event.
func buildADK(w *Work) (Graph, error) {
	a, err := workflowagent.New(workflowagent.Config{Name: "graph", Edges: adkEdges(w)})
	if err != nil {
		return nil, err
	}
	return &adkGraph{agent: a, last: adkPath(w.Shape.Last())}, nil
}

// buildADKAlone runs the workflow in an agent that hands on its last event only, so
// that the runner stores no others. They are made all the same: the engine cannot be
// called without a runner.
func buildADKAlone(w *Work) (Graph, error) {
	flow, err := workflow.New("graph", adkEdges(w))
	if err != nil {
		return nil, err
	}
	g := &adkGraph{last: adkPath(w.Shape.Last())}
	g.agent, err = agent.New(agent.Config{Name: "graph", Run: func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
		return func(yield func(*session.Event, error) bool) {
			for e, err := range flow.Run(ctx) {
				if (err != nil || g.output(e)) && !yield(e, err) {
					return
				}
			}
		}
	}})
	return g, err
}

func (g *adkGraph) Run(ctx context.Context, input string) (string, error) {
	g.runs++
	var output string
	for e, err := range g.runner.Run(ctx, userID, g.session(), genai.NewContentFromText(input, genai.RoleUser), agent.RunConfig{}) {
		if err != nil {
			return "", err
		}
		if g.output(e) {
			output, _ = e.Output.(string)
		}
	}
	return output, nil
}

// output tells whether an event holds the output of the last node.
func (g *adkGraph) output(e *session.Event) bool {
	return e.NodeInfo != nil && e.NodeInfo.Path == g.last
}

func (g *adkGraph) Events(ctx context.Context) (int, error) {
	found, err := g.sessions.Get(ctx, &session.GetRequest{AppName: appName, UserID: userID, SessionID: g.session()})
	if err != nil {
		return 0, err
	}
	return found.Session.Events().Len(), nil
}

func (g *adkGraph) session() string { return fmt.Sprint("s", g.runs) }

func (g *adkGraph) Reset() error {
	g.sessions = session.InMemoryService()
	var err error
	g.runner, err = runner.New(runner.Config{
		AppName:           appName,
		Agent:             g.agent,
		SessionService:    g.sessions,
		AutoCreateSession: true,
	})
	return err
}
