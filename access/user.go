package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/session"
)

// User is who calls.
type User struct {
	// Name is the user part of the keys of this user's sessions.
	Name string
}

var (
	// ErrUnauthenticated is in the error of a request whose credentials are missing or wrong.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrForbidden is in the error of a request whose credentials are right and do not suffice.
	ErrForbidden = errors.New("permission denied")
	// ErrNoCredentials is the ErrUnauthenticated of a request that brought nothing an
	// authenticator reads, which [AnyOf] tells from one that brought a wrong thing.
	ErrNoCredentials = fmt.Errorf("%w: the request carries no credentials that this server reads", ErrUnauthenticated)
)

// errWrongCredentials does not say what is wrong: whoever guesses learns nothing from it.
var errWrongCredentials = fmt.Errorf("%w: the credentials are not accepted", ErrUnauthenticated)

type userKey struct{}

// WithUser returns a context that carries the user. A program that has a sign-in of its own
// puts the user there, and takes [FromContext] as its authenticator.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserOf returns the user that a context carries, the zero value if it carries none.
func UserOf(ctx context.Context) User {
	u, _ := ctx.Value(userKey{}).(User)
	return u
}

type fromContext struct{}

// FromContext returns an authenticator that accepts the user whom [WithUser] has put into the
// context of the request.
func FromContext() Authenticator { return fromContext{} }

func (fromContext) Authenticate(ctx context.Context, _ Credentials) (User, error) {
	if u := UserOf(ctx); u.Name != "" {
		return u, nil
	}
	return User{}, ErrNoCredentials
}

// Authenticate asks who calls and returns a context that carries the user. Without an
// authenticator the context is returned as it is. The error is that of the authenticator, or
// says that it named a user who cannot have sessions.
func Authenticate(ctx context.Context, a Authenticator, c Credentials) (context.Context, error) {
	if a == nil {
		return ctx, nil
	}
	u, err := a.Authenticate(ctx, c)
	if err != nil {
		return ctx, err
	}
	if u.Name == "" {
		// A user without a name would have the sessions of those whom nobody asked.
		return ctx, errors.New("the authenticator accepted the request and named no user")
	}
	if session.CheckKey(session.Key{App: session.DefaultApp, User: u.Name, ID: "a"}) != nil {
		return ctx, fmt.Errorf("the authenticator named a user that no session can belong to: %.64q, of %d bytes; it must be UTF-8 of at most 255 bytes, without NUL", u.Name, len(u.Name))
	}
	return WithUser(ctx, u), nil
}
