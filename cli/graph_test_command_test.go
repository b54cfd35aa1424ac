package cli_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
)

const twoCases = `name: right
graphFile: g.yaml
input: {}
mock: {classifier: {output: {intent: billing}}, billing: {output: 1}, general: {output: 2}}
expect: {status: completed, terminal: {billing: 1}}
---
name: wrong
graphFile: g.yaml
input: {}
mock: {classifier: {output: {intent: billing}}, billing: {output: 1}, general: {output: 2}}
expect: {status: failed, terminal: {billing: 2}}
`

func TestGraphTest(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"g.yaml": triage, "c.yaml": twoCases, "d.yaml": strings.ReplaceAll(strings.Split(twoCases, "---\n")[0], "right", "other")})
	got := invocation{}.run(t, "graph", "test", f["c.yaml"], f["d.yaml"])
	require.Equal(t, outcome{cli.StatusFailed, `ok   right
FAIL wrong
     status: got completed, want failed
     terminal.billing: got 1, want 2
ok   other
1 of 3 cases failed
`, ""}, got)

	got = invocation{}.run(t, "graph", "test", f["c.yaml"], "--run", "^ri")
	require.Equal(t, outcome{0, "ok   right\n1 case passed\n", ""}, got)

	got = invocation{}.run(t, "graph", "test", f["c.yaml"], "--json").exits(t, cli.StatusFailed)
	require.Equal(t, "arbor: 1 of 2 cases failed\n", got.err)
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	require.Len(t, lines, 2)
	var tested struct {
		File, Name  string
		Line        int
		OK          bool
		Differences []string
		Result      agentgraph.Result
	}
	require.Contains(t, lines[0], `"ok":true,"differences":[],"result":{"status":"completed"`)
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &tested))
	require.Equal(t, f["c.yaml"], tested.File)
	require.Equal(t, 7, tested.Line)
	require.Equal(t, "wrong", tested.Name)
	require.False(t, tested.OK)
	require.Len(t, tested.Differences, 2)
	require.Equal(t, []string{"classifier", "billing"}, tested.Result.Order)
}

func TestGraphTestBadInput(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"g.yaml": triage, "c.yaml": twoCases, "none.yaml": "# later\n", "syntax.yaml": "name: [\n---\nname: x\n",
		"key.yaml": strings.Replace(twoCases, "expect:", "expects:", 1), "mock.yaml": strings.Replace(twoCases, ", general: {output: 2}", "", 1),
		"broken.yaml": "name: x\nexpect: {status: completed}\ngraph: |\n  " + strings.ReplaceAll(strings.ReplaceAll(triage, "to: general", "to: genral"), "\n", "\n  ") + "\n"})
	for say, args := range map[string][]string{
		"CASES is missing: name a file of cases":                                                                     {},
		"no/such.yaml: there is no such file":                                                                        {"no/such.yaml"},
		f["none.yaml"] + ":1: the file holds no case":                                                                {f["none.yaml"]},
		f["syntax.yaml"] + ":1: this is not valid YAML":                                                              {f["syntax.yaml"], f["c.yaml"]},
		f["key.yaml"] + `:5: unknown key "expects"; did you mean "expect"?`:                                          {f["key.yaml"]},
		f["mock.yaml"] + ":1: the case right: its agent general has no mock":                                         {f["mock.yaml"]},
		f["broken.yaml"] + `:14: the graph: spec.edges[1].to: no agent has the id "genral"; did you mean "general"?`: {f["c.yaml"], f["broken.yaml"]},
		"--run: error parsing regexp":                                                                                {f["c.yaml"], "--run", "("},
		"--run nobody: none of 2 cases has such a name":                                                              {f["c.yaml"], "--run", "nobody"},
	} {
		got := invocation{}.run(t, append([]string{"graph", "test"}, args...)...).exits(t, cli.StatusUsage)
		require.Contains(t, got.err, say)
		require.Empty(t, got.out)
	}
}

// TestGraphDraw draws a graph none of whose agents exist.
func TestGraphDraw(t *testing.T) {
	t.Parallel()
	const drawings = "../agentgraph/graphdraw/testdata/support-router."
	for format, ending := range map[string]string{"": "mmd", "mermaid": "mmd", "dot": "dot", "svg": "svg"} {
		want := must.Get(os.ReadFile(drawings + ending))
		args := []string{"graph", "draw", graphs + "support-router.yaml"}
		if format != "" {
			args = append(args, "--format", format)
		}
		require.Equal(t, outcome{cli.StatusAnswered, string(want), ""}, invocation{}.run(t, args...))
	}
}

