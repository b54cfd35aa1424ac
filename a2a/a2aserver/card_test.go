package a2aserver

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/a2a/internal/wire"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func mute(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(func(*event.Event, error) bool) {}
}

func node(t testing.TB, name, description string, opts ...agent.Option) agent.Agent {
	return must.Get(agent.New(name, description, mute, opts...))
}

// conductor is a workflow: its children work in it, and it hands nothing on.
type conductor struct{ agent.Agent }

func (*conductor) Properties() agent.Properties { return agent.Properties{Workflow: true} }

func treeOf(t testing.TB, root agent.Agent) *agent.Tree {
	return must.Get(agent.NewTree(root))
}

func cardRoot(t testing.TB) agent.Agent {
	peers := agent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToPeers: true})
	return node(t, "support", "Answers customers", agent.WithSubAgents(
		node(t, "billing", "Invoices and refunds", peers, agent.WithSubAgents(node(t, "refunds", ""))),
		&conductor{node(t, "report", "Writes reports", agent.WithSubAgents(node(t, "collect", "Collects"), node(t, "write", "Writes")))},
		node(t, "technical", "Outages"),
	))
}

func TestCardOfTree(t *testing.T) {
	s := newTestServer(t, node(t, "main", ""), sessiontest.Memory(t), WithURL("https://agents.example.com"), WithTenant("eu", cardRoot(t)),
		WithCard(CardOptions{Version: "1.2.3", Provider: &sdk.AgentProvider{Org: "Example", URL: "https://example.com"}, InputModes: []string{"text/plain", "application/json"}}),
		WithInterface(sdk.AgentInterface{URL: "grpc.example.com:443", ProtocolBinding: sdk.TransportProtocolGRPC, ProtocolVersion: sdk.Version}),
		WithCompat(wire.Legacy{Card: cardjson.Marshal}), WithAuthenticator(declared{nil, map[sdk.SecuritySchemeName]sdk.SecurityScheme{
			"key": sdk.APIKeySecurityScheme{Name: "X-Key", Location: "header"}, "bearer": sdk.HTTPAuthSecurityScheme{Scheme: "Bearer"},
		}}))
	doc, err := s.renderCard("eu", s.publicURL())
	require.NoError(t, err)
	require.JSONEq(t, `{
		"name": "support", "description": "Answers customers", "version": "1.2.3",
		"provider": {"organization": "Example", "url": "https://example.com"},
		"capabilities": {"streaming": true, "pushNotifications": true, "extendedAgentCard": true, "extensions": [{
			"uri": "`+a2a.Extension+`",
			"description": "Metadata that says which agent of the tree speaks, and which agents a message went through."}]},
		"supportedInterfaces": [
			{"url": "https://agents.example.com/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "eu"},
			{"url": "https://agents.example.com", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0", "tenant": "eu"},
			{"url": "grpc.example.com:443", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "eu"},
			{"url": "https://agents.example.com/eu/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "0.3", "tenant": "eu"}],
		"defaultInputModes": ["text/plain", "application/json"], "defaultOutputModes": ["text/plain", "application/json"],
		"securitySchemes": {
			"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
			"key": {"apiKeySecurityScheme": {"name": "X-Key", "location": "header"}}},
		"securityRequirements": [{"schemes": {"bearer": {}}}, {"schemes": {"key": {}}}],
		"skills": [
			{"id": "support", "name": "support", "description": "Answers customers", "tags": ["support"]},
			{"id": "billing", "name": "billing", "description": "Invoices and refunds", "tags": ["support/billing"]},
			{"id": "refunds", "name": "refunds", "description": "refunds", "tags": ["support/billing/refunds"]},
			{"id": "report", "name": "report", "description": "Writes reports", "tags": ["support/report"]},
			{"id": "technical", "name": "technical", "description": "Outages", "tags": ["support/technical"]}]
	}`, string(doc))
}

// A conversation comes to an agent by a route as well, and to nobody who is not
// connected.
func TestSkillsAreWhoCanBeReached(t *testing.T) {
	names := func(tree *agent.Tree) (names []string) {
		for _, n := range reachableNodes(tree) {
			names = append(names, n.Agent.Name())
		}
		return names
	}
	require.Equal(t, []string{"support", "billing", "refunds", "report", "technical"}, names(treeOf(t, cardRoot(t))))
	require.Equal(t, []string{"report"}, names(treeOf(t, &conductor{node(t, "report", "", agent.WithSubAgents(node(t, "collect", "")))})))
}

