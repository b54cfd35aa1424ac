package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// newOffice serves a router front in front of support, which hands over to billing, to a graph and
// to persons, and keeps requests.
func newOffice(t testing.TB) *served {
	t.Helper()
	billing := must.Get(llmagent.New("billing", "You bill.", scripted.Func("small", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text("It is paid."), scripted.Usage(100, 10, 0))
	}), llmagent.WithDescription("Bills.")))
	step := func(name string) agent.Agent {
		return must.Get(agent.New(name, "", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				yield(&event.Event{Data: &event.Text{Content: name + " is done"}}, nil)
			}
		}))
	}
	plan := must.Get(agentgraph.NewBuilder("plan").Node("first", step("first")).Node("yes", step("yes")).Node("no", step("no")).
		Edge("first", "yes").Edge("first", "no", agentgraph.When(func(agentgraph.Values) (bool, error) { return false, nil })).Build())
	support := must.Get(llmagent.New("support", "You obey.", scripted.Func("large", func(req *llm.Request) scripted.Answer {
		handOver := func(to string) scripted.Answer {
			return scripted.Reply(scripted.Call("transfer_to_"+to, `{"reason":"it was said"}`), scripted.Usage(50, 5, 0))
		}
		switch text := req.Messages[len(req.Messages)-1].PlainText(); {
		case strings.Contains(text, "bill"):
			return handOver("billing")
		case strings.Contains(text, "plan"):
			return handOver("plan")
		case strings.Contains(text, "person"):
			return handOver("human")
		case strings.Contains(text, "fail"):
			return scripted.Reply(scripted.Status(400, 0))
		}
		return scripted.Reply(scripted.Text("Hello."), scripted.Usage(50, 5, 0))
	}), llmagent.WithSubAgents(billing, plan)))
	back := router.Specialist(support)
	front := must.Get(router.New("front", router.Rules(router.When(router.Keyword("help")).To(back)), router.Default(back)))
	kept := must.Get(server.KeepRequests(1 << 20))
	return serveWith(t, &desk{root: front}, sessiontest.Memory(t), []runner.Option{runner.WithDesk(human.Log{}), runner.WithInterceptors(kept)},
		server.WithRequests(kept), server.WithPrices(llm.Prices{"large": {Input: 2, Output: 8}}))
}

func (s *served) post(t testing.TB, path, body string, headers ...string) answer {
	t.Helper()
	return s.do(t, "ann", "POST", path, body, headers...)
}

// ok returns what is answered with a status, as JSON.
func (a answer) ok(t testing.TB, status int) map[string]any {
	t.Helper()
	require.Equal(t, status, a.status, string(a.body))
	return a.json(t)
}

func TestAgents(t *testing.T) {
	s := newOffice(t)
	a := s.get(t, "ann!", "/agents")
	tree := a.ok(t, 200)
	root := tree["root"].(map[string]any)
	require.Equal(t, "router", root["kind"])
	require.Equal(t, "human", tree["human"].(map[string]any)["name"])
	require.Equal(t, s.get(t, "ann!", "/me").ok(t, 200)["tree"].(map[string]any)["revision"], tree["revision"])
	require.Equal(t, fmt.Sprintf("%q", tree["revision"]), a.header.Get("ETag"))
	require.Equal(t, 304, s.get(t, "ann!", "/agents", "If-None-Match", a.header.Get("ETag")).status)

	for name, ends := range map[string]int{"front": 2, "plan": 4} {
		drawn := s.get(t, "ann!", "/agents/"+name+"/drawing").ok(t, 200)
		require.Len(t, drawn["boxes"], ends, "%s: %v", name, drawn)
	}
	require.Equal(t, "not_found", s.get(t, "ann!", "/agents/billing/drawing").code(t))
	require.Equal(t, "not_found", s.get(t, "ann!", "/agents/missing").code(t))
	require.Equal(t, 403, s.get(t, "ann", "/agents/billing").status)
	billing := s.get(t, "ann!", "/agents/billing").ok(t, 200)
	require.Equal(t, "You bill.", billing["instructions"])
	require.Equal(t, map[string]any{"toParent": false, "toPeers": false, "toHuman": true, "holdOnArrival": false}, billing["policy"])
	require.EqualValues(t, 50, billing["limits"].(map[string]any)["modelCalls"])
	require.Contains(t, fmt.Sprint(billing["view"].(map[string]any)["messages"]), "You bill.")
	require.NotContains(t, s.get(t, "ann!", "/agents/front").ok(t, 200), "view")
	require.Equal(t, "not_found", s.get(t, "ann!", "/agents/missing/drawing").code(t))

	// Whatever agents are told names the tree, and equal trees have equal names.
	revisions := make(map[any]int)
	for _, instructions := range []string{"You obey.", "You obey.", "You think."} {
		root := must.Get(llmagent.New("front", instructions, scripted.Func("m", nil)))
		run := must.Get(runner.New(root, s.store))
		require.NoError(t, s.turns.Swap(run, nil))
		revisions[s.get(t, "ann!", "/agents", "If-None-Match", a.header.Get("ETag")).ok(t, 200)["revision"]]++
	}
	require.Len(t, revisions, 2)
	require.NotContains(t, revisions, tree["revision"])
}

