package a2aserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestAuthentication(t *testing.T) {
	bearer := must(BearerTokens(map[string]string{"good": "ann", "better": "bob"}))
	header := must(APIKeys(sdk.APIKeySecuritySchemeLocationHeader, "X-API-Key", map[string]string{"good": "ann"}))
	query := must(APIKeys(sdk.APIKeySecuritySchemeLocationQuery, "key", map[string]string{"good": "ann"}))
	cookie := must(APIKeys(sdk.APIKeySecuritySchemeLocationCookie, "key", map[string]string{"good": "ann"}))
	oauth := must(OAuth2(sdk.OAuth2SecurityScheme{Flows: sdk.ClientCredentialsOAuthFlow{TokenURL: "https://id.example.com/token"}},
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
			}
			return "", access.ErrUnauthenticated
		}))
	either := must(AnyOf(bearer, must(Named("key", header))))
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
			server := serveFront(t, front{handler: handler, auth: test.auth})
			for _, request := range []struct{ method, path, body string }{
				{"GET", "/tasks/t", ""}, {"POST", "/rpc", rpcBody("GetTask", `{"id":"t"}`)}, {"GET", "/extendedAgentCard", ""},
				{"POST", "/rpc", rpcBody("GetExtendedAgentCard", `{}`)}, {"POST", "/message:stream", hello},
			} {
				handler.last, handler.ctx = nil, nil
				got := call(t, request.method, server.URL+request.path+test.query, request.body, test.headers...)
				if test.caller != "" {
					require.Equal(t, 200, got.status, got.body)
					require.Equal(t, test.caller, access.UserOf(handler.ctx).Name)
					callContext, ok := a2asrv.CallContextFrom(handler.ctx)
					require.True(t, ok)
					require.Equal(t, test.caller, callContext.User.Name)
					require.True(t, callContext.User.Authenticated)
					continue
				}
				require.Nil(t, handler.seen())
				status := test.status
				if status == 500 && request.path == "/rpc" {
					status = 200
				}
				require.Equal(t, status, got.status, got.body)
				require.Contains(t, strings.Join(got.header.Values("WWW-Authenticate"), "; "), test.challenge)
				require.NotContains(t, got.body, "hunter2")
				require.NotContains(t, got.body, "good")
				if request.path == "/rpc" {
					require.Equal(t, map[int]int{401: -31401, 403: -31403, 500: -32603}[test.status], got.code(t))
				}
			}
			// The card is for everybody.
			require.Equal(t, 200, call(t, "GET", server.URL+"/.well-known/agent-card.json", "").status)
		})
	}
}

func TestNobodyIsAskedWithoutAnAuthenticator(t *testing.T) {
	handler := &stub{}
	server := serveFront(t, front{handler: handler})
	require.Equal(t, 200, call(t, "GET", server.URL+"/tasks/t", "", "Authorization", "Bearer x").status)
	require.Empty(t, access.UserOf(handler.ctx).Name)
}

func TestBodiesAreNotReadBeforeAuthentication(t *testing.T) {
	server := serveFront(t, front{auth: must(BearerTokens(map[string]string{"a": "b"}))})
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
	server := serveFront(t, front{auth: must(BearerTokens(map[string]string{"good": "ann"})), logger: logger})
	call(t, "GET", server.URL+"/tasks/t?key=hunter2", "", "Authorization", "Bearer hunter2", "Cookie", "k=hunter2")
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, logged.String(), `"status":401`)
	require.NotContains(t, logged.String(), "hunter2")
}

func TestAuthenticatorsThatCannotBeMade(t *testing.T) {
	verify := func(context.Context, string) (string, error) { return "x", nil }
	flows := sdk.OAuth2SecurityScheme{Flows: sdk.ClientCredentialsOAuthFlow{}}
	good := must(BearerTokens(map[string]string{"a": "b"}))
	for name, make := range map[string]func() (Authenticator, error){
		"no tokens":        func() (Authenticator, error) { return BearerTokens(nil) },
		"an empty token":   func() (Authenticator, error) { return BearerTokens(map[string]string{"": "x"}) },
		"an empty caller":  func() (Authenticator, error) { return BearerTokens(map[string]string{"x": ""}) },
		"no verifier":      func() (Authenticator, error) { return Bearer(nil, "") },
		"no keys":          func() (Authenticator, error) { return APIKeys("header", "X", nil) },
		"no place":         func() (Authenticator, error) { return APIKeys("body", "X", map[string]string{"a": "b"}) },
		"no name":          func() (Authenticator, error) { return APIKeys("header", "", map[string]string{"a": "b"}) },
		"a name with more": func() (Authenticator, error) { return APIKeys("header", "X Y", map[string]string{"a": "b"}) },
		"no key verifier":  func() (Authenticator, error) { return APIKeysFunc("header", "X", nil) },
		"no flow":          func() (Authenticator, error) { return OAuth2(sdk.OAuth2SecurityScheme{}, verify) },
		"no token check":   func() (Authenticator, error) { return OAuth2(flows, nil) },
		"no discovery":     func() (Authenticator, error) { return OpenIDConnect("", verify) },
		"none of any":      func() (Authenticator, error) { return AnyOf() },
		"nil of any":       func() (Authenticator, error) { return AnyOf(nil) },
		"the same name":    func() (Authenticator, error) { return AnyOf(good, good) },
		"no new name":      func() (Authenticator, error) { return Named("", good) },
		"nothing to name":  func() (Authenticator, error) { return Named("x", nil) },
	} {
		a, err := make()
		require.Error(t, err, name)
		require.Nil(t, a, name)
	}
}

