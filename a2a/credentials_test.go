package a2a_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
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
	handler := a2asrv.NewHandler(&server{execute: completes("Fine.")})
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
					_, _, err := newRunner(t, newRemote(t, strings.Replace(srv.URL, "://", "://"+c.userinfo, 1), opts...)).turn("hi")
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
	r := newRemote(t, srv.URL+"/.well-known/agent-card.json?tenant=acme&key=none", a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationQuery, "key", "hunter2 &"))
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
	r, err := a2a.Remote("billing", "https://peer.test/card", a2a.WithBinding(b), a2a.WithBearer("hunter2"), a2a.WithTrustedOrigin("https://other.test:50051"),
		a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, "session", "s3cret"), a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, "more", "s3cret"),
		a2a.WithHTTPClient(&http.Client{Transport: pipe(func(*http.Request) (*http.Response, error) {
			return response(200, `{"supportedInterfaces":[{"url":"peer.test:443","protocolBinding":"GRPC","protocolVersion":"1.0"}]}`), nil
		})}))
	require.NoError(t, err)
	require.NoError(t, ready(r))
	for target, trusted := range map[string]bool{"https://peer.test": true, "https://PEER.test:443/x": true, "https://other.test:50051": true,
		"http://peer.test": false, "https://peer.test:50051": false, "https://peer.test.evil.test": false, "https://other.test": false} {
		u, err := url.Parse(target)
		require.NoError(t, err)
		h, err := env.Credentials(context.Background(), u)
		require.NoError(t, err)
		if !trusted {
			require.Nil(t, h, target)
			continue
		}
		require.Equal(t, http.Header{"Authorization": {"Bearer hunter2"}, "Cookie": {"session=s3cret; more=s3cret"}}, h, target)
		h.Set("Authorization", "changed by whoever got it")
	}
	require.EqualValues(t, a2a.DefaultMaxResponse, env.MaxResponse)
	env.Heard(context.Background()) // outside of an exchange nothing waits for it
	env.Refused(http.Header{})
}

// tokenEndpoint is a token endpoint of OAuth 2.0.
type tokenEndpoint struct {
	*httptest.Server
	issued atomic.Int32
	wrap   http.HandlerFunc // instead of a token
}

func newTokenEndpoint(t *testing.T, wrap http.HandlerFunc) *tokenEndpoint {
	t.Helper()
	e := &tokenEndpoint{wrap: wrap}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if e.wrap != nil {
			e.wrap(w, req)
			return
		}
		id, secret, _ := req.BasicAuth()
		_ = req.ParseForm()
		if id != "arbor" || secret != "hunter2" || req.Form.Get("grant_type") != "client_credentials" || req.Form.Get("scope") != "read write" || req.Form.Get("audience") != "billing" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"bearer","expires_in":3600}`, e.issued.Add(1))
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *tokenEndpoint) option() a2a.Option {
	return a2a.WithClientCredentials(a2a.ClientCredentials{TokenURL: e.URL + "/token?tenant=s3cret-tenant", ID: "arbor", Secret: "hunter2",
		Scopes: []string{"read", "write"}, Params: url.Values{"audience": {"billing"}}})
}

// One token serves all who need one, until the peer refuses it.
func TestClientCredentials(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(string(protocol), func(t *testing.T) {
			endpoint := newTokenEndpoint(t, nil)
			srv := newPeer(t, protocol, nil)
			var valid atomic.Value
			valid.Store("Bearer token-1")
			srv.wrap = func(w http.ResponseWriter, req *http.Request) bool {
				if req.Header.Get("Authorization") == valid.Load() {
					return false
				}
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			f := newRunner(t, newRemote(t, srv.URL, endpoint.option()))
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					for _, err := range f.Run(context.Background(), session.ID(fmt.Sprint("s", i)), llm.UserText("hi")) {
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, 1, endpoint.issued.Load())

			valid.Store("Bearer token-2") // the first one is revoked
			before := len(srv.asked())
			_, _, err := f.turn("again")
			require.NoError(t, err)
			require.EqualValues(t, 2, endpoint.issued.Load())
			require.Len(t, srv.asked()[before:], 2, "refused, and sent again")

			valid.Store("none is good enough")
			before = len(srv.asked())
			_, _, err = f.turn("again")
			var e *a2a.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, a2a.CodeUnauthorized, e.Code)
			require.Len(t, srv.asked()[before:], 2, "sent again once and not more")
			require.EqualValues(t, 3, endpoint.issued.Load())
		})
	}
}

// Those who need a token at the same time share one fetch, and those who cannot
// wait for it any longer leave.
func TestConcurrentTokens(t *testing.T) {
	gate, asked := make(chan struct{}), make(chan struct{}, 100)
	endpoint := newTokenEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-gate
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"token-1"}`)
	})
	var env a2a.Environment
	b := a2a.Binding{Protocol: sdk.TransportProtocolJSONRPC, Version: "1.0",
		Dial: func(_ context.Context, _ *sdk.AgentInterface, e a2a.Environment) (a2aclient.Transport, error) {
			env = e
			return counting{}, nil
		}}
	srv := newPeer(t, sdk.TransportProtocolJSONRPC, nil)
	r := newRemote(t, onLocalhost(t, srv.URL), a2a.WithBinding(b), a2a.WithTrustedOrigin("https://trusted.test"), a2a.WithPrivateNetworks(), endpoint.option())
	done := make(chan error)
	go func() { done <- ready(r) }()
	<-asked
	gate <- struct{}{}
	require.NoError(t, <-done)
	require.Empty(t, asked)

	target, err := url.Parse("https://trusted.test")
	require.NoError(t, err)
	h, err := env.Credentials(context.Background(), target)
	require.NoError(t, err)
	env.Refused(h) // so that a new one is needed
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			h, err := env.Credentials(context.Background(), target)
			if err != nil || h.Get("Authorization") != "Bearer token-1" {
				t.Error(h, err)
			}
		})
	}
	<-asked
	ctx, cancel := context.WithCancelCause(context.Background())
	impatient := errors.New("no time")
	cancel(impatient)
	_, err = env.Credentials(ctx, target)
	require.ErrorIs(t, err, impatient)
	close(gate)
	wg.Wait()
	require.Empty(t, asked)
}

