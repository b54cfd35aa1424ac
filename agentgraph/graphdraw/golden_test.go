package graphdraw

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/testing/must"
)

var update = flag.Bool("update", false, "rewrite the drawings in testdata")

var formats = []struct {
	ending string
	draw   format
}{{"mmd", (*Picture).Mermaid}, {"dot", (*Picture).DOT}, {"svg", (*Picture).SVG}}

type format = func(*Picture, io.Writer) error

// draw writes a graph in a format.
func draw(w io.Writer, g *agentgraph.Graph, in format) error {
	p, err := Of(g)
	if err == nil {
		err = in(p, w)
	}
	return err
}

// goldens are the examples of OSSA, and a graph with everything there is.
func goldens(t testing.TB) map[string]*agentgraph.Graph {
	all := map[string]*agentgraph.Graph{"everything": everything(t)}
	for _, name := range []string{"content-pipeline", "parallel-analysis", "support-router"} {
		g := must.Get(agentgraph.LoadFile("../testdata/ossa/"+name+".yaml", agentgraph.WithAnyRef()))
		all[name] = g
	}
	return all
}

func TestGolden(t *testing.T) {
	for name, g := range goldens(t) {
		for _, f := range formats {
			var out bytes.Buffer
			require.NoError(t, draw(&out, g, f.draw))
			file := filepath.Join("testdata", name+"."+f.ending)
			if *update {
				require.NoError(t, os.WriteFile(file, out.Bytes(), 0o644))
			}
			want := must.Get(os.ReadFile(file))
			require.Equal(t, string(want), out.String(), "%s; go test ./agentgraph/graphdraw -update", file)
		}
	}
}

// expressions compiles sources.
func expressions(t testing.TB, sources ...string) (all []*agentgraph.Expression) {
	t.Helper()
	for _, s := range sources {
		file := must.Get(graphOf(s))
		g, err := agentgraph.Load(file, agentgraph.WithAnyRef())
		require.NoError(t, err, s)
		all = append(all, g.Edges[0].Transform)
	}
	return all
}

// everything is a graph with every field that is drawn.
func everything(t testing.TB) *agentgraph.Graph {
	e := expressions(t, "output.intent == 'billing'", `{"question": output.text, "urgent": output.score > 0.8}`, "output.ok", "not output.ok", "output.target")
	inner := &agentgraph.Graph{
		Name: "answer", Entrypoint: "draft", OnError: agentgraph.ErrorHandling{Fallback: "check"},
		Nodes: []agentgraph.Node{
			{ID: "draft", Ref: "writer"},
			{ID: "facts", Graph: &agentgraph.Graph{Entrypoint: "look", Nodes: []agentgraph.Node{{ID: "look", Ref: agentgraph.ToolRef("search"), Tool: "search"}}}},
			{ID: "check", Ref: "editor", Human: &agentgraph.Approval{Ask: "Shall it be sent?"}},
		},
		Edges: []agentgraph.Edge{{From: "draft", To: "facts"}, {From: "draft", To: "check"}, {From: "facts", To: "check"}},
	}
	return &agentgraph.Graph{
		Name: "desk", Version: "1.2.0", Entrypoint: "classifier", OnError: agentgraph.ErrorHandling{Fallback: "rescue"},
		Nodes: []agentgraph.Node{
			{ID: "classifier", Ref: "intent-classifier", Next: e[4], Update: []agentgraph.Update{{Key: "target", Value: e[4]}}, Timeout: 90 * time.Second, Retry: &agentgraph.RetryPolicy{Max: 2}},
			{ID: "billing", Ref: "billing@1.0.0", Loop: &agentgraph.Loop{Until: e[2], Max: 5, Fail: true}},
			{ID: "answer", Graph: inner},
			{ID: "end", ToolsOf: "classifier", Transform: e[4]},
			{ID: "rescue", Ref: "person", Human: &agentgraph.Approval{}},
		},
		Edges: []agentgraph.Edge{
			{From: "classifier", To: "billing", Condition: e[0], Transform: e[1]},
			{From: "classifier", To: "answer", Priority: 2, Condition: e[3]},
			{From: "classifier", To: "end", Priority: 1},
			{From: "billing", To: "end", Condition: e[2]},
			{From: "billing", To: "end", Condition: e[3], Transform: e[1]},
			{From: "answer", To: "end"},
		},
	}
}
