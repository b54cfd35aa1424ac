package server_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/server/internal/front"
)

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
				data := must.Get(io.ReadAll(res.Body))
				return answer{res.StatusCode, res.Header, data}
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