// A token is fetched anew before it expires.
func TestTokensExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issued := 0
		var sent []string
		var hurry string
		r := inMemory(t, func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "tokens.test" {
				issued++
				return response(200, fmt.Sprintf(`{"access_token":"token-%d","expires_in":%s}`, issued, hurry), "Content-Type", "application/json"), nil
			}
			sent = append(sent, req.Header.Get("Authorization"))
			return response(200, goodCard), nil
		}, a2a.WithCardTTL(0), a2a.WithClientCredentials(a2a.ClientCredentials{TokenURL: "https://tokens.test", ID: "arbor"}))
		hurry = "60"
		require.NoError(t, ready(r))
		time.Sleep(45 * time.Second)
		require.NoError(t, ready(r))
		time.Sleep(10 * time.Second)
		hurry = "1" // which is over as soon as it comes
		require.NoError(t, ready(r))
		require.NoError(t, ready(r))
		require.Equal(t, []string{"Bearer token-1", "Bearer token-1", "Bearer token-2", "Bearer token-3"}, sent)
	})
}

// A token endpoint that does not do what it should ends in a clear error, which
// shows nothing of the secret.
func TestTokenEndpointsThatFail(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	echo := func(status int, format string) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			_, secret, _ := req.BasicAuth()
			body, _ := io.ReadAll(req.Body)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprintf(w, format, secret, req.Header.Get("Authorization")+string(body))
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		code    a2a.ErrorCode
		text    string
	}{
		"wrong secret":   {echo(401, `{"error":"invalid_client","error_description":"%s %s"}`), a2a.CodeUnauthorized, "HTTP status 401, invalid_client"},
		"bad error code": {echo(400, `{"error":"%s %s"}`), a2a.CodeUnauthorized, "HTTP status 400"},
		"short code":     {echo(400, `{"error":"%s","error_description":"%s"}`), a2a.CodeUnauthorized, "HTTP status 400"},
		"not JSON":       {echo(200, `%s %s`), a2a.CodeUnauthorized, "not one of OAuth 2.0"},
		"no token":       {echo(200, `{"access":"%s %s"}`), a2a.CodeUnauthorized, "not one of OAuth 2.0"},
		"broken":         {echo(503, `%s %s`), a2a.CodeUnreachable, "HTTP status 503"},
		"bad token":      {echo(200, `{"access_token":"a\r\nX-Evil: b","%s":"%s"}`), a2a.CodeUnauthorized, "not one that a header can hold"},
		"a redirect": {func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, other.URL, http.StatusTemporaryRedirect)
		}, a2a.CodeUnreachable, "a redirect of the token endpoint is not followed"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, endless{}) }, a2a.CodeUnauthorized, "not one of OAuth 2.0"},
		"silence": {func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
		}, a2a.CodeTimeout, "not there within 50ms"},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := newTokenEndpoint(t, c.handler)
			srv := newPeer(t, sdk.TransportProtocolJSONRPC, nil)
			limit := 5 * time.Second
			if c.code == a2a.CodeTimeout {
				limit = 50 * time.Millisecond
			}
			_, _, err := newRunner(t, newRemote(t, srv.URL, endpoint.option(), a2a.WithCardTimeout(limit))).turn("hi")
			var e *a2a.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.code, e.Code, "%v", err)
			require.ErrorContains(t, err, c.text)
			requireNoSecret(t, everything(err))
			require.Empty(t, srv.asked())
		})
	}
	require.Zero(t, elsewhere.Load())
}