// Forks and edits of a session, once for a request that is sent twice.
func TestForksAndEdits(t *testing.T) {
	s := newOffice(t)
	s.say(t, "s1", "Please bill me")
	var seqs []int64
	for after := ""; ; {
		page := s.get(t, "ann!", "/sessions/s1/checkpoints?limit=2&after="+after).ok(t, 200)
		for _, c := range page["checkpoints"].([]any) {
			seqs = append(seqs, int64(c.(map[string]any)["seq"].(float64)))
		}
		if page["next"] == nil {
			break
		}
		after = page["next"].(string)
	}
	past := must.Get(checkpoint.New(s.store))
	key := session.Key{App: session.DefaultApp, User: "ann", ID: "s1"}
	var want []int64
	inside := int64(0)
	for c, err := range past.History(t.Context(), key) {
		require.NoError(t, err)
		want = append(want, c.Seq)
		if len(c.Events) > 1 {
			inside = c.Seq - 1
		}
	}
	require.Equal(t, want, seqs)

	a := s.post(t, "/sessions/s1/forks", fmt.Sprintf(`{"at":%d}`, inside))
	require.Equal(t, 422, a.status)
	require.Equal(t, "not_a_checkpoint", a.code(t))
	i, _ := slices.BinarySearch(want, inside)
	require.Contains(t, a.json(t)["detail"], fmt.Sprintf("begins after %d and ends at %d", want[i-1], want[i]))
	a = s.post(t, "/sessions/s1/edits", `{"at":2,"content":"x"}`)
	require.Equal(t, "not_a_checkpoint", a.code(t))
	require.Contains(t, a.json(t)["detail"], "at 1 before it and 0 after it")

	for body, path := range map[string]string{`{}`: "at", `{"at":-1}`: "at", `{"at":1000}`: "at", `{"at":1,"content":"x"}`: "content", `{"at":1,"id":"` + strings.Repeat("x", 256) + `"}`: "id", `{"at":1,"resum":true}`: "resum"} {
		a := s.post(t, "/sessions/s1/forks", body)
		require.Equal(t, map[bool]int{true: 422, false: 400}[strings.Contains(body, "1000") || path == "id"], a.status, body)
		require.Equal(t, path, a.json(t)["problems"].([]any)[0].(map[string]any)["path"], string(a.body))
	}

	// A name for a request: the same again is the same session, anything else is refused.
	fork := func(kind, body, name string) answer {
		return s.post(t, "/sessions/s1/"+kind, body, "Idempotency-Key", name)
	}
	first := fork("forks", `{"at":1,"resume":true}`, "k1")
	made := first.ok(t, 201)
	require.Equal(t, map[string]any{"id": "s1", "seq": 1.0}, made["parent"])
	require.Equal(t, "/api/v1/sessions/"+url.PathEscape(made["id"].(string)), first.header.Get("Location"))
	forked := session.Key{App: key.App, User: "ann", ID: made["id"].(string)}
	s.rests(t, forked)
	require.Equal(t, made["id"], fork("forks", `{"at":1,"resume":true}`, "k1").ok(t, 201)["id"])
	require.Equal(t, "idempotency_mismatch", fork("forks", `{"at":2}`, "k1").code(t))
	require.NotEqual(t, made["id"], fork("forks", `{"at":1}`, "k2").ok(t, 201)["id"])
	require.NotEqual(t, s.post(t, "/sessions/s1/forks", `{"at":1}`).ok(t, 201)["id"], s.post(t, "/sessions/s1/forks", `{"at":1}`).ok(t, 201)["id"])

	edited := fork("edits", `{"at":1,"content":"Hello there","resume":true}`, "k1").ok(t, 201)
	require.Equal(t, "Hello there", edited["title"])
	s.rests(t, session.Key{App: key.App, User: "ann", ID: edited["id"].(string)})
	require.Equal(t, edited["id"], fork("edits", `{"at":1,"content":"Hello there"}`, "k1").ok(t, 201)["id"])
	require.Equal(t, "idempotency_mismatch", fork("edits", `{"at":1,"content":"Something else"}`, "k1").code(t))

	require.Equal(t, "mine", s.post(t, "/sessions/s1/forks", `{"at":1,"id":"mine"}`).ok(t, 201)["id"])
	require.Equal(t, "exists", s.post(t, "/sessions/s1/forks", `{"at":1,"id":"mine"}`).code(t))
	require.Equal(t, "mine", fork("forks", `{"at":1,"id":"mine"}`, "k3").ok(t, 201)["id"])
	require.Equal(t, "exists", fork("forks", `{"at":2,"id":"mine"}`, "k3").code(t))
	require.Equal(t, 400, fork("forks", `{"at":1}`, strings.Repeat("k", 256)).status)

	family := s.get(t, "ann!", "/sessions/mine/family").ok(t, 200)["sessions"].([]any)
	require.Equal(t, "s1", family[0].(map[string]any)["id"])
	require.Len(t, family, 7)

	diff := s.get(t, "ann!", "/sessions/s1/diff/"+edited["id"].(string)).ok(t, 200)
	require.Equal(t, 0.0, diff["common"])
	require.Equal(t, false, diff["same"])
	var a1, b1 []any
	for after := ""; ; {
		page := s.get(t, "ann!", "/sessions/s1/diff/"+edited["id"].(string)+"?limit=3&after="+after).ok(t, 200)
		a1, b1 = append(a1, page["a"].(map[string]any)["events"].([]any)...), append(b1, page["b"].(map[string]any)["events"].([]any)...)
		if page["next"] == nil {
			break
		}
		after = page["next"].(string)
	}
	require.Equal(t, diff["a"].(map[string]any)["events"], a1)
	require.Equal(t, diff["b"].(map[string]any)["events"], b1)
	d := must.Get(past.Diff(t.Context(), key, session.Key{App: key.App, User: "ann", ID: edited["id"].(string)}))
	same := must.Get(json.Marshal(sessionform.DiffOf(d)))
	require.JSONEq(t, string(same), string(s.get(t, "ann!", "/sessions/s1/diff/"+edited["id"].(string)).body))
}

