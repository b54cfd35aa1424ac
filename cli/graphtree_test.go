package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
)

// TestTreeDrawsWorkflows: the agents that a workflow runs are drawn below it, in all formats.
func TestTreeDrawsWorkflows(t *testing.T) {
	const report = "testdata/report"
	out := invocation{}.run(t, "tree", report).exits(t, 0)
	require.Equal(t, `report  Writes reports
    in turn:
    1. research
           side by side:
           • web  Looks there
           • archive
             └─ old
                    may also transfer to: archive
    2. polish
           in rounds:
           1. write
           2. critic
                  tools: exit_loop
`, out.out)
	require.Contains(t, invocation{}.run(t, "tree", report, "--format", "mermaid").out, "in turn#58; research (side by side#58; web, archive), polish (in rounds#58; write, critic)")
	require.Contains(t, invocation{}.run(t, "tree", report, "--format", "json").out, `"flow":"parallel"`)
	require.Equal(t, "ok: 1 agent, 3 workflows with 6 agents\n", invocation{}.run(t, "lint", report).out)

	out = invocation{}.run(t, "run", report, "How was the weather?").exits(t, 0)
}

const (
	mixed  = "testdata/mixed" // a tree of which one agent is a graph
	router = "../examples/agentgraph/support-router.yaml"
)

func init() {
	// graph is a program whose tree is a graph that was built in Go.
	programs["graph"] = func() {
		cli.Main(cli.WithTreeFunc(func(model llm.Model) (agent.Agent, error) {
			first, err := llmagent.New("sorter", "You sort.", model)
			if err != nil {
				return nil, err
			}
			always := func(agentgraph.Values) (bool, error) { return true, nil }
			same := func(v agentgraph.Values) (any, error) { return v.Output, nil }
			return agentgraph.NewBuilder("built").Node("first", first).Node("second", first).
				Edge("first", "second", agentgraph.When(always), agentgraph.Transform(same)).Build()
		}))
	}
}

func TestTreeDrawsGraphs(t *testing.T) {
	got := invocation{}.run(t, "tree", mixed)
	require.Equal(t, outcome{0, `support  Finds who can help
├─ billing  Refunds and invoices
│      may also transfer to: research
└─ research  History, facts, science
       sorry (reporter)  after an error
       find (finder)  first; until len(output) > 0, at most 3 times
         → check
         → report  if "<b>" in output; priority 2
       check
         → report  with {"checked": output}
           facts (finder) → style
           style (reporter)
       report (reporter)
`, ""}, got)

	got = invocation{}.run(t, "tree", mixed, "--format", "mermaid")
	for _, line := range []string{`n0["support"]`, `subgraph n2["research"]`, `n2_n2["find<br>finder<br>loop until len(output) #gt; 0<br>at most 3 times"]`,
		`subgraph n2_n3["check"]`, `n2_n3_n0 --> n2_n3_n1`, `n2_n2 --> n2_n3`, `n0 --> n2`, `n1 -.-> n2`} {
		require.Contains(t, got.out, "    "+line+"\n")
	}

	got = invocation{}.run(t, "tree", mixed, "--format", "json")
	require.JSONEq(t, `{"name": "support", "path": "support", "description": "Finds who can help", "targets": ["billing", "research"], "subAgents": [
		{"name": "billing", "path": "support/billing", "description": "Refunds and invoices", "targets": ["research"]},
		{"name": "research", "path": "support/research", "description": "History, facts, science", "entrypoint": "find", "fallbackAgent": "sorry",
		 "nodes": [{"id": "report", "agentRef": "reporter"}, {"id": "sorry", "agentRef": "reporter"}, {"id": "find", "agentRef": "finder"},
			{"id": "check", "entrypoint": "facts", "nodes": [{"id": "facts", "agentRef": "finder"}, {"id": "style", "agentRef": "reporter"}],
			 "edges": [{"from": "facts", "to": "style"}]}],
		 "edges": [{"from": "find", "to": "check"}, {"from": "find", "to": "report", "condition": "\"<b>\" in output", "priority": 2},
			{"from": "check", "to": "report", "transform": "{\"checked\": output}"}]}]}`, got.out)

	// A tree without a graph has none of these keys.
	require.NotContains(t, invocation{}.run(t, "tree", desk, "--format", "json").out, "nodes")

	got = invocation{program: "graph"}.run(t, "tree")
	require.Equal(t, "built\n    first (sorter)\n      → second  if a function; with a function\n    second (sorter)\n", got.out)
	require.Contains(t, invocation{program: "graph"}.run(t, "tree", "--format", "json").out, `"edges":[{"from":"first","to":"second","condition":"a function","transform":"a function"}]`)
}

