package agentfile

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// say runs a turn and returns what was said outside of graphs.
func say(t *testing.T, r *runner.Runner, text string) (said []string) {
	t.Helper()
	for e, err := range r.Run(t.Context(), session.ID("s"), llm.UserText(text)) {
		require.NoError(t, err)
		if e.Text() != "" && e.Scope == "" && e.Agent != "user" {
			said = append(said, e.Agent+": "+e.Text())
		}
	}
	return said
}

// A remote agent is transferred to, keeps the conversation, and is a graph's node as
// well. What it is sent depends on its history.
func TestRemoteAgentsRun(t *testing.T) {
	fsys := mapFS(map[string]string{
		"support.md":  "---\nmodel: support\nsubagents: [billing, flow.yaml]\n---\nYou route.",
		"billing.md":  "---\ndescription: Money\na2a: https://billing.example.com\n---\n",
		"own.md":      "---\na2a: https://billing.example.com\nhistory: own\n---\n",
		"flow.yaml":   "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: flow, version: 1.0.0}\nspec:\n  agents:\n    - {id: x, agentRef: own}\n  entrypoint: x\n",
		"billing/a.x": "",
	})
	peer := a2atest.New().Add(
		a2atest.Reply(a2atest.ExpectWords("I was charged twice", "[support] One moment."), a2atest.InputRequired("Which charge?")),
		a2atest.Reply(a2atest.ExpectTask(), a2atest.ExpectWords("The second"), a2atest.Text("Refunded.")),
		a2atest.Reply(a2atest.ExpectWords("And why is the sky blue?"), a2atest.Text("Rayleigh.")))
	script := scripted.New().Add("support",
		scripted.Reply(scripted.Text("One moment."), scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`)),
		scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"flow"}`)))
	tree, err := LoadFS(fsys, ".", WithModel(func(name string) (llm.Model, error) { return script.Model(name), nil }),
		WithRemoteOptions(a2a.WithClient(peer)))
	require.NoError(t, err)
	billing := tree.Index().Node("billing").Agent
	require.Equal(t, "Money", billing.Description())
	require.Equal(t, "https://billing.example.com", billing.(interface{ CardURL() string }).CardURL())

	store := sessiontest.Memory(t)
	r := must.Get(runner.New(tree.Root(), store))
	require.Equal(t, []string{"support: One moment.", "billing: Which charge?"}, say(t, r, "I was charged twice"))
	require.Equal(t, []string{"billing: Refunded."}, say(t, r, "The second"))
	fromRoot := must.Get(runner.New(tree.Root(), store, runner.ResumeRoot()))
	require.Equal(t, []string{"flow: Rayleigh."}, say(t, fromRoot, "And why is the sky blue?"))
	require.NoError(t, peer.Done())
	require.NoError(t, script.Done())
}

// peer is a server whose agent answers everybody, and keeps what it was shown.
type peer struct {
	*httptest.Server
	at   string // as the card says; "" for its own address
	mu   sync.Mutex
	seen []http.Header
	urls []string
}

func newPeer(t *testing.T) *peer {
	p := &peer{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if req.URL.Path == "/token" {
			user, password, _ := req.BasicAuth()
			if user != "arbor" || password != "s3cret" || req.FormValue("scope") != "read write" {
				http.Error(w, "{}", http.StatusUnauthorized)
				return
			}
			_, _ = w.Write([]byte(`{"access_token":"fetched","token_type":"Bearer","expires_in":3600}`))
			return
		}
		p.mu.Lock()
		p.seen, p.urls = append(p.seen, req.Header.Clone()), append(p.urls, req.URL.String())
		p.mu.Unlock()
		var call struct {
			ID any `json:"id"`
		}
		if json.NewDecoder(req.Body).Decode(&call) != nil { // a request for the card
			_ = json.NewEncoder(w).Encode(&sdk.AgentCard{Name: "Billing", Version: "1",
				SupportedInterfaces: []*sdk.AgentInterface{sdk.NewAgentInterface(cmp.Or(p.at, p.URL)+"/rpc", sdk.TransportProtocolJSONRPC)}})
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": map[string]any{
			"message": sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("hello"))}})
	}))
	t.Cleanup(p.Close)
	return p
}

