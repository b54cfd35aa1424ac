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

// User is who calls.
type User struct {
	// Name is the user part of the keys of this user's sessions.
	Name string
	// Rights are what the user may do beyond their own sessions; 0 is nothing.
	Rights Rights
	// Grants are the names of rights that a program defines, such as "refunds": tools.ByStaff
	// asks for them.
	Grants []string

	revoked context.Context // ends when the user is revoked; nil is never
}

// ErrRevoked is why what a user has under way ends: the user's token or a right was taken away.
var ErrRevoked = fmt.Errorf("%w: the user's token or a right was revoked", ErrUnauthenticated)

// onRevoked calls f once the user is revoked, until stop is called.
func (u User) onRevoked(f func()) (stop func() bool) {
	if u.revoked == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(u.revoked, f)
}

// UntilRevoked returns a context that also ends, with the cause [ErrRevoked], when the user whom
// ctx carries is revoked. Whoever answers for long without a [Stream] does so below it. Stop must
// be called in the end.
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

// May reports whether the user has all of some rights.
func (u User) May(r Rights) bool { return u.Rights&r == r }

// Has reports whether the user has the right of a name. The owner of a machine has every right.
func (u User) Has(right string) bool {
	if r := rightNamed(right); r != 0 && u.May(r) {
		return true
	}
	return u.May(Owner) || slices.Contains(u.Grants, right)
}

// Decides reports whether the user may have to decide in sessions of others.
func (u User) Decides() bool {
	return u.Rights&(Act|Approve|Owner) != 0 || len(u.Grants) > 0
}

// RightNames returns the names of all rights of the user but that of the owner.
func (u User) RightNames() []string { return append(u.Rights.Names(), u.Grants...) }

// Revoked reports whether the user's token or a right was taken away since the user signed in.
func (u User) Revoked() bool { return u.revoked != nil && u.revoked.Err() != nil }

// Rights are a set of what users may do beyond their own sessions.
type Rights uint8

// The rights.
const (
	// Inspect is to read the sessions of all users, and what agents are told and their models asked.
	Inspect Rights = 1 << iota
	// Act is to write, decide, stop and cancel in the sessions of all users.
	Act
	// Desk is to answer users whose conversations were handed to a person.
	Desk
	// Approve is to decide about calls that wait for an approval by staff, in the sessions of all users.
	Approve

	// All are all of them.
	All = Inspect | Act | Desk | Approve
	// Owner is to have every right, those that a program defines too, as the owner of a machine has.
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

// rightNamed returns the right of a name, 0 if there is none.
func rightNamed(name string) Rights {
	for i, n := range rightNames {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

// ReadRights reads names of rights: those of this package, and those that a program defines. A
// name that is nearly one of this package's is a mistake.
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