func TestSchemesForTheCard(t *testing.T) {
	verify := func(context.Context, string) (string, error) { return "x", nil }
	all := must(AnyOf(
		must(Bearer(verify, "JWT")),
		must(APIKeys("header", "X-Key", map[string]string{"a": "b"})),
		must(OAuth2(sdk.OAuth2SecurityScheme{Flows: sdk.ClientCredentialsOAuthFlow{TokenURL: "https://x"}}, verify)),
		must(OpenIDConnect("https://x/.well-known/openid-configuration", verify)),
		ClientCertificates(nil),
	)).Schemes()
	require.Equal(t, map[sdk.SecuritySchemeName]sdk.SecurityScheme{
		"bearer":        sdk.HTTPAuthSecurityScheme{Scheme: "Bearer", BearerFormat: "JWT"},
		"apiKey":        sdk.APIKeySecurityScheme{Location: "header", Name: "X-Key"},
		"oauth2":        sdk.OAuth2SecurityScheme{Flows: sdk.ClientCredentialsOAuthFlow{TokenURL: "https://x"}},
		"openIdConnect": sdk.OpenIDConnectSecurityScheme{OpenIDConnectURL: "https://x/.well-known/openid-configuration"},
		"mutualTLS":     sdk.MutualTLSSecurityScheme{},
	}, all)
}

func TestTheMostTellingErrorOfAny(t *testing.T) {
	says := func(err error) Authenticator { return saying{err} }
	missing, wrong, weak, down := access.ErrNoCredentials, access.ErrUnauthenticated, access.ErrForbidden, errors.New("down")
	for _, test := range []struct {
		errs []error
		want error
	}{
		{[]error{missing, wrong}, wrong}, {[]error{wrong, missing}, wrong}, {[]error{weak, wrong}, weak}, {[]error{weak, down, missing}, down}, {[]error{down, nil}, nil},
	} {
		var all []Authenticator
		for _, err := range test.errs {
			all = append(all, says(err))
		}
		_, err := must(AnyOf(all...)).Authenticate(t.Context(), access.Credentials{})
		require.ErrorIs(t, err, test.want)
	}
}

type saying struct{ err error }

func (s saying) Authenticate(context.Context, access.Credentials) (access.User, error) {
	return access.User{Name: "x"}, s.err
}
func (saying) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme { return nil }

func TestBindingsThatLackAPlace(t *testing.T) {
	for _, a := range []Authenticator{
		must(BearerTokens(map[string]string{"a": "b"})),
		must(APIKeys("header", "X", map[string]string{"a": "b"})),
		must(APIKeys("query", "X", map[string]string{"a": "b"})),
		must(APIKeys("cookie", "X", map[string]string{"a": "b"})),
		ClientCertificates(nil),
	} {
		_, err := a.Authenticate(t.Context(), access.Credentials{})
		require.ErrorIs(t, err, access.ErrUnauthenticated)
	}
}

// authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return authority{must(x509.ParseCertificate(der)), key}
}

func (a authority) issue(t *testing.T, change func(*x509.Certificate)) tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestClientCertificates(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	named := func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "ann", Organization: []string{"Example"}} }
	spiffe := must(url.Parse("spiffe://example.com/ann"))
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
			h, err := newFront(front{handler: handler, auth: ClientCertificates(nil), card: func(http.ResponseWriter, *http.Request, string) {}})
			require.NoError(t, err)
			server := httptest.NewUnstartedServer(h)
			server.TLS = &tls.Config{ClientCAs: pool, ClientAuth: test.mode}
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			if test.cert != nil {
				client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{*test.cert}
			}
			resp, err := client.Get(server.URL + "/tasks/t")
			require.NoError(t, err)
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
	_, err := ClientCertificates(func(*x509.Certificate) (string, error) { return "", access.ErrForbidden }).
		Authenticate(t.Context(), access.Credentials{Certificates: []*x509.Certificate{ours.cert}})
	require.ErrorIs(t, err, access.ErrForbidden)
}

// A caller without a name would be whom nobody asked, in every binding; one whose name
// no session can have could do nothing.
func TestNamelessCallers(t *testing.T) {
	_, a := newBlocked(t)
	for _, name := range []string{"", strings.Repeat("x", 256), "a\x00", "\xff"} {
		odd := must(Bearer(func(context.Context, string) (string, error) { return name, nil }, ""))
		s := newTestServer(t, a, sessiontest.Memory(t), WithAuthenticator(odd))
		ctx, err := s.Authenticate(context.Background(), access.Credentials{Header: func(string) []string { return []string{"Bearer x"} }})
		require.Error(t, err)
		require.Nil(t, ctx)
	}
}

func TestChallengesOfMissingAndMalformedTokens(t *testing.T) {
	server := serveFront(t, front{auth: must(Bearer(func(context.Context, string) (string, error) { panic("asked") }, ""))})
	for header, want := range map[string]string{
		"": `Bearer realm="a2a"`, "Basic x": `Bearer realm="a2a"`,
		"Bearer a b": `Bearer realm="a2a", error="invalid_token"`, "Bearer a,b": `Bearer realm="a2a", error="invalid_token"`,
	} {
		got := call(t, "GET", server.URL+"/tasks/t", "", "Authorization", header)
		require.Equal(t, 401, got.status)
		require.Equal(t, []string{want}, got.header.Values("WWW-Authenticate"), header)
	}
}
