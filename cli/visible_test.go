package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

// hostile drives a terminal, turns what stands around it, and hides words.
const hostile = "a\x1b[2J\x7f\u009b31m\u202e\u2066\u200e\u061c\u200b\ufeff\U000e0041\ufff9x\U000e0100b"

// requireHarmless requires that nothing of it came through.
func requireHarmless(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		require.False(t, unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Cf, r) || r >= 0xe0000 && r < 0xe1000, "%s: %U in %q", what, r, text)
	}
}

// TestNothingHostileIsPrinted asks every command that prints what others have written.
func TestNothingHostileIsPrinted(t *testing.T) {
	t.Parallel()
	arguments := must.Get(json.Marshal(map[string]string{hostile: hostile}))
	f := files(t, map[string]string{
		"tree/a.md": "---\nname: a\ndescription: \"" + `a\e[2J\x7f\x9b31m\u202e\u2066\u200e\u061c\u200b\ufeff\U000e0041b` + "\"\nsubagents: [b]\n---\nYou are a.\n",
		"tree/b.md": "---\nname: b\n---\nYou are b.\n",
		"bad/a.md":  "---\nname: \"" + hostile[:1] + `\u202e\x9b` + "\"\ntools: [\"\\u202e\\x9b\"]\n---\nYou are a.\n",
		"g.yaml":    "apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  agents: [{id: \"x\\u202e\\x9b\\U000E0041\", agentRef: y}]\n  entrypoint: \"x\\u202e\\x9b\\U000E0041\"\n",
	})
	s := told{invocation{home: t.TempDir()}, filepath.Join(t.TempDir(), "s.db")}
	s.env = serve(t, answers(
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"b","reason":`+string(must.Get(json.Marshal(hostile)))+`}`)),
		scripted.Reply(scripted.Text(hostile)), scripted.Reply(scripted.Text(hostile)), scripted.Reply(scripted.Call("nonsense", string(arguments)))))
	tree := filepath.Dir(f["tree/a.md"])
	outputs := map[string]outcome{
		"run":      s.run(t, "run", tree, hostile, "--session", "s1", "--db", s.db),
		"run json": s.run(t, "run", tree, hostile, "--session", "s1", "--db", s.db, "--json"),
		"error":    s.run(t, "run", tree, "hi", "--session", "s1", "--db", s.db),
		"tree":     s.run(t, "tree", tree), "tree json": s.run(t, "tree", tree, "--format", "json"), "mermaid": s.run(t, "tree", tree, "--format", "mermaid"),
		"dot": s.run(t, "tree", tree, "--format", "dot"), "lint": s.run(t, "lint", filepath.Dir(f["bad/a.md"])),
		"flag": s.run(t, "run", "--"+hostile), "command": s.run(t, hostile), "arguments": s.run(t, "sessions", "ls", hostile), "format": s.run(t, "tree", tree, "--format", hostile),
		"path": s.run(t, "run", hostile, "hi"),
	}
	require.Equal(t, 0, outputs["run"].status, outputs["run"].err)
	require.Equal(t, cli.StatusFailed, outputs["error"].status)
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"show", "s1"}, {"show", "s1", "--json"}, {"show", "s1", "--state"}, {"show", "s1", "--usage"},
		{"show", "s1", "--view", "b", "--tree", tree}, {"show", "s1", "--view", "b", "--tree", tree, "--json"}, {"history", "s1"}, {"history", "s1", "--json"},
		{"diff", "s1", "s1"}, {"replay", "s1"}, {"export", "s1"}, {"export", "s1", "--format", "md"}, {"export", "s1", "--format", "html"},
		{"export", "s1", "--format", "openai"}} {
		outputs[strings.Join(args, " ")] = s.run(t, append(append([]string{"sessions"}, args...), "--db", s.db)...)
	}
	s.stdin = outputs["export s1"].out
	outputs["reduce"] = s.run(t, "conversation", "reduce")
	outputs["messages"] = s.run(t, "conversation", "reduce", "--project", "messages")
	for _, args := range [][]string{{"validate"}, {"validate", "--json"}, {"draw"}, {"draw", "--format", "dot"}, {"draw", "--format", "svg"}} {
		outputs["graph "+strings.Join(args, " ")] = s.run(t, append([]string{"graph", args[0], f["g.yaml"]}, args[1:]...)...)
	}
	for what, got := range outputs {
		requireHarmless(t, what, got.out)
		requireHarmless(t, what, got.err)
	}
	// A reader of the JSON gets what was said.
	for _, what := range []string{"run json", "export s1", "show s1 --json", "export s1 --format openai", "messages", "reduce"} {
		require.Equal(t, 0, outputs[what].status, outputs[what].err)
		require.Contains(t, parsed(t, outputs[what].out), hostile, what)
	}
}

// parsed reads JSON values and returns all texts in them.
func parsed(t *testing.T, text string) string {
	t.Helper()
	var all strings.Builder
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case string:
			all.WriteString(v + "\n")
		case []any:
			for _, item := range v {
				visit(item)
			}
		case map[string]any:
			for _, item := range v {
				visit(item)
			}
		}
	}
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var v any
		require.NoError(t, d.Decode(&v))
		visit(v)
	}
	return all.String()
}