// What auth says is what the peer gets, over a real connection.
func TestRemoteCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		auth  string
		check func(t *testing.T, h http.Header, url string)
	}{
		"bearer": {"{bearer: $TOKEN}", func(t *testing.T, h http.Header, _ string) {
			require.Equal(t, "Bearer s3cret", h.Get("Authorization"))
		}},
		"header": {"{api_key: {header: X-Key, value: $TOKEN}}", func(t *testing.T, h http.Header, _ string) {
			require.Equal(t, "s3cret", h.Get("X-Key"))
		}},
		"query": {"{api_key: {query: key, value: $TOKEN}}", func(t *testing.T, _ http.Header, url string) {
			require.Contains(t, url, "?key=s3cret")
		}},
		"cookie": {"{api_key: {cookie: key, value: $TOKEN}}", func(t *testing.T, h http.Header, _ string) {
			require.Equal(t, "key=s3cret", h.Get("Cookie"))
		}},
		"oauth2": {"{oauth2: {token_url: $LOGIN, client_id: arbor, client_secret: $TOKEN, scopes: [read, write]}}", func(t *testing.T, h http.Header, _ string) {
			require.Equal(t, "Bearer fetched", h.Get("Authorization"))
		}},
		"none": {"{}", func(t *testing.T, h http.Header, _ string) { require.Empty(t, h.Get("Authorization")) }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			env := map[string]string{"URL": p.URL, "TOKEN": "s3cret", "LOGIN": p.URL + "/token"}
			tree, err := LoadFS(mapFS(map[string]string{"a.md": "---\na2a: $URL\nauth: " + c.auth + "\n---\n"}), ".", WithModel(resolve),
				WithGetenv(func(name string) string { return env[name] }))
			require.NoError(t, err)
			r := must.Get(runner.New(tree.Root(), sessiontest.Memory(t)))
			require.Equal(t, []string{"a: hello"}, say(t, r, "hi"))
			require.Len(t, p.seen, 2, "the card and the message")
			for i, h := range p.seen {
				c.check(t, h, p.urls[i])
			}
		})
	}
}

// Variables that are not set are a problem of those who run the tree, and not of those
// who look at it.
func TestRemoteWithoutVariables(t *testing.T) {
	dir := write(t, map[string]string{"a.md": "---\na2a: $ARBOR_TEST_URL\nauth:\n  bearer: $ARBOR_TEST_TOKEN\n---\n"})
	require.Equal(t, []string{
		"a.md:2: the environment variable ARBOR_TEST_URL is not set, and a2a needs it",
		"a.md:4: the environment variable ARBOR_TEST_TOKEN is not set, and auth.bearer needs it",
	}, problems(t, dir))
	found, err := Check(dir)
	require.NoError(t, err)
	require.Len(t, found, 2)
	tree, err := Load(dir, WithModel(resolve), WithoutCredentials())
	require.NoError(t, err)
	require.Equal(t, "http://$ARBOR_TEST_URL", tree.Root().(interface{ CardURL() string }).CardURL())

	t.Setenv("ARBOR_TEST_URL", "https://billing.example.com")
	t.Setenv("ARBOR_TEST_TOKEN", "s3cret")
	tree, err = Load(dir, WithModel(resolve))
	require.NoError(t, err)
	require.Equal(t, "https://billing.example.com", tree.Root().(interface{ CardURL() string }).CardURL())
	require.NoError(t, os.WriteFile(dir+"/a.md", []byte("---\na2a: $ARBOR_TEST_URL\nauth: {api_key: {cookie: k, value: $ARBOR_TEST_TOKEN}}\n---\n"), 0o644))
	t.Setenv("ARBOR_TEST_TOKEN", "s3cret; a=b")
	require.Equal(t, []string{`a.md:2: the cookie "k" cannot be sent: its name or value has characters that are not allowed in cookies`}, problems(t, dir))
}

// A client certificate is read when the tree is loaded, and shown to a peer that asks
// for one.
func TestRemoteCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "arbor"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := write(t, map[string]string{
		"a.md":     "---\na2a: $ARBOR_TEST_URL\nauth:\n  certificate: {cert: $ARBOR_TEST_CERT, key: $ARBOR_TEST_KEY}\n---\n",
		"cert.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})),
		"key.pem":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
	})
	p := newPeer(t)
	shown := ""
	p.Config.Handler = handlerBefore(p.Config.Handler, func(req *http.Request) { shown = req.TLS.PeerCertificates[0].Subject.CommonName })
	secure := httptest.NewUnstartedServer(p.Config.Handler)
	secure.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	p.at = secure.URL

	t.Setenv("ARBOR_TEST_URL", secure.URL)
	t.Setenv("ARBOR_TEST_CERT", dir+"/cert.pem")
	t.Setenv("ARBOR_TEST_KEY", dir+"/none.pem")
	require.Equal(t, []string{"a.md:4: auth.certificate cannot be used: there is no such file or folder"}, problems(t, dir))
	t.Setenv("ARBOR_TEST_KEY", dir+"/key.pem")
	tree, err := Load(dir, WithModel(resolve), WithRemoteOptions(a2a.WithHTTPClient(secure.Client())))
	require.NoError(t, err)
	r := must.Get(runner.New(tree.Root(), sessiontest.Memory(t)))
	require.Equal(t, []string{"a: hello"}, say(t, r, "hi"))
	require.Equal(t, "arbor", shown)
}

func handlerBefore(h http.Handler, before func(*http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		before(req)
		h.ServeHTTP(w, req)
	})
}
