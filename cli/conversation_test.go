package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
)

func TestConversationReduce(t *testing.T) {
	files := must.Get(filepath.Glob("../conversation/testdata/cases/*.jsonl"))
	require.NotEmpty(t, files)
	for _, file := range files {
		events := must.Get(os.ReadFile(file))
		expected := must.Get(os.ReadFile(strings.TrimSuffix(file, ".jsonl") + ".expected.json"))
		want := must.JSON[struct{ Flat json.RawMessage }](expected)

		got := invocation{stdin: string(events)}.run(t, "conversation", "reduce", "--project", "graph", "--json")
		require.Equal(t, cli.StatusAnswered, got.status, got.err)
		require.JSONEq(t, string(want.Flat), got.out, file)
		require.Equal(t, 1, strings.Count(got.out, "\n"), "one object in one line")
	}
}

func TestConversationProjections(t *testing.T) {
	events := `{"type":"user","runId":"u","content":[{"type":"text","text":"Look"},{"type":"image","mediaType":"image/png","url":"http://localhost/a.png"}]}
{"type":"harness_start","runId":"r","agentId":"a","parentId":"u:user"}
{"type":"tool_call","id":"k","runId":"r","name":"look","input":null}
{"type":"tool_result","id":"k","runId":"r","name":"look","output":{"x":"<1>"}}`
	project := func(name string) map[string]any {
		got := invocation{stdin: events}.run(t, "conversation", "reduce", "--project", name, "--json")
		require.Equal(t, cli.StatusAnswered, got.status, got.err)
		return must.JSON[map[string]any](got.out)
	}
	content := []any{map[string]any{"type": "text", "text": "Look"}, map[string]any{"type": "image", "mediaType": "image/png", "url": "http://localhost/a.png"}}
	require.Equal(t, map[string]any{"messages": []any{
		map[string]any{"role": "user", "content": content},
		map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": "k", "name": "look", "arguments": map[string]any{}}}},
		map[string]any{"role": "tool", "content": `{"x":"<1>"}`, "tool_call_id": "k"},
	}}, project("messages"))

	thread := project("thread")["thread"].([]any)
	require.Len(t, thread, 2)
	require.Equal(t, content, thread[0].(map[string]any)["content"])
	require.Equal(t, "streaming", thread[1].(map[string]any)["status"])

	dag := project("dag")
	require.Len(t, dag["nodes"], 4)
	require.Len(t, dag["edges"], 3)

	require.Equal(t, []any{"message:u", "message:r"}, project("hypergraph")["messages"])

	for name, want := range map[string]string{"hypergraph": `{"chunks":[],"blocks":[],"messages":[],"edges":[]}`, "thread": `{"thread":[]}`, "messages": `{"messages":[]}`, "dag": `{"nodes":[],"edges":[]}`} {
		got := invocation{}.run(t, "conversation", "reduce", "--json", "--project", name)
		require.Equal(t, want+"\n", got.out)
	}
}

// TestConversationActive: a path is given as JSON or as a file.
func TestConversationActive(t *testing.T) {
	events := `{"type":"user","runId":"u","content":"Hello"}
{"type":"harness_start","runId":"r","agentId":"a","parentId":"u:user"}
{"type":"reasoning","id":"h","runId":"r","content":"hm"}
{"type":"tool_call","id":"k","runId":"r","name":"look","input":{}}
{"type":"tool_result","id":"k","runId":"r","name":"look","output":"x"}
{"type":"text","id":"t1","runId":"r","content":"First."}
{"type":"harness_end","runId":"r"}
{"type":"harness_start","runId":"s","agentId":"a","parentId":"u:user"}
{"type":"text","id":"t2","runId":"s","content":"Second."}
{"type":"harness_end","runId":"s"}`
	file := filepath.Join(t.TempDir(), "active.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"next":{"u":"r"},"collapsed":["r"]}`+"\n"), 0o600))
	for _, c := range []struct{ want, not, args string }{
		{"First.", "Second.", `{"next":{"u":"r"}}`},
		{"look", "Second.", `{"next":{"u":"r"}}`},
		{"First.", "look", file},
		{"Second.", "First.", `{}`},
	} {
		for _, project := range []string{"thread", "messages", "dag"} {
			if project == "dag" && c.args == file {
				continue // where a folded run is one box
			}
			got := invocation{stdin: events}.run(t, "conversation", "reduce", "--json", "--project", project, "--active", c.args).exits(t, cli.StatusAnswered)
			require.Contains(t, got.out, c.want, project)
			require.NotContains(t, got.out, c.not, project)
		}
	}
	whole := invocation{stdin: events}.run(t, "conversation", "reduce", "--json")
	require.Equal(t, whole, invocation{stdin: events}.run(t, "conversation", "reduce", "--json", "--active", file), "the graph is always all of it")

	got := invocation{stdin: events}.run(t, "conversation", "reduce", "--json", "--project", "thread", "--active", `{"next":{"u":"r"}}`, "--hide", "reasoning,tools").exits(t, cli.StatusAnswered)
	require.NotContains(t, got.out, "reasoning")
	require.Contains(t, got.out, `"toolCalls":[{"id":"k","name":"look","status":"complete"}]`)

	for _, bad := range []string{"no/such/file", `{"next":1}`, `{"next"`, "[]"} {
		got := invocation{stdin: events}.run(t, "conversation", "reduce", "--project", "thread", "--active", bad)
		require.Equal(t, cli.StatusUsage, got.status)
		require.Empty(t, got.out)
		require.Contains(t, got.err, "--active")
	}
}

// TestConversationOfDeepAgents: what cannot be indented is printed all the same.
func TestConversationOfDeepAgents(t *testing.T) {
	var events strings.Builder
	const levels = 2500
	for i := range levels {
		fmt.Fprintf(&events, `{"type":"tool_call","id":"k%d","runId":"r%d","parentId":"k%d","name":"ask","input":{}}`+"\n", i, i, i-1)
	}
	got := invocation{stdin: events.String()}.run(t, "conversation", "reduce", "--project", "thread")
	require.Equal(t, cli.StatusAnswered, got.status, got.err)
	require.Equal(t, levels, strings.Count(got.out, `"toolCalls"`))
}

func TestConversationReduceBadInput(t *testing.T) {
	got := invocation{stdin: "{\"type\":\"user\",\"runId\":\"u\"}\n\n[]\n"}.run(t, "conversation", "reduce")
	require.Equal(t, cli.StatusUsage, got.status)
	require.Empty(t, got.out)
	require.Contains(t, got.err, "arbor: line 3: the event is not a JSON object")

	got = invocation{}.run(t, "conversation", "reduce", "--project", "grpah").exits(t, cli.StatusUsage)
	require.Contains(t, got.err, "--project grpah")

	got = invocation{}.run(t, "conversation", "reduce", "--hide", "reasoning,text").exits(t, cli.StatusUsage)
	require.Contains(t, got.err, "--hide text")

	got = invocation{}.run(t, "conversation", "reduce").exits(t, cli.StatusAnswered)
	require.JSONEq(t, `{"nodes":[],"edges":{},"lastNodeByRunId":{}}`, got.out)
}
