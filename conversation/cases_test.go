package conversation

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// lines returns the lines of a case.
func lines(t testing.TB, name string) [][]byte {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", "cases", name+".jsonl")))
	var all [][]byte
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			all = append(all, line)
		}
	}
	return all
}

// fold reduces lines into a graph.
func fold(t testing.TB, events ...string) *Graph {
	t.Helper()
	g := New()
	for _, line := range events {
		var err error
		g, err = g.ReduceJSON([]byte(line))
		require.NoError(t, err, line)
	}
	return g
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	return string(must.Get(json.Marshal(v)))
}

func caseNames(t testing.TB) []string {
	t.Helper()
	files := must.Get(filepath.Glob("testdata/cases/*.jsonl"))
	require.NotEmpty(t, files)
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".jsonl"))
	}
	return names
}

// TestCases reduces the streams of testdata/cases and compares the graphs with
// the files beside them.
func TestCases(t *testing.T) {
	for _, name := range caseNames(t) {
		t.Run(name, func(t *testing.T) {
			var want struct{ Flat json.RawMessage }
			data := must.Get(os.ReadFile(filepath.Join("testdata", "cases", name+".expected.json")))
			require.NoError(t, json.Unmarshal(data, &want))
			g := New()
			for _, line := range lines(t, name) {
				g = must.Get(g.ReduceJSON(line))
			}
			require.JSONEq(t, string(want.Flat), asJSON(t, g))
		})
	}
}
