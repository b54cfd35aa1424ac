package agentgraph_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/exampletest"
)

// run runs one turn with the offline model, and returns the outputs of the nodes, by
// their ids, and those of the graph.
func run(t *testing.T, file, message string) (order []string, outputs map[string]string) {
	t.Helper()
	order, outputs, notes := runWith(t, nil, file, message)
	require.Contains(t, notes, "no model is used")
	return order, outputs
}

// runWith runs one turn with the model of the environment.
func runWith(t *testing.T, env []string, file, message string) (order []string, outputs map[string]string, notes string) {
	t.Helper()
	var out, errs bytes.Buffer
	streams := cli.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: exampletest.Getenv(env)}
	status := cli.Run(t.Context(), []string{"run", file, "--db", ":memory:", "--json", message}, streams)
	require.Equal(t, cli.StatusAnswered, status, errs.String())
	outputs = map[string]string{}
	for line := range strings.Lines(out.String()) {
		var e event.Event
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		switch d := e.Data.(type) {
		case *event.HarnessStart:
			order = append(order, e.Agent)
		case *event.Text:
			outputs[e.Agent] = d.Content
		}
	}
	return order, outputs, errs.String()
}

// TestEndpoint: the nodes are the same ones where an endpoint answers.
func TestEndpoint(t *testing.T) {
	env, requests := exampletest.Endpoint(t)
	for file, want := range map[string][]string{
		"content-pipeline.yaml": {"content-pipeline", "researcher", "writer", "editor"}, "parallel-analysis.yaml": {"parallel-analysis", "splitter", "analyzer1", "analyzer2", "merger"},
		"support-router.yaml": {"support-router", "classifier", "billing"},
	} {
		before := requests()
		order, _, notes := runWith(t, env, file, "Where is my invoice?")
		require.Equal(t, want, order)
		require.Empty(t, notes)
		require.Equal(t, len(want)-1, requests()-before, "one for each node")
	}
}

func TestContentPipeline(t *testing.T) {
	order, outputs := run(t, "content-pipeline.yaml", "Why is the sky blue?")
	require.Equal(t, []string{"content-pipeline", "researcher", "writer", "editor"}, order)
	require.Contains(t, outputs["researcher"], `begin "You research a topic"`)
	require.Contains(t, outputs["content-pipeline"], `begin "You edit the article`)
}

func TestParallelAnalysis(t *testing.T) {
	order, outputs := run(t, "parallel-analysis.yaml", "The train was terrible on 2026-03-01 and on 2026-03-04, write to ann@example.com")
	require.Equal(t, []string{"parallel-analysis", "splitter", "analyzer1", "analyzer2", "merger"}, order)
	require.JSONEq(t, `{"sentiment": "negative"}`, outputs["analyzer1"])
	require.JSONEq(t, `{"dates": ["2026-03-01", "2026-03-04"], "emails": ["ann@example.com"]}`, outputs["analyzer2"])
	require.JSONEq(t, `{"sentiment": "negative"}`, outputs["parallel-analysis"])
	_, outputs = run(t, "parallel-analysis.yaml", "I love the new app")
	require.JSONEq(t, `{"sentiment": "positive"}`, outputs["parallel-analysis"])
}

// TestSupportRouter sends each question to the agent that it is for, and nowhere else.
func TestSupportRouter(t *testing.T) {
	for message, want := range map[string]string{
		"I was charged twice for my subscription":        "billing",
		"Where is my invoice?":                           "billing",
		"I cannot login, my password gives an error":     "technical",
		"The app crashes when my router is slow":         "technical",
		"When do you open on Sundays?":                   "general",
		"Do you also sell to people who live in France?": "general",
	} {
		order, outputs := run(t, "support-router.yaml", message)
		require.Equal(t, []string{"support-router", "classifier", want}, order, message)
		var answer struct{ Intent, Question string }
		require.NoError(t, json.Unmarshal([]byte(outputs["classifier"]), &answer))
		require.Equal(t, want, answer.Intent)
		require.Equal(t, message, answer.Question)
		require.Equal(t, outputs[want], outputs["support-router"])
	}
}

// TestFilesAreTheSpecifications holds the graphs against the specification's texts, and
// loads them without a problem.
func TestFilesAreTheSpecifications(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range files {
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		want, err := os.ReadFile(filepath.Join("../../agentgraph/testdata/ossa", file))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		problems, err := agentfile.Check(file)
		require.NoError(t, err)
		require.Empty(t, problems)
	}
	// The folder itself is no tree, and says so.
	problems, err := agentfile.Check(".")
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].Message, "give the path of its file")
}
