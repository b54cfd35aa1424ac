package access

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// hello answers with who calls and what was sent.
func hello(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	_, _ = io.WriteString(w, UserOf(r.Context()).Name+" "+string(body))
}

func TestHandler(t *testing.T) {
	users := must(Bearer(must(Secrets(map[string]string{"good": "ann"}))))
	down := must(Bearer(func(_ context.Context, token string) (string, error) {
		if token == "weak" {
			return "", ErrForbidden
		}
		return "", errors.New("the hunter2 is down")
	}))
	const app = "https://app.example.com"
	tests := []struct {
		name    string
		users   Authenticator
		headers []string
		status  int
		body    string // contained in it
	}{
		{"nobody is asked", nil, nil, 200, " hi"},
		{"a token", users, []string{"Authorization", "Bearer good"}, 200, "ann hi"},
		{"no token", users, nil, 401, "has no credentials"},
		{"a wrong token", users, []string{"Authorization", "Bearer bad"}, 401, "not accepted"},
		{"too little", down, []string{"Authorization", "Bearer weak"}, 403, "permission denied"},
		{"no answer", down, []string{"Authorization", "Bearer good"}, 500, "could not be checked"},
		{"another host", nil, []string{"Host", "evil.example"}, 421, "evil.example"},
		{"its name", nil, []string{"Host", "AGENTS.example.com:443"}, 200, " hi"},
		{"another origin", nil, []string{"Origin", "https://evil.example"}, 403, "evil.example"},
		{"an origin that may", users, []string{"Origin", app, "Authorization", "Bearer good"}, 200, "ann hi"},
		{"another page", users, []string{"Sec-Fetch-Site", "cross-site", "Authorization", "Bearer good"}, 403, "other origins"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			guard := must(New(Options{Users: test.users, Hosts: []string{"agents.example.com"}, Origins: []string{app + "/"}, Expose: []string{"Location"}}))
			server := httptest.NewServer(guard.Handler(http.HandlerFunc(hello)))
			defer server.Close()
			got := send(t, server.URL, "POST", strings.NewReader("hi"), test.headers...)
			require.Equal(t, test.status, got.StatusCode)
			body := string(must(io.ReadAll(got.Body)))
			require.Contains(t, body, test.body)
			require.NotContains(t, body, "hunter2")
			require.Equal(t, test.status == 401, got.Header.Get("WWW-Authenticate") == "Bearer")
			require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"))
			if got.Header.Get("Access-Control-Allow-Origin") != "" {
				require.Equal(t, app, got.Header.Get("Access-Control-Allow-Origin"))
				require.Equal(t, "Location", got.Header.Get("Access-Control-Expose-Headers"))
			}
		})
	}
}

func send(t *testing.T, url, method string, body io.Reader, headers ...string) *http.Response {
	t.Helper()
	r := must(http.NewRequestWithContext(t.Context(), method, url, body))
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	got := must(http.DefaultClient.Do(r))
	t.Cleanup(func() { got.Body.Close() })
	return got
}

// An origin that no browser sends would allow nothing, and the server's owner would not know why.
func TestOriginsThatNoBrowserSends(t *testing.T) {
	for _, origin := range []string{"https://app.example.com", "HTTPS://App.Example.com/", "http://127.0.0.1:5173", "http://[::1]:5173", "http://[2001:db8::1]",
		"app://desk", "*", "null"} {
		_, err := New(Options{Origins: []string{origin}})
		require.NoError(t, err, origin)
	}
	for _, origin := range []string{"", "/", "foo", "app.example.com", "localhost:5173", "https://", "https://app.example.com/chat", "https://app.example.com?x=1",
		"https://app.example.com/#x", "https://ann:secret@app.example.com", "https://*.example.com", "https://app.example.com:443", "http://app.example.com:80",
		"https://münchen.example", " https://app.example.com", "https://a.example, https://b.example",
		"https://app.example.com:", "https://app.example.com:0443", "http://h:99999", "http://h:65536", "http://h:0", "http://[0:0:0:0:0:0:0:1]:5173",
		"http://[::0001]", "http://[::ffff:127.0.0.1]", "http://[127.0.0.1]", "http://[fe80::1%25eth0]", "http://::1", "http://a:80:81"} {
		_, err := New(Options{Origins: []string{"https://app.example.com", origin}})
		require.ErrorContains(t, err, "SCHEME://HOST", origin)
		require.NotContains(t, err.Error(), "secret")
	}
}

