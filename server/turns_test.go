package server_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

func key(user, id string) session.Key {
	return session.Key{App: session.DefaultApp, User: user, ID: id}
}

// A turn's answers, by what the client would wait for.
func TestTurn(t *testing.T) {
	s := newServed(t)
	begun := s.begin(t, "s")
	require.Equal(t, "running", begun["state"])
	self := begun["links"].(map[string]any)["self"].(string)
	require.Equal(t, "/api/v1/sessions/s/turns/"+begun["id"].(string), self)

	a := s.do(t, "ann", "POST", "/sessions/s/turns", `{"content":"hello"}`)
	require.Equal(t, 409, a.status)
	require.Equal(t, "session_busy", a.code(t))
	require.NotEmpty(t, a.header.Get("Retry-After"))
	s.free <- struct{}{}
	a = s.do(t, "ann", "POST", "/sessions/s/turns", `{"content":"hello"}`, "Prefer", "respond-async, wait=30")
	require.Equal(t, 200, a.status, "it waits for the session, and for its turn")
	require.Equal(t, "wait=30", a.header.Get("Preference-Applied"))
	done := a.json(t)
	require.Equal(t, "/api/v1/sessions/s/turns/"+done["id"].(string), a.header.Get("Location"))
	require.Equal(t, "done", done["state"])
	require.Equal(t, "Hello.", done["text"])
	require.Equal(t, "desk", done["agent"])
	require.Equal(t, "stop", done["finishReason"])

	require.Equal(t, "thinking done", s.get(t, "ann", self).json(t)["text"])
	list := s.get(t, "ann", "/sessions/s/turns?limit=1").json(t)
	require.Len(t, list["turns"], 1)
	require.Equal(t, done["id"], list["turns"].([]any)[0].(map[string]any)["id"])
	list = s.get(t, "ann", "/sessions/s/turns?limit=1&after="+list["next"].(string)).json(t)
	require.Equal(t, begun["id"], list["turns"].([]any)[0].(map[string]any)["id"])
	require.Nil(t, list["next"])

	failed := s.say(t, "s", "fail")
	require.Equal(t, "failed", failed["state"])
	require.NotEmpty(t, failed["error"].(map[string]any)["code"])
	require.Equal(t, false, failed["error"].(map[string]any)["retryable"])

	billed := s.say(t, "s", "bill me")
	require.Equal(t, "billing", billed["agent"])
	require.Equal(t, "billing", s.get(t, "ann", "/sessions/s").json(t)["active"])
}

// Sessions are listed, looked at as they stand and stood, and deleted.
func TestSessions(t *testing.T) {
	s := newServed(t)
	for i := range 5 {
		s.say(t, fmt.Sprint("s", i), fmt.Sprint("hello\n  ", i))
	}
	s.say(t, "asks", "ask")
	var ids []string
	for after := ""; ; {
		page := s.get(t, "ann", "/sessions?limit=2&after="+after).json(t)
		for _, one := range page["sessions"].([]any) {
			ids = append(ids, one.(map[string]any)["id"].(string))
		}
		next, more := page["next"].(string)
		if after = next; !more {
			break
		}
	}
	require.Equal(t, []string{"asks", "s4", "s3", "s2", "s1", "s0"}, ids)
	waiting := s.get(t, "ann", "/sessions?state=waiting").json(t)["sessions"].([]any)
	require.Len(t, waiting, 1)
	require.Equal(t, "asks", waiting[0].(map[string]any)["id"])
	require.Empty(t, s.get(t, "bob", "/sessions").json(t)["sessions"])
	require.Len(t, s.get(t, "eve", "/sessions?user=ann").json(t)["sessions"], 6)

	a := s.get(t, "ann", "/sessions/asks")
	one := a.json(t)
	require.Equal(t, fmt.Sprintf(`"%v"`, one["seq"]), a.header.Get("ETag"))
	require.Equal(t, "ask", one["title"])
	require.Equal(t, "waiting", one["state"])
	asked := one["pending"].([]any)[0].(map[string]any)
	require.Equal(t, "refund", asked["tool"])
	require.Equal(t, "desk", asked["agent"])
	require.Equal(t, "desk", asked["path"])
	require.Equal(t, "permission", asked["kind"])
	require.Equal(t, "hello 4", s.get(t, "ann", "/sessions/s4").json(t)["title"])

	s.say(t, "s4", "file")
	require.Equal(t, map[string]any{"reports": 1.0}, s.get(t, "ann", "/sessions/s4").json(t)["values"])
	then := s.get(t, "ann", "/sessions/s4?at=2").json(t)
	require.Equal(t, 2.0, then["seq"])
	require.Equal(t, "running", then["state"])
	require.Empty(t, then["values"])
	require.Equal(t, 422, s.get(t, "ann", "/sessions/s4?at=999").status)

	require.Equal(t, 204, s.do(t, "ann", "DELETE", "/sessions/s4", "").status)
	require.Equal(t, 404, s.get(t, "ann", "/sessions/s4").status)
	require.Equal(t, 404, s.do(t, "ann", "DELETE", "/sessions/s4", "").status)
	s.begin(t, "busy")
	a = s.do(t, "ann", "DELETE", "/sessions/busy", "")
	require.Equal(t, 409, a.status)
	require.Equal(t, "session_busy", a.code(t))
	s.free <- struct{}{}

	me := s.get(t, "eve", "/me").json(t)
	require.Equal(t, "eve", me["user"])
	require.Equal(t, []any{"inspect"}, me["rights"])
	require.Equal(t, "desk", me["tree"].(map[string]any)["root"])
	require.Equal(t, false, me["desk"])
	require.Equal(t, "test", me["version"])
}

