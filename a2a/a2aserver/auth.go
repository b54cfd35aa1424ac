package a2aserver

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/url"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/server/access"
)

// Authenticator identifies the caller of a request. The agent card lists the schemes that it accepts (A2A 1.0, section
// 7).
type Authenticator interface {
	access.Authenticator
	// Schemes returns the schemes for the card by name. Each one suffices.
	Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme
}

// declared is an authenticator with its schemes.
type declared struct {
	access.Authenticator
	schemes map[sdk.SecuritySchemeName]sdk.SecurityScheme
}

func (d declared) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme {
	return maps.Clone(d.schemes)
}

// Declare returns an authenticator of the program, such as [access.FromContext], together with the schemes that the
// card lists for it. Without schemes, the card lists none for it. It returns an error if the authenticator is nil.
func Declare(a access.Authenticator, schemes map[sdk.SecuritySchemeName]sdk.SecurityScheme) (Authenticator, error) {
	if a == nil {
		return nil, errors.New("a2aserver: Declare was given a nil authenticator")
	}
	return declared{a, maps.Clone(schemes)}, nil
}

// declare adds the name of the scheme to the error of a constructor, or returns the new authenticator with its only
// scheme.
func declare(a access.Authenticator, err error, name sdk.SecuritySchemeName, scheme sdk.SecurityScheme) (Authenticator, error) {
	if err != nil {
		return nil, fmt.Errorf("a2aserver: the security scheme %s: %w", name, err)
	}
	return declared{a, map[sdk.SecuritySchemeName]sdk.SecurityScheme{name: scheme}}, nil
}

// BearerTokens accepts fixed tokens in "Authorization: Bearer" (RFC 6750). The map contains the caller of each token.
// The authenticator does not keep the tokens. An empty map, an empty token and an empty caller are errors.
func BearerTokens(callers map[string]string) (Authenticator, error) {
	verify, err := access.Secrets(callers)
	if err != nil {
		return nil, err
	}
	return Bearer(verify, "")
}

// Bearer accepts tokens in "Authorization: Bearer" that verify accepts. The format is a hint in the card, such as
// "JWT", and may be empty.
func Bearer(verify access.Verifier, format string) (Authenticator, error) {
	a, err := access.Bearer(verify)
	return declare(a, err, "bearer", sdk.HTTPAuthSecurityScheme{Scheme: "Bearer", BearerFormat: format})
}

// OAuth2 accepts OAuth 2.0 access tokens that verify accepts. The scheme in the card tells clients where to get a
// token. It returns an error if verify is nil or the scheme has no flow.
func OAuth2(scheme sdk.OAuth2SecurityScheme, verify access.Verifier) (Authenticator, error) {
	if scheme.Flows == nil {
		return nil, errors.New("a2aserver: OAuth2 needs a flow")
	}
	a, err := access.Bearer(verify)
	return declare(a, err, "oauth2", scheme)
}

// OpenIDConnect accepts tokens of an OpenID Connect provider that verify accepts. The URL is that of the provider's
// discovery document.
func OpenIDConnect(discovery string, verify access.Verifier) (Authenticator, error) {
	if u, err := url.Parse(discovery); err != nil || u.Host == "" {
		return nil, errors.New("a2aserver: OpenIDConnect needs the URL of a discovery document")
	}
	a, err := access.Bearer(verify)
	return declare(a, err, "openIdConnect", sdk.OpenIDConnectSecurityScheme{OpenIDConnectURL: discovery})
}

// APIKeys accepts fixed keys in a header, a query parameter or a cookie of the given name. The map contains the caller
// of each key. The authenticator does not keep the keys. Prefer the header: proxies log URLs, and browsers send cookies
// with every request. An empty map, an empty key, an empty caller, an empty name and an unknown location are errors.
func APIKeys(location sdk.APIKeySecuritySchemeLocation, name string, callers map[string]string) (Authenticator, error) {
	verify, err := access.Secrets(callers)
	if err != nil {
		return nil, err
	}
	return APIKeysFunc(location, name, verify)
}

// APIKeysFunc is like [APIKeys], but verify checks the keys.
func APIKeysFunc(location sdk.APIKeySecuritySchemeLocation, name string, verify access.Verifier) (Authenticator, error) {
	a, err := access.Keys(access.Place(location), name, verify)
	return declare(a, err, "apiKey", sdk.APIKeySecurityScheme{Location: location, Name: name})
}

// ClientCertificates returns [access.ClientCertificates] with the scheme mutualTLS.
func ClientCertificates(caller func(*x509.Certificate) (string, error)) Authenticator {
	return declared{access.ClientCertificates(caller), map[sdk.SecuritySchemeName]sdk.SecurityScheme{"mutualTLS": sdk.MutualTLSSecurityScheme{}}}
}

// AnyOf accepts a request that one of the authenticators accepts, like [access.AnyOf]. It returns an error if there are
// none, or if two of them declare a scheme of the same name (see [Named]).
func AnyOf(authenticators ...Authenticator) (Authenticator, error) {
	var plain []access.Authenticator
	all := make(map[sdk.SecuritySchemeName]sdk.SecurityScheme)
	for _, a := range authenticators {
		if a == nil {
			return nil, errors.New("a2aserver: AnyOf was given a nil authenticator")
		}
		for name, scheme := range a.Schemes() {
			if all[name] != nil {
				return nil, fmt.Errorf("a2aserver: two authenticators declare the security scheme %q: rename one with Named", name)
			}
			all[name] = scheme
		}
		plain = append(plain, a)
	}
	either, err := access.AnyOf(plain...)
	if err != nil {
		return nil, err
	}
	return declared{either, all}, nil
}

// Named renames the scheme of an authenticator in the card. Two authenticators that read keys from different places
// need different names in [AnyOf]. It returns an error if the name is empty or the authenticator does not have exactly
// one scheme.
func Named(name sdk.SecuritySchemeName, a Authenticator) (Authenticator, error) {
	if name == "" || a == nil || len(a.Schemes()) != 1 {
		return nil, errors.New("a2aserver: Named needs a name and an authenticator with one security scheme")
	}
	for _, scheme := range a.Schemes() {
		a = declared{a, map[sdk.SecuritySchemeName]sdk.SecurityScheme{name: scheme}}
	}
	return a, nil
}
