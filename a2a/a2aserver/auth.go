package a2aserver

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/url"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/access"
)

// Authenticator tells who sends a request. The schemes it accepts stand in the agent card
// (A2A 1.0, section 7).
type Authenticator interface {
	access.Authenticator
	// Schemes returns what the card declares, by name. Each is an alternative.
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

// Declare gives an authenticator the schemes that the card is to name: one of a program's own,
// such as [access.FromContext]. Without any, the card says nothing of it. It is an error if the
// authenticator is nil.
func Declare(a access.Authenticator, schemes map[sdk.SecuritySchemeName]sdk.SecurityScheme) (Authenticator, error) {
	if a == nil {
		return nil, errors.New("a2aserver: Declare was given a nil authenticator")
	}
	return declared{a, maps.Clone(schemes)}, nil
}

// declare is Declare for an authenticator that was just made, and its only scheme.
func declare(a access.Authenticator, err error, name sdk.SecuritySchemeName, scheme sdk.SecurityScheme) (Authenticator, error) {
	if err != nil {
		return nil, fmt.Errorf("a2aserver: the security scheme %s: %w", name, err)
	}
	return declared{a, map[sdk.SecuritySchemeName]sdk.SecurityScheme{name: scheme}}, nil
}

// BearerTokens accepts fixed tokens in "Authorization: Bearer" (RFC 6750); the map has the
// caller of each. The tokens are not kept. An empty map, an empty token and an
// empty caller are errors.
func BearerTokens(callers map[string]string) (Authenticator, error) {
	verify, err := access.Secrets(callers)
	if err != nil {
		return nil, err
	}
	return Bearer(verify, "")
}

// Bearer accepts tokens in "Authorization: Bearer" that a function verifies. The format is a
// hint for the card, such as "JWT", and may be empty.
func Bearer(verify access.Verifier, format string) (Authenticator, error) {
	a, err := access.Bearer(verify)
	return declare(a, err, "bearer", sdk.HTTPAuthSecurityScheme{Scheme: "Bearer", BearerFormat: format})
}

// OAuth2 accepts access tokens of OAuth 2.0 that a function verifies; the scheme tells clients
// in the card where to get one. It is an error if there is no function or no flow.
func OAuth2(scheme sdk.OAuth2SecurityScheme, verify access.Verifier) (Authenticator, error) {
	if scheme.Flows == nil {
		return nil, errors.New("a2aserver: OAuth2 needs a flow")
	}
	a, err := access.Bearer(verify)
	return declare(a, err, "oauth2", scheme)
}

// OpenIDConnect accepts tokens of an OpenID Connect provider that a function verifies; the
// URL is the provider's discovery document.
func OpenIDConnect(discovery string, verify access.Verifier) (Authenticator, error) {
	if u, err := url.Parse(discovery); err != nil || u.Host == "" {
		return nil, errors.New("a2aserver: OpenIDConnect needs the URL of a discovery document")
	}
	a, err := access.Bearer(verify)
	return declare(a, err, "openIdConnect", sdk.OpenIDConnectSecurityScheme{OpenIDConnectURL: discovery})
}

// APIKeys accepts fixed keys in a header, a parameter of the URL or a cookie of the given
// name; the map has the caller of each. The keys are not kept. Prefer the header: URLs end
// up in the logs of proxies, and browsers send cookies unasked. An empty map, an empty
// key, an empty caller, an empty name and an unknown location are errors.
func APIKeys(location sdk.APIKeySecuritySchemeLocation, name string, callers map[string]string) (Authenticator, error) {
	verify, err := access.Secrets(callers)
	if err != nil {
		return nil, err
	}
	return APIKeysFunc(location, name, verify)
}

// APIKeysFunc is [APIKeys] with a function that verifies the keys.
func APIKeysFunc(location sdk.APIKeySecuritySchemeLocation, name string, verify access.Verifier) (Authenticator, error) {
	a, err := access.Keys(access.Place(location), name, verify)
	return declare(a, err, "apiKey", sdk.APIKeySecurityScheme{Location: location, Name: name})
}

// ClientCertificates is [access.ClientCertificates].
func ClientCertificates(caller func(*x509.Certificate) (string, error)) Authenticator {
	return declared{access.ClientCertificates(caller), map[sdk.SecuritySchemeName]sdk.SecurityScheme{"mutualTLS": sdk.MutualTLSSecurityScheme{}}}
}

// AnyOf accepts what one of several authenticators accepts, as [access.AnyOf] does. It is an
// error to pass none, or two that declare a scheme of the same name (see [Named]).
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

// Named gives the scheme of an authenticator another name in the card, as two that read keys
// from different places need it below [AnyOf]. It is an error if the authenticator does not
// have exactly one scheme, or the name is empty.
func Named(name sdk.SecuritySchemeName, a Authenticator) (Authenticator, error) {
	if name == "" || a == nil || len(a.Schemes()) != 1 {
		return nil, errors.New("a2aserver: Named needs a name and an authenticator with one security scheme")
	}
	for _, scheme := range a.Schemes() {
		a = declared{a, map[sdk.SecuritySchemeName]sdk.SecurityScheme{name: scheme}}
	}
	return a, nil
}
