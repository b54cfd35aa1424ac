package access

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// browser keeps a cookie and a key.
type browser struct {
	cookie *http.Cookie
	key    string
}

// with returns a request with the halves.
func (b browser) with(t *testing.T, cookie, key bool) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:8420/api/v1/me", http.NoBody)
	if cookie {
		r.AddCookie(b.cookie)
	}
	if key {
		r.Header.Set(KeyHeader, b.key)
	}
	return r
}

func post(t *testing.T) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1:8420/inspect/sign-in", http.NoBody)
}

// enter signs in.
func enter(t *testing.T, s *SignIn, code, token string) (browser, error) {
	t.Helper()
	w := httptest.NewRecorder()
	grant, err := s.Open(w, post(t), code, token)
	if err != nil {
		require.Empty(t, w.Result().Cookies())
		return browser{}, err
	}
	require.Len(t, w.Result().Cookies(), 1)
	return browser{w.Result().Cookies()[0], grant.Key}, nil
}

func TestSignIn(t *testing.T) {
	ann, bob := Account{"ann", HashToken("a"), Desk, nil}, Account{"bob", HashToken("b"), 0, nil}
	accounts := must(NewAccounts(ann, bob))
	s := must(NewSignIn(accounts, SignInOptions{Port: 8420}))
	w := httptest.NewRecorder()
	grant := must(s.Open(w, post(t), "", "a"))
	require.Equal(t, "ann", grant.User.Name)
	cookie := w.Result().Cookies()[0]
	require.Equal(t, "arbor_8420", cookie.Name)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.True(t, cookie.HttpOnly)
	require.False(t, cookie.Secure)
	require.Equal(t, "/", cookie.Path)
	require.Equal(t, 7*24*60*60, cookie.MaxAge)
	require.Empty(t, cookie.Domain)
	b := browser{cookie, grant.Key}

	who := func(r *http.Request) (User, error) { return s.Authenticate(t.Context(), CredentialsOf(r)) }
	user := must(who(b.with(t, true, true)))
	require.Equal(t, "ann", user.Name)
	require.Equal(t, Desk, user.Rights)
	require.NotNil(t, user.revoked)
	for _, half := range [][2]bool{{true, false}, {false, true}, {false, false}} {
		_, err := who(b.with(t, half[0], half[1]))
		require.ErrorIs(t, err, ErrNoCredentials)
	}

	// Halves of two sign-ins, also of one user, are none.
	for _, token := range []string{"a", "b"} {
		other := must(enter(t, s, "", token))
		for _, mixed := range []browser{{b.cookie, other.key}, {other.cookie, b.key}} {
			_, err := who(mixed.with(t, true, true))
			require.ErrorIs(t, err, ErrUnauthenticated)
		}
		require.NotContains(t, other.cookie.Value, other.key)
	}
	// Nor do several of either.
	twice := b.with(t, true, true)
	twice.AddCookie(b.cookie)
	_, err := who(twice)
	require.ErrorIs(t, err, ErrUnauthenticated)
	twice = b.with(t, true, true)
	twice.Header.Add(KeyHeader, b.key)
	_, err = who(twice)
	require.ErrorIs(t, err, ErrUnauthenticated)
	// A page of another origin has no use of the cookie, whatever else it knows.
	for _, header := range [][2]string{{"Origin", "http://127.0.0.1:9999"}, {"Origin", "null"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "cross-site"}} {
		foreign := b.with(t, true, true)
		foreign.Header.Set(header[0], header[1])
		_, err = who(foreign)
		require.ErrorIs(t, err, ErrNoCredentials, header)
		foreign = post(t)
		foreign.Header.Set(header[0], header[1])
		_, err = s.Open(httptest.NewRecorder(), foreign, "", "a")
		var refused *RefusedError
		require.ErrorAs(t, err, &refused)
	}
	own := b.with(t, true, true)
	own.Header.Set("Origin", "http://127.0.0.1:8420")
	require.Equal(t, "ann", must(who(own)).Name)

	// Each bit of the cookie counts, and of the key.
	for name, value := range map[string]*string{"cookie": &b.cookie.Value, "key": &b.key} {
		raw := must(base64.RawURLEncoding.DecodeString(*value))
		good := *value
		for i := range raw {
			bad := bytes.Clone(raw)
			bad[i] ^= 1
			*value = base64.RawURLEncoding.EncodeToString(bad)
			_, err := who(b.with(t, true, true))
			require.ErrorIs(t, err, ErrUnauthenticated, "%s %d", name, i)
		}
		for _, bad := range []string{"x", "*", good[:len(good)-1], good + "AAAA", strings.Repeat("A", 10_000)} {
			*value = bad
			_, err := who(b.with(t, true, true))
			require.ErrorIs(t, err, ErrUnauthenticated, "%s %q", name, bad)
		}
		*value = good
	}

	// It outlives a restart, holds at another process, and ends with the token.
	other := must(NewSignIn(must(NewAccounts(bob, ann)), SignInOptions{Port: 8420}))
	require.Equal(t, "ann", must(other.Authenticate(t.Context(), CredentialsOf(b.with(t, true, true)))).Name)
	other = must(NewSignIn(accounts, SignInOptions{Port: 8421}))
	_, err = other.Authenticate(t.Context(), CredentialsOf(b.with(t, true, true)))
	require.ErrorIs(t, err, ErrNoCredentials, "it is the cookie of another server")
	require.NoError(t, accounts.Replace(Account{"ann", HashToken("new"), Desk, nil}))
	_, err = who(b.with(t, true, true))
	require.ErrorIs(t, err, ErrUnauthenticated)
	require.NoError(t, accounts.Replace(ann))
	require.Equal(t, "ann", must(who(b.with(t, true, true))).Name)
	require.NoError(t, accounts.Replace(bob))
	_, err = who(b.with(t, true, true))
	require.ErrorIs(t, err, ErrUnauthenticated)
}

func TestSignInEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := must(NewSignIn(must(NewAccounts(Account{"ann", HashToken("a"), 0, nil})), SignInOptions{Port: 1}))
		b := must(enter(t, s, "", "a"))
		who := func() error {
			_, err := s.Authenticate(t.Context(), CredentialsOf(b.with(t, true, true)))
			return err
		}
		time.Sleep(7*24*time.Hour - time.Second)
		require.NoError(t, who())
		time.Sleep(time.Second)
		require.ErrorIs(t, who(), ErrUnauthenticated)

		b = must(enter(t, s, "", "a"))
		other := must(enter(t, s, "", "a"))
		w := httptest.NewRecorder()
		s.Close(w, b.with(t, true, true))
		require.Equal(t, -1, w.Result().Cookies()[0].MaxAge)
		require.Empty(t, w.Result().Cookies()[0].Value)
		require.ErrorIs(t, who(), ErrUnauthenticated)
		b = other
		require.NoError(t, who(), "other sign-ins go on")
		s.Close(httptest.NewRecorder(), b.with(t, true, false)) // half of one ends nothing
		require.NoError(t, who())
	})
}

// What is remembered of sign-ins that were ended is bounded, and forgotten when they would have ended.
func TestSignOutsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := must(NewSignIn(must(NewAccounts(Account{"ann", HashToken("a"), 0, nil})), SignInOptions{Port: 1, Lifetime: time.Hour}))
		for range maxSignedOut + 10 {
			b := must(enter(t, s, "", "a"))
			s.Close(httptest.NewRecorder(), b.with(t, true, true))
		}
		require.Len(t, s.signedOut, maxSignedOut)
		time.Sleep(2 * time.Hour)
		b := must(enter(t, s, "", "a"))
		s.Close(httptest.NewRecorder(), b.with(t, true, true))
		require.Len(t, s.signedOut, 1)
	})
}

func TestCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accounts := must(NewAccounts(Account{"ann", HashToken("a"), 0, nil}))
		s := must(NewSignIn(accounts, SignInOptions{Port: 1}))
		_, err := s.Code("eve")
		require.Error(t, err)
		code := must(s.Code("ann"))
		require.Len(t, code, 26)
		time.Sleep(5*time.Minute - time.Nanosecond)
		_, err = enter(t, s, "", code)
		require.ErrorIs(t, err, ErrUnauthenticated, "a code is no token")
		b := must(enter(t, s, code, ""))
		require.Equal(t, "ann", must(s.Authenticate(t.Context(), CredentialsOf(b.with(t, true, true)))).Name)
		_, err = enter(t, s, code, "")
		require.ErrorIs(t, err, ErrUnauthenticated, "it works once")

		late := must(s.Code("ann"))
		time.Sleep(5 * time.Minute)
		_, err = enter(t, s, late, "")
		require.ErrorIs(t, err, ErrUnauthenticated)
		require.NotContains(t, err.Error(), late)

		first := must(s.Code("ann"))
		for range maxCodes {
			must(s.Code("ann"))
		}
		require.Len(t, s.codes, maxCodes)
		_, err = enter(t, s, first, "")
		require.ErrorIs(t, err, ErrUnauthenticated)

		gone := must(s.Code("ann"))
		require.NoError(t, accounts.Replace())
		_, err = enter(t, s, gone, "")
		require.ErrorIs(t, err, ErrUnauthenticated)
	})
}