// rests waits until the last turn of a session rests.
func (s *served) rests(t testing.TB, key session.Key) {
	t.Helper()
	r := must.Get(s.turns.Report(t.Context(), key, ""))
	for _, err := range s.turns.Watch(t.Context(), key, r.First, "") {
		require.NoError(t, err)
	}
}

// A view is what PreviewAt computes, and what was really sent stands beside it.
func TestViewsAndSamples(t *testing.T) {
	s := newOffice(t)
	s.say(t, "s1", "Please bill me")
	key := session.Key{App: session.DefaultApp, User: "ann", ID: "s1"}
	log := func() (events []*event.Event) {
		for e, err := range s.store.Load(t.Context(), key, 0) {
			require.NoError(t, err)
			events = append(events, e)
		}
		return events
	}
	before := log()
	asked := 0
	for _, e := range before {
		if _, starts := e.Data.(*event.HarnessStart); !starts {
			continue
		}
		view := s.get(t, "ann!", fmt.Sprintf("/sessions/s1/views/%s?at=%d", e.Agent, e.Seq))
		if e.Agent == "front" {
			require.Equal(t, "not_found", view.code(t), "a router asks no model")
			continue
		}
		asked++
		p := must.Get(s.turns.Runner().PreviewAt(t.Context(), key, e.Seq, e.Agent))
		v := view.ok(t, 200)
		want := must.Get(json.Marshal(chatform.RequestOf(p.Request)))
		got := must.Get(json.Marshal(map[string]any{"messages": v["messages"], "tools": v["tools"]}))
		require.JSONEq(t, string(want), string(got))
		require.EqualValues(t, p.Tokens, v["tokens"])
		sent := v["sent"].(map[string]any)["request"].(map[string]any)
		for _, member := range []string{"model", "messages", "tools", "settings"} {
			require.Equal(t, sent[member], v[member], member)
		}
	}
	require.Equal(t, 2, asked)
	require.Equal(t, []any{map[string]any{"name": "billing", "description": "Bills."}, map[string]any{"name": "plan"}}, s.get(t, "ann!", "/sessions/s1/views/support").ok(t, 200)["targets"].([]any)[:2])
	require.Nil(t, s.get(t, "ann!", "/sessions/s1/views/support?at=0").ok(t, 200)["sent"])
	require.Equal(t, map[string]any{"input": 2., "output": 8.}, s.get(t, "ann!", "/sessions/s1/views/support").ok(t, 200)["price"])
	require.Nil(t, s.get(t, "ann!", "/sessions/s1/views/billing").ok(t, 200)["price"])
	require.Equal(t, "not_found", s.get(t, "ann!", "/sessions/s1/views/nobody").code(t))
	require.Equal(t, 422, s.get(t, "ann!", "/sessions/s1/views/support?at=1000").status)

	at := before[3].Seq
	samples := s.do(t, "ann!", "POST", "/sessions/s1/samples", fmt.Sprintf(`{"at":%d,"agent":"support","n":10}`, at)).ok(t, 200)
	require.Len(t, samples["samples"], 10)
	for _, x := range samples["samples"].([]any) {
		x := x.(map[string]any)
		require.Equal(t, "transfer_to_billing", x["message"].(map[string]any)["tool_calls"].([]any)[0].(map[string]any)["function"].(map[string]any)["name"])
		require.Equal(t, map[string]any{"to": "billing", "reason": "it was said"}, x["transfer"])
		require.InDelta(t, (50*2+5*8)/1e6, x["cost"], 1e-12)
	}
	require.Equal(t, s.get(t, "ann!", "/agents").ok(t, 200)["revision"], samples["revision"])
	require.EqualValues(t, 500, samples["usage"].(map[string]any)["inputTokens"])
	last := s.do(t, "ann!", "POST", "/sessions/s1/samples", `{}`).ok(t, 200)
	require.Equal(t, "billing", last["agent"], "who has the conversation")
	require.Nil(t, last["samples"].([]any)[0].(map[string]any)["cost"], "the model has no price")
	require.Nil(t, last["samples"].([]any)[0].(map[string]any)["transfer"])
	require.Equal(t, before, log(), "nothing is stored")
	require.Nil(t, s.get(t, "ann!", "/sessions/s1/views/billing").ok(t, 200)["sent"], "a sample is not sent in the conversation")
	for body, path := range map[string]string{`{"n":0}`: "n", `{"n":11}`: "n", `{"at":1000}`: "at", `{"agent":"nobody"}`: "agent", `{"agent":"front"}`: "agent", `{"x":1}`: "x"} {
		a := s.do(t, "ann!", "POST", "/sessions/s1/samples", body)
		require.Equal(t, map[bool]int{true: 422, false: 400}[path == "agent" || path == "at"], a.status, body)
		require.Equal(t, path, a.json(t)["problems"].([]any)[0].(map[string]any)["path"], body)
	}
	s.post(t, "/sessions", `{"id":"s2","content":"fail"}`, "Prefer", "wait=60")
	failed := s.do(t, "ann!", "POST", "/sessions/s2/samples", `{"at":4,"n":2}`).ok(t, 200)["samples"].([]any)
	require.Len(t, failed, 2)
	require.NotEmpty(t, failed[0].(map[string]any)["error"].(map[string]any)["code"])
}

