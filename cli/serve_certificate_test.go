package cli_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/server/access/usersfile"
)

// A user who is taken out of the users file waits no longer at any door.
func TestServeRevokesWaitingRequests(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	thinks := scripted.Always("model", scripted.Reply(scripted.Text("Hm"), scripted.Wait(func(ctx context.Context) error {
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})))
	models := must.Get(endpoint.Start(func(string) (llm.Model, bool) { return thinks, true }))
	defer models.Close()
	home := t.TempDir()
	users := filepath.Join(home, "users.yaml")
	ann := must.Get(usersfile.Add(users, "ann", 0))
	s := invocation{home: home, env: []string{"OPENAI_BASE_URL=" + models.URL(), "OPENAI_MODEL=model"}}.serve(t, desk, "--db", ":memory:", "--users", users)

	answers := map[string]chan string{}
	for name, c := range map[string]struct{ path, body, header string }{
		"api":              {"/api/v1/sessions", `{"id":"1","content":"think"}`, "Prefer: wait=60"},
		"api stream":       {"/api/v1/sessions", `{"id":"2","content":"think"}`, "Accept: text/event-stream"},
		"chat":             {"/v1/chat/completions", `{"model":"support","messages":[{"role":"user","content":"think"}]}`, ""},
		"chat stream":      {"/v1/chat/completions", `{"model":"support","stream":true,"messages":[{"role":"user","content":"think"}]}`, ""},
		"responses":        {"/v1/responses", `{"model":"support","input":"think"}`, ""},
		"responses stream": {"/v1/responses", `{"model":"support","stream":true,"input":"think"}`, ""},
		"agui":             {"/agui", `{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"think"}],"tools":[],"context":[],"state":{},"forwardedProps":{}}`, "Accept: text/event-stream"},
		"a2a":              {"/message:send", sending("think"), ""},
		"a2a stream":       {"/message:stream", sending("think more"), ""},
	} {
		got := make(chan string, 1)
		answers[name] = got
		req := must.Get(http.NewRequestWithContext(t.Context(), "POST", s.base+c.path, strings.NewReader(c.body)))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+ann)
		if key, value, ok := strings.Cut(c.header, ": "); ok {
			req.Header.Set(key, value)
		}
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				got <- err.Error()
				return
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			got <- resp.Status + " " + string(body)
		}()
		receive(t, asked)
	}
	require.NoError(t, usersfile.Remove(users, "ann"))
	late := time.After(patience)
	for name, got := range answers {
		select {
		case answer := <-got:
			t.Logf("%s: %s", name, answer)
			if !strings.Contains(name, "stream") && name != "agui" {
				require.Contains(t, answer, "401", name)
			}
			require.Contains(t, answer, "revoked", name)
		case <-late:
			require.Fail(t, "the request still waits", name)
		}
	}
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// A certificate of --client-ca is let in as the user of the users file that it names, until the user is removed from
// it, and as nobody else: not as the owner, and not as a user that nobody has added.
func TestServeCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	newKey := func() *ecdsa.PrivateKey {
		return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	}
	private := newKey()
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ann"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	signed := must.Get(x509.CreateCertificate(rand.Reader, authority, authority, &private.PublicKey, private))
	authority = must.Get(x509.ParseCertificate(signed))
	der := must.Get(x509.MarshalPKCS8PrivateKey(private))
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))

	i := invocation{home: t.TempDir(), env: []string{"ARBOR_TOKEN=first"}}
	require.Equal(t, 0, i.run(t, "users", "add", "ann").status)
	s := &served{running: &running{Cmd: i.command(t, "serve", desk, "--addr", servers.Address(t), "--tls-cert", cert, "--tls-key", key, "--client-ca", cert)}, t: t, said: &words{}}
	s.Stderr = s.said
	require.NoError(t, s.Start())
	s.said.until(t, "(once, within five minutes)", 1)
	base := pageAddress.FindStringSubmatch(s.said.String())[1]

	roots := x509.NewCertPool()
	roots.AddCert(authority)
	client := func(name string) func() (user string, status int) {
		k := newKey()
		template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: []string{"Example"}},
			NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		der := must.Get(x509.CreateCertificate(rand.Reader, template, authority, &k.PublicKey, private))
		own := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k}
		caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}}}
		t.Cleanup(caller.CloseIdleConnections)
		return func() (string, int) {
			req := must.Get(http.NewRequestWithContext(t.Context(), "GET", base+"/api/v1/me", nil))
			got := must.Get(caller.Do(req))
			defer got.Body.Close()
			var me struct{ User string }
			require.NoError(t, json.NewDecoder(got.Body).Decode(&me))
			return me.User, got.StatusCode
		}
	}
	refused := i.run(t, "serve", desk, "--addr", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--client-ca", cert, "--no-token")
	require.Contains(t, refused.err, "--no-token and --client-ca exclude each other")
	ann := client("ann")
	user, status := ann()
	require.Equal(t, 200, status)
	require.Equal(t, "ann", user)
	for _, name := range []string{"ben", "local", "CN=ann", ""} {
		_, status = client(name)()
		require.Equal(t, 401, status, name)
	}
	require.Equal(t, 0, i.run(t, "users", "rm", "ann").status)
	s.said.until(t, "the owner and 0 users from now on", 1)
	_, status = ann() // over the connection that it has
	require.Equal(t, 401, status)
	require.Equal(t, 0, s.stop(os.Interrupt))
}