func TestWrongSignInsAreBounded(t *testing.T) {
	guesses := &Guesses{}
	s := must(NewSignIn(must(NewAccounts(Account{"ann", HashToken("a"), 0, nil})), SignInOptions{Port: 1, Guesses: guesses}))
	b := must(enter(t, s, "", "a"))
	b.key = strings.Repeat("A", len(b.key))
	for range 50 { // pages go on with a sign-in that is over, and guess nothing
		_, err := guesses.Limit(s).Authenticate(t.Context(), CredentialsOf(b.with(t, true, true)))
		require.ErrorIs(t, err, ErrUnauthenticated)
	}
	var refused *RefusedError
	for i := range 20 {
		code, token := "bad", ""
		if i%2 == 0 {
			code, token = token, code
		}
		_, err := enter(t, s, code, token)
		require.ErrorIs(t, err, ErrUnauthenticated)
	}
	_, err := enter(t, s, "", "a")
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 429, refused.Status)
	_, err = guesses.Limit(s.accounts).Authenticate(t.Context(), CredentialsOf(b.with(t, true, true)))
	require.ErrorAs(t, err, &refused, "what is wrong here counts elsewhere")
}

// Other machines sign in under https only.
func TestSignInInTheClear(t *testing.T) {
	accounts := must(NewAccounts(Account{"ann", HashToken("a"), 0, nil}))
	for _, test := range []struct {
		name       string
		https, tls bool
		addr       string
		ok, secure bool
	}{
		{"loopback", false, false, "127.0.0.1", true, false},
		{"loopback of IPv6", false, false, "::1", true, false},
		{"a network", false, false, "192.0.2.7", false, false},
		{"a network under TLS", false, true, "192.0.2.7", true, true},
		{"loopback under TLS", false, true, "127.0.0.1", true, true},
		{"behind a proxy", true, false, "192.0.2.7", true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := must(NewSignIn(accounts, SignInOptions{Port: 1, HTTPS: test.https}))
			r := post(t)
			r.TLS = nil
			if test.tls {
				r = httptest.NewRequest("POST", "https://agents.example.com/inspect/sign-in", http.NoBody)
			}
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(test.addr), Port: 1}))
			w := httptest.NewRecorder()
			_, err := s.Open(w, r, "", "a")
			if !test.ok {
				var refused *RefusedError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, 403, refused.Status)
				require.ErrorAs(t, s.Allow(r), &refused)
				require.Empty(t, w.Result().Cookies())
				return
			}
			require.NoError(t, err)
			require.NoError(t, s.Allow(r))
			require.Equal(t, test.secure, w.Result().Cookies()[0].Secure)
		})
	}
	for _, o := range []SignInOptions{{}, {Port: 70_000}, {Port: 1, Lifetime: -1}, {Port: 1, Lifetime: 8 * 24 * time.Hour}} {
		_, err := NewSignIn(accounts, o)
		require.Error(t, err)
	}
	_, err := NewSignIn(nil, SignInOptions{Port: 1})
	require.Error(t, err)
}

// Whatever is sent as the halves, nobody is let in but by what was given out.
func FuzzSignIn(f *testing.F) {
	s := must(NewSignIn(must(NewAccounts(Account{"ann", HashToken("a"), 0, nil})), SignInOptions{Port: 1}))
	payload := append(binary.BigEndian.AppendUint64([]byte{signInVersion}, 1<<40), "0123456789abcdefann"...) // the same in all processes of the fuzzer
	signature, half := signatureAndKey(HashToken("a"), payload)
	cookie, key := base64.RawURLEncoding.EncodeToString(append(signature[:], payload...)), base64.RawURLEncoding.EncodeToString(half[:])
	f.Add(cookie, key)
	f.Add("", "")
	f.Add(cookie[:60], key)
	f.Add(string(must(json.Marshal(cookie))), "x")
	f.Fuzz(func(t *testing.T, c, k string) {
		user, err := s.Authenticate(t.Context(), Credentials{Header: func(string) []string { return []string{k} }, Cookie: func(string) string { return c }})
		same := func(a, b string) bool { // the last letter has bits that mean nothing
			x, errX := base64.RawURLEncoding.DecodeString(a)
			y, errY := base64.RawURLEncoding.DecodeString(b)
			return errX == nil && errY == nil && bytes.Equal(x, y)
		}
		if err == nil {
			require.Equal(t, "ann", user.Name)
			require.True(t, same(c, cookie) && same(k, key))
			return
		}
		require.ErrorIs(t, err, ErrUnauthenticated)
	})
}
