package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/session"
)

// The owner of a workshop runs tools by hand: nothing is stored, and a call that needs an approval runs only with one.
// Nobody else can, and a server without a workshop has no such route.
func TestToolByHand(t *testing.T) {
	s := newServed(t, server.WithWorkshop(server.Workshop{}))
	call := func(token, tool, body string) answer { return s.do(t, token, "POST", "/agents/desk/tools/"+tool, body) }
	made := call("machine", "report", `{"input":{}}`)
	require.Equal(t, 200, made.status, string(made.body))
	got := made.json(t)
	require.Equal(t, "made", got["output"])
	require.Equal(t, false, got["isError"])
	require.Equal(t, map[string]any{"reports": 1.0}, got["state"])
	require.Equal(t, []any{"report.html"}, got["files"])

	details := s.get(t, "machine", "/agents/desk").json(t)
	require.Contains(t, fmt.Sprint(details["view"]), "transfer_to_agent")
	require.Equal(t, map[string]any{"tools": []any{"refund", "report", "color"}, "restart": false}, details["workshop"])

	require.Equal(t, "needs_approval", call("machine", "refund", `{"input":{}}`).code(t))
	require.Equal(t, "refunded", call("machine", "refund", `{"input":{},"approved":true}`).json(t)["output"])
	require.Equal(t, "unfit", call("machine", "refund", `{"input":{"amount":1},"approved":true}`).code(t))
	require.Equal(t, true, call("machine", "color", `{"input":{}}`).json(t)["isError"], "nobody can be asked")
	require.Equal(t, 404, call("machine", "none", `{"input":{}}`).status)
	require.Equal(t, "runs_agents", call("machine", "summarize_text", `{"input":{"text":"x"}}`).code(t), "it runs only in a session")
	require.Equal(t, 404, s.do(t, "machine", "POST", "/agents/nobody/tools/report", `{"input":{}}`).status)
	for _, user := range []string{"", "me"} {
		infos := must.Get(s.store.List(t.Context(), session.Key{App: session.DefaultApp, User: user}, session.Page{}))
		require.Empty(t, infos, "a call by hand has stored something")
	}

	plain := newServed(t)
	for token, want := range map[string]struct{ with, without int }{"machine": {200, 404}, "owner": {403, 404}, "ann!": {403, 404}, "ann": {403, 404}} {
		require.Equal(t, want.with, call(token, "report", `{"input":{}}`).status, token)
		require.Equal(t, want.without, plain.do(t, token, "POST", "/agents/desk/tools/report", `{"input":{}}`).status, token)
		require.Equal(t, want.with == 200, s.get(t, token, "/me").json(t)["workshop"], token)
		require.Equal(t, false, plain.get(t, token, "/me").json(t)["workshop"], token)
		require.Equal(t, want.with == 200, s.get(t, token, "/agents/desk").json(t)["workshop"] != nil, token)
		require.NotContains(t, plain.get(t, token, "/agents/desk").json(t), "workshop", token)
	}
}

// bodies is a workshop whose agents have one file, which has this body.
func bodies(b server.Body) server.Workshop {
	return server.Workshop{
		Body: func(_ context.Context, agent string) (server.Body, error) {
			if agent != "desk" {
				return server.Body{}, errors.New("no file describes " + agent)
			}
			return b, nil
		},
		Write: func(_ context.Context, _ string, to server.Body) (server.Body, error) {
			if to.Version != b.Version {
				return server.Body{}, fmt.Errorf("desk.md: %w", server.ErrFileChanged)
			}
			b = server.Body{Text: to.Text, Version: to.Version + "+"}
			return b, nil
		},
	}
}

