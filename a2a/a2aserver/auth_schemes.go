package a2aserver

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// TokenVerifier checks a token and returns the name of the caller whom it identifies, for
// example by means of a library for JSON Web Tokens or of a request to the server that issued
// it. It must check all that matters: signature, issuer, audience, expiry. Its errors are
// those of [Authenticator], so what a library says of a bad token has to be wrapped with
// a2a.ErrUnauthenticated: any other error says that the token could not be checked, and is answered
// as a failure of the server. The text of a wrapped one is told to the client; it must not hold
// the token.
type TokenVerifier func(ctx context.Context, token string) (caller string, err error)

// secrets finds callers by their secrets. It keeps no secret, and the time that a look-up
// takes says nothing about one: what is compared are codes under a key that nobody outside
// the process knows.
type secrets struct {
	key     []byte
	callers map[[sha256.Size]byte]string
}

func newSecrets(callers map[string]string) (*secrets, error) {
	if len(callers) == 0 {
		return nil, errors.New("there are none")
	}
	s := &secrets{key: make([]byte, sha256.Size), callers: make(map[[sha256.Size]byte]string, len(callers))}
	rand.Read(s.key) // never fails: crypto/rand ends the process instead
	for secret, caller := range callers {
		if secret == "" || caller == "" {
			return nil, errors.New("each needs a secret and a caller that are not empty")
		}
		s.callers[s.code(secret)] = caller
	}
	return s, nil
}

func (s *secrets) code(secret string) [sha256.Size]byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(secret))
	return [sha256.Size]byte(mac.Sum(nil))
}

func (s *secrets) verify(_ context.Context, secret string) (string, error) {
	caller, ok := s.callers[s.code(secret)]
	if !ok {
		return "", errWrongCredentials
	}
	return caller, nil
}

// tokens reads a bearer token from the header Authorization.
type tokens struct {
	verify TokenVerifier
	name   sdk.SecuritySchemeName
	scheme sdk.SecurityScheme
}

// BearerTokens accepts fixed tokens in "Authorization: Bearer" (RFC 6750); the map has the
// caller of each. The tokens are not kept. It is an error if there are none, or one or
// its caller is empty.
func BearerTokens(callers map[string]string) (Authenticator, error) {
	s, err := newSecrets(callers)
	if err != nil {
		return nil, fmt.Errorf("a2aserver: bearer tokens: %w", err)
	}
	return tokens{s.verify, "bearer", sdk.HTTPAuthSecurityScheme{Scheme: "Bearer"}}, nil
}

// Bearer accepts tokens in "Authorization: Bearer" that a function verifies. The format is a
// hint for the card, such as "JWT", and may be empty.
func Bearer(verify TokenVerifier, format string) (Authenticator, error) {
	if verify == nil {
		return nil, errors.New("a2aserver: Bearer needs a function that verifies tokens")
	}
	return tokens{verify, "bearer", sdk.HTTPAuthSecurityScheme{Scheme: "Bearer", BearerFormat: format}}, nil
}

// OAuth2 accepts access tokens of OAuth 2.0 that a function verifies; the scheme tells clients
// in the card where to get one. It is an error if there is no function or no flow.
func OAuth2(scheme sdk.OAuth2SecurityScheme, verify TokenVerifier) (Authenticator, error) {
	if verify == nil || scheme.Flows == nil {
		return nil, errors.New("a2aserver: OAuth2 needs a flow and a function that verifies tokens")
	}
	return tokens{verify, "oauth2", scheme}, nil
}

// OpenIDConnect accepts tokens of an OpenID Connect provider that a function verifies; the
// URL is the provider's discovery document.
func OpenIDConnect(discovery string, verify TokenVerifier) (Authenticator, error) {
	if u, err := url.Parse(discovery); verify == nil || err != nil || u.Host == "" {
		return nil, errors.New("a2aserver: OpenIDConnect needs the URL of a discovery document and a function that verifies tokens")
	}
	return tokens{verify, "openIdConnect", sdk.OpenIDConnectSecurityScheme{OpenIDConnectURL: discovery}}, nil
}

func (t tokens) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme {
	return map[sdk.SecuritySchemeName]sdk.SecurityScheme{t.name: t.scheme}
}

