// Package conversation_test holds the reducer for browsers against the one in Go:
// both must make the same graph of every stream of events. It has no code besides
// its tests, and nothing imports it.
package conversation_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/internal/testing/twin"
)

var (
	streams = flag.Int("streams", 200, "random streams to reduce in Go and in JavaScript")
	seed    = flag.Uint64("seed", 1, "what the random streams depend on")
)

// TestSameGraph reduces streams in Go and in JavaScript. The graphs must be the
// same, byte for byte if JavaScript gets the events as text. If it gets them as
// values, they must be what JSON.parse makes of Go's.
func TestSameGraph(t *testing.T) {
	js := startReducer(t)
	for _, file := range cases(t) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		require.Empty(t, js.difference(t, lines), file)
	}
	for _, levels := range []int{999, 1000, 1001, 1002, 1003, 9_999, 10_001, 100_000} {
		deep := strings.Repeat("[", levels) + strings.Repeat("]", levels)
		require.Empty(t, js.difference(t, []string{
			`{"type":"tool_call","runId":"r","id":"c","name":"x","input":` + deep + `}`,
			`{"type":"tool_result","runId":"r","id":"c","name":"x","output":{"a":` + deep + `}}`,
			`{"type":"user","runId":"u","content":"hi","metadata":{"a":` + deep + `}}`,
			`{"type":"text","runId":"r","id":"t","content":"Done.","more":` + deep + `}`,
			`{"type":"text","runId":"r","id":"s","content":"` + deep + `"}`,
		}), "%d levels", levels)
	}
	for i := range *streams {
		lines := newGenerator(*seed, i).stream()
		wrong := js.difference(t, lines)
		if wrong == "" {
			continue
		}
		// Leave out whatever the difference does not need.
		for k := 0; k < len(lines); {
			fewer := append(append([]string{}, lines[:k]...), lines[k+1:]...)
			if d := js.difference(t, fewer); d != "" {
				lines, wrong, k = fewer, d, 0
			} else {
				k++
			}
		}
		t.Fatalf("stream %d of seed %d, without what the difference does not need:\n%s\n%s", i, *seed, strings.Join(lines, "\n"), wrong)
	}
}

func cases(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../conversation/testdata/cases/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// reducer is a process that reduces streams in JavaScript.
type reducer struct{ *twin.Process }

func startReducer(t *testing.T) *reducer {
	t.Helper()
	return &reducer{twin.Start(t, "test/reducer.mjs", "dist/index.js", "npm --prefix web/conversation ci --ignore-scripts && npm --prefix web/conversation run build")}
}

// difference reduces a stream in both languages and returns "" or what differs.
func (r *reducer) difference(t *testing.T, lines []string) string {
	t.Helper()
	g := conversation.New()
	for _, line := range lines {
		if next, err := g.ReduceJSON([]byte(line)); err == nil {
			g = next
		}
	}
	graph, err := g.MarshalJSON()
	require.NoError(t, err)
	q := request{Events: lines, Graph: string(graph)}
	order := 0
	for range g.Topological() {
		order++
	}
	if order == g.Len() { // else there is a circle, in which a view would lose its way
		q.Views = views(t, g, uint64(len(graph)))
	}
	var wrong string
	if r.Ask(t, q, &wrong); wrong != "" {
		return "Go:         the graph: " + string(graph) + "\nJavaScript: " + wrong
	}
	require.Equal(t, g.Len(), order)
	return ""
}

// request is a line to the process.
type request struct {
	Events []string `json:"events"`
	Graph  string   `json:"graph"`
	Views  []view   `json:"views,omitempty"`
}
