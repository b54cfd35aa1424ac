package graphs

import (
	"context"

	"github.com/cloudwego/eino/compose"
)

// einoGraph is a compose.Graph in which a node waits for all of its sources. Where a
// node has several, each of them names its output with WithOutputKey, and the
// engine merges the maps into one. There are no sessions and nothing is stored.
type einoGraph struct {
	run compose.Runnable[string, string]
}

func buildEino(w *Work) (Graph, error) {
	nodes := w.Shape.Nodes
	named := make([]bool, len(nodes)) // the node's output is a map from its id to its value
	for i := range nodes {
		if len(nodes[i].Sources) > 1 {
			for _, from := range nodes[i].Sources {
				named[from] = true
			}
		}
	}
	g := compose.NewGraph[string, string]()
	for i := range nodes {
		n := &nodes[i]
		lambda := compose.InvokableLambda(func(_ context.Context, input string) (string, error) {
			return w.Call(n, input), nil
		})
		if i > 0 && named[n.Sources[0]] {
			lambda = compose.InvokableLambda(func(_ context.Context, input map[string]any) (string, error) {
				return w.Call(n, input), nil
			})
		}
		var opts []compose.GraphAddNodeOpt
		if named[i] {
			opts = append(opts, compose.WithOutputKey(n.ID))
		}
		if err := g.AddLambdaNode(n.ID, lambda, opts...); err != nil {
			return nil, err
		}
	}
	if err := g.AddEdge(compose.START, nodes[0].ID); err != nil {
		return nil, err
	}
	for i := range nodes {
		for _, from := range nodes[i].Sources {
			if err := g.AddEdge(nodes[from].ID, nodes[i].ID); err != nil {
				return nil, err
			}
		}
	}
	if err := g.AddEdge(w.Shape.Last().ID, compose.END); err != nil {
		return nil, err
	}
	run, err := g.Compile(context.Background(), compose.WithNodeTriggerMode(compose.AllPredecessor))
	if err != nil {
		return nil, err
	}
	return &einoGraph{run}, nil
}

func (g *einoGraph) Run(ctx context.Context, input string) (string, error) {
	return g.run.Invoke(ctx, input)
}

func (g *einoGraph) Reset() error { return nil }

func (g *einoGraph) Events(context.Context) (int, error) { return 0, nil }