// newCertificate makes a certificate that signs itself.
func newCertificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "arbor"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// Client certificates are shown to the card's origin and to trusted ones, and to no
// one else who asks for one.
func TestMutualTLS(t *testing.T) {
	cert, authorities := newCertificate(t)
	start := func(auth tls.ClientAuthType) func(*httptest.Server) {
		return func(s *httptest.Server) {
			s.EnableHTTP2 = true
			s.TLS = &tls.Config{ClientAuth: auth, ClientCAs: authorities}
			s.StartTLS()
		}
	}
	srv, elsewhere := newPeer(t, sdk.TransportProtocolJSONRPC, start(tls.RequireAndVerifyClientCert)), newPeer(t, sdk.TransportProtocolJSONRPC, start(tls.VerifyClientCertIfGiven))
	own := srv.card.SupportedInterfaces
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	roots.AddCert(elsewhere.Certificate())
	config := &tls.Config{RootCAs: roots}
	withCert := config.Clone()
	withCert.Certificates = []tls.Certificate{cert}
	withFunc := config.Clone()
	withFunc.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }

	client := func(c *tls.Config) a2a.Option {
		transport := &http.Transport{TLSClientConfig: c.Clone(), ForceAttemptHTTP2: true}
		t.Cleanup(transport.CloseIdleConnections)
		return a2a.WithHTTPClient(&http.Client{Transport: transport})
	}
	for name, opts := range map[string][]a2a.Option{
		"configuration":                 {a2a.WithTLSConfig(withCert)},
		"function":                      {a2a.WithTLSConfig(withFunc)},
		"certificate and configuration": {a2a.WithTLSConfig(config), a2a.WithClientCertificate(cert)},
		"of the HTTP client":            {client(withCert)},
		"certificate and HTTP client":   {client(config), a2a.WithClientCertificate(cert)},
	} {
		t.Run(name, func(t *testing.T) {
			srv.card.SupportedInterfaces = own
			_, _, err := newRunner(t, newRemote(t, srv.URL, opts...)).turn("hi")
			require.NoError(t, err)
			last := srv.asked()[len(srv.asked())-1]
			require.Equal(t, "arbor", last.TLS.PeerCertificates[0].Subject.CommonName)
			require.Equal(t, 2, last.ProtoMajor, "HTTP/2 is spoken further")

			srv.card.SupportedInterfaces = elsewhere.card.SupportedInterfaces
			_, _, err = newRunner(t, newRemote(t, srv.URL, opts...)).turn("hi")
			require.NoError(t, err)
			last = elsewhere.asked()[len(elsewhere.asked())-1]
			require.Empty(t, last.TLS.PeerCertificates)
			_, _, err = newRunner(t, newRemote(t, srv.URL, append(opts[:len(opts):len(opts)], a2a.WithTrustedOrigin(elsewhere.URL))...)).turn("hi")
			require.NoError(t, err)
			last = elsewhere.asked()[len(elsewhere.asked())-1]
			require.Len(t, last.TLS.PeerCertificates, 1)
		})
	}
	_, _, err := newRunner(t, newRemote(t, srv.URL, a2a.WithTLSConfig(config))).turn("hi")
	var e *a2a.Error
	require.ErrorAs(t, err, &e, "without a certificate")
	require.Equal(t, a2a.CodeUnreachable, e.Code)
	require.Equal(t, []string(nil), config.NextProtos, "what the developer gave is not changed")

	// The same for bindings that are not HTTP.
	for target, shown := range map[string]bool{"localhost:443": true, "https://localhost:443": true, "localhost:50051": false, "http://localhost:443": false} {
		var env a2a.Environment
		b := a2a.Binding{Protocol: sdk.TransportProtocolGRPC, Version: "1.0",
			Dial: func(_ context.Context, _ *sdk.AgentInterface, e a2a.Environment) (a2aclient.Transport, error) {
				env = e
				return counting{}, nil
			}}
		plain := newPeer(t, sdk.TransportProtocolJSONRPC, nil)
		plain.card.SupportedInterfaces = []*sdk.AgentInterface{sdk.NewAgentInterface(target, sdk.TransportProtocolGRPC)}
		session := withCert.Clone()
		session.NextProtos, session.ClientSessionCache = []string{"h2"}, tls.NewLRUClientSessionCache(0)
		require.NoError(t, ready(newRemote(t, plain.URL, a2a.WithBinding(b), a2a.WithTLSConfig(session), a2a.WithTrustedOrigin("https://localhost"))))
		require.Equal(t, shown, len(env.TLS.Certificates) == 1, target)
		require.Equal(t, roots, env.TLS.RootCAs)
		require.Empty(t, env.TLS.NextProtos)
		require.Equal(t, shown, env.TLS.ClientSessionCache != nil, "sessions tell who we are")
	}
}

