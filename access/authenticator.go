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

// Authenticator tells who sends a request. Implementations are called concurrently.
type Authenticator interface {
	// Authenticate returns the user, who owns the sessions that the request begins and sees
	// no one else's. The error is [ErrUnauthenticated] if the credentials are missing or
	// wrong, [ErrForbidden] if they are right and do not suffice, and any other error if they
	// could not be checked; the request is refused in each case. Errors never repeat the
	// credentials.
	Authenticate(ctx context.Context, c Credentials) (User, error)
}

// Verifier checks a token or a key and returns the name of the user whom it identifies, for
// example by means of a library for JSON Web Tokens or of a request to the server that issued
// it. It must check all that matters: signature, issuer, audience, expiry. Its errors are
// those of [Authenticator], so what a library says of a bad token has to be wrapped with
// [ErrUnauthenticated]: any other error says that the token could not be checked, and is
// answered as a failure of the server. The text of a wrapped one is told to the client; it
// must not hold the token.
type Verifier func(ctx context.Context, secret string) (user string, err error)

// Secrets accepts fixed tokens or keys; the map has the user of each. The secrets are not
// kept, and the time that a look-up takes says nothing about one: what is compared are codes
// under a key that nobody outside the process knows. It is an error if there are none, or
// one or its user is empty.
func Secrets(users map[string]string) (Verifier, error) {
	if len(users) == 0 {
		return nil, errors.New("access: there are no secrets")
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
			return nil, errors.New("access: each secret and its user must not be empty")
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

// Bearer accepts tokens in "Authorization: Bearer" (RFC 6750) that a function verifies.
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

// Place is where a request carries a key.
type Place string

// The places of keys. Prefer the header: URLs end up in the logs of proxies, and browsers
// send cookies unasked.
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

// Keys accepts keys in a header, a parameter of the URL or a cookie of the given name, which
// a function verifies.
func Keys(in Place, name string, verify Verifier) (Authenticator, error) {
	switch {
	case verify == nil:
		return nil, errors.New("access: keys need a function that verifies them")
	case !httptoken.Valid(name):
		return nil, fmt.Errorf("access: %q cannot be the name of a key: use letters, digits and hyphens", name)
	case in != InHeader && in != InQuery && in != InCookie:
		return nil, fmt.Errorf("access: a key is in the header, the query or a cookie, not in %q", in)
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

// ClientCertificates accepts clients whose TLS certificate was verified. The function names
// the user, or refuses the certificate with an error of [Authenticator]; without one the user is
// the certificate's only URI (as SPIFFE has it), or else its subject in the form of RFC 2253.
// The server's tls.Config must have ClientCAs, and as ClientAuth tls.VerifyClientCertIfGiven
// or tls.RequireAndVerifyClientCert.
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
	return "", fmt.Errorf("%w: the certificate names no subject", ErrUnauthenticated)
}

func (a certificates) Authenticate(_ context.Context, c Credentials) (User, error) {
	if len(c.Certificates) == 0 {
		return User{}, ErrNoCredentials
	}
	name, err := a.user(c.Certificates[0])
	return User{Name: name}, err
}

type anyOf []Authenticator

// AnyOf accepts what one of several authenticators accepts; the first that accepts names the
// user. If none does, the answer is the most telling one of theirs: one that could not
// check comes before one that found too little authority, that before wrong credentials, and
// those before missing ones. It is an error if there is none, or one is nil.
func AnyOf(authenticators ...Authenticator) (Authenticator, error) {
	if len(authenticators) == 0 || slices.Contains(authenticators, nil) {
		return nil, errors.New("access: AnyOf needs authenticators, none of them nil")
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
