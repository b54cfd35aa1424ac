package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
)

func TestConversationReduce(t *testing.T) {
	files, err := filepath.Glob("../conversation/testdata/cases/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		events, err := os.ReadFile(file)
		require.NoError(t, err)
		expected, err := os.ReadFile(strings.TrimSuffix(file, ".jsonl") + ".expected.json")
		require.NoError(t, err)
		var want struct{ Flat json.RawMessage }
		require.NoError(t, json.Unmarshal(expected, &want))

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
		var out map[string]any
		require.NoError(t, json.Unmarshal([]byte(got.out), &out))
		return out
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

	for name, want := range map[string]string{"thread": `{"thread":[]}`, "messages": `{"messages":[]}`, "dag": `{"nodes":[],"edges":[]}`} {
		got := invocation{}.run(t, "conversation", "reduce", "--json", "--project", name)
		require.Equal(t, want+"\n", got.out)
	}
}

func TestConversationReduceBadInput(t *testing.T) {
	got := invocation{stdin: "{\"type\":\"user\",\"runId\":\"u\"}\n\n[]\n"}.run(t, "conversation", "reduce")
	require.Equal(t, cli.StatusUsage, got.status)
	require.Empty(t, got.out)
	require.Contains(t, got.err, "line 3: ")

	got = invocation{}.run(t, "conversation", "reduce", "--project", "grpah")
	require.Equal(t, cli.StatusUsage, got.status)
	require.Contains(t, got.err, "--project grpah")

	got = invocation{}.run(t, "conversation", "reduce")
	require.Equal(t, cli.StatusAnswered, got.status)
	require.JSONEq(t, `{"nodes":[],"edges":{},"lastNodeByRunId":{}}`, got.out)
}