// secrets are all that the test below gives to a remote agent.
var secrets = []string{"s3cret-bearer", "s3cret-header", "s3cret-key", "s3cret-cookie", "s3cret-basic", "s3cret-query", "s3cret-client", "s3cret-token", "s3cret-tenant", "hunter2"}

func requireNoSecret(t *testing.T, text string) {
	t.Helper()
	for _, s := range secrets {
		require.NotContains(t, text, s)
		require.NotContains(t, text, base64.StdEncoding.EncodeToString([]byte("arbor:"+s)))
	}
}

// everything is all that can be got out of an error: its text, in all formats, and
// those of its causes.
func everything(err error) string {
	if err == nil {
		return ""
	}
	text := fmt.Sprintf("%v\n%+v\n%s\n", err, err, err)
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		text += everything(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			text += everything(err)
		}
	}
	return text
}

// Whatever goes wrong, and though the peer repeats all that it was sent, no secret
// is in an error, a log or a stored event.
func TestSecretsStaySecret(t *testing.T) {
	echo := func(req *http.Request) string {
		return fmt.Sprint(req.Header, " ", req.URL.RawQuery)
	}
	quoted := func(s string) string {
		b, _ := json.Marshal(s)
		return string(b)
	}
	failures := map[string]func(w http.ResponseWriter, req *http.Request) bool{
		"plain status": func(w http.ResponseWriter, req *http.Request) bool {
			http.Error(w, echo(req), http.StatusBadGateway)
			return true
		},
		"unauthorized": func(w http.ResponseWriter, req *http.Request) bool {
			http.Error(w, echo(req), http.StatusForbidden)
			return true
		},
		"error of HTTP+JSON": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"code":400,"message":%s,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INVALID_REQUEST","domain":"a2a-protocol.org"}]}}`, quoted(echo(req)))
			return true
		},
		"error of a gateway": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":%s}}`, quoted(echo(req)))
			return true
		},
		"error of JSON-RPC": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":%s}}`, quoted(echo(req)))
			return true
		},
		"something else": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"result":%s}`, quoted(echo(req)))
			return true
		},
		"a redirect": func(w http.ResponseWriter, req *http.Request) bool {
			http.Redirect(w, req, "http://elsewhere.test/?"+req.URL.RawQuery+"&"+url.QueryEscape(echo(req)), http.StatusTemporaryRedirect)
			return true
		},
		"a redirect to nowhere": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Location", "http://[nowhere/?"+req.URL.RawQuery)
			w.WriteHeader(http.StatusFound)
			return true
		},
		"the connection breaks": func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
	}
	token := `{"access_token":"s3cret-token","expires_in":3600}`
	for name, failure := range failures {
		for _, protocol := range protocols {
			for _, where := range []string{"card", "call"} {
				for _, oauth := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/%s/%s/oauth=%v", name, protocol, where, oauth), func(t *testing.T) {
						srv := newPeer(t, protocol, nil)
						srv.wrap = func(w http.ResponseWriter, req *http.Request) bool {
							if isCard := strings.HasPrefix(req.URL.Path, "/.well-known"); isCard != (where == "card") {
								return false
							}
							return failure(w, req)
						}
						opts := []a2a.Option{a2a.WithHeader("X-Secret", "s3cret-header"),
							a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationHeader, "X-API-Key", "s3cret-key/1"),
							a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationQuery, "key", "s3cret-query 2"),
							a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, "session", "s3cret-cookie")}
						if oauth {
							endpoint := newTokenEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
								w.Header().Set("Content-Type", "application/json")
								_, _ = io.WriteString(w, token)
							})
							opts = append(opts, a2a.WithClientCredentials(a2a.ClientCredentials{TokenURL: endpoint.URL, ID: "arbor", Secret: "s3cret-client"}))
						}
						var log bytes.Buffer
						logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
						user := "://arbor:s3cret-basic@"
						if oauth {
							user = "://"
						}
						r := newRemote(t, strings.Replace(srv.URL, "://", user, 1)+"/.well-known/agent-card.json?token=s3cret-tenant", opts...)
						err := ready(r)
						require.Equal(t, where == "card", err != nil)
						f := newRunner(t, r, runner.WithLogger(logger), runner.WithStreaming())
						events, _, turnErr := f.turn("hi")
						require.Error(t, turnErr)
						require.NotEmpty(t, events)
						stored := storedEvents(t, f)
						require.Contains(t, stored, "remote_")
						for _, text := range []string{everything(err), everything(turnErr), log.String(), stored} {
							requireNoSecret(t, text)
						}
					})
				}
			}
		}
	}
}

// storedEvents is the log of the session as it is stored.
func storedEvents(t *testing.T, f *fixture) string {
	t.Helper()
	var all strings.Builder
	for e, err := range f.store.Load(context.Background(), key, 0) {
		require.NoError(t, err)
		data, err := json.Marshal(e)
		require.NoError(t, err)
		all.Write(data)
	}
	return all.String()
}

// Options that cannot be used are found at once, without a word of what they hold.
func TestCredentialsThatCannotBeSent(t *testing.T) {
	for name, opts := range map[string][]a2a.Option{
		"line break in a header": {a2a.WithHeader("X-Secret", "hunter2\r\nX-Evil: 1")},
		"line break in a token":  {a2a.WithBearer("hunter2\n")},
		"bad name of a header":   {a2a.WithHeader("X Secret", "hunter2")},
		"bad cookie":             {a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, "session", "hunter2;x")},
		"bad name of a cookie":   {a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, "se=ssion", "hunter2")},
		"key without a name":     {a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationQuery, "", "hunter2")},
		"key without a value":    {a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationQuery, "key", "")},
		"key in the body":        {a2a.WithAPIKey("body", "key", "hunter2")},
		"token endpoint":         {a2a.WithClientCredentials(a2a.ClientCredentials{TokenURL: "tokens.test/hunter2", Secret: "hunter2"})},
		"no token endpoint":      {a2a.WithClientCredentials(a2a.ClientCredentials{TokenURL: "http://a b/?hunter2", Secret: "hunter2"})},
		"two for one header":     {a2a.WithBearer("hunter2"), a2a.WithClientCredentials(a2a.ClientCredentials{TokenURL: "https://tokens.test", Secret: "hunter2"})},
		"certificate for a transport that is none of HTTP's": {a2a.WithClientCertificate(tls.Certificate{}), a2a.WithHTTPClient(&http.Client{Transport: pipe(nil)})},
		"incomplete binding": {a2a.WithBinding(a2a.Binding{Protocol: "GRPC"})},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a2a.Remote("billing", "https://peer.test", opts...)
			require.ErrorContains(t, err, `remote agent "billing"`)
			requireNoSecret(t, everything(err))
		})
	}
	c := a2a.ClientCredentials{TokenURL: "https://tokens.test?hunter2", ID: "arbor", Secret: "hunter2"}
	asJSON, err := json.Marshal(a2a.ClientCredentials{ID: "arbor", Secret: "hunter2"})
	require.NoError(t, err)
	requireNoSecret(t, fmt.Sprintf("%v %+v %#v %s %s", c, c, c, c, asJSON))
}
