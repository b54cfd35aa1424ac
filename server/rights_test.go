package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// TestRights calls all routes of all APIs as a user without rights. The user tries to read instructions, thoughts and
// hidden results of tools, and what a model's endpoint said of a failure. Each route has a row in the documentation, which says
// what it needs.
func TestRights(t *testing.T) {
	t.Run("answers", func(t *testing.T) { testRights(t, scripted.Text("Paid.")) })
	t.Run("failures", func(t *testing.T) { testRights(t, wrong) })
	t.Run("decisions", func(t *testing.T) { testRights(t, scripted.Text("Paid.")) })
}

var wrong = scripted.Fail(&llm.Error{Code: llm.CodeUnauthorized, Message: "hidden endpoint says: wrong key sk-…4711"})

func testRights(t *testing.T, last scripted.Item) {
	lookup := must.Get(tools.Func("lookup", "Looks up.", func(tools.Context, struct{}) (string, error) { return "hidden result", nil }))
	billing := must.Get(llmagent.New("billing", "hidden instructions of billing", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(last)
		}
		return scripted.Reply(scripted.Think("hidden thought"), scripted.Call("lookup", `{}`))
	}), llmagent.WithDescription("Bills."), llmagent.WithTools(lookup)))
	rootOptions := []llmagent.Option{llmagent.WithSubAgents(billing), llmagent.WithHistory(view.TextOnly())}
	if strings.HasSuffix(t.Name(), "decisions") {
		rootOptions = append(rootOptions, llmagent.WithDecision(scripted.Always("decider", scripted.Reply(wrong))))
	}
	root := must.Get(llmagent.New("support", "hidden instructions of support", scripted.Func("m", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Call("transfer_to_billing", `{"reason":"it was said"}`))
	}), rootOptions...))
	turns := newTurns(t, root)
	apis := everyAPI(t, turns, tokens{})
	web := httptest.NewServer(server.Mux(apis...))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	begin := func(id string) string {
		turn := must.Get(turns.Begin(t.Context(), session.Key{App: session.DefaultApp, User: "ann", ID: id}, llm.UserText("Pay")))
		<-turn.Done()
		return turn.Report().ID
	}
	turn := begin("s")
	begin("other")
	doc := must.Get(os.ReadFile("../docs/server.md"))
	rows := make(map[string]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:GET|POST|DELETE) \\S+)` \\| ([^|]+) \\|").FindAllStringSubmatch(string(doc), -1) {
		require.NotContains(t, rows, m[1], "twice")
		rows[m[1]] = strings.Trim(m[2], "`")
	}
	message := `{"id":"m1","role":"user","content":"Pay"}`
	bodies := map[string]string{
		"/turns": `{"content":"Pay"}`, "/sessions": `{"content":"Pay"}`, "/forks": `{"at":0}`, "/edits": `{"at":1,"content":"Pay"}`, "/samples": `{}`,
		"/import": `{"messages":[` + message + `]}`, "/decisions": `{"decisions":[{"callId":"c","approved":true}]}`,
		"/completions":   `{"model":"support","messages":[{"role":"user","content":"Pay"}],"arbor":{"events":true}}`,
		"/responses":     `{"model":"support","input":"Pay","arbor":{"events":true}}`,
		"/conversations": `{}`,
		"/agui":          `{"threadId":"t","runId":"r","messages":[` + message + `]}`, "/connect": `{"threadId":"s","runId":"r","messages":[]}`,
	}
	seen := make(map[string]bool)
	for _, api := range apis[:4] {
		handler := api.(interface {
			Prefix() string
			Routes() []front.Route
		})
		for _, r := range handler.Routes() {
			row := r.Method + " " + handler.Prefix() + r.Path
			who := rows[row]
			delete(rows, row)
			want := map[bool]string{true: "anybody", false: "a user"}[r.Open]
			if r.Needs != 0 {
				want = strings.Join(r.Needs.Names(), ", ")
			}
			require.Equal(t, want, who, "docs/server.md: the row of %s", row)
			if row == "GET /api/v1/changes" || r.Method == http.MethodDelete {
				continue // a stream of states without an end; and the end of what the others read
			}
			path := strings.NewReplacer("{session}", "s", "{other}", "other", "{turn}", turn, "{agent}", "billing", "{part}", "0", "{digest}", "d", "{handoff}", "h",
				"{model...}", "support", "{path...}", "", "{id}", "resp_"+turn+".s", "{conversation}", "s", "{item}", "msg_in@"+turn+".s").Replace(handler.Prefix() + r.Path)
			last := path[strings.LastIndex(path, "/"):]
			paths := []string{path}
			switch {
			case last == "/export":
				paths = []string{path + "?format=jsonl", path + "?format=md", path + "?format=html", path + "?format=openai", path + "?format=case"}
			case last == "/connect":
				paths = []string{path + "?follow=false"}
			case strings.Contains(path, "{seq}"):
				paths = nil
				for seq := range 30 {
					paths = append(paths, strings.ReplaceAll(path, "{seq}", fmt.Sprint(seq+1)))
				}
			}
			for _, path := range paths {
				for _, typ := range []string{"application/json", "text/event-stream"} {
					if typ == "text/event-stream" && strings.HasSuffix(path, "/sessions/s/events") {
						continue // has no end; it is what the stream of a turn is
					}
					ask := func(token string) (int, string) {
						req := must.Get(http.NewRequestWithContext(t.Context(), r.Method, web.URL+path, strings.NewReader(bodies[last])))
						req.Header.Set("Authorization", "Bearer "+token)
						req.Header.Set("Content-Type", "application/json")
						req.Header.Set("Accept", typ+", */*;q=0.1")
						req.Header.Set("Prefer", "wait=30")
						got, err := web.Client().Do(req)
						require.NoError(t, err)
						defer got.Body.Close()
						text := must.Get(io.ReadAll(got.Body))
						return got.StatusCode, string(text)
					}
					status, body := ask("ann")
					require.Equal(t, r.Needs != 0, status == http.StatusForbidden, "%s: %d %s", path, status, body)
					require.NotContains(t, body, "hidden ", "%s %s (%s)", r.Method, path, typ)
					if r.Needs == access.Desk {
						continue
					}
					status, body = ask("ann!")
					require.NotEqual(t, http.StatusForbidden, status, body)
					for _, what := range []string{"hidden instructions of billing", "hidden result", "hidden thought", "hidden endpoint"} {
						if strings.Contains(body, what) {
							seen[row+" "+what] = true
						}
					}
				}
			}
		}
	}
	if strings.HasSuffix(t.Name(), "failures") {
		require.True(t, seen["GET /api/v1/sessions/{session}/events hidden endpoint"])
		// Clients of OpenAI's APIs and of AG-UI never read it, whatever their rights.
		caller := &caller{t: t, base: web.URL, http: web.Client(), token: "ann!"}
		for path, body := range map[string]string{"/v1/chat/completions": `{"model":"support","messages":[{"role":"user","content":"Pay"}]}`,
			"/v1/responses": `{"model":"support","input":"Pay"}`, "/agui": bodies["/agui"]} {
			res := caller.request("POST", path, json.RawMessage(body))
			text := must.Get(io.ReadAll(res.Body))
			require.Contains(t, string(text), llm.CodeUnauthorized.Public(), path)
			require.NotContains(t, string(text), "hidden endpoint", path)
		}
		return
	}
	require.Empty(t, rows, "docs/server.md: routes that do not exist")
	for _, row := range []string{
		"GET /api/v1/sessions/{session}/views/{agent} hidden instructions of billing", "GET /api/v1/sessions/{session}/events hidden thought", "GET /api/v1/sessions/{session}/events/{seq} hidden result",
		"GET /api/v1/sessions/{session}/turns/{turn}/events hidden result", "GET /api/v1/sessions/{session}/export hidden result", "GET /api/v1/sessions/{session}/checkpoints hidden result",
		"POST /v1/chat/completions hidden thought", "POST /v1/responses hidden result", "POST /agui hidden result", "POST /agui/connect hidden result",
	} {
		require.True(t, seen[row], "%s, for who may see it", row)
	}
}