// A user cannot have models asked any number of times at once.
func TestSamplesAreBounded(t *testing.T) {
	s := newServed(t)
	s.begin(t, "s1")
	answers := make(chan answer)
	sample := func() { answers <- s.do(t, "ann!", "POST", "/sessions/s1/samples", `{"at":2,"n":2}`) }
	for range 4 {
		go sample()
	}
	for range 8 {
		<-s.thinks
	}
	go sample()
	a := <-answers
	require.Equal(t, 429, a.status, string(a.body))
	require.NotEmpty(t, a.header.Get("Retry-After"))
	for range 9 {
		s.free <- struct{}{}
	}
	for range 4 {
		require.Equal(t, "thinking done", (<-answers).ok(t, 200)["samples"].([]any)[1].(map[string]any)["message"].(map[string]any)["content"])
	}
}

func TestUsageGraphsAndDebug(t *testing.T) {
	s := newOffice(t)
	s.say(t, "s1", "Please bill me")
	u := s.get(t, "ann!", "/sessions/s1/usage").ok(t, 200)
	require.Nil(t, u["session"].(map[string]any)["cost"], "a model has no price")
	models := u["models"].([]any)
	require.Len(t, models, 2)
	large, small := models[0].(map[string]any), models[1].(map[string]any)
	require.Equal(t, "support", large["agent"])
	require.Equal(t, map[string]any{"input": 2.0, "output": 8.0}, large["price"])
	require.InDelta(t, (50*2+5*8)/1e6, large["session"].(map[string]any)["cost"], 1e-12)
	require.Nil(t, small["price"])
	require.EqualValues(t, 0, large["session"].(map[string]any)["readAnew"])
	require.EqualValues(t, 100, small["session"].(map[string]any)["readAnew"])
	require.EqualValues(t, 100, u["session"].(map[string]any)["readAnew"])
	require.Nil(t, u["session"].(map[string]any)["readAnewCost"], "the target's model has no price")
	require.EqualValues(t, 150, u["turn"].(map[string]any)["inputTokens"])
	require.NotEmpty(t, u["agents"])
	require.Equal(t, u, s.get(t, "ann!", fmt.Sprintf("/sessions/s1/usage?at=%v", u["seq"])).ok(t, 200))
	u = s.get(t, "ann!", "/sessions/s1/usage?at=1").ok(t, 200)
	require.Empty(t, u["models"])
	require.Equal(t, 0.0, u["session"].(map[string]any)["cost"])

	require.Empty(t, s.get(t, "ann!", "/sessions/s1/graphs").ok(t, 200)["runs"])
	s.say(t, "s2", "Make a plan")
	runs := s.get(t, "ann!", "/sessions/s2/graphs").ok(t, 200)["runs"].([]any)
	require.Len(t, runs, 1)
	run := runs[0].(map[string]any)
	require.Equal(t, "plan", run["agent"])
	require.Equal(t, "completed", run["status"])
	require.Equal(t, []any{"first", "yes"}, run["order"])
	require.Equal(t, []any{"no"}, run["skipped"])
	require.Equal(t, map[string]any{"first": "finished", "yes": "finished", "no": "skipped"}, run["phases"])
	require.Equal(t, []any{map[string]any{"from": "first", "to": "yes", "state": "taken"}, map[string]any{"from": "first", "to": "no", "state": "not_taken"}}, run["edges"])
	at := int64(run["seq"].(float64))
	run = s.get(t, "ann!", fmt.Sprintf("/sessions/s2/graphs?at=%d", at)).ok(t, 200)["runs"].([]any)[0].(map[string]any)
	require.Equal(t, true, run["open"])
	require.Equal(t, "due", run["phases"].(map[string]any)["first"])
	require.Empty(t, s.get(t, "ann!", fmt.Sprintf("/sessions/s2/graphs?at=%d", at-1)).ok(t, 200)["runs"])

	b := s.get(t, "ann!", "/sessions/s2/debug").ok(t, 200)
	require.Equal(t, "front", b["activeAgent"], "each turn begins with the router")
	require.NotContains(t, string(s.get(t, "ann!", "/sessions/s2/debug").body), "Make a plan")
	require.Len(t, b["agentGraph"].(map[string]any)["decisions"], 1)
}

