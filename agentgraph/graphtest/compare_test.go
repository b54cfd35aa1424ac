package graphtest

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// TestDifferences: everything that is expected is compared, and all differences are
// reported at once.
func TestDifferences(t *testing.T) {
	text := `name: wrong
graph: |
  apiVersion: ossa.ai/v0.2.7
  kind: AgentGraph
  metadata: {name: g, version: 1.0.0}
  spec:
    agents:
      - {id: a, agentRef: x, config: {n: 1}}
      - {id: b, agentRef: x}
      - {id: c, agentRef: x}
    edges:
      - {from: a, to: b}
      - {from: b, to: c}
    entrypoint: a
    errorHandling: {fallbackAgent: c}
input: {q: 1}
mock: {a: {output: 1}, b: {output: 2}, c: {output: 3}}
expect:
  status: failed
  order: [a, c, b]
  skipped: [b]
  failed: [c]
  cancelled: [a]
  notRun: [b]
  calls: {a: 1, b: 2}
  inputs: {a: {q: 2}, b: 1}
  outputs: {b: 3}
  terminal: {b: 2}
  error: {agent: b, contains: boom}
  fallbackInputHas: ["2", boom]
  configSeen: {a: {n: 1.0, m: 2}, b: {n: 1}}
`
	cases := must.Get(LoadCases([]byte(text), "c.yaml"))
	out := must.Get(cases[0].Run(t.Context()))
	require.False(t, out.OK())
	require.Equal(t, []string{
		"status: got completed, want failed",
		"order: got [a, b, c], want [a, c, b]",
		"skipped: got [], want [b]",
		"failed: got [], want [c]",
		"cancelled: got [], want [a]",
		"notRun: got [], want [b]",
		"calls.b: got 1, want 2",
		`inputs.a: got {"q":1}, want {"q":2}`,
		"outputs.b: got 2, want 3",
		"terminal.b: got none, want 2",
		"terminal.c: got 3, want none",
		"error: got none, want agent b: boom",
		`fallbackInputHas: "boom" is not in 2`,
		"configSeen.a.m: got none, want 2",
		"configSeen.b.n: got none, want 1",
	}, out.Differences)

	// An error instead, reported in one line.
	text = strings.Replace(strings.Split(text, "expect:")[0], "b: {output: 2}", "b: {error: \"down\\nfor good\"}", 1)
	cases = must.Get(LoadCases([]byte(text+"expect: {status: completed, error: {agent: a, contains: [down, up]}, parallel: [[b, c]]}\n"), "c.yaml"))
	synctest.Test(t, func(t *testing.T) { out = must.Get(cases[0].Run(t.Context())) })
	require.Equal(t, []string{
		"status: got recovered, want completed",
		"parallel: b ended before c had started",
		`error.agent: got "b", want "a" (b waited 5s, and c did not start: nodes that are ready together have to run at the same time)`,
		`error: "b waited 5s, and c did not start: nodes that are ready together have to run at the same time" does not contain "down"`,
		`error: "b waited 5s, and c did not start: nodes that are ready together have to run at the same time" does not contain "up"`,
	}, out.Differences)
	cases, err := LoadCases([]byte(text+"expect: {error: {agent: b, edge2: c}}\n"), "c.yaml")
	require.ErrorContains(t, err, `unknown key "edge2"; did you mean "edge"?`)
	require.Empty(t, cases)
	cases = must.Get(LoadCases([]byte(text+"expect: {error: {agent: b, contains: up}, status: completed}\n"), "c.yaml"))
	out = must.Get(cases[0].Run(t.Context()))
	require.Equal(t, []string{"status: got recovered, want completed", `error: "down\nfor good" does not contain "up"`}, out.Differences)
}

// TestUnmocked: a node without a mock and without a resolver is named.
func TestUnmocked(t *testing.T) {
	cases, err := LoadCases([]byte(withGraph("name: x\nexpect: {status: completed}\nmock: {a: {output: 1}}\n")), "c")
	require.NoError(t, err)
	require.Equal(t, "b", cases[0].Mocks.Unmocked(cases[0].Graph)[0].ID)
	_, err = cases[0].Run(t.Context())
	require.ErrorContains(t, err, `node "b": there is no mock for it`)
	resolve := func(string, map[string]any) (agent.Agent, error) { return Mock{Output: "resolved"}.Agent("other") }
	cases[0].Resolve = resolve
	out := must.Get(cases[0].Run(t.Context()))
	require.True(t, out.OK())
	require.JSONEq(t, `"resolved"`, string(out.Result.Terminal["b"]))
}

// TestMocksWithin: a graph in a node's place has mocks as a whole, or for its nodes.
func TestMocksWithin(t *testing.T) {
	text := `name: within
graph: |
  apiVersion: arbor/v1
  kind: AgentGraph
  metadata: {name: g, version: 1.0.0}
  spec:
    entrypoint: a
    agents:
      - {id: a, agentRef: x}
      - id: b
        graph:
          entrypoint: a
          agents: [{id: a, agentRef: x}, {id: c, agentRef: x}]
          edges: [{from: a, to: c}]
    edges: [{from: a, to: b}]
input: {}
mock: {MOCKS}
expect: {status: completed, order: [a, b], terminal: {b: 3}}
`
	for mocks, missing := range map[string][]string{
		"a: {output: 1}, b: {output: 3}":                                         nil,
		"a: {output: 1}, b/a: {output: 2}, b/c: {output: 3}":                     nil,
		"b/a: {output: 2}":                                                       {"a", "b/c"},
		"a: {output: 1}, b: {output: 3}, b/c: {output: 1}":                       nil,
		"a: {output: 1}, b/a: {output: 2}, b/c: {error: x, times: 1, output: 3}": nil,
	} {
		cases := must.Get(LoadCases([]byte(strings.Replace(text, "MOCKS", mocks, 1)), "c"))
		c := cases[0]
		var ids []string
		for _, n := range c.Mocks.Unmocked(c.Graph) {
			ids = append(ids, n.ID)
		}
		require.Equal(t, missing, ids)
		if missing != nil {
			continue
		}
		out := must.Get(c.Run(t.Context()))
		require.Equal(t, strings.Contains(mocks, "error"), !out.OK(), "%v", out.Differences)
	}
	_, err := LoadCases([]byte(strings.Replace(text, "MOCKS", "b/d: {output: 1}", 1)), "c")
	require.ErrorContains(t, err, `c:17: no agent of the graph has the id "b/d"; did you mean "b/a"?`)
	require.Equal(t, 1, strings.Count(err.Error(), "\n")+1)
}