func TestCardHoldsNoInstructions(t *testing.T) {
	script := scripted.New()
	kid := must.Get(llmagent.New("kid", "SECRET of the kid", script.Model("kid"), llmagent.WithDescription("Public words")))
	root := must.Get(llmagent.New("root", "SECRET of the root", script.Model("root"), llmagent.WithSubAgents(kid)))
	doc, err := newTestServer(t, root, sessiontest.Memory(t)).renderCard("", "http://localhost")
	require.NoError(t, err)
	require.NotContains(t, string(doc), "SECRET")
	require.Contains(t, string(doc), `"id":"kid"`)
}

// foreign is a scheme that the library does not write.
type foreign struct{ sdk.SecurityScheme }

func TestCardsThatCannotBeMade(t *testing.T) {
	serve := func(opts ...Option) *Server {
		return newTestServer(t, node(t, "root", ""), sessiontest.Memory(t), opts...)
	}
	_, err := serve().Card("")
	require.ErrorContains(t, err, "needs the public URL")
	_, err = serve().cardAt("nobody", "http://localhost")
	require.ErrorContains(t, err, "unknown tenant")
	broken := errors.New("SECRET")
	for want, opt := range map[error]Option{
		broken:           WithCompat(wire.Legacy{Card: func(*sdk.AgentCard) ([]byte, error) { return nil, broken }}),
		cardjson.ErrJSON: WithCompat(wire.Legacy{Card: func(*sdk.AgentCard) ([]byte, error) { return []byte("no card"), nil }}),
		nil:              WithAuthenticator(declared{nil, map[sdk.SecuritySchemeName]sdk.SecurityScheme{"x": foreign{}}}),
	} {
		s := serve(opt, WithURL("http://localhost"), WithCard(CardOptions{Signer: signer(t)}))
		_, err := s.renderCard("", "http://localhost")
		require.Error(t, err)
		if want != nil {
			require.ErrorIs(t, err, want)
		}
		w := httptest.NewRecorder()
		s.serveCard(w, httptest.NewRequest(http.MethodGet, "/", nil), "")
		require.Equal(t, 500, w.Code)
		require.NotContains(t, w.Body.String(), "SECRET")
	}
}

func signer(t testing.TB) *cardsign.Signer {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	return must.Get(cardsign.NewSigner(key))
}

func TestSignedCardForBothVersions(t *testing.T) {
	s := signer(t)
	both := func(c *sdk.AgentCard) ([]byte, error) {
		tree, err := cardjson.Tree(c)
		if err != nil {
			return nil, err
		}
		tree["url"], tree["protocolVersion"] = "https://agents.example.com/rpc", "0.3.0"
		return plainjson.Marshal(tree)
	}
	server := newTestServer(t, cardRoot(t), sessiontest.Memory(t), WithURL("https://agents.example.com"), WithCompat(wire.Legacy{Card: both}), WithCard(CardOptions{Signer: s}))
	doc, err := server.renderCard("", server.publicURL())
	require.NoError(t, err)
	v := must.Get(cardsign.NewVerifier(s.Key()))
	require.NoError(t, v.Verify(t.Context(), doc))
	require.Error(t, v.Verify(t.Context(), []byte(strings.Replace(string(doc), `.com/rpc","version`, `.com/evil","version`, 1))))
	require.Error(t, v.Verify(t.Context(), []byte(strings.Replace(string(doc), "0.3.0", "0.3.1", 1))))
}

func fetch(t testing.TB, url string, change ...func(*http.Request)) (*http.Response, string) {
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))
	for _, c := range change {
		c(req)
	}
	resp := must.Get(http.DefaultClient.Do(req))
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(resp.Body))
	return resp, string(body)
}

func withHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func withMethod(m string) func(*http.Request) { return func(r *http.Request) { r.Method = m } }

