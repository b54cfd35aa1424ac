package cli_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/llm/scripted"
)

// TestGraphApprovedTwice: a decision that is made again changes nothing: the turn still
// waits for the other one, and says so.
func TestGraphApprovedTwice(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"g.yaml": `apiVersion: arbor/v1
kind: AgentGraph
metadata: {name: two, version: 1.0.0}
spec:
  agents:
    - {id: a, agentRef: writer}
    - {id: b, agentRef: writer, when: human}
    - {id: c, agentRef: writer, when: human}
  edges:
    - {from: a, to: b}
    - {from: a, to: c}
  entrypoint: a
---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: writer}
spec: {role: You write.}
`})
	flags := []string{f["g.yaml"], "--session", "s1", "--db", filepath.Join(t.TempDir(), "s.db")}
	in := invocation{home: t.TempDir()}
	asked := regexp.MustCompile(`--approve (\w+)`)
	got := in.run(t, "run", f["g.yaml"], "hi", "--session", "s1", "--db", flags[4]).exits(t, cli.StatusApproval)
	calls := asked.FindAllStringSubmatch(got.err, -1)
	require.Len(t, calls, 2)
	for range 2 {
		got = in.run(t, append([]string{"resume", "--approve", calls[0][1]}, flags...)...).exits(t, cli.StatusApproval)
		waits := asked.FindAllStringSubmatch(got.err, -1)
		require.Len(t, waits, 1)
		require.Equal(t, calls[1][1], waits[0][1])
	}
	got = in.run(t, append([]string{"resume", "--approve", calls[1][1]}, flags...)...).exits(t, 0)
}

// TestGraphRunBusy: a run that another process keeps from beginning says so, and does
// not tell of the other one's as if it were its own.
func TestGraphRunBusy(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"g.yaml": triage, "classifier.md": "---\nname: intent-classifier\n---\nYou classify.\n",
		"billing.md": "---\nname: billing-support\n---\nYou bill.\n", "general.md": "---\nname: general-support\n---\nYou help.\n"})
	answer, asked, release := slow(`{"intent": "none"}`)
	in := invocation{home: t.TempDir(), env: serve(t, answers(answer, scripted.Reply(scripted.Text("Hello."))))}
	flags := []string{"--session", "s1", "--db", filepath.Join(t.TempDir(), "s.db"), "--json"}
	first := in.start(t, append([]string{"graph", "run", f["g.yaml"], "--text", "hi"}, flags...)...)
	receive(t, asked)
	got := in.run(t, append([]string{"graph", "run", f["g.yaml"], "--text", "me too"}, flags...)...)
	require.Equal(t, cli.StatusBusy, got.status, got.err)
	require.Empty(t, got.out)
	require.Regexp(t, `^arbor: session app/local/s1: .*session is busy with another turn; to follow its turn: arbor sessions follow s1( --db .*)?\n$`, got.err)
	close(release)
	require.Equal(t, 0, first.wait(t).status)
}

// TestGraphSummaryFallback: a fallback that was asked is shown with what became of it.
func TestGraphSummaryFallback(t *testing.T) {
	t.Parallel()
	graph := strings.Replace(triage, "  entrypoint", "  errorHandling: {fallbackAgent: general}\n  entrypoint", 1)
	f := files(t, map[string]string{"g.yaml": graph,
		"saves.yaml": "classifier: {output: {intent: billing}}\nbilling: {error: is down}\ngeneral: {output: sorry}\n",
		"fails.yaml": "classifier: {output: {intent: billing}}\nbilling: {error: is down}\ngeneral: {error: is down too}\n"})
	for mocks, want := range map[string]outcome{
		"saves.yaml": {0, "classifier  done       {\"intent\":\"billing\"}\nbilling     failed     is down\ngeneral     done       \"sorry\"\nstatus: recovered\n", ""},
		"fails.yaml": {3, "classifier  done       {\"intent\":\"billing\"}\nbilling     failed     is down\ngeneral     failed     is down too\nstatus: failed\n",
			"arbor: agent billing: is down; and the fallback general failed: is down too\n"},
	} {
		require.Equal(t, want, invocation{}.run(t, "graph", "run", f["g.yaml"], "--mock", f[mocks], "--input", "{}"))
	}
}

// TestGraphSummaryLongID: one long id does not push everything else off the screen.
func TestGraphSummaryLongID(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"g.yaml": strings.ReplaceAll(triage, "general", strings.Repeat("x", 500)),
		"m.yaml": "classifier: {output: {intent: billing}}\nbilling: {output: 1}\n" + strings.Repeat("x", 500) + ": {output: 1}\n"})
	got := invocation{}.run(t, "graph", "run", f["g.yaml"], "--mock", f["m.yaml"], "--input", "{}").exits(t, 0)
	for line := range strings.Lines(got.out) {
		require.Less(t, len(line), 160)
	}
}

// TestGraphTestRefused: the cases of graphs that are to be refused are run as well, with
// the agents that exist for them.
func TestGraphTestRefused(t *testing.T) {
	t.Parallel()
	const invalid = "../agentgraph/testdata/invalid.yaml"
	got := invocation{}.run(t, "graph", "test", invalid, "--refs", "a-agent,b-agent,x-agent").exits(t, 0)
	require.Contains(t, got.out, "ok   unknown-agentref\n")
	require.Contains(t, got.out, "13 cases passed\n")
	got = invocation{}.run(t, "graph", "test", invalid, "--run", "unknown-agentref|cycle-two", "--json").exits(t, 3)
	require.Contains(t, got.out, `"name":"cycle-two","ok":true,"differences":[],"result":null}`)
	require.Contains(t, got.out, `"name":"unknown-agentref","ok":false,"differences":["code: got [], want [unknown_agent_ref]"],"result":null}`, "all agents exist unless it is said which")
}
