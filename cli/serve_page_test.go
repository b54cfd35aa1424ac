package cli_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
)

var pageAddress = regexp.MustCompile(`page at (\S+)/inspect/#code=(\S+) `)

// A browser signs in under TLS with the address that was printed. What it keeps outlives a restart,
// and ends with the token.
func TestServePage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	example := httptest.NewTLSServer(nil)
	roots := x509.NewCertPool()
	roots.AddCert(example.Certificate())
	der := must.Get(x509.MarshalPKCS8PrivateKey(example.TLS.Certificates[0].PrivateKey))
	example.Close()
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: example.Certificate().Raw}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	jar := must.Get(cookiejar.New(nil))
	browser := &http.Client{Jar: jar, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer browser.CloseIdleConnections()

	home := t.TempDir()
	begin := func(token, addr string) *served {
		s := &served{running: &running{Cmd: invocation{home: home, env: []string{"ARBOR_TOKEN=" + token}}.command(t, "serve", desk, "--addr", addr, "--tls-cert", cert, "--tls-key", key)}, t: t, said: &words{}}
		s.Stderr = s.said
		require.NoError(t, s.Start())
		s.said.until(t, "(once, within five minutes)", 1)
		s.base = pageAddress.FindStringSubmatch(s.said.String())[1]
		return s
	}
	ask := func(s *served, method, path, key, body string) (*http.Response, string) {
		req := must.Get(http.NewRequestWithContext(t.Context(), method, s.base+path, strings.NewReader(body)))
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		if key != "" {
			req.Header.Set("Arbor-CSRF", key)
		}
		got := must.Get(browser.Do(req))
		defer got.Body.Close()
		return got, string(must.Get(io.ReadAll(got.Body)))
	}
	me := func(s *served, key string) int {
		got, _ := ask(s, "GET", "/api/v1/me", key, "")
		return got.StatusCode
	}

	s := begin("first", servers.Address(t))
	require.True(t, strings.HasPrefix(s.base, "https://"))
	addr := strings.TrimPrefix(s.base, "https://")
	got, page := ask(s, "GET", "/inspect/", "", "")
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, "HTTP/2.0", got.Proto)
	require.Contains(t, page, "<title>Arbor</title>")
	code := pageAddress.FindStringSubmatch(s.said.String())[2]
	got, body := ask(s, "POST", "/inspect/sign-in", "", `{"code": "`+code+`"}`)
	require.Equal(t, 200, got.StatusCode, body)
	require.True(t, got.Cookies()[0].Secure)
	grant := must.JSON[struct{ User, Key string }](body)
	require.Equal(t, "local", grant.User)
	require.Equal(t, 200, me(s, grant.Key))
	require.Equal(t, 401, me(s, ""))
	got, _ = ask(s, "POST", "/inspect/sign-in", "", `{"code": "`+code+`"}`)
	require.Equal(t, 401, got.StatusCode)
	require.Equal(t, 0, s.stop(os.Interrupt))

	s = begin("first", addr)
	require.Equal(t, 200, me(s, grant.Key))
	got, _ = ask(s, "POST", "/inspect/sign-out", grant.Key, "")
	require.Equal(t, 204, got.StatusCode)
	at := must.Get(url.Parse(s.base))
	require.Empty(t, jar.Cookies(at))
	got, body = ask(s, "POST", "/inspect/sign-in", "", `{"token": "first"}`)
	require.Equal(t, 200, got.StatusCode)
	require.NoError(t, json.Unmarshal([]byte(body), &grant))
	require.Equal(t, 200, me(s, grant.Key))
	require.Equal(t, 0, s.stop(os.Interrupt))

	s = begin("second", addr)
	require.Equal(t, 401, me(s, grant.Key))
	require.Equal(t, 0, s.stop(os.Interrupt))
	require.NotContains(t, s.said.String(), "second")

	// What is no certificate is told by its file, without what is in it.
	require.NoError(t, os.WriteFile(key, bytes.Repeat([]byte("hunter2\n"), 3), 0o600))
	failed := invocation{}.run(t, "serve", desk, "--tls-cert", cert, "--tls-key", key).exits(t, cli.StatusUsage)
	require.Contains(t, failed.err, key)
	require.NotContains(t, failed.err, "hunter2")
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// signKey makes a file with a private key.
func signKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der := must.Get(x509.MarshalPKCS8PrivateKey(key))
	return file(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// A signed card can be verified with the key set that the same server publishes.
func TestServeSignsCard(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--sign-key", signKey(t), "--db", ":memory:")
	fetch := func(path string) []byte {
		resp := s.open("GET", path, "", "")
		defer resp.Body.Close()
		require.Equal(t, 200, resp.StatusCode)
		return must.Get(io.ReadAll(resp.Body))
	}
	set := must.JSON[jose.JSONWebKeySet](fetch("/.well-known/jwks.json"))
	verifier := must.Get(cardsign.NewVerifier(cardsign.Key{ID: set.Keys[0].KeyID, Public: set.Keys[0].Key}))
	card := fetch("/.well-known/agent-card.json")
	require.NoError(t, verifier.Verify(t.Context(), card))
	require.ErrorIs(t, verifier.Verify(t.Context(), bytes.Replace(card, []byte("support"), []byte("another"), 1)), cardsign.ErrUnverified)
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// What is wrong with the command line is one line, and status 2.
func TestServeBadInput(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--db", ":memory:")
	taken := strings.TrimPrefix(s.base, "http://")
	t.Run("lines", func(t *testing.T) { // it ends when all of them have
		for name, tt := range map[string]struct {
			args []string
			env  []string
			want string
		}{
			"flag":        {args: []string{"--adr", ":0"}, want: "unknown flag: --adr; did you mean --addr?"},
			"taken":       {args: []string{"--addr", taken}, want: "--addr " + taken + ": bind: address already in use; use another port, or port 0 for any free one"},
			"grpc":        {args: []string{"--grpc", taken}, want: "--grpc " + taken + ": bind: address already in use"},
			"page state":  {args: []string{"--page-state", "city,user:name"}, want: "--page-state: the state key \"user:name\""},
			"grpc open":   {args: []string{"--grpc", ":0", "--no-token"}, want: "can be reached from other machines"},
			"no port":     {args: []string{"--addr", "localhost"}, want: "--addr localhost: write HOST:PORT, such as 127.0.0.1:8420"},
			"bad port":    {args: []string{"--addr", "127.0.0.1:99999"}, want: "--addr 127.0.0.1:99999: "},
			"elsewhere":   {args: []string{"--addr", "192.0.2.1:0"}, want: "--addr 192.0.2.1:0: bind: "},
			"no token":    {args: []string{"--addr", "0.0.0.0:0", "--no-token"}, want: "can be reached from other machines; listen at 127.0.0.1, or use a token"},
			"public":      {args: []string{"--no-token", "--url", "https://agents.example.com"}, want: "--no-token: other machines reach the server at --url"},
			"both":        {args: []string{"--no-token", "--token-file", "x"}, want: "--no-token and --token-file exclude each other"},
			"no file":     {args: []string{"--token-file", "none"}, want: "--token-file: none: there is no such file or folder"},
			"empty file":  {args: []string{"--token-file", file(t, "t", " \n")}, want: "the file is empty"},
			"odd token":   {env: []string{"ARBOR_TOKEN=s3cret and more"}, want: "the token must be one word"},
			"url":         {args: []string{"--url", "agents.example.com"}, want: "--url agents.example.com: give an address such as https://agents.example.com"},
			"key where":   {args: []string{"--addr", ":0", "--sign-key", signKey(t)}, want: "--sign-key needs --url"},
			"no key":      {args: []string{"--sign-key", "none"}, want: "--sign-key: none: there is no such file or folder"},
			"odd key":     {args: []string{"--sign-key", file(t, "k", "s3cret")}, want: "the text contains no PEM block"},
			"webhooks":    {args: []string{"--webhook-file", file(t, "w", "s3cret")}, want: "--webhook-file: "},
			"no tree":     {args: []string{"nowhere"}, want: "1 argument too many"},
			"broken tree": {args: nil, want: "3 problems in the files"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				path := desk
				if name == "broken tree" {
					path = "testdata/broken"
				}
				got := invocation{env: tt.env}.run(t, append([]string{"serve", path, "--db", ":memory:", "--addr", "127.0.0.1:0"}, tt.args...)...).exits(t, cli.StatusUsage)
				require.Empty(t, got.out)
				require.Contains(t, got.err, tt.want)
				require.NotContains(t, got.err, "s3cret")
				if name != "broken tree" {
					require.Equal(t, 1, strings.Count(got.err, "\n"), got.err)
				}
			})
		}
	})
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// Without a token of one's own there is a new one each time, told once.
func TestServeMakesToken(t *testing.T) {
	t.Parallel()
	s := invocation{program: "func"}.serveWith(t, "--db", ":memory:")
	made := ""
	must.Wait(t, func() bool { // what it said is on its way
		_, rest, _ := strings.Cut(s.said.String(), "the owner's token of this run is ")
		made, _, _ = strings.Cut(rest, " ")
		return strings.Contains(rest, "\n")
	})
	require.Len(t, made, 26)
	resp := s.open("POST", "/message:send", sending("hello"), made)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, 0, s.stop(syscall.SIGTERM))
	require.Equal(t, 1, strings.Count(s.said.String(), made))
}

// On this machine alone a server may do without a token.
func TestServeWithoutToken(t *testing.T) {
	t.Parallel()
	s := invocation{program: "embedded"}.serveWith(t, "--no-token", "--db", ":memory:")
	resp := s.open("POST", "/message:send", sending("hello"), "")
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, 0, s.stop(os.Interrupt))
	require.Contains(t, s.said.String(), "no token is needed")
}