// Sessions are created once, under any id that a key may have.
func TestNewSession(t *testing.T) {
	s := newServed(t)
	for _, id := range []string{"a/b", "..", ".", "ä ö", "100%", "a?b#c", strings.Repeat("x", 255)} {
		body := fmt.Sprintf(`{"id":%q,"content":"hello"}`, id)
		a := s.do(t, "ann", "POST", "/sessions", body, "Prefer", "wait=60")
		require.Equal(t, 200, a.status, string(a.body))
		turn := a.json(t)
		require.Equal(t, id, turn["session"])
		links := turn["links"].(map[string]any)
		require.Equal(t, id, s.get(t, "ann", links["session"].(string)).json(t)["id"], links)
		require.Equal(t, turn["id"], s.get(t, "ann", links["self"].(string)).json(t)["id"])
		require.Equal(t, "exists", s.do(t, "ann", "POST", "/sessions", body).code(t), id)
	}
	require.Equal(t, "not_found", s.get(t, "ann", "/sessions/../me").code(t))
	a := s.do(t, "ann", "POST", "/sessions", `{"content":"hello"}`)
	require.Equal(t, 202, a.status)
	b := s.do(t, "ann", "POST", "/sessions", `{"content":"hello"}`)
	require.NotEqual(t, a.json(t)["session"], b.json(t)["session"])
	for _, id := range []string{`""`, `"a\u0000"`, `"` + strings.Repeat("x", 256) + `"`} {
		a := s.do(t, "ann", "POST", "/sessions", `{"id":`+id+`,"content":"x"}`)
		require.Equal(t, 422, a.status)
		require.Equal(t, "id", a.json(t)["problems"].([]any)[0].(map[string]any)["path"])
	}
}

