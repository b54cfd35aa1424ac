package wire

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/access"
)

// declared is an authenticator with the schemes of the card, as package a2aserver makes them.
type declared struct {
	access.Authenticator
	schemes map[sdk.SecuritySchemeName]sdk.SecurityScheme
}

func (d declared) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme { return d.schemes }

func declare(a access.Authenticator, err error, name sdk.SecuritySchemeName, scheme sdk.SecurityScheme) (Authenticator, error) {
	return declared{a, map[sdk.SecuritySchemeName]sdk.SecurityScheme{name: scheme}}, err
}

func bearerFunc(verify access.Verifier) (Authenticator, error) {
	a, err := access.Bearer(verify)
	return declare(a, err, "bearer", sdk.HTTPAuthSecurityScheme{Scheme: "Bearer"})
}

func bearerTokens(callers map[string]string) (Authenticator, error) {
	return bearerFunc(must.Get(access.Secrets(callers)))
}

func oauth2(scheme sdk.OAuth2SecurityScheme, verify access.Verifier) (Authenticator, error) {
	a, err := access.Bearer(verify)
	return declare(a, err, "oauth2", scheme)
}

func apiKeys(in sdk.APIKeySecuritySchemeLocation, name string, callers map[string]string) (Authenticator, error) {
	a, err := access.Keys(access.Place(in), name, must.Get(access.Secrets(callers)))
	return declare(a, err, "apiKey", sdk.APIKeySecurityScheme{Location: in, Name: name})
}

func clientCertificates() Authenticator {
	return must.Get(declare(access.ClientCertificates(nil), nil, "mutualTLS", sdk.MutualTLSSecurityScheme{}))
}

func eitherOf(a, b Authenticator) (Authenticator, error) {
	schemes := maps.Clone(a.Schemes())
	maps.Copy(schemes, b.Schemes())
	either, err := access.AnyOf(a, b)
	return declared{either, schemes}, err
}

// authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (a authority) issue(t *testing.T, change func(*x509.Certificate)) tls.Certificate {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	change(template)
	der := must.Get(x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestAuthentication(t *testing.T) {
	bearer := must.Get(bearerTokens(map[string]string{"good": "ann", "better": "bob"}))
	header := must.Get(apiKeys(sdk.APIKeySecuritySchemeLocationHeader, "X-API-Key", map[string]string{"good": "ann"}))
	query := must.Get(apiKeys(sdk.APIKeySecuritySchemeLocationQuery, "key", map[string]string{"good": "ann"}))
	cookie := must.Get(apiKeys(sdk.APIKeySecuritySchemeLocationCookie, "key", map[string]string{"good": "ann"}))
	oauth := must.Get(oauth2(sdk.OAuth2SecurityScheme{Flows: sdk.ClientCredentialsOAuthFlow{TokenURL: "https://id.example.com/token"}},
		func(_ context.Context, token string) (string, error) {
			switch token {
			case "good":
				return "ann", nil
			case "weak":
				return "", fmt.Errorf("%w: the scope tasks is missing", access.ErrForbidden)
			case "down":
				return "", errSecretive
			case "nameless":
				return "", nil
			case "guessed":
				return "", &access.RefusedError{Status: http.StatusTooManyRequests, Message: "too many wrong credentials", RetryAfter: 59001 * time.Millisecond}
			}
			return "", access.ErrUnauthenticated
		}))
	either := must.Get(eitherOf(bearer, header))
	tests := []struct {
		name      string
		auth      Authenticator
		query     string
		headers   []string
		caller    string
		status    int    // if there is no caller
		challenge string // contained in it
	}{
		{"a token", bearer, "", []string{"Authorization", "Bearer good"}, "ann", 0, ""},
		{"another token", bearer, "", []string{"Authorization", "bearer better"}, "bob", 0, ""},
		{"no token", bearer, "", nil, "", 401, `Bearer realm="a2a"`},
		{"a wrong token", bearer, "", []string{"Authorization", "Bearer bad"}, "", 401, `Bearer realm="a2a", error="invalid_token"`},
		{"an empty token", bearer, "", []string{"Authorization", "Bearer "}, "", 401, "invalid_token"},
		{"a token and more", bearer, "", []string{"Authorization", "Bearer good good"}, "", 401, "invalid_token"},
		{"two headers", bearer, "", []string{"Authorization", "Bearer good", "Authorization", "Bearer good"}, "", 401, "Bearer"},
		{"another scheme", bearer, "", []string{"Authorization", "Basic Z29vZA=="}, "", 401, "Bearer"},
		{"a token in the query", bearer, "?access_token=good", nil, "", 401, "Bearer"},

		{"a key", header, "", []string{"X-API-Key", "good"}, "ann", 0, ""},
		{"a wrong key", header, "", []string{"X-API-Key", "bad"}, "", 401, `ApiKey realm="a2a", in="header", name="X-API-Key"`},
		{"no key", header, "", []string{"Cookie", "X-API-Key=good"}, "", 401, "ApiKey"},
		{"two keys", header, "", []string{"X-API-Key", "good", "X-API-Key", "good"}, "", 401, "ApiKey"},
		{"a key in the query", query, "?key=good", nil, "ann", 0, ""},
		{"two keys in the query", query, "?key=good&key=good", nil, "", 401, `in="query"`},
		{"a wrong key in the query", query, "?key=bad", nil, "", 401, `in="query"`},
		{"a key in a cookie", cookie, "", []string{"Cookie", "a=b; key=good"}, "ann", 0, ""},
		{"two keys in cookies", cookie, "", []string{"Cookie", "key=good; key=good"}, "", 401, `in="cookie"`},

		{"an access token", oauth, "", []string{"Authorization", "Bearer good"}, "ann", 0, ""},
		{"an access token without the scope", oauth, "", []string{"Authorization", "Bearer weak"}, "", 403, `error="insufficient_scope"`},
		{"an access token that cannot be checked", oauth, "", []string{"Authorization", "Bearer down"}, "", 500, ""},
		{"an access token of who has guessed", oauth, "", []string{"Authorization", "Bearer guessed"}, "", 429, ""},
		{"an access token of nobody", oauth, "", []string{"Authorization", "Bearer nameless"}, "", 500, ""},

		{"either, by token", either, "", []string{"Authorization", "Bearer good"}, "ann", 0, ""},
		{"either, by key", either, "", []string{"X-API-Key", "good"}, "ann", 0, ""},
		{"either, one right", either, "", []string{"X-API-Key", "good", "Authorization", "Bearer bad"}, "ann", 0, ""},
		{"neither", either, "", nil, "", 401, `Bearer realm="a2a"`},
		{"neither is right", either, "", []string{"X-API-Key", "bad"}, "", 401, "ApiKey"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			handler := &stub{}
			server := serveFront(t, Front{Handler: handler, Auth: test.auth})
			for _, request := range []struct{ method, path, body string }{
				{"GET", "/tasks/t", ""}, {"POST", "/rpc", rpcBody("GetTask", `{"id":"t"}`)}, {"GET", "/extendedAgentCard", ""},
				{"POST", "/rpc", rpcBody("GetExtendedAgentCard", `{}`)}, {"POST", "/message:stream", hello},
			} {
				handler.last, handler.ctx = nil, nil
				got := call(t, request.method, server.URL+request.path+test.query, request.body, test.headers...)
				if test.caller != "" {
					require.Equal(t, 200, got.status, got.body)
					require.Equal(t, test.caller, access.UserOf(handler.ctx).Name)
					continue
				}
				require.Nil(t, handler.seen())
				status := test.status
				if status == 500 && request.path == "/rpc" {
					status = 200
				}
				require.Equal(t, status, got.status, got.body)
				require.Contains(t, strings.Join(got.header.Values("WWW-Authenticate"), "; "), test.challenge)
				if test.status == 429 {
					require.Equal(t, "60", got.header.Get("Retry-After"))
				}
				require.NotContains(t, got.body, "hunter2")
				require.NotContains(t, got.body, "good")
				if request.path == "/rpc" {
					require.Equal(t, map[int]int{401: -31401, 403: -31403, 429: -32000, 500: -32603}[test.status], got.code(t))
				}
			}
			// The card is for everybody.
			require.Equal(t, 200, call(t, "GET", server.URL+"/.well-known/agent-card.json", "").status)
		})
	}
}

