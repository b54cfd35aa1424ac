package agentgraph

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/stretchr/testify/require"
)

// arborCase is a graph that is refused.
type arborCase struct {
	Name, Code, Where, Say, Graph string
}

func TestInvalidArbor(t *testing.T) {
	for _, c := range readCases[arborCase](t, "testdata/invalid-arbor.yaml") {
		t.Run(c.Name, func(t *testing.T) {
			g, err := Load([]byte(c.Graph), WithRefs("x", ToolRef("lookup")))
			require.Nil(t, g)
			require.Error(t, err)
			var codes []string
			for _, p := range Problems(err) {
				codes = append(codes, string(p.Code))
				require.Empty(t, p.File)
				if c.Where != "" {
					require.Equal(t, c.Where, p.Path, "%v", err)
					// The line is that of the last key of the path, or of its value on the same line.
					key := c.Where[strings.LastIndexByte(c.Where, '.')+1:]
					key, _, indexed := strings.Cut(key, "[")
					if line := strings.Split(c.Graph, "\n")[p.Line-1]; !indexed && p.Code != CodeMissingField && p.Code != CodeDuplicateID {
						require.Contains(t, line, key, "%v", err)
					}
				}
			}
			slices.Sort(codes)
			require.Equal(t, strings.Split(c.Code, ","), codes, "%v", err)
			require.Contains(t, err.Error(), c.Say)
		})
	}
}

const arborGraph = `apiVersion: arbor/v1
kind: AgentGraph
metadata: {name: g, version: 1.2.3}
spec:
  state:
    notes: {reducer: append, initial: [one]}
    total: {reducer: sum}
    latest:
    best: {reducer: max, initial: 9007199254740993}
    known: {reducer: merge, initial: {a: 1}}
  agents:
    - id: draft
      agentRef: x
      config: {k: 1}
      loop: {until: output.score > 0.9 or state.total > 10, max: 1000}
      timeout: 1m30s
      retry: {max: 0}
      update:
        notes: output.note
        total: 1
    - id: review
      when: human
      ask: Shall it be reviewed?
      graph:
        state: {rounds: {reducer: sum}}
        agents:
          - id: draft
            agentRef: local@1.0.0
            retry: {max: 2, backoff: 250ms}
            update: {rounds: "1"}
          - id: judge
            agentRef: x
        edges:
          - {from: draft, to: judge, condition: state.rounds < 3}
        entrypoint: draft
        errorHandling: {strategy: continue}
      next: "output.good ? 'publish' : ['rewrite', output.other]"
    - {id: publish, agentRef: x, when: human}
    - {id: rewrite, agentRef: x}
  edges:
    - {from: draft, to: review, condition: len(state.notes) > 0}
    - {from: review, to: publish, priority: 10}
    - {from: review, to: rewrite, priority: 1000000}
    - {from: rewrite, to: publish}
  entrypoint: draft
---
apiVersion: arbor/v1
kind: Agent
metadata: {name: local, version: 1.0.0}
spec: {role: You write.}
---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: other}
`

