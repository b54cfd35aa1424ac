package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

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
			f := newRunner(t, remotetest.Billing(t, srv.URL, endpoint.option()))
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
			f.NoError(f.Turn("again"))
			require.EqualValues(t, 2, endpoint.issued.Load())
			require.Len(t, srv.asked()[before:], 2, "refused, and sent again")

			valid.Store("none is good enough")
			before = len(srv.asked())
			_, _, err := f.Turn("again")
			requireCode(t, err, a2a.CodeUnauthorized)
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
	r := remotetest.Billing(t, onLocalhost(t, srv.URL), a2a.WithBinding(b), a2a.WithTrustedOrigin("https://trusted.test"), a2a.WithPrivateNetworks(), endpoint.option())
	done := make(chan error)
	go func() { done <- ready(r) }()
	<-asked
	gate <- struct{}{}
	require.NoError(t, <-done)
	require.Empty(t, asked)

	target := must.Get(url.Parse("https://trusted.test"))
	h := must.Get(env.Credentials(context.Background(), target))
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
	require.ErrorIs(t, must.Err(env.Credentials(ctx, target)), impatient)
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
		"not JSON":       {echo(200, `%s %s`), a2a.CodeUnauthorized, "not a valid OAuth 2.0 response"},
		"no token":       {echo(200, `{"access":"%s %s"}`), a2a.CodeUnauthorized, "not a valid OAuth 2.0 response"},
		"broken":         {echo(503, `%s %s`), a2a.CodeUnreachable, "HTTP status 503"},
		"bad token":      {echo(200, `{"access_token":"a\r\nX-Evil: b","%s":"%s"}`), a2a.CodeUnauthorized, "not allowed in a header"},
		"a redirect": {func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, other.URL, http.StatusTemporaryRedirect)
		}, a2a.CodeUnreachable, "a redirect of the token endpoint is not followed"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, endless{}) }, a2a.CodeUnauthorized, "not a valid OAuth 2.0 response"},
		"silence": {func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
		}, a2a.CodeTimeout, "did not arrive within 50ms"},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := newTokenEndpoint(t, c.handler)
			srv := newPeer(t, sdk.TransportProtocolJSONRPC, nil)
			limit := time.Minute
			if c.code == a2a.CodeTimeout {
				limit = 50 * time.Millisecond
			}
			_, _, err := newRunner(t, remotetest.Billing(t, srv.URL, endpoint.option(), a2a.WithCardTimeout(limit))).Turn("hi")
			requireCode(t, err, c.code)
			require.ErrorContains(t, err, c.text)
			requireNoSecret(t, everything(err))
			require.Empty(t, srv.asked())
		})
	}
	require.Zero(t, elsewhere.Load())
}
