package agenttools_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/exampletest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
)

const text = "Summarize this text: The committee met in Oslo and decided to build a new pier. The city and the port share the costs. Work begins in May."

// command runs the command as a process of its own would.
func command(t *testing.T, env []string, args ...string) (out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	streams := cli.Streams{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: exampletest.Getenv(env)}
	require.Equal(t, cli.StatusAnswered, cli.Run(t.Context(), args, streams), stderr.String())
	return stdout.String(), stderr.String()
}

// steps are the nodes that were called, and the tools with the node that ran them.
func steps(t *testing.T, log string) (all []string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var e event.Event
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		switch d := e.Data.(type) {
		case *event.HarnessStart:
			all = append(all, e.Agent)
		case *event.ToolCall:
			all = append(all, e.Agent+" calls "+d.Name)
		}
	}
	return all
}

// TestPicture is START → agent → tools → agent → END, offline and against an endpoint.
func TestPicture(t *testing.T) {
	env, requests := exampletest.Endpoint(t)
	for _, env := range [][]string{nil, env} {
		before := requests()
		out, said := command(t, env, "run", "graph.yaml", "--db", ":memory:", "--json", text)
		require.Equal(t, env == nil, strings.Contains(said, "no model is used"))
		require.Equal(t, env != nil, requests() > before)
		require.Equal(t, []string{"agent-tools", "rounds", "agent", "tools", "tools calls summarize_text", "summarize_text", "rounds", "agent"}, steps(t, out))
		require.Contains(t, out, "summarize_text returned")
	}

	out, _ := command(t, nil, "graph", "run", "graph.yaml", "--json", "--text", text)
	var result struct {
		State struct {
			Messages []struct{ Role string }
			Agent    string `json:"agent_name"`
			Metadata struct{ Rounds int }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Equal(t, []struct{ Role string }{{"user"}, {"assistant"}, {"tool"}, {"assistant"}}, result.State.Messages)
	require.Equal(t, "assistant", result.State.Agent)
	require.Equal(t, 2, result.State.Metadata.Rounds)
}

// TestCheckpoints: a new process continues the conversation, the past can be listed and
// played without a model, and a fork in the middle asks only what was not answered.
func TestCheckpoints(t *testing.T) {
	script := scripted.New(scripted.WithRecording()).Add("m",
		scripted.Reply(scripted.CallID("c1", "summarize_text", `{"text":"The committee met in Oslo."}`)),
		scripted.Reply(scripted.Text("A meeting in Oslo.")), // of the tool
		scripted.Reply(scripted.Text("They met in Oslo.")),
		scripted.Reply(scripted.Text("The city and the port.")),
		scripted.Reply(scripted.Text("In Oslo, again.")))
	server, err := endpoint.Start(endpoint.Models(script.Model("m")), endpoint.WithAPIKey("key"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	env := []string{"OPENAI_BASE_URL=" + server.URL(), "OPENAI_API_KEY=key", "OPENAI_MODEL=m"}
	db := filepath.Join(t.TempDir(), "s.db")

	out, _ := command(t, env, "run", "graph.yaml", "--db", db, "--session", "s1", text)
	require.Contains(t, out, "agent-tools: They met in Oslo.")
	out, _ = command(t, env, "run", "graph.yaml", "--db", db, "--session", "s1", "And who pays?")
	require.Contains(t, out, "agent-tools: The city and the port.")
	asked := script.Requests("m")
	require.Len(t, asked, 4)
	require.Contains(t, asked[0].System, "Behavior guidelines")
	require.Equal(t, []llm.Message{llm.UserText(text), llm.UserText("[agent-tools] They met in Oslo."), llm.UserText("And who pays?")}, asked[3].Messages)

	out, _ = command(t, env, "sessions", "history", "s1", "--db", db, "--json")
	at := ""
	for line := range strings.Lines(out) {
		var point struct{ Seq json.Number }
		require.NoError(t, json.Unmarshal([]byte(line), &point))
		if at == "" && strings.Contains(line, "A meeting in Oslo.") {
			at = point.Seq.String()
		}
	}
	require.NotEmpty(t, at, out)
	out, _ = command(t, env, "sessions", "replay", "s1", "--db", db)
	require.Contains(t, out, "agent-tools: The city and the port.")
	out, _ = command(t, env, "sessions", "replay", "s1", "--db", db, "--with", "graph.yaml")
	require.Contains(t, out, "same to the end: 2 turns, 4 requests, 0 tool calls")
	require.Len(t, script.Requests("m"), 4, "no model was asked")

	command(t, env, "sessions", "fork", "s1", "--at", at, "--to", "s2", "--db", db)
	out, _ = command(t, env, "resume", "graph.yaml", "--session", "s2", "--db", db)
	require.Contains(t, out, "agent-tools: In Oslo, again.")
	require.NoError(t, script.Done(), "the tool was not run again")
	command(t, env, "sessions", "check", "--db", db)
}
