package a2aserver

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/session"
)

// Credentials is what a request brought along to prove who sends it, whatever the binding.
// A function that is nil says that the binding has no such place.
type Credentials struct {
	// Header returns the values of a header (in gRPC: of a metadata entry) by its
	// case-insensitive name.
	Header func(name string) []string
	// Query returns a parameter of the URL, "" if it is missing or there are several.
	Query func(name string) string
	// Cookie returns a cookie's value, "" if it is missing or there are several.
	Cookie func(name string) string
	// Certificates is the client's certificate chain, its own first, after the TLS layer
	// verified it against the authorities that the server trusts. A binding leaves it empty
	// for a certificate that was presented and not verified.
	Certificates []*x509.Certificate
}

// Authenticator tells who sends a request. The schemes it accepts stand in the agent card
// (A2A 1.0, section 7). Implementations are called concurrently.
type Authenticator interface {
	// Authenticate returns the name of the caller, which owns the tasks that it begins and
	// sees no one else's. The error is a2a.ErrUnauthenticated if the credentials are missing
	// or wrong, a2a.ErrUnauthorized if they are right and do not suffice, and any other error
	// if they could not be checked; the request is refused in each case. Errors never repeat
	// the credentials.
	Authenticate(ctx context.Context, c Credentials) (caller string, err error)
	// Schemes returns what the card declares, by name. Each is an alternative.
	Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme
}

// errNoCredentials is what the authenticators of this package answer to a request that
// brought nothing they read, so that [AnyOf] can tell it from one that brought a wrong thing.
var errNoCredentials = fmt.Errorf("%w: the request carries no credentials that this server reads", sdk.ErrUnauthenticated)

// errWrongCredentials does not say what is wrong: whoever guesses learns nothing from it.
var errWrongCredentials = fmt.Errorf("%w: the credentials are not accepted", sdk.ErrUnauthenticated)

// callerKey is the context's key of the caller's name.
type callerKey struct{}

// withCaller returns a context that carries the authenticated caller's name.
func withCaller(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// callerOf returns the caller's name, "" if nobody was asked for credentials.
func callerOf(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}

// authenticate asks for the caller and puts its name into the context. Without an
// authenticator the context is returned as it is.
func authenticate(ctx context.Context, a Authenticator, c Credentials) (context.Context, error) {
	if a == nil {
		return ctx, nil
	}
	caller, err := a.Authenticate(ctx, c)
	if err != nil {
		return ctx, err
	}
	if caller == "" {
		// An unnamed caller would own the tasks of those whom nobody asked.
		return ctx, errors.New("the authenticator accepted the request and named no caller")
	}
	if session.CheckKey(session.Key{App: session.DefaultApp, User: caller, ID: "a"}) != nil {
		return ctx, fmt.Errorf("the authenticator named a caller that no session can belong to: %.64q, of %d bytes; it must be UTF-8 of at most 255 bytes, without NUL", caller, len(caller))
	}
	return withCaller(ctx, caller), nil
}

// credentialsOf reads an HTTP request.
func credentialsOf(r *http.Request) Credentials {
	c := Credentials{
		Header: func(name string) []string { return r.Header.Values(name) },
		Query: func(name string) string {
			if values := r.URL.Query()[name]; len(values) == 1 {
				return values[0]
			}
			return ""
		},
		Cookie: func(name string) string {
			if cookies := r.CookiesNamed(name); len(cookies) == 1 {
				return cookies[0].Value
			}
			return ""
		},
	}
	// PeerCertificates holds what the client sent, verified or not.
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		c.Certificates = r.TLS.VerifiedChains[0]
	}
	return c
}

// header returns the only value of a header; several are refused, because parties on the way
// may each believe another one.
func (c Credentials) header(name string) (value string, ok bool, err error) {
	if c.Header == nil {
		return "", false, nil
	}
	switch values := c.Header(name); len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	default:
		return "", false, fmt.Errorf("%w: the request has the header %s several times", sdk.ErrUnauthenticated, name)
	}
}

