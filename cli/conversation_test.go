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