// What is wrong with a body is said with its place.
func TestBadBodies(t *testing.T) {
	s := newServed(t)
	s.say(t, "s", "hello")
	s.say(t, "asks", "ask")
	turn := s.get(t, "ann", "/sessions/asks").json(t)["turn"].(string)
	for _, c := range []struct {
		path, body   string
		status       int
		code, detail string
	}{
		{"/sessions/s/turns", `{}`, 400, "bad_request", `"path":"content","message":"is missing"`},
		{"/sessions/s/turns", `{"content":""}`, 400, "bad_request", `"path":"content","message":"the message is empty"`},
		{"/sessions/s/turns", `{"content":[]}`, 400, "bad_request", "empty"},
		{"/sessions/s/turns", `{"content":{"text":"x"}}`, 400, "bad_request", "string or an array"},
		{"/sessions/s/turns", `{"content":null}`, 400, "bad_request", "string or an array"},
		{"/sessions/s/turns", `{"content":[{"type":"text","txt":"x"}]}`, 400, "bad_request", `"path":"content[0].txt"`},
		{"/sessions/s/turns", `{"content":[{"type":"video"}]}`, 400, "bad_request", "video"},
		{"/sessions/s/turns", `{"content":[{"type":"image"}]}`, 400, "bad_request", "data or a URL"},
		{"/sessions/s/turns", `{"content":"x","metadata":[]}`, 400, "bad_request", `"path":"metadata"`},
		{"/sessions/s/turns", `{"content":"x","metadata":{"arbor.request":1}}`, 400, "bad_request", `"path":"metadata.arbor.request","message":"is reserved"`},
		{"/sessions/s/turns", `{"content":"x","metadata":{"a":"` + strings.Repeat("x", 16<<10) + `"}}`, 400, "bad_request", `"path":"metadata"`},
		{"/sessions/s/turns", `{"content":"` + strings.Repeat("x", 1<<20+1) + `"}`, 413, "too_large", "text"},
		{"/sessions/s/turns", `{"content":"` + strings.Repeat("x", 16<<20) + `"}`, 413, "too_large", "body"},
		{"/sessions/s/turns", `{"content":"x","temperature":1,"a":{}}`, 400, "bad_request", `[{"path":"a","message":"is not known"},{"path":"temperature","message":"is not known"}]`},
		{"/sessions/s/turns", `{"content":"x"`, 400, "bad_request", "not JSON"},
		{"/sessions/asks/turns/" + turn + "/decisions", `{"decisions":[]}`, 400, "bad_request", "decisions"},
		{"/sessions/asks/turns/" + turn + "/decisions", `{"decisions":[{"callId":"x"}]}`, 400, "bad_request", "decisions[0]"},
		{"/sessions/asks/turns/" + turn + "/decisions", `{"decisions":[{"callId":"x","approved":"yes"}]}`, 400, "bad_request", "true or false"},
		{"/sessions/asks/turns/" + turn + "/decisions", `{"decisions":[{"callId":"nobody","approved":true}]}`, 409, "nothing_waits", "nobody"},
		{"/sessions/asks/turns/nobody/decisions", `{"decisions":[{"callId":"x","approved":true}]}`, 404, "not_found", ""},
		{"/sessions/none/turns", `{"content":"x"}`, 404, "not_found", ""},
	} {
		a := s.do(t, "ann", "POST", c.path, c.body)
		require.Equal(t, c.status, a.status, "%s %.100s: %s", c.path, c.body, a.body)
		require.Equal(t, c.code, a.code(t))
		require.Contains(t, string(a.body), c.detail)
		require.NotEmpty(t, a.header.Get("X-Request-Id"))
		require.Equal(t, a.header.Get("X-Request-Id"), a.json(t)["instance"])
		require.Equal(t, "urn:arbor:"+c.code, a.json(t)["type"])
	}
	for path, status := range map[string]int{"/sessions?limit=0": 400, "/sessions?limit=201": 400, "/sessions?after=x": 422, "/sessions?state=asleep": 400,
		"/sessions/s/events?limit=5001": 400, "/sessions/s/events?align=day": 400, "/sessions/s/events?media=none": 400, "/sessions/s/events?clip=1": 400,
		"/sessions/s/events?types=words": 400, "/sessions/s/events?before=0": 400, "/sessions/s/events?before=3&after=1": 400, "/sessions/s/events?after=x": 400,
		"/sessions/s/turns?after=x": 422, "/sessions/s/events/0": 404, "/sessions/s/events/x": 404, "/sessions/s/events/999": 404, "/sessions/s/events/1/media/0": 404,
		"/sessions/s/files/sha256:0": 404, "/nothing": 404} {
		a := s.get(t, "ann", path)
		require.Equal(t, status, a.status, "%s: %s", path, a.body)
		require.Contains(t, []string{"bad_request", "not_found", "no_position"}, a.code(t))
	}
	require.Equal(t, "method_not_allowed", s.do(t, "ann", "PUT", "/sessions/s", "{}").code(t))
	require.Equal(t, "not_acceptable", s.get(t, "ann", "/sessions/s/events", "Accept", "text/html").code(t))
	seq := s.get(t, "ann", "/sessions/s").json(t)["seq"]
	require.Equal(t, "not_acceptable", s.do(t, "ann", "POST", "/sessions/s/turns", `{"content":"hello"}`, "Accept", "text/html").code(t))
	require.Equal(t, "bad_request", s.do(t, "ann", "POST", "/sessions/s/turns", `{"content":"hello"}`, "Accept", "text/event-stream", "Last-Event-ID", "x").code(t))
	require.Equal(t, seq, s.get(t, "ann", "/sessions/s").json(t)["seq"], "what cannot be answered is not begun")
	require.Equal(t, "unsupported_media_type", s.do(t, "ann", "POST", "/sessions/s/turns", "hello", "Content-Type", "text/plain").code(t))
	require.Equal(t, "unsupported_media_type", s.do(t, "ann", "POST", "/sessions/s/turns", `{"content":"hello"}`, "Content-Encoding", "gzip").code(t))
}