// challenges returns the values of WWW-Authenticate for the schemes of a card (RFC 9110,
// section 11.6.1, and RFC 6750, section 3). API keys and client certificates have no
// registered scheme; theirs say what to send.
func challenges(a Authenticator, err error) []string {
	if a == nil {
		return nil
	}
	schemes := a.Schemes()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		bearer := ""
		switch s := schemes[name].(type) {
		case sdk.HTTPAuthSecurityScheme:
			if !strings.EqualFold(s.Scheme, "Bearer") {
				all = append(all, s.Scheme+` realm="a2a"`)
				continue
			}
			bearer = `Bearer realm="a2a"`
		case sdk.OAuth2SecurityScheme, sdk.OpenIDConnectSecurityScheme:
			bearer = `Bearer realm="a2a"`
		case sdk.APIKeySecurityScheme:
			all = append(all, fmt.Sprintf(`ApiKey realm="a2a", in=%q, name=%q`, s.Location, s.Name))
			continue
		case sdk.MutualTLSSecurityScheme:
			all = append(all, `ClientCertificate realm="a2a"`)
			continue
		default:
			continue
		}
		switch {
		case errors.Is(err, sdk.ErrUnauthorized):
			bearer += `, error="insufficient_scope"`
		case !errors.Is(err, errNoCredentials):
			bearer += `, error="invalid_token"`
		}
		all = append(all, bearer)
	}
	return slices.Compact(all)
}

// anyOf tries authenticators in turn.
type anyOf []Authenticator

// AnyOf accepts what one of several authenticators accepts; the first that accepts names the
// caller. If none does, the answer is the most telling one of theirs: one that could not
// check comes before one that found too little authority, that before wrong credentials, and
// those before missing ones. It is an error if there is none, or two declare a scheme of
// the same name (see [Named]).
func AnyOf(authenticators ...Authenticator) (Authenticator, error) {
	if len(authenticators) == 0 {
		return nil, errors.New("a2aserver: AnyOf needs an authenticator")
	}
	seen := make(map[sdk.SecuritySchemeName]bool)
	for _, a := range authenticators {
		if a == nil {
			return nil, errors.New("a2aserver: AnyOf was given a nil authenticator")
		}
		for name := range a.Schemes() {
			if seen[name] {
				return nil, fmt.Errorf("a2aserver: two authenticators declare the security scheme %q: rename one with Named", name)
			}
			seen[name] = true
		}
	}
	return anyOf(slices.Clone(authenticators)), nil
}

func (as anyOf) Authenticate(ctx context.Context, c Credentials) (string, error) {
	var worst error
	rank := func(err error) int {
		switch {
		case err == nil:
			return 0
		case errors.Is(err, errNoCredentials):
			return 1
		case errors.Is(err, sdk.ErrUnauthenticated):
			return 2
		case errors.Is(err, sdk.ErrUnauthorized):
			return 3
		default:
			return 4
		}
	}
	for _, a := range as {
		caller, err := a.Authenticate(ctx, c)
		if err == nil {
			return caller, nil
		}
		if rank(err) > rank(worst) {
			worst = err
		}
	}
	return "", worst
}

func (as anyOf) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme {
	all := make(map[sdk.SecuritySchemeName]sdk.SecurityScheme)
	for _, a := range as {
		maps.Copy(all, a.Schemes())
	}
	return all
}

// named is an authenticator whose only scheme has another name.
type named struct {
	Authenticator
	name sdk.SecuritySchemeName
}

// Named gives the scheme of an authenticator another name in the card, as two that read keys
// from different places need it below [AnyOf]. It is an error if the authenticator does not
// have exactly one scheme, or the name is empty.
func Named(name sdk.SecuritySchemeName, a Authenticator) (Authenticator, error) {
	if name == "" || a == nil || len(a.Schemes()) != 1 {
		return nil, errors.New("a2aserver: Named needs a name and an authenticator with one security scheme")
	}
	return named{a, name}, nil
}

func (n named) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme {
	for _, scheme := range n.Authenticator.Schemes() {
		return map[sdk.SecuritySchemeName]sdk.SecurityScheme{n.name: scheme}
	}
	return nil
}