func (t tokens) Authenticate(ctx context.Context, c Credentials) (string, error) {
	value, ok, err := c.header("Authorization")
	if err != nil {
		return "", err
	}
	scheme, token, _ := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", errNoCredentials
	}
	token = strings.TrimLeft(token, " ")
	if token == "" || strings.ContainsAny(token, " ,\t") {
		return "", errWrongCredentials
	}
	return t.verify(ctx, token)
}

// apiKeys reads a key from a header, a parameter of the URL or a cookie.
type apiKeys struct {
	verify TokenVerifier
	scheme sdk.APIKeySecurityScheme
}

// APIKeys accepts fixed keys in a header, a parameter of the URL or a cookie of the given
// name; the map has the caller of each. The keys are not kept. Prefer the header: URLs end
// up in the logs of proxies, and browsers send cookies unasked. It is an error if there are
// no keys, one or its caller is empty, or the location or the name is none.
func APIKeys(location sdk.APIKeySecuritySchemeLocation, name string, callers map[string]string) (Authenticator, error) {
	s, err := newSecrets(callers)
	if err != nil {
		return nil, fmt.Errorf("a2aserver: API keys: %w", err)
	}
	return APIKeysFunc(location, name, s.verify)
}

// APIKeysFunc is [APIKeys] with a function that verifies the keys.
func APIKeysFunc(location sdk.APIKeySecuritySchemeLocation, name string, verify TokenVerifier) (Authenticator, error) {
	if verify == nil {
		return nil, errors.New("a2aserver: API keys need a function that verifies them")
	}
	if !isToken(name) {
		return nil, fmt.Errorf("a2aserver: %q cannot be the name of an API key: use letters, digits and hyphens", name)
	}
	switch location {
	case sdk.APIKeySecuritySchemeLocationHeader, sdk.APIKeySecuritySchemeLocationQuery, sdk.APIKeySecuritySchemeLocationCookie:
	default:
		return nil, fmt.Errorf("a2aserver: an API key is in the header, the query or a cookie, not in %q", location)
	}
	return apiKeys{verify, sdk.APIKeySecurityScheme{Location: location, Name: name}}, nil
}

func (k apiKeys) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme {
	return map[sdk.SecuritySchemeName]sdk.SecurityScheme{"apiKey": k.scheme}
}

func (k apiKeys) Authenticate(ctx context.Context, c Credentials) (string, error) {
	var key string
	switch k.scheme.Location {
	case sdk.APIKeySecuritySchemeLocationQuery:
		if c.Query != nil {
			key = c.Query(k.scheme.Name)
		}
	case sdk.APIKeySecuritySchemeLocationCookie:
		if c.Cookie != nil {
			key = c.Cookie(k.scheme.Name)
		}
	default:
		value, _, err := c.header(k.scheme.Name)
		if err != nil {
			return "", err
		}
		key = value
	}
	if key == "" {
		return "", errNoCredentials
	}
	return k.verify(ctx, key)
}

// certificates names callers after their TLS certificates.
type certificates struct {
	caller func(*x509.Certificate) (string, error)
}

// ClientCertificates accepts clients whose TLS certificate was verified. The function names
// the caller, or refuses it with an error of [Authenticator]; without one the caller is the
// certificate's only URI (as SPIFFE has it), or else its subject in the form of RFC 2253. The
// server's tls.Config must have ClientCAs, and as ClientAuth tls.VerifyClientCertIfGiven or
// tls.RequireAndVerifyClientCert.
func ClientCertificates(caller func(*x509.Certificate) (string, error)) Authenticator {
	if caller == nil {
		caller = certificateCaller
	}
	return certificates{caller}
}

func certificateCaller(c *x509.Certificate) (string, error) {
	if len(c.URIs) == 1 {
		return c.URIs[0].String(), nil
	}
	if subject := c.Subject.String(); subject != "" {
		return subject, nil
	}
	return "", fmt.Errorf("%w: the certificate names no subject", sdk.ErrUnauthenticated)
}

func (certificates) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme {
	return map[sdk.SecuritySchemeName]sdk.SecurityScheme{"mutualTLS": sdk.MutualTLSSecurityScheme{}}
}

func (a certificates) Authenticate(_ context.Context, c Credentials) (string, error) {
	if len(c.Certificates) == 0 {
		return "", errNoCredentials
	}
	return a.caller(c.Certificates[0])
}