// What was asked is answered: calls that may run or not, and questions in mid-call.
func TestDecisions(t *testing.T) {
	s := newServed(t)
	decide := func(turn map[string]any, body string, headers ...string) answer {
		return s.do(t, "ann", "POST", turn["links"].(map[string]any)["self"].(string)+"/decisions", body, append(headers, "Prefer", "wait=60")...)
	}
	call := func(turn map[string]any, i int) string {
		return turn["pending"].([]any)[i].(map[string]any)["callId"].(string)
	}
	asks := s.say(t, "s", "ask")
	require.Equal(t, "waiting", asks["state"])
	a := decide(asks, fmt.Sprintf(`{"decisions":[{"callId":%q,"approved":false,"reason":"too much"}]}`, call(asks, 0)))
	require.Equal(t, 200, a.status, string(a.body))
	require.Equal(t, "Thank you.", a.json(t)["text"])
	require.Equal(t, "nothing_waits", decide(asks, fmt.Sprintf(`{"decisions":[{"callId":%q,"approved":true}]}`, call(asks, 0))).code(t), "it was decided")
	var denied *event.RelayResolved
	for e, err := range s.store.Load(t.Context(), key("ann", "s"), 0) {
		require.NoError(t, err)
		if d, ok := e.Data.(*event.RelayResolved); ok {
			denied = d
		}
	}
	require.Equal(t, "ann", denied.By)
	require.Equal(t, "too much", denied.Reason)

	twice := s.say(t, "s", "ask twice")
	require.Len(t, twice["pending"], 2)
	require.Equal(t, "turn_over", decide(asks, fmt.Sprintf(`{"decisions":[{"callId":%q,"approved":true}]}`, call(twice, 0))).code(t))
	a = decide(twice, fmt.Sprintf(`{"decisions":[{"callId":%q,"approved":true}]}`, call(twice, 1)))
	require.Equal(t, "waiting", a.json(t)["state"])
	require.Equal(t, call(twice, 0), call(a.json(t), 0))
	a = decide(twice, fmt.Sprintf(`{"decisions":[{"callId":%q,"approved":true}]}`, call(twice, 0)))
	require.Equal(t, "done", a.json(t)["state"])

	color := s.say(t, "s", "color")
	asked := color["pending"].([]any)[0].(map[string]any)
	require.Equal(t, "input", asked["kind"])
	require.Equal(t, "Which color?", asked["message"])
	require.NotEmpty(t, asked["schema"])
	a = decide(color, fmt.Sprintf(`{"decisions":[{"callId":%q,"content":{"colour":"red"}}]}`, call(color, 0)))
	require.Equal(t, 400, a.status, string(a.body))
	a = decide(color, fmt.Sprintf(`{"decisions":[{"callId":%q,"content":{"color":"red"}}]}`, call(color, 0)))
	require.Equal(t, "done", a.json(t)["state"])
}

// A turn is stopped, goes on, and is ended for good, each as often as it is asked for.
func TestStopResumeCancel(t *testing.T) {
	s := newServed(t)
	turn := s.begin(t, "s")
	self := turn["links"].(map[string]any)["self"].(string)
	do := func(what string) answer { return s.do(t, "ann", "POST", self+"/"+what, "") }
	for range 2 {
		a := do("stop")
		require.Equal(t, 200, a.status, string(a.body))
		require.Equal(t, "cut_off", a.json(t)["state"])
	}
	a := do("resume")
	require.Equal(t, 202, a.status, string(a.body))
	require.Equal(t, turn["id"], a.json(t)["id"])
	<-s.thinks
	require.Equal(t, "running", do("resume").json(t)["state"], "it goes on already")
	for range 2 {
		a = do("cancel")
		require.Equal(t, 200, a.status, string(a.body))
		require.Equal(t, "canceled", a.json(t)["state"])
	}
	require.Equal(t, "turn_over", do("resume").code(t))
	require.Equal(t, "canceled", do("stop").json(t)["state"])
	s.say(t, "s", "hello")
	for _, what := range []string{"stop", "resume", "cancel"} {
		require.Equal(t, "turn_over", do(what).code(t), what)
	}

	asks := s.say(t, "s", "ask")
	self = asks["links"].(map[string]any)["self"].(string)
	require.Equal(t, "waiting", s.do(t, "ann", "POST", self+"/resume", "", "Prefer", "wait=1").json(t)["state"])
	require.Equal(t, "canceled", do("cancel").json(t)["state"])
}