func TestExportAndImport(t *testing.T) {
	s := newOffice(t)
	s.say(t, "s1", "Please bill me")
	for format, want := range map[string]string{"jsonl": `"content":"Please bill me"`, "md": "**user:** Please bill me", "html": "<!DOCTYPE html>", "openai": `"content":"Please bill me"`, "case": "- say: Please bill me\n        path: "} {
		a := s.get(t, "ann", "/sessions/s1/export?format="+format)
		require.Equal(t, 200, a.status)
		require.Contains(t, strings.ToLower(string(a.body)), strings.ToLower(want), format)
		require.Equal(t, "attachment; filename=s1."+format, a.header.Get("Content-Disposition"))
		require.Contains(t, a.header.Get("Content-Security-Policy"), "sandbox")
	}
	require.Equal(t, 200, s.do(t, "ann", "POST", "/sessions", `{"id":"up/../../a\nb","content":"Please bill me"}`, "Prefer", "wait=60").status)
	a := s.get(t, "ann", "/sessions/up%2F..%2F..%2Fa%0Ab/export")
	require.Equal(t, "attachment; filename=ab.jsonl", a.header.Get("Content-Disposition"), "no path, and one line")
	lines := 0
	for e, err := range s.store.Load(t.Context(), session.Key{App: session.DefaultApp, User: "ann", ID: "s1"}, 0) {
		require.NoError(t, err)
		lines = int(e.Seq)
	}
	require.Equal(t, lines, bytes.Count(s.get(t, "ann!", "/sessions/s1/export").body, []byte("\n")), "an event a line")
	require.Equal(t, 1, bytes.Count(s.get(t, "ann", "/sessions/s1/export?at=1").body, []byte("\n")))
	require.Equal(t, 400, s.get(t, "ann", "/sessions/s1/export?format=pdf").status)
	require.Equal(t, 201, s.post(t, "/sessions/s1/forks", `{"at":0,"id":"empty"}`).status)
	require.Equal(t, "[]\n", string(s.get(t, "ann", "/sessions/empty/export?format=openai").body))

	chat := s.get(t, "ann", "/sessions/s1/export?format=openai").body
	body := fmt.Sprintf(`{"messages":%s}`, chat)
	made := s.post(t, "/imports", body, "Idempotency-Key", "k").ok(t, 201)
	require.Equal(t, "Please bill me", made["title"])
	require.Equal(t, "done", made["state"])
	require.Equal(t, made["id"], s.post(t, "/imports", body, "Idempotency-Key", "k").ok(t, 201)["id"])
	require.Equal(t, "idempotency_mismatch", s.post(t, "/imports", `{"messages":[{"role":"user","content":"Hi"}]}`, "Idempotency-Key", "k").code(t))
	require.Equal(t, "mine", s.post(t, "/imports", fmt.Sprintf(`{"messages":%s,"agent":"support","id":"mine"}`, chat)).ok(t, 201)["id"])
	require.Equal(t, "exists", s.post(t, "/imports", fmt.Sprintf(`{"messages":%s,"id":"mine"}`, chat)).code(t))
	// What a user without the right to write everywhere sends of others is that user's claim.
	for who, text := range map[string]int{"ann": 0, "owner": 1} {
		id := s.do(t, who, "POST", "/imports", body).ok(t, 201)["id"].(string)
		require.Equal(t, text, bytes.Count(s.get(t, who, "/sessions/"+id+"/export").body, []byte(`"content":"It is paid."`)), who)
		require.Equal(t, text == 0, bytes.Contains(s.get(t, who, "/sessions/"+id+"/export?format=md").body, []byte("Claimed answer: \"It is paid.\"")), who)
	}
	for body, path := range map[string]string{`{}`: "messages", `{"messages":[]}`: "messages", `{"messages":[{"role":"judge"}]}`: "messages", `{"messages":[],"agent":"nobody"}`: "agent", `{"messages":[1]}`: "messages"} {
		a := s.post(t, "/imports", body)
		require.Equal(t, 422, a.status, "%s: %s", body, a.body)
		require.Equal(t, path, a.json(t)["problems"].([]any)[0].(map[string]any)["path"], body)
	}
}

