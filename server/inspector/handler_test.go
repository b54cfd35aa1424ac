package inspector

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
)

// host is a server with the page and the native API.
type host struct {
	url      string
	accounts *access.Accounts
	signIn   *access.SignIn
}

// serve serves a store with a number of sessions.
func serve(t *testing.T, sessions int, opts ...Option) *host {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	h := &host{url: "http://" + l.Addr().String()}
	h.accounts = must.Get(access.NewAccounts(access.Account{Name: "local", Token: access.HashToken("the-token"), Rights: access.All}))
	h.signIn = must.Get(access.NewSignIn(h.accounts, access.SignInOptions{Port: l.Addr().(*net.TCPAddr).Port}))
	guard := must.Get(access.New(access.Options{Users: must.Get(access.AnyOf(h.accounts, h.signIn))}))
	handler := must.Get(New(append([]Option{WithGuard(guard), WithSignIn(h.signIn)}, opts...)...))
	model := scripted.Func("desk", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text("Hello.")) })
	store := must.Get(tail.New(sessiontest.Memory(t)))
	run := must.Get(runner.New(must.Get(llmagent.New("desk", "You answer.", model)), store))
	turns := must.Get(live.New(run, store))
	t.Cleanup(func() { require.NoError(t, turns.Close(context.Background())) })
	for i := range sessions {
		key := session.Key{App: session.DefaultApp, User: session.DefaultUser, ID: fmt.Sprint("s", i)}
		for _, err := range run.Run(t.Context(), key, llm.UserText("<img src=x onerror=alert(1)>")) {
			require.NoError(t, err)
		}
	}
	mux := server.Mux(handler, must.Get(server.New(turns, server.WithGuard(guard), server.WithAPIs("api", "inspector"))))
	web := &http.Server{Handler: mux}
	access.Harden(web)
	go func() { _ = web.Serve(l) }()
	t.Cleanup(func() { web.Close() })
	return h
}

func (h *host) ask(t *testing.T, client *http.Client, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, h.url+path, strings.NewReader(body)))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got := must.Get(client.Do(r))
	defer got.Body.Close()
	return got, string(must.Get(io.ReadAll(got.Body)))
}

func TestFiles(t *testing.T) {
	h := serve(t, 0)
	for path, typ := range map[string]string{"/inspect/": "text/html; charset=utf-8", "/inspect": "text/html; charset=utf-8", "/inspect/app.js": "text/javascript; charset=utf-8",
		"/inspect/app.css": "text/css; charset=utf-8", "/inspect/none.js": "application/problem+json", "/inspect/.git": "application/problem+json", "/inspect/%2e%2e/door.go": "application/problem+json"} {
		got, body := h.ask(t, http.DefaultClient, "GET", path, "")
		require.Equal(t, typ, got.Header.Get("Content-Type"), path)
		require.Equal(t, strings.HasPrefix(typ, "text/"), got.StatusCode == 200, path)
		require.NotContains(t, body, "<script>")
		require.NotContains(t, body, " style=")
		for name, value := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; " +
				"img-src 'self' data: blob:; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"} {
			require.Equal(t, []string{value}, got.Header.Values(name), path)
		}
	}
	// The page's own addresses are the page, for browsers.
	page, html := h.ask(t, http.DefaultClient, "GET", "/inspect/", "")
	got, body := h.ask(t, http.DefaultClient, "GET", "/inspect/s/a.b?at=12", "", "Accept", "text/html,*/*")
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, html, body)
	got, body = h.ask(t, http.DefaultClient, "GET", "/inspect/", "", "If-None-Match", page.Header.Get("ETag"))
	require.Equal(t, 304, got.StatusCode)
	require.Empty(t, body)
	got, _ = h.ask(t, http.DefaultClient, "DELETE", "/inspect/app.js", "", "Authorization", "Bearer the-token")
	require.Equal(t, 405, got.StatusCode)
	require.Equal(t, "GET, HEAD", got.Header.Get("Allow"))
}

// A picture from elsewhere is shown in a frame that may load from the host of the picture alone.
func TestPicture(t *testing.T) {
	h := serve(t, 0)
	framed := []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", "iframe"}
	at := func(of string) string {
		return "/inspect/picture?alt=" + url.QueryEscape(`"><b>`) + "&of=" + url.QueryEscape(of)
	}
	got, body := h.ask(t, http.DefaultClient, "GET", at(`https://a.example:8443/x;img-src *"><script>?y`), "", framed...)
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, []string{"default-src 'none'; img-src https://a.example:8443; style-src 'unsafe-inline'; base-uri 'none'; " +
		"form-action 'none'; frame-ancestors 'self'; sandbox"}, got.Header.Values("Content-Security-Policy"))
	require.Equal(t, "no-referrer", got.Header.Get("Referrer-Policy"))
	require.NotContains(t, body, "<script>")
	require.NotContains(t, body, "<b>")
	got, _ = h.ask(t, http.DefaultClient, "GET", at("http://[::1]:80/x"), "", framed...)
	require.Contains(t, got.Header.Get("Content-Security-Policy"), "img-src http://[::1]:80;")
	for _, of := range []string{"", "/x", "x.png", "ftp://a.example/x", "javascript:1", "data:image/png,x", "https://", "https://a b/x", "https://a;img-src/x",
		"https://a,b/x", "https://*/x", "https://u:p@a.example/x", "https://[::1%25a;b]/x"} {
		got, _ := h.ask(t, http.DefaultClient, "GET", at(of), "", framed...)
		require.Equal(t, 400, got.StatusCode, of)
	}
	for _, other := range [][]string{nil, {"Sec-Fetch-Site", "none", "Sec-Fetch-Dest", "document"}, {"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", "document"},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "iframe"}} {
		got, _ := h.ask(t, http.DefaultClient, "GET", at("https://a.example/x"), "", other...)
		require.GreaterOrEqual(t, got.StatusCode, 400, "an address that somebody sends shows nothing of others")
	}
}

func TestOwnFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte("one"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".env"), []byte("hunter2"), 0o600))
	h := serve(t, 0, WithFiles(os.DirFS(dir)))
	_, body := h.ask(t, http.DefaultClient, "GET", "/inspect/", "")
	require.Equal(t, "one", body)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte("two"), 0o600))
	_, body = h.ask(t, http.DefaultClient, "GET", "/inspect/", "")
	require.Equal(t, "two", body)
	got, body := h.ask(t, http.DefaultClient, "GET", "/inspect/.env", "", "Accept", "text/html")
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, "two", body)
	for _, opt := range []Option{nil, WithFiles(nil), WithFiles(fstest.MapFS{"app.js": {}})} {
		require.Error(t, must.Err(New(opt)))
	}
}

func TestSignIn(t *testing.T) {
	h := serve(t, 0)
	client := &http.Client{Jar: must.Get(cookiejar.New(nil))}
	for body, status := range map[string]int{`{"token": "wrong"}`: 401, `{"code": "wrong"}`: 401, `{}`: 400, `{"token": "a", "code": "b"}`: 400, `{"token": 1}`: 400, `{"user": "x"}`: 400, `{`: 400} {
		got, text := h.ask(t, client, "POST", "/inspect/sign-in", body)
		require.Equal(t, status, got.StatusCode, body)
		require.Equal(t, "application/problem+json", got.Header.Get("Content-Type"))
		require.Empty(t, got.Cookies())
		require.NotContains(t, text, "wrong")
	}
	got, _ := h.ask(t, client, "POST", "/inspect/sign-in", `{"token": "the-token"}`, "Content-Type", "text/plain")
	require.Equal(t, 415, got.StatusCode, "a form of another page cannot say that it is JSON")
	got, _ = h.ask(t, client, "POST", "/inspect/sign-in", `{"token": "the-token"}`, "Origin", "https://evil.example")
	require.Equal(t, 403, got.StatusCode)
	got, _ = h.ask(t, client, "GET", "/inspect/sign-in", "")
	require.Equal(t, 404, got.StatusCode)

	got, body := h.ask(t, client, "POST", "/inspect/sign-in", `{"code": "`+must.Get(h.signIn.Code("local"))+`"}`)
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
	grant := must.JSON[struct{ User, Key, End string }](body)
	require.Equal(t, "local", grant.User)
	me := func(headers ...string) int {
		got, _ := h.ask(t, client, "GET", "/api/v1/me", "", headers...)
		return got.StatusCode
	}
	require.Equal(t, 200, me("Arbor-CSRF", grant.Key))
	require.Equal(t, 401, me())
	require.Equal(t, 401, me("Arbor-CSRF", grant.Key[1:]))
	require.Equal(t, 403, me("Arbor-CSRF", grant.Key, "Sec-Fetch-Site", "cross-site"))
	got, _ = h.ask(t, http.DefaultClient, "POST", "/inspect/sign-out", "")
	require.Equal(t, 401, got.StatusCode)
	got, _ = h.ask(t, client, "POST", "/inspect/sign-out", "", "Arbor-CSRF", grant.Key)
	require.Equal(t, 204, got.StatusCode)
	require.Equal(t, 401, me("Arbor-CSRF", grant.Key))

	none := must.Get(New(WithGuard(must.Get(access.New(access.Options{Users: h.accounts})))))
	w := httptest.NewRecorder()
	none.ServeHTTP(w, httptest.NewRequest("POST", "/inspect/sign-in", strings.NewReader("{}")))
	require.Equal(t, 404, w.Code)
}

// What came over a network in the clear gets no page and no sign-in.
func TestPageInTheClear(t *testing.T) {
	h := serve(t, 0)
	handler := must.Get(New(WithSignIn(h.signIn), WithGuard(must.Get(access.New(access.Options{})))))
	for _, method := range []string{"GET", "POST"} {
		r := httptest.NewRequest(method, map[string]string{"GET": "http://agents.example/inspect/", "POST": "http://agents.example/inspect/sign-in"}[method], strings.NewReader(`{"token": "the-token"}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)})))
		require.Equal(t, 403, w.Code)
		require.Contains(t, w.Body.String(), "https")
		require.Empty(t, w.Result().Cookies())
	}
}