// What a caller has seen must be what the log holds.
func TestIfMatch(t *testing.T) {
	s := newServed(t)
	s.say(t, "s", "hello")
	tag := s.get(t, "ann", "/sessions/s").header.Get("ETag")
	say := func(tag string) answer {
		return s.do(t, "ann", "POST", "/sessions/s/turns", `{"content":"hello"}`, "If-Match", tag, "Prefer", "wait=60")
	}
	require.Equal(t, 200, say(tag).status)
	a := say(tag)
	require.Equal(t, 412, a.status)
	require.Equal(t, "position_moved", a.code(t))
	require.Equal(t, s.get(t, "ann", "/sessions/s").json(t)["seq"], a.json(t)["seq"])
	for _, odd := range []string{"W/" + s.get(t, "ann", "/sessions/s").header.Get("ETag"), "5", `"x"`, `"1", "2"`, `"-1"`} {
		require.Equal(t, "position_moved", say(odd).code(t), odd)
	}
	require.Equal(t, 200, say("*").status)
	require.Equal(t, 200, say(s.get(t, "ann", "/sessions/s").header.Get("ETag")).status)
}

// A request with a name is done once, whoever is asked: over restarts, and by two processes.
func TestIdempotency(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.db")
	d := newDesk(t)
	process := func() *served {
		db := must.Get(sqlite.Open(file))
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return serveOn(t, d, sessiontest.Checked(t, db))
	}
	a, b := process(), process()
	send := func(s *served, path, body, name string) answer {
		return s.do(t, "ann", "POST", path, body, "Idempotency-Key", name, "Prefer", "wait=60")
	}
	// A session without an id is found again by the name of the request that made it.
	first := send(a, "/sessions", `{"content":"hello"}`, "k1")
	require.Equal(t, 200, first.status, string(first.body))
	again := send(b, "/sessions", `{"content":"hello"}`, "k1")
	require.Equal(t, first.json(t)["id"], again.json(t)["id"])
	require.Equal(t, first.json(t)["session"], again.json(t)["session"])
	require.Equal(t, "idempotency_mismatch", send(b, "/sessions", `{"content":"other"}`, "k1").code(t))
	require.Equal(t, "idempotency_mismatch", send(b, "/sessions", `{"content":"hello","metadata":{"a":1}}`, "k1").code(t))
	id := first.json(t)["session"].(string)
	require.Equal(t, "exists", send(b, "/sessions", fmt.Sprintf(`{"id":%q,"content":"hello"}`, id), "k2").code(t))

	// Many at once begin one turn.
	var mu sync.Mutex
	var wait sync.WaitGroup
	turns := make(map[any]int)
	for i := range 10 {
		wait.Go(func() {
			res := send([]*served{a, b}[i%2], "/sessions/"+id+"/turns", `{"content":"hello"}`, "k3")
			mu.Lock()
			defer mu.Unlock()
			turns[res.json(t)["id"]]++
		})
	}
	wait.Wait()
	require.Len(t, turns, 1, turns)
	for i := range 70 { // and the name is known for 64 turns
		send(a, "/sessions/"+id+"/turns", `{"content":"hello"}`, fmt.Sprint("n", i)).ok(t, 200)
	}
	require.NotContains(t, turns, send(b, "/sessions/"+id+"/turns", `{"content":"hello"}`, "k3").ok(t, 200)["id"])

	asks := send(a, "/sessions/"+id+"/turns", `{"content":"ask"}`, "k4").json(t)
	path := asks["links"].(map[string]any)["self"].(string) + "/decisions"
	call := asks["pending"].([]any)[0].(map[string]any)["callId"].(string)
	body := fmt.Sprintf(`{"decisions":[{"callId":%q,"approved":true}]}`, call)
	for _, s := range []*served{a, b, process()} {
		res := send(s, path, body, "k5")
		require.Equal(t, 200, res.status, string(res.body))
		require.Equal(t, "Thank you.", res.json(t)["text"])
	}
	require.Equal(t, "idempotency_mismatch", send(b, path, strings.Replace(body, "true", "false", 1), "k5").code(t))
	require.Equal(t, "nothing_waits", send(b, path, body, "k6").code(t))
	send(a, "/sessions/"+id+"/turns", `{"content":"hello"}`, "k7").ok(t, 200)
	require.Equal(t, "Thank you.", send(b, path, body, "k5").ok(t, 200)["text"], "the session has continued since")
	require.Equal(t, "idempotency_mismatch", send(b, path, strings.Replace(body, "true", "false", 1), "k5").code(t))
	require.Equal(t, "turn_over", send(b, path, body, "k6").code(t))
	for _, odd := range []string{strings.Repeat("x", 256), "ä"} {
		require.Equal(t, "bad_request", send(a, "/sessions", `{"content":"x"}`, odd).code(t))
	}
	decided := 0
	for e, err := range a.store.Load(t.Context(), key("ann", id), 0) {
		require.NoError(t, err)
		if _, ok := e.Data.(*event.RelayResolved); ok {
			decided++
		}
	}
	require.Equal(t, 1, decided)
}
