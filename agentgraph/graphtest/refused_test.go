package graphtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
)

const refusedCase = `
name: circle
note: conditions do not open it
code: cycle
where: spec.edges[1]
graph: |
  apiVersion: ossa.ai/v0.2.7
  kind: AgentGraph
  metadata: {name: g, version: 1.0.0}
  spec:
    agents: [{id: a, agentRef: x}, {id: b, agentRef: y}]
    edges: [{from: a, to: b}, {from: b, to: a}]
    entrypoint: a
`

// TestRefused: a case can say with which problems a graph is refused.
func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		from, to string
		refs     []string
		want     string // the difference
	}{
		"as expected":  {},
		"no where":     {"where: spec.edges[1]", "where: ''", nil, ""},
		"other code":   {"code: cycle", "code: unreachable", nil, "code: got [cycle], want [unreachable]: spec.edges[1]: the edges form a cycle"},
		"one too many": {"code: cycle", "code: cycle, yaml", nil, "code: got [cycle], want [cycle, yaml]"},
		"other place":  {"edges[1]", "edges[0]", nil, "where: no such problem is at spec.edges[0]"},
		"sound graph":  {", {from: b, to: a}", "", nil, "code: got [], want [cycle]"},
		"unknown ref":  {"code: cycle", "code: unknown_agent_ref,cycle", []string{"x"}, ""},
	} {
		cases, err := LoadCases([]byte(strings.Replace(refusedCase, tt.from, tt.to, 1)), "c")
		if tt.refs != nil {
			cases, err = LoadCases([]byte(strings.Replace(refusedCase, tt.from, tt.to, 1)), "c", WithKnown(agentgraph.WithRefs(tt.refs...)))
		}
		require.NoError(t, err, name)
		out, err := cases[0].Run(t.Context())
		require.NoError(t, err, name)
		if tt.want == "" {
			require.Empty(t, out.Differences, name)
			continue
		}
		require.Len(t, out.Differences, 1, name)
		require.Contains(t, out.Differences[0], tt.want, name)
	}
	for text, want := range map[string]string{
		strings.Replace(refusedCase, "code: cycle", "expect: {status: failed}", 1):           "where goes with code",
		strings.Replace(refusedCase, "note: conditions", "input: 1\nnote: conditions", 1):    "input is about a graph that runs",
		refusedCase[:strings.Index(refusedCase, "graph:")]:                                   "the case has no graph",
		strings.Replace(refusedCase, "code: cycle", "code: ''", 1):                           "code is empty",
		strings.Replace(refusedCase, "where: spec.edges[1]", "where: [spec.edges, spec]", 1): "where must be a text",
	} {
		_, err := LoadCases([]byte(text), "c")
		require.ErrorContains(t, err, want)
	}
}