// A browser asks without credentials whether a page may call.
func TestPreflight(t *testing.T) {
	guard := must(New(Options{Users: must(Bearer(must(Secrets(map[string]string{"a": "b"})))), Origins: []string{"*"}}))
	server := httptest.NewServer(guard.Handler(http.HandlerFunc(hello)))
	defer server.Close()
	got := send(t, server.URL, "OPTIONS", nil, "Origin", "https://app.example.com", "Access-Control-Request-Method", "DELETE", "Access-Control-Request-Headers", "authorization, x<y")
	require.Equal(t, 204, got.StatusCode)
	require.Equal(t, "https://app.example.com", got.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "authorization", got.Header.Get("Access-Control-Allow-Headers"))
	require.Contains(t, got.Header.Get("Access-Control-Allow-Methods"), "DELETE")
	require.Equal(t, 401, send(t, server.URL, "OPTIONS", nil).StatusCode)
}

func TestBodiesAreBounded(t *testing.T) {
	guard, hasty := must(New(Options{MaxBody: 4})), must(New(Options{MaxBody: 4, BodyTimeout: 50 * time.Millisecond}))
	server := httptest.NewServer(guard.Handler(http.HandlerFunc(hello)))
	defer server.Close()
	require.Equal(t, 200, send(t, server.URL, "POST", strings.NewReader("1234")).StatusCode)
	require.Equal(t, 413, send(t, server.URL, "POST", strings.NewReader("12345")).StatusCode)

	for status, body := range map[int]io.Reader{413: strings.NewReader("12345"), 400: iotest.ErrReader(io.ErrUnexpectedEOF)} {
		r := httptest.NewRequest("POST", "http://localhost/", body)
		r.ContentLength = -1 // which is not told
		w := httptest.NewRecorder()
		guard.Handler(http.HandlerFunc(hello)).ServeHTTP(w, r)
		require.Equal(t, status, w.Code)
	}

	for encoding, status := range map[string]int{"gzip": 415, "identity": 200, "Identity": 200, "UTF-8": 200, "utf-8, gzip": 415} {
		r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader("1234"))
		r.Header.Set("Content-Encoding", encoding)
		w := httptest.NewRecorder()
		guard.Bounded(http.HandlerFunc(hello)).ServeHTTP(w, r)
		require.Equal(t, status, w.Code)
	}

	slow := func(h http.Handler) string {
		server := httptest.NewServer(h)
		defer server.Close()
		conn := must(net.Dial("tcp", server.Listener.Addr().String()))
		defer conn.Close()
		_ = must(io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n12"))
		return string(must(io.ReadAll(conn)))
	}
	require.Contains(t, slow(hasty.Handler(http.HandlerFunc(hello))), "408 Request Timeout")
	require.Contains(t, slow(hasty.Bounded(http.HandlerFunc(hello))), "408 Request Timeout")
}

func TestGuardsThatCannotBeMade(t *testing.T) {
	for _, o := range []Options{{MaxBody: -1}, {BodyTimeout: -1}, {WriteTimeout: -1}} {
		_, err := New(o)
		require.Error(t, err)
	}
}

// A program that has a sign-in of its own says who calls.
func TestUserOfTheProgram(t *testing.T) {
	guard := must(New(Options{Users: FromContext()}))
	h := guard.Handler(http.HandlerFunc(hello))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/", http.NoBody).WithContext(WithUser(t.Context(), User{Name: "cleo"})))
	require.Equal(t, "cleo ", w.Body.String())
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/", http.NoBody))
	require.Equal(t, 401, w.Code)
}

func TestUsersThatCanHaveNoSessions(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("x", 256), "a\x00", "\xff"} {
		odd := must(Bearer(func(context.Context, string) (string, error) { return name, nil }))
		_, err := Authenticate(t.Context(), odd, Credentials{Header: func(string) []string { return []string{"Bearer x"} }})
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrUnauthenticated)
	}
}
