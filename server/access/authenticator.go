package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/httptoken"
)

// Authenticator identifies the user who sends a request. Implementations must be safe for concurrent use.
type Authenticator interface {
	// Authenticate returns the user of the credentials. The error is [ErrUnauthenticated] if they are missing or wrong,
	// [ErrForbidden] if they are valid but the user may not call, and any other error if they could not be checked. The
	// server refuses the request in each case. Errors must not contain the credentials.
	Authenticate(ctx context.Context, c Credentials) (User, error)
}

// Verifier checks a token or a key and returns the name of its user. For example, it uses a library for JSON Web Tokens,
// or asks the server that issued the token. It must check everything that is relevant: signature, issuer, audience and
// expiry. Its errors are those of [Authenticator]: wrap the error of a library about an invalid token with
// [ErrUnauthenticated]. The server answers any other error as its own failure. The client receives the text of a wrapped
// error, which must not contain the token. It must be safe for concurrent use.
type Verifier func(ctx context.Context, secret string) (user string, err error)

// Secrets returns a verifier that accepts fixed tokens or keys; the map contains the user of each. It does not keep the
// secrets. It compares codes under a random key of the process, so that the time of a lookup reveals nothing about a
// secret. Secrets returns an error if the map is empty, or if a secret or its user is "".
func Secrets(users map[string]string) (Verifier, error) {
	if len(users) == 0 {
		return nil, errors.New("access: the map of secrets is empty")
	}
	key := make([]byte, sha256.Size)
	rand.Read(key) // never fails: crypto/rand ends the process instead
	code := func(secret string) [sha256.Size]byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(secret))
		return [sha256.Size]byte(mac.Sum(nil))
	}
	known := make(map[[sha256.Size]byte]string, len(users))
	for secret, user := range users {
		if secret == "" || user == "" {
			return nil, errors.New("access: a secret or its user is empty")
		}
		known[code(secret)] = user
	}
	return func(_ context.Context, secret string) (string, error) {
		user, ok := known[code(secret)]
		if !ok {
			return "", errWrongCredentials
		}
		return user, nil
	}, nil
}

type bearer struct{ verify Verifier }

// Bearer returns an authenticator of tokens in "Authorization: Bearer" (RFC 6750). Its users have no rights; see
// [NewAccounts] for users with rights. It returns an error if verify is nil.
func Bearer(verify Verifier) (Authenticator, error) {
	if verify == nil {
		return nil, errors.New("access: bearer tokens need a function that verifies them")
	}
	return bearer{verify}, nil
}

func (b bearer) Authenticate(ctx context.Context, c Credentials) (User, error) {
	token, err := c.bearer()
	if err != nil {
		return User{}, err
	}
	name, err := b.verify(ctx, token)
	return User{Name: name}, err
}

// bearer returns the token of "Authorization: Bearer".
func (c Credentials) bearer() (string, error) {
	value, ok, err := c.header("Authorization")
	if err != nil {
		return "", err
	}
	scheme, token, _ := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", ErrNoCredentials
	}
	token = strings.TrimLeft(token, " ")
	if token == "" || strings.ContainsAny(token, " ,\t") {
		return "", errWrongCredentials
	}
	return token, nil
}

// Place is the part of a request that contains a key.
type Place string

// The places of keys. Prefer the header: proxies log URLs, and browsers send cookies automatically.
const (
	InHeader Place = "header"
	InQuery  Place = "query"
	InCookie Place = "cookie"
)

type keys struct {
	in     Place
	name   string
	verify Verifier
}

// Keys returns an authenticator of keys in the header, URL parameter or cookie with a name. It returns an error if verify
// is nil, or if the place or the name is invalid.
func Keys(in Place, name string, verify Verifier) (Authenticator, error) {
	switch {
	case verify == nil:
		return nil, errors.New("access: keys need a function that verifies them")
	case !httptoken.Valid(name):
		return nil, fmt.Errorf("access: %q cannot be the name of a key: use letters, digits and hyphens", name)
	case in != InHeader && in != InQuery && in != InCookie:
		return nil, fmt.Errorf("access: a key must be in the header, the query or a cookie, not in %q", in)
	}
	return keys{in, name, verify}, nil
}

func (k keys) Authenticate(ctx context.Context, c Credentials) (User, error) {
	var key string
	var err error
	switch {
	case k.in == InHeader:
		key, _, err = c.header(k.name)
	case k.in == InQuery && c.Query != nil:
		key = c.Query(k.name)
	case k.in == InCookie && c.Cookie != nil:
		key = c.Cookie(k.name)
	}
	if err != nil {
		return User{}, err
	}
	if key == "" {
		return User{}, ErrNoCredentials
	}
	name, err := k.verify(ctx, key)
	return User{Name: name}, err
}

type certificates struct {
	user func(*x509.Certificate) (string, error)
}

// ClientCertificates returns an authenticator of clients with a verified TLS certificate. user returns the name of the
// certificate's user, or an error of [Authenticator]. If user is nil, the name is the certificate's only URI (as in
// SPIFFE), or else its subject in the form of RFC 2253. The server's tls.Config must have ClientCAs, and the ClientAuth
// tls.VerifyClientCertIfGiven or tls.RequireAndVerifyClientCert.
func ClientCertificates(user func(*x509.Certificate) (string, error)) Authenticator {
	if user == nil {
		user = subject
	}
	return certificates{user}
}

func subject(c *x509.Certificate) (string, error) {
	if len(c.URIs) == 1 {
		return c.URIs[0].String(), nil
	}
	if name := c.Subject.String(); name != "" {
		return name, nil
	}
	return "", fmt.Errorf("%w: the certificate has no subject", ErrUnauthenticated)
}

func (a certificates) Authenticate(_ context.Context, c Credentials) (User, error) {
	if len(c.Certificates) == 0 {
		return User{}, ErrNoCredentials
	}
	name, err := a.user(c.Certificates[0])
	return User{Name: name}, err
}

type anyOf []Authenticator

// AnyOf returns an authenticator that tries several ones in order and returns the user of the first that accepts. If none
// accepts, it returns the most specific error: a failed check before missing rights, wrong credentials and missing
// credentials. AnyOf returns an error without authenticators, or if one is nil.
func AnyOf(authenticators ...Authenticator) (Authenticator, error) {
	if len(authenticators) == 0 || slices.Contains(authenticators, nil) {
		return nil, errors.New("access: AnyOf needs at least one authenticator, and none may be nil")
	}
	return anyOf(slices.Clone(authenticators)), nil
}

func (as anyOf) Authenticate(ctx context.Context, c Credentials) (User, error) {
	var worst error
	rank := func(err error) int {
		switch {
		case err == nil:
			return 0
		case errors.Is(err, ErrNoCredentials):
			return 1
		case errors.Is(err, ErrUnauthenticated):
			return 2
		case errors.Is(err, ErrForbidden):
			return 3
		default:
			return 4
		}
	}
	for _, a := range as {
		u, err := a.Authenticate(ctx, c)
		if err == nil {
			return u, nil
		}
		if rank(err) > rank(worst) {
			worst = err
		}
	}
	return User{}, worst
}