// Who has the right desk answers users whose conversations are with a person.
func TestDesk(t *testing.T) {
	s := newOffice(t)
	s.say(t, "s1", "I want a person")
	require.Equal(t, "forbidden", s.get(t, "ann", "/desk/handoffs").code(t))
	require.Equal(t, "forbidden", s.post(t, "/desk/handoffs/x/accept", "").code(t))
	at := func(what, body string, headers ...string) answer {
		t.Helper()
		all := s.get(t, "owner", "/desk/handoffs").ok(t, 200)["handoffs"].([]any)
		require.Len(t, all, 1)
		h := all[0].(map[string]any)
		require.Equal(t, "s1", h["session"])
		require.Equal(t, "ann", h["user"])
		require.Equal(t, "support", h["from"])
		return s.do(t, "owner", "POST", "/desk/handoffs/"+url.PathEscape(h["id"].(string))+"/"+what, body, headers...)
	}
	require.Equal(t, "connected", at("accept", "").ok(t, 200)["status"])
	require.Equal(t, "on_hold", at("hold", "").ok(t, 200)["status"])
	require.Equal(t, "connected", at("accept", "").ok(t, 200)["status"])
	for range 2 {
		at("messages", `{"text":"How can I help?"}`, "Idempotency-Key", "k").ok(t, 200)
	}
	require.Equal(t, "idempotency_mismatch", at("messages", `{"text":"Else"}`, "Idempotency-Key", "k").code(t))
	said := 0
	for e, err := range s.store.Load(t.Context(), session.Key{App: session.DefaultApp, User: "ann", ID: "s1"}, 0) {
		require.NoError(t, err)
		if d, ok := e.Data.(*event.Text); ok && e.Agent == agent.Human && d.Content == "How can I help?" {
			said++
		}
	}
	require.Equal(t, 1, said)
	require.Equal(t, 400, at("messages", `{"text":" "}`).status)
	require.Equal(t, 400, at("complete", `{"status":"queued"}`).status)
	require.Equal(t, "completed", at("complete", `{"to":"billing","reason":"done"}`).ok(t, 200)["status"])
	require.Empty(t, s.get(t, "owner", "/desk/handoffs").ok(t, 200)["handoffs"])
	require.Equal(t, "not_found", s.do(t, "owner", "POST", "/desk/handoffs/gone/accept", "").code(t))
	require.Equal(t, "Hello.", s.say(t, "s1", "Thank you")["text"], "an agent goes on")
}