// Only the owner of a workshop reads and replaces the instructions in a file. A workshop without files does not have the routes.
func TestBody(t *testing.T) {
	s, without, plain := newServed(t, server.WithWorkshop(bodies(server.Body{Text: "Old.", Version: "1"}))), newServed(t, server.WithWorkshop(server.Workshop{})), newServed(t)
	const path, sent = "/agents/desk/body", `{"text":"New.","version":"1"}`
	for token, want := range map[string]int{"owner": 403, "ann!": 403, "ann": 403, "machine": 200} {
		require.Equal(t, want, s.get(t, token, path).status, token)
		if token != "machine" {
			require.Equal(t, want, s.do(t, token, "PUT", path, sent).status, token)
		}
		require.Equal(t, 404, without.do(t, token, "PUT", path, sent).status, token)
		require.Equal(t, 404, plain.get(t, token, path).status, token)
	}
	require.Equal(t, "Old.", s.get(t, "machine", path).json(t)["text"])
	require.Equal(t, map[string]any{"text": "New.", "version": "1+"}, s.do(t, "machine", "PUT", path, sent).json(t))
	late := s.do(t, "machine", "PUT", path, sent)
	require.Equal(t, 409, late.status)
	require.Equal(t, "file_changed", late.code(t))
	require.Equal(t, "New.", s.get(t, "machine", path).json(t)["text"])
	for name, wrong := range map[string]answer{
		"no text":    s.do(t, "machine", "PUT", path, `{"version":"1+"}`),
		"no version": s.do(t, "machine", "PUT", path, `{"text":"New."}`),
		"no file":    s.get(t, "machine", "/agents/billing/body"),
	} {
		require.Equal(t, 422, wrong.status, name)
	}
	require.Equal(t, 404, s.get(t, "machine", "/agents/nobody/body").status)
}

// A fork with a changed agent runs the changed tree, in later turns as well, and no other session does.
func TestChangedFork(t *testing.T) {
	var s *served
	var asked server.Change
	var ended atomic.Int32
	s = newServed(t, server.WithWorkshop(server.Workshop{Change: func(_ context.Context, c server.Change) (*runner.Runner, func(), error) {
		asked = c
		if c.Model != nil {
			return nil, nil, errors.New("there is no such model")
		}
		root := must.Get(llmagent.New("desk", *c.Instructions, scripted.Always("m", scripted.Reply(scripted.Text("I am changed.")))))
		run, err := runner.New(root, s.store, runner.WithStreaming())
		return run, func() { ended.Add(1) }, err
	}}))
	say := func(id, words string) string {
		path, body := "/sessions/"+id+"/turns", fmt.Sprintf(`{"content":%q}`, words)
		if id == "s" {
			path, body = "/sessions", fmt.Sprintf(`{"id":"s","content":%q}`, words)
		}
		a := s.do(t, "machine", "POST", path, body, "Prefer", "wait=60")
		require.Equal(t, 200, a.status, string(a.body))
		return a.json(t)["text"].(string)
	}
	require.Equal(t, "Hello.", say("s", "hi"))
	fork := func(token, change string) answer {
		return s.do(t, token, "POST", "/sessions/s/forks?user="+session.DefaultUser, `{"at":1,"resume":true,"change":`+change+`}`)
	}
	made := fork("machine", `{"agent":"desk","instructions":"Be kind."}`)
	require.Equal(t, 201, made.status, string(made.body))
	require.Equal(t, "desk", asked.Agent)
	require.Equal(t, "Be kind.", *asked.Instructions)
	id := made.json(t)["id"].(string)
	must.Wait(t, func() bool { return s.get(t, "machine", "/sessions/"+id).json(t)["state"] == "done" })
	events := must.Get(json.Marshal(s.get(t, "machine", "/sessions/"+id+"/events").json(t)))
	require.Contains(t, string(events), "I am changed.")
	require.Equal(t, "I am changed.", say(id, "again"))
	other := s.do(t, "machine", "POST", "/sessions/s/turns", `{"content":"hi"}`, "Prefer", "wait=60")
	require.Equal(t, "Hello.", other.json(t)["text"], "another session has the tree as it is")

	wrong := fork("machine", `{"agent":"desk","model":"none"}`)
	require.Equal(t, "bad_change", wrong.code(t))
	require.Contains(t, string(wrong.body), "there is no such model")
	require.Equal(t, "unfit", fork("machine", `{"agent":"desk"}`).code(t))
	require.Equal(t, 403, fork("owner", `{"agent":"desk","instructions":"Be kind."}`).status)
	require.Zero(t, ended.Load())
	require.Equal(t, 409, s.do(t, "machine", "POST", "/sessions/s/forks", `{"at":1,"id":"s","change":{"agent":"desk","instructions":"Be kind."}}`).status)
	require.EqualValues(t, 1, ended.Load(), "what no session has got ends at once")
	require.NoError(t, s.turns.Close(context.Background()))
	require.EqualValues(t, 2, ended.Load())

	plain := newServed(t)
	plain.do(t, "machine", "POST", "/sessions", `{"id":"s","content":"hi"}`, "Prefer", "wait=60")
	require.Equal(t, "unfit", plain.do(t, "machine", "POST", "/sessions/s/forks", `{"at":1,"change":{"agent":"desk","instructions":"x"}}`).code(t))
}
