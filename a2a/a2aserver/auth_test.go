package a2aserver

import (
	"context"
	"errors"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func TestAuthenticatorsThatCannotBeMade(t *testing.T) {
	verify := func(context.Context, string) (string, error) { return "x", nil }
	flows := sdk.OAuth2SecurityScheme{Flows: sdk.ClientCredentialsOAuthFlow{}}
	good := must.Get(BearerTokens(map[string]string{"a": "b"}))
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
	all := must.Get(AnyOf(
		must.Get(Bearer(verify, "JWT")),
		must.Get(APIKeys("header", "X-Key", map[string]string{"a": "b"})),
		must.Get(OAuth2(sdk.OAuth2SecurityScheme{Flows: sdk.ClientCredentialsOAuthFlow{TokenURL: "https://x"}}, verify)),
		must.Get(OpenIDConnect("https://x/.well-known/openid-configuration", verify)),
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
		_, err := must.Get(AnyOf(all...)).Authenticate(t.Context(), access.Credentials{})
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
		must.Get(BearerTokens(map[string]string{"a": "b"})),
		must.Get(APIKeys("header", "X", map[string]string{"a": "b"})),
		must.Get(APIKeys("query", "X", map[string]string{"a": "b"})),
		must.Get(APIKeys("cookie", "X", map[string]string{"a": "b"})),
		ClientCertificates(nil),
	} {
		require.ErrorIs(t, must.Err(a.Authenticate(t.Context(), access.Credentials{})), access.ErrUnauthenticated)
	}
}

// A caller without a name would be whom nobody asked, in every binding; one whose name
// no session can have could do nothing.
func TestNamelessCallers(t *testing.T) {
	_, a := newBlocked(t)
	for _, name := range []string{"", strings.Repeat("x", 256), "a\x00", "\xff"} {
		odd := must.Get(Bearer(func(context.Context, string) (string, error) { return name, nil }, ""))
		s := newTestServer(t, a, sessiontest.Memory(t), WithAuthenticator(odd))
		ctx, err := s.Authenticate(context.Background(), access.Credentials{Header: func(string) []string { return []string{"Bearer x"} }})
		require.Error(t, err)
		require.Nil(t, ctx)
	}
}

// Two that read keys from different places stand beside each other under names of their own.
func TestNamedSchemes(t *testing.T) {
	header := must.Get(APIKeys("header", "X-Key", map[string]string{"a": "ann"}))
	query := must.Get(Named("inQuery", must.Get(APIKeys("query", "key", map[string]string{"b": "bob"}))))
	either := must.Get(AnyOf(header, query))
	require.Equal(t, map[sdk.SecuritySchemeName]sdk.SecurityScheme{
		"apiKey": sdk.APIKeySecurityScheme{Location: "header", Name: "X-Key"}, "inQuery": sdk.APIKeySecurityScheme{Location: "query", Name: "key"},
	}, either.Schemes())
	user := must.Get(either.Authenticate(t.Context(), access.Credentials{Query: func(string) string { return "b" }}))
	require.Equal(t, "bob", user.Name)
}

// A program that has a sign-in of its own says in the card what it likes of it.
func TestDeclare(t *testing.T) {
	own := must.Get(Declare(access.FromContext(), nil))
	require.Empty(t, own.Schemes())
	_, a := newBlocked(t)
	s := newTestServer(t, a, sessiontest.Memory(t), WithAuthenticator(own))
	ctx := must.Get(s.Authenticate(access.WithUser(t.Context(), access.User{Name: "cleo"}), access.Credentials{}))
	require.Equal(t, "cleo", access.UserOf(ctx).Name)
	require.ErrorIs(t, must.Err(s.Authenticate(t.Context(), access.Credentials{})), sdk.ErrUnauthenticated)
	require.Error(t, must.Err(Declare(nil, nil)))
}