// Another user's session and one that there is not are the same to all routes, byte for byte.
func TestOthersSessionsAreNotThere(t *testing.T) {
	s := newOffice(t)
	s.say(t, "s1", "Please bill me")
	bodies := map[string]string{"forks": `{"at":1}`, "edits": `{"at":1,"content":"x"}`, "samples": `{}`}
	for _, r := range s.handler.Routes() {
		if !strings.Contains(r.Path, "{session}") {
			continue
		}
		path := strings.NewReplacer("{agent}", "support", "{other}", "s1", "{turn}", "t", "{seq}", "1", "{part}", "0", "{digest}", "d").Replace(r.Path)
		last := path[strings.LastIndex(path, "/")+1:]
		ask := func(id, query string, who string) answer {
			return s.do(t, who, r.Method, strings.Replace(path, "{session}", id, 1)+query, bodies[last])
		}
		theirs, none := ask("s1", "", "bob"), ask("nothing", "", "bob")
		require.Equal(t, map[bool]int{false: 404, true: 403}[r.Needs != 0], theirs.status, "%s %s", r.Method, r.Path)
		for _, a := range []*answer{&theirs, &none} {
			v := a.json(t)
			delete(v, "instance")
			a.body, _ = json.Marshal(v)
		}
		require.Equal(t, string(none.body), string(theirs.body), r.Path)
		if slices.Contains([]string{"forks", "edits", "samples"}, last) {
			require.Equal(t, "forbidden", ask("s1", "?user=ann", "eve").code(t), "reading is not writing")
		}
	}
	require.Equal(t, 200, s.get(t, "eve", "/sessions/s1/views/support?user=ann").status)
	require.Equal(t, 403, s.get(t, "bob", "/sessions/s1/views/support?user=ann").status)
	require.Equal(t, 404, s.get(t, "bob", "/sessions/s1/diff/s1").status)
}

