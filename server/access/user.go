package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/session"
)

// User is an authenticated caller.
type User struct {
	// Name is the user part of the keys of this user's sessions.
	Name string
	// Rights are what the user may do beyond their own sessions. 0 is nothing.
	Rights Rights
	// Grants are the names of rights that a program defines, such as "refunds", for tools.ByStaff.
	Grants []string

	revoked context.Context // ends when the user is revoked; nil: never
}

// ErrRevoked ends the streams and requests of a user whose token or right was revoked.
var ErrRevoked = fmt.Errorf("%w: the user's token or a right was revoked", ErrUnauthenticated)

// onRevoked calls f when the user is revoked, unless the caller calls stop first.
func (u User) onRevoked(f func()) (stop func() bool) {
	if u.revoked == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(u.revoked, f)
}

// UntilRevoked returns a context that also ends, with the cause [ErrRevoked], when the user in ctx is revoked. Use it for
// long answers without a [Stream]. The caller must call stop.
func UntilRevoked(ctx context.Context) (until context.Context, stop context.CancelFunc) {
	u := UserOf(ctx)
	if u.revoked == nil {
		return ctx, func() {}
	}
	until, cancel := context.WithCancelCause(ctx)
	recall := u.onRevoked(func() { cancel(ErrRevoked) })
	return until, func() {
		recall()
		cancel(nil)
	}
}

// May reports whether the user has all rights of r.
func (u User) May(r Rights) bool { return u.Rights&r == r }

// Has reports whether the user has the right with a name. A user with the right [Owner] has every right.
func (u User) Has(right string) bool {
	if r := rightNamed(right); r != 0 && u.May(r) {
		return true
	}
	return u.May(Owner) || slices.Contains(u.Grants, right)
}

// Decides reports whether the user has a right to decide in sessions of others.
func (u User) Decides() bool {
	return u.Rights&(Act|Approve|Owner) != 0 || len(u.Grants) > 0
}

// RightNames returns the names of the user's rights and grants, without the right [Owner].
func (u User) RightNames() []string { return append(u.Rights.Names(), u.Grants...) }

// Revoked reports whether the user's token or a right was revoked after authentication.
func (u User) Revoked() bool { return u.revoked != nil && u.revoked.Err() != nil }

// Rights is a set of what a user may do beyond their own sessions. The zero value is the empty set.
type Rights uint8

// The rights.
const (
	// Inspect allows reading the sessions of all users, the instructions of agents and the requests to their models.
	Inspect Rights = 1 << iota
	// Act allows writing, deciding, stopping and canceling in the sessions of all users.
	Act
	// Desk allows answering users whose conversations were handed off to a person.
	Desk
	// Approve allows deciding calls that wait for an approval by staff, in the sessions of all users.
	Approve

	// All are all rights above.
	All = Inspect | Act | Desk | Approve
	// Owner is the right of the owner of the machine. It includes every right, also those that a program defines.
	Owner Rights = 1 << 7
)

var rightNames = [...]string{"inspect", "act", "desk", "approve"}

// Names returns the names of the rights: inspect, act, desk, approve.
func (r Rights) Names() []string {
	names := make([]string, 0, len(rightNames))
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// rightNamed returns the right with a name, or 0 if there is none.
func rightNamed(name string) Rights {
	for i, n := range rightNames {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

// ReadRights returns the rights of this package and the grants of a program with some names. It returns an error for a
// name that is similar to one of this package, because it is probably misspelled.
func ReadRights(names ...string) (rights Rights, grants []string, err error) {
	for _, name := range names {
		right := rightNamed(name)
		if rights |= right; right != 0 {
			continue
		}
		if hint := nearest.Hint(name, rightNames[:]); hint != "" || !event.IsRight(name) {
			return 0, nil, fmt.Errorf("%.40q is not a right: use one of %s, or a name of your own%s", name, strings.Join(rightNames[:], ", "), hint)
		}
		grants = append(grants, name)
	}
	return rights, grants, nil
}

var (
	// ErrUnauthenticated reports missing or wrong credentials.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrForbidden reports valid credentials of a user without the required right.
	ErrForbidden = errors.New("permission denied")
	// ErrNoCredentials is the ErrUnauthenticated of a request without credentials for an authenticator. [AnyOf] prefers
	// the error of wrong credentials to it.
	ErrNoCredentials = fmt.Errorf("%w: the request has no credentials that this server accepts", ErrUnauthenticated)
)

// errWrongCredentials does not say what is wrong, so that it does not help to guess credentials.
var errWrongCredentials = fmt.Errorf("%w: the credentials are not accepted", ErrUnauthenticated)

type userKey struct{}

// WithUser returns a context with the user. A program with its own authentication sets the user by it, and uses
// [FromContext] as its authenticator.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserOf returns the user in a context, or the zero value if it has none.
func UserOf(ctx context.Context) User {
	u, _ := ctx.Value(userKey{}).(User)
	return u
}

type fromContext struct{}

// FromContext returns an authenticator that accepts the user that [WithUser] has put into the context of the request.
func FromContext() Authenticator { return fromContext{} }

func (fromContext) Authenticate(ctx context.Context, _ Credentials) (User, error) {
	if u := UserOf(ctx); u.Name != "" {
		return u, nil
	}
	return User{}, ErrNoCredentials
}

// Authenticate calls an authenticator and returns a context with the user. If a is nil, it returns ctx. The error is that
// of the authenticator, or reports that the authenticator returned a user whose name is not valid for sessions.
func Authenticate(ctx context.Context, a Authenticator, c Credentials) (context.Context, error) {
	if a == nil {
		return ctx, nil
	}
	u, err := a.Authenticate(ctx, c)
	if err != nil {
		return ctx, err
	}
	if u.Name == "" {
		// A user without a name would own the sessions of unauthenticated requests.
		return ctx, errors.New("the authenticator accepted the request but returned no user name")
	}
	if session.CheckKey(session.Key{App: session.DefaultApp, User: u.Name, ID: "a"}) != nil {
		return ctx, fmt.Errorf("the authenticator returned the invalid user name %.64q of %d bytes: it must be UTF-8 of at most 255 bytes, without NUL", u.Name, len(u.Name))
	}
	return WithUser(ctx, u), nil
}
