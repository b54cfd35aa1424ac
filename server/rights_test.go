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

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
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
						got := must.Get(web.Client().Do(req))
						defer got.Body.Close()
						return got.StatusCode, string(must.Get(io.ReadAll(got.Body)))
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

// instance is the id of a request, which differs in each answer.
var instance = regexp.MustCompile(`"instance":"[^"]*"`)

// Each route answers each kind of caller as it should: whose session it is, others, those with
// rights, those without a token, pages of other origins, and names of other hosts.
func TestEveryRouteGuarded(t *testing.T) {
	s := newServed(t)
	asks := s.say(t, "s", "ask")
	s.say(t, "s2", "file")
	digest := s.get(t, "ann", "/sessions/s2/files").json(t)["files"].([]any)[0].(map[string]any)["digest"].(string)
	fill := strings.NewReplacer("{turn}", asks["id"].(string), "{seq}", "1", "{part}", "0", "{digest}", digest)
	for _, r := range s.handler.Routes() {
		path := fill.Replace(r.Path)
		ofSession := strings.Contains(path, "{session}")
		at := func(id string) string { return strings.Replace(path, "{session}", id, 1) }
		body := ""
		if r.Method == "POST" {
			body = `{"content":"hello"}`
			if strings.HasSuffix(path, "/decisions") {
				body = `{"decisions":[{"callId":"none","approved":true}]}`
			}
		}
		ask := func(t *testing.T, token, path string, headers ...string) answer {
			headers = append(headers, "Accept", "application/json, text/event-stream;q=0.5", "Prefer", "wait=1")
			if strings.Contains(path, "/changes") {
				res := s.send(t, token, r.Method, path, body, headers...)
				defer res.Body.Close()
				if res.StatusCode == 200 {
					return answer{status: 200}
				}
				return answer{res.StatusCode, res.Header, must.Get(io.ReadAll(res.Body))}
			}
			return s.do(t, token, r.Method, path, body, headers...)
		}
		t.Run(r.Method+" "+r.Path, func(t *testing.T) {
			if r.Open {
				require.Equal(t, 200, ask(t, "", path).status)
				require.Equal(t, 200, ask(t, "wrong", path).status)
			} else {
				for _, token := range []string{"", "wrong"} {
					a := ask(t, token, at("s"))
					require.Equal(t, 401, a.status, token)
					require.Equal(t, "unauthenticated", a.code(t))
					require.NotEmpty(t, a.header.Get("WWW-Authenticate"))
				}
			}
			for _, headers := range [][]string{{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}} {
				a := ask(t, "ann", at("s"), headers...)
				require.Equal(t, 403, a.status, headers)
				require.Equal(t, "origin", a.code(t))
			}
			require.Equal(t, 421, hostStatus(t, s, r, at("s")))
			if r.Open {
				return
			}
			if ofSession { // of somebody else, it is as if it were not there
				theirs, nobodys := ask(t, "bob", at("s")), ask(t, "bob", at("nobodys"))
				require.Equal(t, map[bool]int{false: 404, true: 403}[r.Needs != 0], theirs.status)
				require.Equal(t, instance.ReplaceAllString(string(theirs.body), ""), instance.ReplaceAllString(string(nobodys.body), ""))
				for name := range theirs.header {
					if name != "X-Request-Id" && name != "Date" {
						require.Equal(t, theirs.header[name], nobodys.header[name], name)
					}
				}
			}
			if !ofSession && !strings.Contains(path, "sessions") && !strings.Contains(path, "changes") {
				return // of nobody's sessions
			}
			for _, id := range []string{"s", "nobodys"} {
				a := ask(t, "bob", at(id)+"?user=ann")
				require.Equal(t, 403, a.status, "nobody may without the right, whether there is such a session or not")
				require.Equal(t, "forbidden", a.code(t))
			}
			a := ask(t, "eve", at("nobodys")+"?user=ann")
			if r.Method == "GET" {
				require.NotEqual(t, 403, a.status, "who may inspect may read")
			} else {
				require.Equal(t, 403, a.status, "who may inspect may not write")
			}
			require.NotEqual(t, 403, ask(t, "owner", at("nobodys")+"?user=ann").status)
		})
	}
	require.Equal(t, "waiting", s.get(t, "ann", "/sessions/s").json(t)["state"], "nothing was changed by all that")
}

// hostStatus asks for a route under a name that is not the server's.
func hostStatus(t *testing.T, s *served, r front.Route, path string) int {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), r.Method, s.url+"/api/v1"+path, nil))
	req.Host = "evil.example"
	req.Header.Set("Authorization", "Bearer ann")
	res := must.Get(s.http.Do(req))
	res.Body.Close()
	return res.StatusCode
}

// Who has the right writes for somebody else, under their own name.
func TestActsForOthers(t *testing.T) {
	s := newServed(t)
	asks := s.say(t, "s", "ask")
	self := asks["links"].(map[string]any)["self"].(string)
	call := asks["pending"].([]any)[0].(map[string]any)["callId"].(string)
	a := s.do(t, "owner", "POST", self+"/decisions?user=ann", fmt.Sprintf(`{"decisions":[{"callId":%q,"approved":true}]}`, call), "Prefer", "wait=60")
	require.Equal(t, 200, a.status, string(a.body))
	require.Equal(t, self+"?user=ann", a.json(t)["links"].(map[string]any)["self"])
	require.Contains(t, string(s.get(t, "ann", "/sessions/s/events?types=relay_resolved").body), `"by":"local"`)
}

// Health is for everybody, and says what is.
func TestHealth(t *testing.T) {
	s := newServed(t)
	require.Equal(t, 200, s.health(t, "/healthz"))
	require.Equal(t, 200, s.health(t, "/readyz"))
	require.Equal(t, 404, s.health(t, "/nothing"))
	require.NoError(t, s.turns.Drain(t.Context()))
	require.Equal(t, 200, s.health(t, "/healthz"))
	require.Equal(t, 503, s.health(t, "/readyz"))
	a := s.do(t, "ann", "POST", "/sessions", `{"content":"hello"}`)
	require.Equal(t, 503, a.status)
	require.Equal(t, "stopping", a.code(t))
	require.NotEmpty(t, a.header.Get("Retry-After"))
}
