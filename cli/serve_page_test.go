package cli_test

import (
	"bytes"
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
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/servers"
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
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
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
		got, err := browser.Do(req)
		require.NoError(t, err)
		defer got.Body.Close()
		text := must.Get(io.ReadAll(got.Body))
		return got, string(text)
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
	var grant struct{ User, Key string }
	require.NoError(t, json.Unmarshal([]byte(body), &grant))
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
	failed := invocation{}.run(t, "serve", desk, "--tls-cert", cert, "--tls-key", key)
	require.Equal(t, cli.StatusUsage, failed.status)
	require.Contains(t, failed.err, key)
	require.NotContains(t, failed.err, "hunter2")
}