// TestGraphDrawExtensions draws what only arbor/v1 has, and a graph from a file of its
// own.
func TestGraphDrawExtensions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inner := "apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: inner, version: 1.0.0}\nspec:\n  agents: [{id: look, agentRef: search}]\n  entrypoint: look\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "inner.yaml"), []byte(inner), 0o600))
	file := filepath.Join(dir, "outer.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`apiVersion: arbor/v1
kind: AgentGraph
metadata: {name: outer, version: 1.0.0}
spec:
  agents:
    - {id: draft, agentRef: writer, loop: {until: output.ok, max: 3}}
    - {id: facts, graph: inner.yaml}
    - {id: send, agentRef: mailer, when: human, ask: Shall it go?}
  edges:
    - {from: draft, to: facts, priority: 1}
    - {from: facts, to: send}
  entrypoint: draft
`), 0o600))
	require.Equal(t, outcome{cli.StatusAnswered, `flowchart TD
    n0["draft<br>writer<br>loop until output.ok<br>at most 3 times"]
    subgraph n1["facts"]
        direction TB
        n1_n0["look<br>search"]
        n1_input(["input"])
        n1_input --> n1_n0
    end
    n2["send<br>mailer<br>waits for approval"]
    input(["input"])
    n0 -->|"priority 1"| n1
    n1 --> n2
    input --> n0
`, ""}, invocation{}.run(t, "graph", "draw", file))
}

// TestGraphDrawRefused: what cannot be drawn is said, and nothing is drawn.
func TestGraphDrawRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	head := "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\n"
	broken := write("broken.yaml", head+"spec:\n  agents:\n    - {id: a, agentRef: x}\n  edges:\n    - {from: a, to: b}\n  entrypoint: c\n")
	got := invocation{}.run(t, "graph", "draw", broken).exits(t, cli.StatusUsage)
	require.Equal(t, invocation{}.run(t, "graph", "validate", broken, "--refs", "x"), got)
	require.Contains(t, got.out, "[unknown_entrypoint]\n")
	require.Equal(t, "arbor: 2 problems\n", got.err)

	for say, args := range map[string][]string{
		"no/such.yaml: there is no such file":                 {"no/such.yaml"},
		"this is a folder":                                    {dir},
		"FILE is missing":                                     {},
		"--format png: choose mermaid, dot or svg":            {broken, "--format", "png"},
		"the graph is too large for SVG: it has 5001 nodes, ": {write("large.yaml", largeGraph(t, 5001)), "--format", "svg"},
	} {
		got := invocation{}.run(t, append([]string{"graph", "draw"}, args...)...).exits(t, cli.StatusUsage)
		require.Empty(t, got.out)
		require.Contains(t, got.err, say)
	}
}

// TestGraphDrawLarge draws 2,000 nodes, and says that Mermaid will not unless it is
// told to.
func TestGraphDrawLarge(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "g.yaml")
	require.NoError(t, os.WriteFile(file, []byte(largeGraph(t, 2000)), 0o600))
	got := invocation{}.run(t, "graph", "draw", file).exits(t, cli.StatusAnswered)
	require.Equal(t, 2000, strings.Count(got.out, "-->"))
	require.Contains(t, got.err, "maxTextSize and maxEdges")
	got = invocation{}.run(t, "graph", "draw", file, "--format", "svg").exits(t, cli.StatusAnswered)
	require.Empty(t, got.err)
	require.NoError(t, xml.Unmarshal([]byte(got.out), new(struct{})))
}

// largeGraph is the file of a tree.
func largeGraph(t *testing.T, n int) string {
	t.Helper()
	agents, edges := []any{}, []any{}
	id := func(i int) string { return fmt.Sprint("n", i) }
	for i := range n {
		agents = append(agents, map[string]any{"id": id(i), "agentRef": "x"})
		if i > 0 {
			edges = append(edges, map[string]any{"from": id((i - 1) / 3), "to": id(i)})
		}
	}
	data := must.Get(json.Marshal(map[string]any{
		"apiVersion": "ossa.ai/v0.2.7", "kind": "AgentGraph", "metadata": map[string]any{"name": "g", "version": "1.0.0"},
		"spec": map[string]any{"agents": agents, "edges": edges, "entrypoint": "n0"},
	}))
	return string(data)
}
