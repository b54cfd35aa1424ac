package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/cli"
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

	got = invocation{}.run(t, "graph", "test", f["c.yaml"], "--json")
	require.Equal(t, cli.StatusFailed, got.status)
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
		got := invocation{}.run(t, append([]string{"graph", "test"}, args...)...)
		require.Equal(t, cli.StatusUsage, got.status)
		require.Contains(t, got.err, say)
		require.Empty(t, got.out)
	}
}
