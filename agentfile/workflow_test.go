package agentfile

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestWorkflowRuns: a loop in files ends by its condition, by the tool, or at its limit, and its
// agents see as much of the conversation as the file says.
func TestWorkflowRuns(t *testing.T) {
	for name, c := range map[string]struct{ keys, script, said string }{
		"until": {"until: output contains 'fine'", "write: \"A.\"\ncritic: \"No.\"\nwrite: \"B.\"\ncritic: \"That is fine.\"", "That is fine."},
		"limit": {"limit: 1", "write: \"A.\"\ncritic: \"No.\"", "No."},
		"exit":  {"history: full", "write: \"A.\"\ncritic: call exit_loop {}\ncritic: \"Good.\"", "A."},
	} {
		t.Run(name, func(t *testing.T) {
			file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
			script := must.Get(scripted.Parse([]byte(c.script), scripted.WithRecording()))
			models := map[string]llm.Model{"write": script.Model("write"), "critic": script.Model("critic")}
			tree, err := LoadFS(fstest.MapFS{
				"polish.md": file("---\nkind: loop\nagents: [write, critic]\n" + c.keys + "\n---\n"),
				"write.md":  file("---\nmodel: write\n---\nWrite."),
				"critic.md": file("---\nmodel: critic\ntools: [exit_loop]\n---\nJudge."),
			}, ".", WithModel(func(name string) (llm.Model, error) { return models[name], nil }))
			require.NoError(t, err)
			r := must.Get(runner.New(tree.Root(), sessiontest.Memory(t)))
			said := ""
			for e, err := range sessiontest.Turn(t, r.Run(t.Context(), session.ID("s1"), llm.UserText("Go"))) {
				require.NoError(t, err)
				said += e.Visible()
			}
			require.Equal(t, c.said, said)
			require.NoError(t, script.Done())
			seen := 1 // its input
			if name == "exit" {
				seen = 2 // and what the user said
			}
			require.Len(t, script.Requests("critic")[0].Messages, seen)
		})
	}
}
