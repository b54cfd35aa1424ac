package server_test

import (
	"io"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ask gives the API one request of ann's, and checks that its answer is one of the document and
// no failure of the server. It returns the status.
func (s *served) ask(t *testing.T, method, path, body string, headers ...string) int {
	t.Helper()
	u, err := url.Parse("http://localhost/api/v1" + path)
	if err != nil {
		t.Skip("no client can send it")
	}
	r := httptest.NewRequest(method, "http://localhost/", strings.NewReader(body))
	r.URL, r.RequestURI = u, u.RequestURI()
	r.Header.Set("Authorization", "Bearer ann")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = []string{headers[i+1]}
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	res := w.Result()
	res.Request = r
	data := w.Body.String()
	require.Less(t, res.StatusCode, 500, "%s %q %q: %s", method, path, body, data)
	if res.StatusCode >= 300 || res.Header.Get("Content-Type") != "text/event-stream" {
		require.NoError(t, theDocument().answer(res), "%s %q %q: %d %s", method, path, body, res.StatusCode, data)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func FuzzBodies(f *testing.F) {
	for _, body := range []string{`{"content":"hello"}`, `{"content":[{"type":"image","data":"AA==","mediaType":"image/png"}],"metadata":{"a":1e400}}`,
		`{"id":"a/..","content":"x"}`, `{"decisions":[{"callId":"x","approved":true,"content":{"a":[]}}]}`, `{"content":`, "\xff", `{"content":"\ud800"}`, `[[[[`, `{"content":"x","metadata":{"":{"":[null]}}}`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := newServed(t)
		turn := s.say(t, "s", "ask")["id"].(string)
		s.ask(t, "POST", "/sessions", body)
		s.ask(t, "POST", "/sessions/s/turns/"+turn+"/decisions", body)
		s.ask(t, "POST", "/sessions/s/turns", body)
	})
}

func FuzzPaths(f *testing.F) {
	for _, path := range []string{"s", "..", "%2e%2e", "a%2Fb", "%00", "%ff", "s/events/1", "s/events/9223372036854775808", "s/turns/x/events", "s/files/sha256:", "s/events/1/media/-1", "s//", "s?user=bob", "s?at=-1", "s?at=1"} {
		f.Add(path)
	}
	s := newServed(f)
	s.say(f, "s", "hello")
	f.Fuzz(func(t *testing.T, path string) {
		for _, method := range []string{"GET", "POST"} {
			s.ask(t, method, "/sessions/"+path, "")
		}
	})
}

func FuzzQueries(f *testing.F) {
	f.Add("after=x", "1-0", `"1"`, "k")
	f.Add("after=eyJ0IjoiMjAyNi0wMS0wMVQwMDowMDowMFoiLCJpIjoicyJ9&limit=1", "", "*", "\xff")
	f.Add("before=end&align=turn&clip=64&media=omit&types=user,text", "99999999999999999999-1", `W/"1"`, strings.Repeat("k", 256))
	f.Add("at=9223372036854775808&state=done&limit=200", "1-9223372036854775807", `""`, " ")
	s := newServed(f)
	s.say(f, "s", "hello")
	turn := s.get(f, "ann", "/sessions/s").json(f)["turn"].(string)
	f.Fuzz(func(t *testing.T, query, last, match, name string) {
		u := url.URL{RawQuery: query}
		query = "?" + u.Query().Encode()
		headers := []string{"Last-Event-Id", last, "If-Match", match, "Idempotency-Key", name, "Prefer", name}
		for _, path := range []string{"/sessions", "/sessions/s", "/sessions/s/events", "/sessions/s/turns", "/sessions/s/turns/" + turn + "/events"} {
			s.ask(t, "GET", path+query, "", headers...)
		}
		s.ask(t, "GET", "/sessions/s/turns/"+turn+"/events"+query, "", append(headers, "Accept", "text/event-stream")...)
		if strings.TrimSpace(match) != "*" && match != "" { // else the log grows with each try
			s.ask(t, "POST", "/sessions/s/turns"+query, `{"content":"hello"}`, headers...)
		}
	})
}
