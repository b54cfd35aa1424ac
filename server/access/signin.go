package access

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// KeyHeader is the header in which a page sends its key of a sign-in.
const KeyHeader = "Arbor-CSRF"

const (
	codeLifetime    = 5 * time.Minute
	signInLifetime  = 7 * 24 * time.Hour
	maxCodes        = 64
	maxSignedOut    = 4096
	signInVersion   = 1
	signInHead      = 1 + 8 + 16 // version, end, random bytes; the user's name follows
	maxCookieLength = 4096
)

// errSignedOut does not count as a guess, because pages may use an expired sign-in for a while.
var errSignedOut = fmt.Errorf("%w: the sign-in has expired or is invalid: sign in again", ErrUnauthenticated)

// errMissingHalf reports a request with only the cookie or only the key, usually a browser that sends its cookie.
var errMissingHalf = fmt.Errorf("%w: a sign-in needs both the cookie and the header %s", ErrNoCredentials, KeyHeader)

// SignIn authenticates users of [Accounts] in browsers. A sign-in has two halves: a cookie, which scripts cannot read,
// and a key, which the page stores and sends in the header Arbor-CSRF with every request. A request needs both, because browsers
// send cookies to every port of a host (RFC 6265, section 8.5), but separate the storage of pages by port.
//
// The cookie is signed with a key that is derived from the hash of the user's token. The server stores nothing about it.
// Therefore a sign-in survives a restart, is valid for all processes with the same accounts, and ends when the token
// changes. A SignIn is safe for concurrent use. The zero value is not usable; see [NewSignIn].
type SignIn struct {
	accounts *Accounts
	opts     SignInOptions
	cookie   string

	mu        sync.Mutex
	codes     []code
	signedOut map[Hash]time.Time // the signatures of cookies that were signed out, and when they end by themselves
}

type code struct {
	code Hash // the keyed code of the hash
	user string
	end  time.Time
}

// SignInOptions configure a [SignIn].
type SignInOptions struct {
	// Port is the port that browsers use. It is part of the cookie's name, because all servers of a host share cookies.
	Port int
	// HTTPS reports that browsers use https to a proxy before the server. Without HTTPS and without TLS, only browsers on
	// this machine can sign in.
	HTTPS bool
	// Lifetime is how long a sign-in is valid, at most 7 days. Defaults to 7 days.
	Lifetime time.Duration
	// Guesses limits wrong codes and tokens, together with other uses of it. nil is no limit.
	Guesses *Guesses
}

// NewSignIn returns a sign-in. It returns an error if accounts is nil or an option is invalid.
func NewSignIn(accounts *Accounts, o SignInOptions) (*SignIn, error) {
	o.Lifetime = cmp.Or(o.Lifetime, signInLifetime)
	switch {
	case accounts == nil:
		return nil, errors.New("access: a sign-in needs accounts")
	case o.Port < 1 || o.Port > 65535:
		return nil, fmt.Errorf("access: the port %d is invalid", o.Port)
	case o.Lifetime < 0 || o.Lifetime > signInLifetime:
		return nil, fmt.Errorf("access: a sign-in lasts at most %d days", signInLifetime/(24*time.Hour))
	}
	return &SignIn{accounts: accounts, opts: o, cookie: "arbor_" + strconv.Itoa(o.Port), signedOut: make(map[Hash]time.Time)}, nil
}

// Code returns a code with which a user can sign in once, within 5 minutes. Only that user may receive it.
func (s *SignIn) Code(user string) (string, error) {
	if s.accounts.byName(user) == nil {
		return "", fmt.Errorf("access: the user %.64q does not exist", user)
	}
	text := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.codes) >= maxCodes {
		s.codes = slices.Delete(s.codes, 0, 1) // the oldest
	}
	s.codes = append(s.codes, code{s.accounts.code(HashToken(text)), user, time.Now().Add(codeLifetime)})
	return text, nil
}

// redeem returns the account of a code, and deletes the code.
func (s *SignIn) redeem(text string) (*account, error) {
	of := s.accounts.code(HashToken(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.codes, func(c code) bool { return hmac.Equal(c.code[:], of[:]) })
	if i < 0 {
		return nil, errWrongCredentials
	}
	one := s.codes[i]
	s.codes = slices.Delete(s.codes, i, i+1)
	acct := s.accounts.byName(one.user)
	if acct == nil || !time.Now().Before(one.end) {
		return nil, fmt.Errorf("%w: the code is older than %d minutes", ErrUnauthenticated, codeLifetime/time.Minute)
	}
	return acct, nil
}

// Grant is a successful sign-in.
type Grant struct {
	User User
	// Key is the page's key, for the header Arbor-CSRF.
	Key string
	End time.Time
}

// Allow refuses requests of pages that arrived over a network without encryption, where an attacker could change the page
// and read its input. The error is a *[RefusedError].
func (s *SignIn) Allow(r *http.Request) error {
	if s.secure(r) {
		return nil
	}
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		return refusef(http.StatusForbidden, "browsers on other machines must use https: give the server a certificate, or the https address of the proxy before it")
	}
	return nil
}