// TestDOTOfGraphs has Graphviz read what it is given.
func TestDOTOfGraphs(t *testing.T) {
	got := invocation{others: true}.run(t, "tree", mixed, "--format", "dot")
	for _, line := range []string{"subgraph cluster_n2 {", "n0 -> n1;", "n0 -> n2_input [lhead=cluster_n2];", "n1 -> n2_input [lhead=cluster_n2, style=dashed, constraint=false];"} {
		require.Contains(t, got.out, "  "+line+"\n")
	}
	dot, err := exec.LookPath("dot")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("Graphviz is missing")
		}
		t.Skip("Graphviz is missing: apt-get install graphviz")
	}
	cmd := exec.CommandContext(t.Context(), dot, "-Tplain")
	cmd.Stdin = strings.NewReader(got.out)
	plain, err := cmd.CombinedOutput()
	require.NoError(t, err, string(plain))
	require.Equal(t, 10, strings.Count("\n"+string(plain), "\nnode "))
	require.Equal(t, 10, strings.Count("\n"+string(plain), "\nedge "))
}

// TestGraphAsTree runs, resumes and chats with a graph's file in place of a folder.
func TestGraphAsTree(t *testing.T) {
	home := t.TempDir()
	got := invocation{home: home}.run(t, "run", router, "--session", "s", "I was charged twice for my subscription")
	require.Equal(t, cli.StatusAnswered, got.status, got.err)
	require.True(t, strings.HasPrefix(got.out, "  classifier → {"), got.out)
	require.Contains(t, got.out, "\nsupport-router: I am the offline model")
	require.Contains(t, got.out, `begin "You answer questions about invoices`)
	got = invocation{home: home}.run(t, "resume", router, "--session", "s").exits(t, cli.StatusAnswered)
	require.Contains(t, got.err, "the last turn of session s is complete")
	got = invocation{home: home, stdin: "My router is slow\n/agents\n"}.run(t, "chat", router, "--session", "s")
	require.Equal(t, cli.StatusAnswered, got.status, got.err)
	require.Contains(t, got.out, `begin "You solve technical problems"`)
	require.Contains(t, got.out, "support-router ← active\n    classifier (intent-classifier)\n")
	got = invocation{home: home}.run(t, "sessions", "show", "s", "--view", "support-router", "--tree", router)
	require.Equal(t, cli.StatusUsage, got.status)
	require.Contains(t, got.err, "has no model of its own")

	// A coordinator hands over to a graph, and answers the next message itself.
	got = invocation{home: home}.run(t, "run", mixed, "--session", "m", "Tell me facts about the history of science")
	require.Contains(t, got.out, "support → research (")
	require.Contains(t, got.out, "\nresearch: ")
	got = invocation{home: home}.run(t, "run", mixed, "--session", "m", "thanks")
	require.True(t, strings.HasPrefix(got.out, "support: "), got.out)
}

func TestLintGraphs(t *testing.T) {
	require.Equal(t, outcome{0, "ok: 3 agents, of which 1 graph with 6 nodes\n", ""}, invocation{}.run(t, "lint", mixed))
	require.Equal(t, outcome{0, "ok: 1 graph with 4 nodes\n", ""}, invocation{}.run(t, "lint", router))
	require.Equal(t, outcome{0, "ok: 3 agents\n", ""}, invocation{}.run(t, "lint", desk))

	dir := t.TempDir()
	file := filepath.Join(dir, "flow.yaml")
	text := must.Get(os.ReadFile(router))
	change := strings.NewReplacer("v0.2.7", "v0.2.8", "billing-support", "biling-support", "agentRef: general-support", "agentRef: general-support\n      config: {temperature: 9}")
	require.NoError(t, os.WriteFile(file, []byte(change.Replace(string(text))), 0o644))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "agents"), os.DirFS("../examples/agentgraph")))
	for _, name := range []string{"intent-classifier.md", "technical-support.md", "billing-support.md", "general-support.md"} {
		require.NoError(t, os.Rename(filepath.Join(dir, "agents", name), filepath.Join(dir, name)))
	}
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "agents")))
	got := invocation{}.run(t, "lint", file).exits(t, cli.StatusUsage)
	require.Equal(t, file+":13: spec.agents[2].agentRef: there is no agent \"biling-support\"; did you mean \"billing-support\"? [unknown_agent_ref]\n", got.out)
	require.Contains(t, got.err, "1 problem")

	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(change.Replace(string(text)), "biling", "billing", 1)), 0o644))
	got = invocation{}.run(t, "lint", file)
	require.Equal(t, file+":14: the node \"general\": config.temperature must be a number from 0 to 2, not 9\n", got.out)
	got = invocation{}.run(t, "run", file, "--db", ":memory:", "hi").exits(t, cli.StatusUsage)
	require.Contains(t, got.err, "1 problem in the files\n"+file+":14: ")

	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), "v0.2.7", "v0.2.8", 1)), 0o644))
	got = invocation{}.run(t, "lint", file).exits(t, 0)
	require.Contains(t, got.err, "the graph support-router, line 1: ossa.ai/v0.2.8 is read as ossa.ai/v0.2.7")

	for path, say := range map[string]string{
		filepath.Join(dir, "none.yaml"):         "there is no such file or folder",
		"../examples/agentgraph":                "give the path of its file, such as ../examples/agentgraph/content-pipeline.yaml",
		"../examples/agentgraph/README.md":      "this is a file",
		filepath.Join("testdata", "story.json"): "this is a file",
	} {
		got := invocation{}.run(t, "lint", path).exits(t, cli.StatusUsage, path)
		require.Contains(t, got.out+got.err, say, path)
	}
}