func TestCardIsCached(t *testing.T) {
	modified := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	s := httptest.NewServer(newCardDocument([]byte(`{"name":"x"}`), modified))
	defer s.Close()

	resp, body := fetch(t, s.URL)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, `{"name":"x"}`, body)
	etag := resp.Header.Get("ETag")
	require.Regexp(t, `^"[\w-]+"$`, etag, "strong")
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Cache-Control": "public, max-age=300", "Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT",
		"Content-Length": "12", "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "", "X-Content-Type-Options": "nosniff",
	} {
		require.Equal(t, want, resp.Header.Get(name), name)
	}

	resp, body = fetch(t, s.URL, withMethod(http.MethodHead))
	require.Equal(t, 200, resp.StatusCode)
	require.Empty(t, body)
	require.Equal(t, int64(12), resp.ContentLength)
	require.Equal(t, etag, resp.Header.Get("ETag"))

	for what, c := range map[string]struct {
		header, value string
		status        int
	}{
		"same":           {"If-None-Match", etag, 304},
		"one of several": {"If-None-Match", `"x", W/` + etag, 304},
		"any":            {"If-None-Match", "*", 304},
		"other":          {"If-None-Match", `"other"`, 200},
		"not since":      {"If-Modified-Since", "Fri, 02 Jan 2026 03:04:05 GMT", 304},
		"since":          {"If-Modified-Since", "Fri, 02 Jan 2026 03:04:04 GMT", 200},
		"nonsense":       {"If-Modified-Since", "yesterday", 200},
	} {
		resp, body := fetch(t, s.URL, withHeader(c.header, c.value))
		require.Equal(t, c.status, resp.StatusCode, what)
		require.Equal(t, c.status == 304, body == "", what)
		require.Equal(t, etag, resp.Header.Get("ETag"), what)
		require.Equal(t, "public, max-age=300", resp.Header.Get("Cache-Control"), what)
		require.Equal(t, "*", resp.Header.Get("Access-Control-Allow-Origin"), what)
	}
	// The tag counts more than the date (RFC 9110, section 13.2.2).
	resp, _ = fetch(t, s.URL, withHeader("If-None-Match", `"other"`), withHeader("If-Modified-Since", "Fri, 02 Jan 2026 03:04:05 GMT"))
	require.Equal(t, 200, resp.StatusCode)

	other := newCardDocument([]byte(`{"name":"y"}`), modified)
	require.NotEqual(t, etag, other.etag)
}

func TestCardNamesThePublicURL(t *testing.T) {
	get := func(s *Server, host, tenant string, change ...func(*http.Request)) (code int, url string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		for _, c := range change {
			c(r)
		}
		w := httptest.NewRecorder()
		s.serveCard(w, r, tenant)
		var card sdk.AgentCard
		if w.Code == 200 {
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &card))
			url = card.SupportedInterfaces[1].URL + " " + card.SupportedInterfaces[1].Tenant
		}
		return w.Code, url
	}
	forwarded := func(r *http.Request) {
		for _, h := range []string{"X-Forwarded-Host", "X-Forwarded-For", "X-Forwarded-Proto", "Forwarded"} {
			r.Header.Set(h, "evil.example")
		}
	}
	s := newTestServer(t, node(t, "root", ""), sessiontest.Memory(t), WithURL("https://agents.example.com/a/"), WithTenant("eu", node(t, "root", "")))
	var kept *cardDocument
	for _, host := range []string{"evil.example", "", "a b"} {
		code, url := get(s, host, "eu", forwarded)
		require.Equal(t, 200, code)
		require.Equal(t, "https://agents.example.com/a eu", url)
		kept = cmp.Or(kept, s.trees["eu"].document)
		require.Same(t, kept, s.trees["eu"].document)
	}

	s = newTestServer(t, node(t, "root", ""), sessiontest.Memory(t))
	for host, want := range map[string]string{
		"localhost:8080": "http://localhost:8080", "LOCALHOST:8080": "http://localhost:8080", "[::1]:80": "http://[::1]:80", "a.example": "http://a.example",
	} {
		code, url := get(s, host, "", forwarded)
		require.Equal(t, 200, code)
		require.Equal(t, want+" ", url)
	}
	_, url := get(s, "a.example", "", func(r *http.Request) { r.TLS = new(tls.ConnectionState) })
	require.Equal(t, "https://a.example ", url)
	for _, host := range []string{"", "a b", "a/b", "user@a", "a?b", "a\"b", "<script>", strings.Repeat("a", 256), "ä"} {
		code, _ := get(s, host, "")
		require.Equal(t, 400, code, host)
	}

	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 100 {
				get(s, fmt.Sprintf("h%d-%d.example", g, i), "")
			}
		})
	}
	wg.Wait()
}

func TestCardOfServer(t *testing.T) {
	s := newTestServer(t, node(t, "support", "Answers customers"), sessiontest.Memory(t), WithURL("https://agents.example.com/a/"))
	card, err := s.Card("")
	require.NoError(t, err)
	require.Equal(t, "https://agents.example.com/a/rpc", card.SupportedInterfaces[0].URL)
}
