package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agentarbor/arbor/session"
)

// Hash is the SHA-256 of a token. A server stores it instead of the token. It does not authenticate requests, but the keys
// of sign-ins are derived from it: keep it secret.
type Hash [sha256.Size]byte

// HashToken returns the hash of a token. Tokens must have at least 128 random bits, because the hash of a password that
// people choose can be reversed.
func HashToken(token string) Hash { return sha256.Sum256([]byte(token)) }

const hashPrefix = "sha256:"

// String returns the hash as in users files: sha256: and 64 hexadecimal digits.
func (h Hash) String() string { return hashPrefix + hex.EncodeToString(h[:]) }

// ParseHash parses the text of [Hash.String]. The error does not contain the text, which may be a token.
func ParseHash(text string) (h Hash, err error) {
	digits, ok := strings.CutPrefix(text, hashPrefix)
	if n, err := hex.Decode(h[:], []byte(digits[:min(len(digits), 2*len(h))])); !ok || err != nil || n != len(h) || len(digits) != 2*n {
		return Hash{}, errors.New("the hash of a token must be sha256: and 64 hexadecimal digits")
	}
	return h, nil
}

// Account is a user with a token. Token is the [HashToken] of the token. Without Rights and Grants, the user has only
// their own sessions.
type Account struct {
	Name   string
	Token  Hash
	Rights Rights
	Grants []string // see User
}

// Accounts authenticates users with tokens in "Authorization: Bearer" (RFC 6750). The users can be replaced at any time.
// It is safe for concurrent use. The zero value is not usable; see [NewAccounts].
type Accounts struct {
	key     [sha256.Size]byte // the key of the codes by which tokens are looked up
	replace sync.Mutex
	table   atomic.Pointer[accounts]
}

type accounts struct {
	byCode map[Hash]*account
	byName map[string]*account
}

type account struct {
	Account
	ctx    context.Context // ends when the account is revoked
	revoke context.CancelFunc
}

func (a *account) user() User {
	return User{Name: a.Name, Rights: a.Rights, Grants: a.Grants, revoked: a.ctx}
}

// NewAccounts returns accounts with some users. The error is that of [Accounts.Replace].
func NewAccounts(all ...Account) (*Accounts, error) {
	a := &Accounts{}
	rand.Read(a.key[:]) // never fails: crypto/rand ends the process instead
	a.table.Store(&accounts{})
	return a, a.Replace(all...)
}

// Replace replaces all accounts. It ends the streams and requests of users who are no longer among them, or who have
// another token or fewer rights; see [ErrRevoked]. Replace returns an error and changes nothing if [CheckName] refuses a
// name, or if two accounts have the same name or token, or names with the same [Skeleton].
func (a *Accounts) Replace(all ...Account) error {
	a.replace.Lock()
	defer a.replace.Unlock()
	old := a.table.Load()
	next := &accounts{make(map[Hash]*account, len(all)), make(map[string]*account, len(all))}
	shapes := make(map[string]string, len(all))
	for _, each := range all {
		code, wrong, shape := a.code(each.Token), CheckName(each.Name), Skeleton(each.Name)
		switch {
		case wrong != nil:
			return fmt.Errorf("access: %.64q cannot be the name of a user: %w", each.Name, wrong)
		case next.byName[each.Name] != nil:
			return fmt.Errorf("access: two users have the name %q", each.Name)
		case shapes[shape] != "":
			return fmt.Errorf("access: the names of the users %q and %q look alike", shapes[shape], each.Name)
		case next.byCode[code] != nil:
			return fmt.Errorf("access: the users %q and %q have the same token", next.byCode[code].Name, each.Name)
		}
		now := &account{Account: each}
		if was := old.byName[each.Name]; was != nil && was.Token == each.Token && each.Rights&was.Rights == was.Rights && !slices.ContainsFunc(was.Grants, func(right string) bool { return !slices.Contains(each.Grants, right) }) {
			now.ctx, now.revoke = was.ctx, was.revoke
		} else {
			now.ctx, now.revoke = context.WithCancel(context.Background())
		}
		next.byCode[code], next.byName[each.Name], shapes[shape] = now, now, each.Name
	}
	a.table.Store(next)
	for name, was := range old.byName {
		if now := next.byName[name]; now == nil || now.ctx != was.ctx {
			was.revoke()
		}
	}
	return nil
}

// code returns the code by which a token is looked up. It is keyed with a random key of the process, so that the time of
// the lookup reveals nothing about the token.
func (a *Accounts) code(token Hash) Hash {
	mac := hmac.New(sha256.New, a.key[:])
	mac.Write(token[:])
	return Hash(mac.Sum(nil))
}

// byToken returns the account with a token.
func (a *Accounts) byToken(token string) (*account, error) {
	if found := a.table.Load().byCode[a.code(HashToken(token))]; found != nil {
		return found, nil
	}
	return nil, errWrongCredentials
}

// byName returns the account with a name, or nil.
func (a *Accounts) byName(name string) *account { return a.table.Load().byName[name] }

// Certificates returns an authenticator of clients whose verified TLS certificate names a user of the accounts, by its
// only URI, or else by its common name. It refuses every other certificate, and certificates for [session.DefaultUser],
// the owner of the machine.
func (a *Accounts) Certificates() Authenticator { return named{a} }

type named struct{ *Accounts }

func (n named) Authenticate(_ context.Context, c Credentials) (User, error) {
	if len(c.Certificates) == 0 {
		return User{}, ErrNoCredentials
	}
	name := c.Certificates[0].Subject.CommonName
	if uris := c.Certificates[0].URIs; len(uris) == 1 {
		name = uris[0].String()
	}
	found := n.byName(name)
	if found == nil || name == session.DefaultUser {
		return User{}, fmt.Errorf("%w: the certificate names no user of this server", ErrUnauthenticated)
	}
	return found.user(), nil
}

// Authenticate implements [Authenticator].
func (a *Accounts) Authenticate(_ context.Context, c Credentials) (User, error) {
	token, err := c.bearer()
	if err != nil {
		return User{}, err
	}
	found, err := a.byToken(token)
	if err != nil {
		return User{}, err
	}
	return found.user(), nil
}
