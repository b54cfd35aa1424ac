package graphdraw_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agentgraph/graphdraw"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// An edge that a Go function decides on does not look as if it were always taken.
func TestFunctionsOnEdges(t *testing.T) {
	a, err := agent.New("a", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] { return nil })
	require.NoError(t, err)
	graph := must.Get(agentgraph.NewBuilder("g").Node("one", a).Node("two", a).
		Edge("one", "two", agentgraph.When(func(agentgraph.Values) (bool, error) { return true, nil })).Build())
	var b strings.Builder
	drawn := must.Get(graphdraw.Of(graph.Graph()))
	require.NoError(t, drawn.Mermaid(&b))
	require.Contains(t, b.String(), "a function")
}
