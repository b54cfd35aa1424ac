package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
)

// Who looks at the tree hears that it was replaced, and that files cannot be used, which leaves the
// tree as it is. What is wrong with them is for those who may see everything.
func TestReloads(t *testing.T) {
	var reloads server.Reloads
	s := newServed(t, server.WithReloads(&reloads))
	s.say(t, "s", "hello")
	first, anns := s.get(t, "owner", "/agents"), s.get(t, "ann", "/agents")
	revision := first.json(t)["revision"].(string)
	require.Equal(t, `"`+revision+`"`, first.header.Get("ETag"))
	require.NotContains(t, first.json(t), "changed")
	require.NotContains(t, first.json(t), "problems")

	changes := s.stream(t, "ann", "GET", "/changes", "")
	session := s.stream(t, "ann", "GET", "/sessions/s/events", "")
	told := func(f frame) bool { return f.event == "tree" }
	tells := func(revision string) {
		t.Helper()
		for _, in := range []*stream{changes, session} {
			all := in.until(told)
			require.Equal(t, map[string]any{"revision": revision}, all[len(all)-1].json(t))
			require.Empty(t, all[len(all)-1].id)
		}
	}
	problem := server.TreeProblem{File: "desk/tech.md", Line: 3, Message: `unknown key "modle"`}
	reloads.Failed(problem, server.TreeProblem{Message: "two agents have the name tech"})
	tells(revision)
	broken := s.get(t, "owner", "/agents", "If-None-Match", first.header.Get("ETag"))
	require.Equal(t, 200, broken.status)
	require.Equal(t, revision, broken.json(t)["revision"])
	require.Equal(t, []any{
		map[string]any{"file": "desk/tech.md", "line": 3., "message": `unknown key "modle"`},
		map[string]any{"message": "two agents have the name tech"},
	}, broken.json(t)["problems"])
	require.Equal(t, 304, s.get(t, "owner", "/agents", "If-None-Match", broken.header.Get("ETag")).status)
	require.Equal(t, 304, s.get(t, "ann", "/agents", "If-None-Match", anns.header.Get("ETag")).status, "for her all is as it was")

	began := time.Now()
	next := must.Get(llmagent.New("desk", "You obey no more.", scripted.Always("desk", scripted.Reply(scripted.Text("No.")))))
	run := must.Get(runner.New(next, s.store, runner.WithStreaming()))
	require.NoError(t, s.turns.Swap(run, nil))
	reloads.Loaded()
	after := s.get(t, "ann", "/agents", "If-None-Match", anns.header.Get("ETag")).json(t)
	require.NotEqual(t, revision, after["revision"])
	require.NotContains(t, after, "problems")
	changed := must.Get(time.Parse(time.RFC3339Nano, after["changed"].(string)))
	require.WithinRange(t, changed, began.Add(-time.Second), time.Now())
	tells(after["revision"].(string))
}