func TestArborGraph(t *testing.T) {
	file := strings.Replace(arborGraph, "total: 1\n", "total: '1'\n", 1)
	g := must.Get(Load([]byte(file), WithRefs("x")))
	require.Equal(t, APIVersionArbor, g.APIVersion)
	require.Empty(t, g.Warnings)
	require.Equal(t, []StateKey{
		{"notes", ReduceAppend, []any{"one"}, 6}, {"total", ReduceSum, nil, 7}, {"latest", ReduceReplace, nil, 8},
		{"best", ReduceMax, int64(9007199254740993), 9}, {"known", ReduceMerge, map[string]any{"a": int64(1)}, 10},
	}, g.State)
	draft, review := g.Nodes[0], g.Nodes[1]
	require.Equal(t, 1000, draft.Loop.Max)
	require.Equal(t, 90*time.Second, draft.Timeout)
	require.Equal(t, &RetryPolicy{}, draft.Retry)
	require.Equal(t, "notes", draft.Update[0].Key)
	require.Equal(t, "total", draft.Update[1].Key)
	require.Nil(t, draft.Human)
	v := must.Get(draft.Update[1].Value.Value(nil, nil))
	require.Equal(t, 1, v)
	for total, want := range map[int]bool{10: false, 11: true} {
		stop, err := draft.Loop.Until.WithState(map[string]any{"total": total}).Test(map[string]any{"score": 0.5}, nil)
		require.NoError(t, err)
		require.Equal(t, want, stop)
	}
	require.Equal(t, &Approval{Ask: "Shall it be reviewed?"}, review.Human)
	require.Equal(t, &Approval{}, g.Nodes[2].Human)
	require.Empty(t, review.Ref)
	to := must.Get(review.Next.Choose(map[string]any{"good": false, "other": "publish"}, nil))
	require.Equal(t, []string{"rewrite", "publish"}, to)
	require.Equal(t, []int{0, 10, 1_000_000, 0}, []int{g.Edges[0].Priority, g.Edges[1].Priority, g.Edges[2].Priority, g.Edges[3].Priority})

	inner := review.Graph
	require.Equal(t, "review", inner.Name)
	require.Equal(t, "1.2.3", inner.Version)
	require.Equal(t, APIVersionArbor, inner.APIVersion)
	require.Equal(t, Continue, inner.OnError.Strategy)
	require.Equal(t, FailFast, g.OnError.Strategy)
	require.Equal(t, &RetryPolicy{2, 250 * time.Millisecond}, inner.Nodes[0].Retry)
	require.Equal(t, []StateKey{{"rounds", ReduceSum, nil, 25}}, inner.State)
	require.Equal(t, 27, inner.Nodes[0].Line)
	require.Len(t, g.Agents, 2)
	require.Empty(t, inner.Agents, "they are those of the file")

	// A bare number is no expression, as everywhere.
	_, err := Load([]byte(arborGraph), WithRefs("x"))
	require.Len(t, Problems(err), 1)
	require.ErrorContains(t, err, "spec.agents[0].update.total: total must be a text")
}

// TestArborReadsOSSA: a graph of v0.2.7 is one of arbor/v1 without changes, and
// its problems are the same.
func TestArborReadsOSSA(t *testing.T) {
	arbor := func(file string) string {
		return strings.ReplaceAll(file, "ossa.ai/v0.2.7", APIVersionArbor)
	}
	for _, name := range []string{"testdata/invalid.yaml", "testdata/exec.yaml"} {
		for _, c := range readCases[invalidCase](t, name) {
			if strings.Contains(c.Name, "future") || strings.Contains(c.Graph, "priority") {
				continue
			}
			_, was := Load([]byte(c.Graph), known(c.Graph))
			_, is := Load([]byte(arbor(c.Graph)), known(c.Graph))
			require.Len(t, Problems(is), len(Problems(was)), "%s\n%v\n%v", c.Name, was, is)
			for i, p := range Problems(is) {
				require.Equal(t, Problems(was)[i].Code, p.Code, c.Name)
				require.Equal(t, Problems(was)[i].Path, p.Path, c.Name)
			}
		}
	}
	for name, c := range problemCases() {
		if strings.Contains(name, "state") {
			continue
		}
		g, err := Load([]byte(arbor(c.file)), WithRefs("x", "translator"))
		if len(c.want) == 0 {
			require.NoError(t, err, name)
			require.Equal(t, APIVersionArbor, g.APIVersion)
			continue
		}
		require.Len(t, Problems(err), len(c.want), "%s: %v", name, err)
	}
}

// TestNextOfManyIDs: the time of a long list of ids does not grow with the number of edges.
func TestNextOfManyIDs(t *testing.T) {
	ids := slices.Repeat([]string{"last"}, 100_000)
	took := func(edges int) time.Duration {
		g := &Graph{Nodes: []Node{{ID: "a"}}, Entrypoint: "a"}
		for i := range edges {
			id := fmt.Sprint("n", i)
			if i == edges-1 {
				id = "last"
			}
			g.Nodes, g.Edges = append(g.Nodes, Node{ID: id}), append(g.Edges, Edge{From: "a", To: id})
		}
		f, best := newFlow(newPlan(g), json.RawMessage("1"), "start"), time.Hour
		for range 3 {
			began := time.Now()
			to, err := f.targets(&f.plan.nodes[0], ids)
			require.NoError(t, err)
			require.True(t, to["last"])
			best = min(best, time.Since(began))
		}
		return best
	}
	require.Less(t, took(2_000), 100*took(2))
}
