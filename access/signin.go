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

// KeyHeader is the header in which a page sends its half of a sign-in.
const KeyHeader = "Arbor-CSRF"

const (
	codeLifetime    = 5 * time.Minute
	signInLifetime  = 7 * 24 * time.Hour
	maxCodes        = 64
	maxSignedOut    = 4096
	signInVersion   = 1
	signInHead      = 1 + 8 + 16 // version, end, random bytes; the user's name comes behind them
	maxCookieLength = 4096
)

// errSignedOut does not count as a guess: pages go on for a while with a sign-in that is over.
var errSignedOut = fmt.Errorf("%w: the sign-in has expired or is invalid: sign in again", ErrUnauthenticated)

// errHalf is said to programs that send one half, which is most often a browser's cookie alone.
var errHalf = fmt.Errorf("%w: a sign-in needs both the cookie and the header %s", ErrNoCredentials, KeyHeader)

// SignIn lets users of [Accounts] in from browsers. A sign-in has two halves: a cookie, which no
// script can read, and a key, which the page keeps and sends as [KeyHeader] with every request.
// Neither works alone, because browsers send cookies to every port of a host (RFC 6265, section
// 8.5) and keep what pages store by port.
//
// The cookie is signed with a key that comes from the hash of the user's token, and nothing about
// it is stored: it outlives a restart, holds for all processes with the same accounts, and ends
// with the token. It is safe for concurrent use.
type SignIn struct {
	accounts *Accounts
	opts     SignInOptions
	cookie   string

	mu    sync.Mutex
	codes []code
	over  map[Hash]time.Time // the signatures of cookies that were signed out, and when they end by themselves
}

type code struct {
	code Hash // the code that the accounts make of it
	user string
	end  time.Time
}

// SignInOptions say how browsers reach a server.
type SignInOptions struct {
	// Port is the one that browsers see, for the name of the cookie: servers of one host share its
	// cookies.
	Port int
	// HTTPS says that browsers come under https, to a proxy in front of the server. Without it and
	// without TLS only browsers of this machine can sign in.
	HTTPS bool
	// Lifetime bounds a sign-in; 0 is seven days, which is the most.
	Lifetime time.Duration
	// Guesses bounds wrong codes and tokens, together with those elsewhere; nil is no bound.
	Guesses *Guesses
}

// NewSignIn makes a sign-in. It is an error if there are no accounts, or an option cannot be.
func NewSignIn(accounts *Accounts, o SignInOptions) (*SignIn, error) {
	o.Lifetime = cmp.Or(o.Lifetime, signInLifetime)
	switch {
	case accounts == nil:
		return nil, errors.New("access: a sign-in needs accounts")
	case o.Port < 1 || o.Port > 65535:
		return nil, fmt.Errorf("access: %d is no port", o.Port)
	case o.Lifetime < 0 || o.Lifetime > signInLifetime:
		return nil, fmt.Errorf("access: a sign-in lasts at most %d days", signInLifetime/(24*time.Hour))
	}
	return &SignIn{accounts: accounts, opts: o, cookie: "arbor_" + strconv.Itoa(o.Port), over: make(map[Hash]time.Time)}, nil
}

// Code returns a code with which a user can sign in once, within five minutes. It is to be said to
// that user alone.
func (s *SignIn) Code(user string) (string, error) {
	if s.accounts.byName(user) == nil {
		return "", fmt.Errorf("access: there is no user %.64q", user)
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

// redeem returns whose code it is, which does not work again.
func (s *SignIn) redeem(text string) (*account, error) {
	of := s.accounts.code(HashToken(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.codes, func(c code) bool { return hmac.Equal(c.code[:], of[:]) })
	if i < 0 {
		return nil, errWrongCredentials
	}
	found := s.codes[i]
	s.codes = slices.Delete(s.codes, i, i+1)
	who := s.accounts.byName(found.user)
	if who == nil || !time.Now().Before(found.end) {
		return nil, fmt.Errorf("%w: the code is older than %d minutes", ErrUnauthenticated, codeLifetime/time.Minute)
	}
	return who, nil
}

// Grant is a sign-in that was made.
type Grant struct {
	User User
	// Key is the page's half.
	Key string
	End time.Time
}

// Allow refuses requests of pages that came over a network in the clear, where anybody on the way
// could change the page and read what is typed. The error is a *[RefusedError].
func (s *SignIn) Allow(r *http.Request) error {
	if s.secure(r) {
		return nil
	}
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		return refusef(http.StatusForbidden, "browsers of other machines are let in under https only: give the server a certificate, or the https address of the proxy before it")
	}
	return nil
}

func (s *SignIn) secure(r *http.Request) bool { return s.opts.HTTPS || r.TLS != nil }

// Open signs in with a code, or else with a token, and sets the cookie. The error says what
// [Authenticator] says, or is a *[RefusedError].
func (s *SignIn) Open(w http.ResponseWriter, r *http.Request, code, token string) (*Grant, error) {
	if err := s.Allow(r); err != nil {
		return nil, err
	}
	if !sameOrigin(r) {
		return nil, refusef(http.StatusForbidden, "only the server's own page can sign in")
	}
	var who *account
	check := func() (_ User, err error) {
		if code != "" {
			who, err = s.redeem(code)
		} else {
			who, err = s.accounts.byToken(token)
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
	payload = append(payload, who.Name...)
	signature, key := halves(who.Token, payload)
	s.set(w, r, base64.RawURLEncoding.EncodeToString(append(signature[:], payload...)), int(s.opts.Lifetime/time.Second))
	return &Grant{who.user(), base64.RawURLEncoding.EncodeToString(key[:]), end}, nil
}

func (s *SignIn) set(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: s.secure(r), SameSite: http.SameSiteStrictMode})
}

// halves returns the signature of a cookie and the page's key, neither of which tells the other.
func halves(token Hash, payload []byte) (signature, key Hash) {
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
	who, _, err := s.check(c)
	if err != nil {
		return User{}, err
	}
	return who.user(), nil
}

// check returns who has signed in, and the cookie.
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
		return nil, signed{}, errHalf
	}
	got, ok := parseCookie(cookie)
	token, who := Hash(s.accounts.key), s.accounts.byName(got.user)
	if who != nil { // for others it takes as long
		token = who.Token
	}
	sent, err := base64.RawURLEncoding.DecodeString(key)
	signature, want := halves(token, got.payload)
	if !ok || who == nil || err != nil || !hmac.Equal(signature[:], got.signature[:]) || !hmac.Equal(want[:], sent) || !time.Now().Before(got.end) {
		return nil, got, errSignedOut
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, over := s.over[got.signature]; over {
		return nil, got, errSignedOut
	}
	return who, got, nil
}

// signed is a cookie.
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

// Close signs out: the browser forgets its cookie, and this process lets nobody in with it any
// more. It does nothing else for who is not signed in.
func (s *SignIn) Close(w http.ResponseWriter, r *http.Request) {
	s.set(w, r, "", -1)
	_, got, err := s.check(CredentialsOf(r))
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.over) >= maxSignedOut {
		maps.DeleteFunc(s.over, func(_ Hash, end time.Time) bool { return !time.Now().Before(end) })
	}
	if len(s.over) < maxSignedOut {
		s.over[got.signature] = got.end
	}
}