// One request that is sent many times at once makes one session.
func TestForkAtOnce(t *testing.T) {
	s := newOffice(t)
	s.say(t, "s1", "Please bill me")
	answers := make(chan answer)
	for range 8 {
		go func() {
			answers <- s.post(t, "/sessions/s1/edits", `{"at":1,"content":"Hello","resume":true}`, "Idempotency-Key", "k")
		}()
	}
	ids := make(map[any]bool)
	for range 8 {
		ids[(<-answers).ok(t, 201)["id"]] = true
	}
	require.Len(t, ids, 1)
	require.Len(t, s.get(t, "ann", "/sessions/s1/family").ok(t, 200)["sessions"], 2)
}

// breaking is a store whose logs break off after an event, once it is told so.
type breaking struct {
	session.Store
	after atomic.Int64
}

func (b *breaking) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range b.Store.Load(ctx, key, after) {
			if last := b.after.Load(); last > 0 && e.Seq > last {
				yield(nil, errors.New("the disk is gone"))
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// An export that breaks off is no answer that is whole.
func TestExportBreaksOff(t *testing.T) {
	store := &breaking{Store: sessiontest.Memory(t)}
	s := serveOn(t, newDesk(t), store)
	s.say(t, "s1", "small")
	s.say(t, "s1", strings.Repeat("large ", 10_000))
	store.after.Store(3)
	a := s.get(t, "ann", "/sessions/s1/export")
	require.Equal(t, "internal", a.code(t))
	require.Empty(t, a.header.Get("Content-Disposition"))
	require.NotContains(t, string(a.body), "disk")
	store.after.Store(8)
	r := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.url+"/api/v1/sessions/s1/export", nil))
	r.Header.Set("Authorization", "Bearer ann")
	res := must.Get(http.DefaultClient.Do(r))
	defer res.Body.Close()
	_, err := io.ReadAll(res.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// Whatever comes as a body or a query gets one clear answer that the document knows.
func FuzzReading(f *testing.F) {
	s := newOffice(f)
	s.say(f, "s1", "Please bill me")
	var routes []string
	for _, r := range s.handler.Routes() {
		if strings.Contains(r.Path, "{session}/") || strings.HasSuffix(r.Path, "/import") {
			path := strings.NewReplacer("{session}", "s1", "{agent}", "support", "{other}", "s1", "{turn}", "t", "{seq}", "1", "{part}", "0", "{digest}", "d").Replace(r.Path)
			if !strings.HasSuffix(path, "/events") {
				routes = append(routes, r.Method+" "+path)
			}
		}
	}
	for i := range routes {
		for _, body := range []string{`{"at":1}`, `{"at":1,"content":"x"}`, `{"at":1,"content":[{"type":"text","text":"x"}],"id":"\u0000"}`, `{"at":3,"n":1,"agent":"support"}`, `{"messages":[{"role":"user","content":"x"}]}`, `{"messages":[{"role":"tool"}],"id":"x"}`, `[]`, `{"at":1e99}`, `nul`} {
			f.Add(i, "at=1&limit=2&after=1&format=md", body, "k")
		}
		f.Add(i, "at=-1", `{}`, "\x7f")
		f.Add(i, "after=x&limit=0&at=9999999999999999999", `{}`, "")
	}
	f.Fuzz(func(t *testing.T, route int, query, body, name string) {
		method, path, _ := strings.Cut(routes[uint(route)%uint(len(routes))], " ")
		if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r > '~' }) {
			name = "" // no client can send it
		}
		if method == "GET" {
			body = ""
		}
		values, _ := url.ParseQuery(query)
		values.Del("user")
		a := s.do(t, "ann", method, path+"?"+values.Encode(), body, "Idempotency-Key", name)
		require.Less(t, a.status, 500, "%s %s: %s", method, path, a.body)
	})
}

// TestPrefix: a program that has /api/v1 for something else serves the API elsewhere.
func TestPrefix(t *testing.T) {
	s := newServed(t, server.WithPrefix("/desk"))
	require.Equal(t, "/desk", s.handler.Prefix())
	for path, status := range map[string]int{"/desk/sessions": http.StatusOK, "/api/v1/sessions": http.StatusNotFound} {
		req := must.Get(http.NewRequest(http.MethodGet, s.url+path, nil))
		req.Header.Set("Authorization", "Bearer ann")
		resp := must.Get(http.DefaultClient.Do(req))
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode, path)
	}
}
