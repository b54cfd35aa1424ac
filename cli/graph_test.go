package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
)

const graphs = "../agentgraph/testdata/ossa/"

func TestGraphValidate(t *testing.T) {
	t.Parallel()
	const refs = "intent-classifier,technical-support,billing-support"
	got := invocation{}.run(t, "graph", "validate", graphs+"support-router.yaml", "--refs", refs+",general-support")
	require.Equal(t, cli.StatusAnswered, got.status, got.err)
	require.Equal(t, "ok: 4 agents, 3 edges\n", got.out)
	require.Empty(t, got.err)

	got = invocation{}.run(t, "graph", "validate", graphs+"support-router.yaml", "--json", "--refs", refs+",general-support")
	require.Equal(t, outcome{cli.StatusAnswered, "[]\n", ""}, got)

	got = invocation{}.run(t, "graph", "validate", graphs+"support-router.yaml", "--refs", refs)
	require.Equal(t, cli.StatusUsage, got.status)
	require.Contains(t, got.out, graphs+`support-router.yaml:15: spec.agents[3].agentRef: there is no agent "general-support"`)
	require.Contains(t, got.out, "[unknown_agent_ref]\n")
	require.Equal(t, "arbor: 1 problem\n", got.err)

	got = invocation{}.run(t, "graph", "validate", graphs+"support-router.yaml", "--json", "--refs", refs)
	require.Equal(t, cli.StatusUsage, got.status)
	problems := must.JSON[[]map[string]any](got.out)
	require.Len(t, problems, 1)
	require.Len(t, problems[0], 4)
	require.Equal(t, "unknown_agent_ref", problems[0]["code"])
	require.Equal(t, "spec.agents[3].agentRef", problems[0]["path"])
	require.EqualValues(t, 15, problems[0]["line"])
	require.Contains(t, problems[0]["message"], "general-support")
}

// TestGraphValidateFolder: agents are looked for beside the graph, or where --agents
// says.
func TestGraphValidateFolder(t *testing.T) {
	t.Parallel()
	graph := must.Get(os.ReadFile(graphs + "content-pipeline.yaml"))
	dir, agents := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "graph.yaml")
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(file, string(graph))
	write(filepath.Join(dir, "research-agent.md"), "---\ndescription: x\n---\nHello.")
	write(filepath.Join(agents, "w.md"), "---\nname: writing-agent\n---\nHello.")
	write(filepath.Join(agents, "e.yaml"), "apiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: editing-agent}\nspec: {role: Edits}\n")
	missing := func(args ...string) (names []string) {
		got := invocation{}.run(t, append([]string{"graph", "validate", file, "--json"}, args...)...)
		problems := must.JSON[[]agentgraph.Problem](got.out)
		for _, p := range problems {
			require.Equal(t, agentgraph.CodeUnknownAgentRef, p.Code)
			names = append(names, p.Path)
		}
		return names
	}
	require.Equal(t, []string{"spec.agents[1].agentRef", "spec.agents[2].agentRef"}, missing())
	require.Equal(t, []string{"spec.agents[0].agentRef"}, missing("--agents", agents))
	require.Empty(t, missing("--agents", agents, "--refs", "research-agent"))
	require.Len(t, missing("--refs", "research-agent"), 2)
}

func TestGraphWarning(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "g.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: ossa.ai/v0.2.8\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec: {agents: [{id: a, agentRef: x}], entrypoint: a}\n"), 0o600))
	got := invocation{}.run(t, "graph", "validate", file, "--refs", "x", "--json").exits(t, cli.StatusAnswered)
	require.Equal(t, "[]\n", got.out)
	require.Contains(t, got.err, "g.yaml:1: ossa.ai/v0.2.8 is read as ossa.ai/v0.2.7")
}

func TestGraphBadInput(t *testing.T) {
	t.Parallel()
	for say, args := range map[string][]string{
		"no/such.yaml: there is no such file":                   {"graph", "validate", "no/such.yaml"},
		"this is a folder":                                      {"graph", "validate", "testdata"},
		"FILE is missing":                                       {"graph", "validate"},
		"--agents: no/such: there is no such file or folder":    {"graph", "validate", graphs + "content-pipeline.yaml", "--agents", "no/such"},
		`unknown command "valdiate" for "arbor graph"; did you`: {"graph", "valdiate", "x"},
	} {
		got := invocation{}.run(t, args...).exits(t, cli.StatusUsage)
		require.Empty(t, got.out)
		require.Contains(t, got.err, say)
	}
}

func TestGraphSchema(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"schema", "graph"}, {"graph", "schema"}} {
		got := invocation{}.run(t, args...)
		require.Equal(t, outcome{cli.StatusAnswered, string(agentgraph.Schema()), ""}, got)
		require.True(t, json.Valid([]byte(got.out)))
	}
}

// TestGraphOfInvalidAgents: a reference that only an invalid file of the folder could
// satisfy names the file and what is wrong with it, in each command that reads the graph.
func TestGraphOfInvalidAgents(t *testing.T) {
	t.Parallel()
	const agent = "apiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: "
	for name, c := range map[string]struct{ file, text, says string }{
		"invalid YAML":         {"x.yaml", "kind: Agent\n\tmetadata: {name: expert}\n", "x.yaml is not valid: line 2: "},
		"invalid front matter": {"x.md", "---\nname: expert\ntools: [a\n---\nHello.\n", "x.md is not valid: line 3: "},
		"unknown key":          {"x.md", "---\nname: expert\ntols: [a]\n---\nHello.\n", `x.md is not valid: line 3: unknown key "tols"; did you mean "tools"?`},
		"no end":               {"x.md", "---\nname: expert\nHello.\n", "x.md is not valid: line 1: the front matter that begins here has no end"},
		"duplicate names":      {"x.yaml", agent + "expert}\n---\n" + agent + "other}\n", `two agents are called "expert", in expert.md and in x.yaml`},
		"wrong kind":           {"x.yaml", "kind: Workflow\nmetadata: {name: expert}\n", "x.yaml is not an agent: its kind is Workflow, and not Agent"},
		"another version":      {"x.yaml", agent + "expert, version: 1.0.0}\n", "x.yaml has expert@1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			ref, all := "expert", map[string]string{c.file: c.text}
			switch name {
			case "duplicate names":
				all["expert.md"] = "---\n---\nHello."
			case "another version":
				ref = "expert@2.0.0"
			}
			all["g.yaml"] = "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  agents:\n    - {id: a, agentRef: " + ref + "}\n  entrypoint: a\n"
			f := files(t, all)
			for _, args := range [][]string{{"validate", f["g.yaml"]}, {"run", f["g.yaml"], "--text", "x"}} {
				got := invocation{}.run(t, append([]string{"graph"}, args...)...).exits(t, cli.StatusUsage)
				require.Contains(t, got.out, "g.yaml:6: spec.agents[0].agentRef: ")
				require.Contains(t, got.out, c.says)
			}
			got := invocation{}.run(t, "run", f["g.yaml"], "Hello") // which names the place in the file itself if it can
			require.Equal(t, cli.StatusUsage, got.status)
			require.Contains(t, got.err, c.file)
		})
	}
}