func TestNobodyIsAskedWithoutAnAuthenticator(t *testing.T) {
	handler := &stub{}
	server := serveFront(t, Front{Handler: handler})
	require.Equal(t, 200, call(t, "GET", server.URL+"/tasks/t", "", "Authorization", "Bearer x").status)
	require.Empty(t, access.UserOf(handler.ctx).Name)
}

func TestBodiesAreNotReadBeforeAuthentication(t *testing.T) {
	server := serveFront(t, Front{Auth: must.Get(bearerTokens(map[string]string{"a": "b"}))})
	require.Equal(t, 401, call(t, "POST", server.URL+"/rpc", "no JSON").status)
	require.Equal(t, 401, call(t, "POST", server.URL+"/message:send", "no JSON", "Content-Type", "text/plain").status)
}

func TestRefusalsAreLoggedWithoutCredentials(t *testing.T) {
	var mu sync.Mutex
	var logged strings.Builder
	logger := slog.New(slog.NewJSONHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return logged.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	server := serveFront(t, Front{Auth: must.Get(bearerTokens(map[string]string{"good": "ann"})), Logger: logger})
	call(t, "GET", server.URL+"/tasks/t?key=hunter2", "", "Authorization", "Bearer hunter2", "Cookie", "k=hunter2")
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, logged.String(), `"status":401`)
	require.NotContains(t, logged.String(), "hunter2")
}

func newAuthority(t *testing.T) authority {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return authority{must.Get(x509.ParseCertificate(der)), key}
}

func TestClientCertificates(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	named := func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "ann", Organization: []string{"Example"}} }
	spiffe := must.Get(url.Parse("spiffe://example.com/ann"))
	tests := []struct {
		name   string
		mode   tls.ClientAuthType
		cert   *tls.Certificate
		caller string // "": refused
	}{
		{"by subject", tls.VerifyClientCertIfGiven, new(ours.issue(t, named)), "CN=ann,O=Example"},
		{"by URI", tls.RequireAndVerifyClientCert, new(ours.issue(t, func(c *x509.Certificate) { named(c); c.URIs = []*url.URL{spiffe} })), "spiffe://example.com/ann"},
		{"nameless", tls.VerifyClientCertIfGiven, new(ours.issue(t, func(*x509.Certificate) {})), ""},
		{"none", tls.VerifyClientCertIfGiven, nil, ""},
		{"not verified", tls.RequireAnyClientCert, new(others.issue(t, named)), ""},
		{"not verified, though of ours", tls.RequestClientCert, new(ours.issue(t, named)), ""},
	}
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			handler := &stub{}
			h := must.Get(New(Front{Handler: NewChecks(handler, nil, nil, nil, nil, nil), Auth: clientCertificates(), Card: func(http.ResponseWriter, *http.Request, string) {}}))
			server := httptest.NewUnstartedServer(h)
			server.TLS = &tls.Config{ClientCAs: pool, ClientAuth: test.mode}
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			if test.cert != nil {
				client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{*test.cert}
			}
			resp := must.Get(client.Get(server.URL + "/tasks/t"))
			resp.Body.Close()
			if test.caller == "" {
				require.Equal(t, 401, resp.StatusCode)
				require.Equal(t, `ClientCertificate realm="a2a"`, resp.Header.Get("WWW-Authenticate"))
				return
			}
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, test.caller, access.UserOf(handler.ctx).Name)
		})
	}
	_, err := access.ClientCertificates(func(*x509.Certificate) (string, error) { return "", access.ErrForbidden }).
		Authenticate(t.Context(), access.Credentials{Certificates: []*x509.Certificate{ours.cert}})
	require.ErrorIs(t, err, access.ErrForbidden)
}

func TestChallengesOfMissingAndMalformedTokens(t *testing.T) {
	server := serveFront(t, Front{Auth: must.Get(bearerFunc(func(context.Context, string) (string, error) { panic("asked") }))})
	for header, want := range map[string]string{
		"": `Bearer realm="a2a"`, "Basic x": `Bearer realm="a2a"`,
		"Bearer a b": `Bearer realm="a2a", error="invalid_token"`, "Bearer a,b": `Bearer realm="a2a", error="invalid_token"`,
	} {
		got := call(t, "GET", server.URL+"/tasks/t", "", "Authorization", header)
		require.Equal(t, 401, got.status)
		require.Equal(t, []string{want}, got.header.Values("WWW-Authenticate"), header)
	}
}