func (s *SignIn) secure(r *http.Request) bool { return s.opts.HTTPS || r.TLS != nil }

// Open signs a user in with a code, or with a token if code is "", and sets the cookie. The errors are those of
// [Authenticator], or a *[RefusedError].
func (s *SignIn) Open(w http.ResponseWriter, r *http.Request, code, token string) (*Grant, error) {
	if err := s.Allow(r); err != nil {
		return nil, err
	}
	if !sameOrigin(r) {
		return nil, refusef(http.StatusForbidden, "only the server's own page can sign in")
	}
	var acct *account
	check := func() (_ User, err error) {
		if code != "" {
			acct, err = s.redeem(code)
		} else {
			acct, err = s.accounts.byToken(token)
		}
		return User{}, err
	}
	var err error
	if s.opts.Guesses != nil {
		_, err = s.opts.Guesses.count(CredentialsOf(r).Remote, check)
	} else {
		_, err = check()
	}
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(s.opts.Lifetime).Truncate(time.Second)
	payload := binary.BigEndian.AppendUint64([]byte{signInVersion}, uint64(end.Unix()))
	payload = append(payload, make([]byte, 16)...)
	rand.Read(payload[len(payload)-16:])
	payload = append(payload, acct.Name...)
	signature, key := signatureAndKey(acct.Token, payload)
	s.set(w, r, base64.RawURLEncoding.EncodeToString(append(signature[:], payload...)), int(s.opts.Lifetime/time.Second))
	return &Grant{acct.user(), base64.RawURLEncoding.EncodeToString(key[:]), end}, nil
}

func (s *SignIn) set(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: s.secure(r), SameSite: http.SameSiteStrictMode})
}

// signatureAndKey returns the signature of a cookie and the page's key. Neither reveals the other.
func signatureAndKey(token Hash, payload []byte) (signature, key Hash) {
	sum := func(secret, text []byte) Hash {
		mac := hmac.New(sha256.New, secret)
		mac.Write(text)
		return Hash(mac.Sum(nil))
	}
	of := func(what string) Hash {
		secret := sum(token[:], []byte("arbor sign-in "+what))
		return sum(secret[:], payload)
	}
	return of("cookie"), of("key")
}

// Authenticate implements [Authenticator].
func (s *SignIn) Authenticate(_ context.Context, c Credentials) (User, error) {
	acct, _, err := s.check(c)
	if err != nil {
		return User{}, err
	}
	return acct.user(), nil
}

// check returns the account that has signed in, and the cookie.
func (s *SignIn) check(c Credentials) (*account, signed, error) {
	key, hasKey, err := c.header(KeyHeader)
	if err != nil {
		return nil, signed{}, err
	}
	cookie := ""
	if c.Cookie != nil {
		cookie = c.Cookie(s.cookie)
	}
	switch {
	case cookie == "" && !hasKey:
		return nil, signed{}, ErrNoCredentials
	case cookie == "" || !hasKey:
		return nil, signed{}, errMissingHalf
	}
	got, ok := parseCookie(cookie)
	token, acct := Hash(s.accounts.key), s.accounts.byName(got.user)
	if acct != nil { // unknown users take the same time
		token = acct.Token
	}
	sent, err := base64.RawURLEncoding.DecodeString(key)
	signature, want := signatureAndKey(token, got.payload)
	if !ok || acct == nil || err != nil || !hmac.Equal(signature[:], got.signature[:]) || !hmac.Equal(want[:], sent) || !time.Now().Before(got.end) {
		return nil, got, errSignedOut
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, out := s.signedOut[got.signature]; out {
		return nil, got, errSignedOut
	}
	return acct, got, nil
}

// signed is a parsed cookie.
type signed struct {
	signature Hash
	payload   []byte
	end       time.Time
	user      string
}

func parseCookie(text string) (c signed, ok bool) {
	if len(text) > maxCookieLength {
		return c, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) <= len(c.signature)+signInHead {
		return c, false
	}
	c.payload = raw[copy(c.signature[:], raw):]
	c.end = time.Unix(int64(binary.BigEndian.Uint64(c.payload[1:])), 0)
	c.user = string(c.payload[signInHead:])
	return c, c.payload[0] == signInVersion
}

// Close signs a user out: it deletes the browser's cookie, and this process no longer accepts it; it remembers up to 4,096
// such cookies. Other processes accept a copy until it expires. Without a valid sign-in, Close only deletes the cookie.
func (s *SignIn) Close(w http.ResponseWriter, r *http.Request) {
	s.set(w, r, "", -1)
	_, got, err := s.check(CredentialsOf(r))
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.signedOut) >= maxSignedOut {
		maps.DeleteFunc(s.signedOut, func(_ Hash, end time.Time) bool { return !time.Now().Before(end) })
	}
	if len(s.signedOut) < maxSignedOut {
		s.signedOut[got.signature] = got.end
	}
}
