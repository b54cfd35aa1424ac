package a2a_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// peer is a real server of both built-in bindings that notes what it is asked.
type peer struct {
	*httptest.Server
	card *sdk.AgentCard

	mu       sync.Mutex
	requests []*http.Request
	wrap     func(w http.ResponseWriter, req *http.Request) (done bool) // nil: nothing is done otherwise
}

func (p *peer) asked() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// newPeer starts a peer of one binding; start is nil for one without TLS.
func newPeer(t *testing.T, protocol sdk.TransportProtocol, start func(*httptest.Server)) *peer {
	t.Helper()
	p := &peer{}
	handler := a2asrv.NewHandler(&server{execute: remotetest.Completes("Fine.")})
	mux := http.NewServeMux()
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler))
	mux.Handle("/", a2asrv.NewRESTHandler(handler))
	mux.HandleFunc("/.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		card := *p.card
		p.mu.Unlock()
		_ = json.NewEncoder(w).Encode(card)
	})
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p.mu.Lock()
		p.requests = append(p.requests, req.Clone(context.Background()))
		wrap := p.wrap
		p.mu.Unlock()
		if wrap == nil || !wrap(w, req) {
			mux.ServeHTTP(w, req)
		}
	}))
	p.Server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	if start == nil {
		start = (*httptest.Server).Start
	}
	start(p.Server)
	t.Cleanup(p.Server.Close)
	path := "/rpc"
	if protocol == sdk.TransportProtocolHTTPJSON {
		path = ""
	}
	p.card = &sdk.AgentCard{Name: "Billing", SupportedInterfaces: []*sdk.AgentInterface{sdk.NewAgentInterface(p.URL+path, protocol)},
		Capabilities: sdk.AgentCapabilities{Streaming: true}}
	return p
}

var protocols = []sdk.TransportProtocol{sdk.TransportProtocolJSONRPC, sdk.TransportProtocolHTTPJSON}

// Every kind of credential goes to the card's origin and to trusted ones, in both
// bindings, and nowhere else.
func TestKindsOfCredentials(t *testing.T) {
	header := func(name, value string) func(*http.Request) bool {
		return func(req *http.Request) bool { return req.Header.Get(name) == value }
	}
	cookie := func(req *http.Request) bool {
		c, err := req.Cookie("session")
		return err == nil && c.Value == "hunter2"
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:hunter2"))
	for name, c := range map[string]struct {
		userinfo string
		opts     []a2a.Option
		has      func(*http.Request) bool
	}{
		"bearer":         {"", []a2a.Option{a2a.WithBearer("hunter2")}, header("Authorization", "Bearer hunter2")},
		"header":         {"", []a2a.Option{a2a.WithHeader("X-Secret", "hunter2")}, header("X-Secret", "hunter2")},
		"basic":          {"me:hunter2@", nil, header("Authorization", basic)},
		"bearer wins":    {"me:other@", []a2a.Option{a2a.WithBearer("hunter2")}, header("Authorization", "Bearer hunter2")},
		"key in header":  {"", []a2a.Option{a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationHeader, "X-API-Key", "hunter2")}, header("X-API-Key", "hunter2")},
		"key in query":   {"", []a2a.Option{a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationQuery, "key", "hunter2")}, func(req *http.Request) bool { return req.URL.Query().Get("key") == "hunter2" }},
		"key in cookie":  {"", []a2a.Option{a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, "session", "hunter2")}, cookie},
		"cookie, header": {"", []a2a.Option{a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, "session", "hunter2"), a2a.WithHeader("Cookie", "a=b")}, cookie},
	} {
		for _, protocol := range protocols {
			for _, trusted := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/trusted=%v", name, protocol, trusted), func(t *testing.T) {
					srv, elsewhere := newPeer(t, protocol, nil), newPeer(t, protocol, nil)
					srv.card.SupportedInterfaces = elsewhere.card.SupportedInterfaces
					opts := c.opts
					if trusted {
						opts = append(opts[:len(opts):len(opts)], a2a.WithTrustedOrigin(elsewhere.URL+"/"))
					}
					_, _, err := newRunner(t, remotetest.Billing(t, strings.Replace(srv.URL, "://", "://"+c.userinfo, 1), opts...)).Turn("hi")
					require.NoError(t, err)
					require.Len(t, srv.asked(), 1)
					require.True(t, c.has(srv.asked()[0]))
					require.NotEmpty(t, elsewhere.asked())
					for _, req := range elsewhere.asked() {
						require.Equal(t, trusted, c.has(req))
						require.Equal(t, "1.0", req.Header.Get("A2A-Version"))
						if !trusted {
							require.NotContains(t, fmt.Sprint(req.URL, req.Header), "hunter2")
						}
					}
				})
			}
		}
	}
}

// A key in the query is added to what the URL has.
func TestKeyBesideAQuery(t *testing.T) {
	srv := newPeer(t, sdk.TransportProtocolJSONRPC, nil)
	r := remotetest.Billing(t, srv.URL+"/.well-known/agent-card.json?tenant=acme&key=none", a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationQuery, "key", "hunter2 &"))
	require.NoError(t, ready(r))
	require.Equal(t, url.Values{"tenant": {"acme"}, "key": {"hunter2 &"}}, srv.asked()[0].URL.Query())
}

// What bindings that are not HTTP get says the same.
func TestCredentialsForBindings(t *testing.T) {
	var env a2a.Environment
	b := a2a.Binding{Protocol: sdk.TransportProtocolGRPC, Version: "1.0",
		Dial: func(_ context.Context, _ *sdk.AgentInterface, e a2a.Environment) (a2aclient.Transport, error) {
			env = e
			return counting{}, nil
		}}
	r := must.Get(a2a.Remote("billing", "https://peer.test/card", a2a.WithBinding(b), a2a.WithBearer("hunter2"), a2a.WithTrustedOrigin("https://other.test:50051"),
		a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, "session", "s3cret"), a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, "more", "s3cret"),
		a2a.WithHTTPClient(&http.Client{Transport: pipe(func(*http.Request) (*http.Response, error) {
			return response(200, `{"supportedInterfaces":[{"url":"peer.test:443","protocolBinding":"GRPC","protocolVersion":"1.0"}]}`), nil
		})})))
	require.NoError(t, ready(r))
	for target, trusted := range map[string]bool{"https://peer.test": true, "https://PEER.test:443/x": true, "https://other.test:50051": true,
		"http://peer.test": false, "https://peer.test:50051": false, "https://peer.test.evil.test": false, "https://other.test": false} {
		u := must.Get(url.Parse(target))
		h := must.Get(env.Credentials(context.Background(), u))
		if !trusted {
			require.Nil(t, h, target)
			continue
		}
		require.Equal(t, http.Header{"Authorization": {"Bearer hunter2"}, "Cookie": {"session=s3cret; more=s3cret"}}, h, target)
		h.Set("Authorization", "changed by whoever got it")
	}
	require.EqualValues(t, 16<<20, env.MaxResponse)
	env.ResetIdle(context.Background()) // outside of an exchange nothing waits for it
	env.Refused(http.Header{})
}
