package access

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/session"
)

func withToken(token string) Credentials {
	return Credentials{Header: func(name string) []string {
		if name == "Authorization" {
			return []string{"Bearer " + token}
		}
		return nil
	}}
}

func TestHashes(t *testing.T) {
	sum := sha256.Sum256([]byte("a token"))
	text := "sha256:" + hex.EncodeToString(sum[:])
	require.Equal(t, text, HashToken("a token").String())
	require.Equal(t, HashToken("a token"), must(ParseHash(text)))
	require.Equal(t, HashToken("a token"), must(ParseHash("sha256:"+strings.ToUpper(text[7:]))))
	for _, bad := range []string{"", "sha256:", text[7:], text[:70], text + "00", text + "0", "sha1:" + text[7:], strings.Replace(text, ":", ": ", 1), "hunter2"} {
		_, err := ParseHash(bad)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestAccounts(t *testing.T) {
	ann, bob := Account{"ann", HashToken("a"), Inspect | Desk, nil}, Account{"bob", HashToken("b"), 0, nil}
	a := must(NewAccounts(ann, bob))
	user := must(a.Authenticate(t.Context(), withToken("a")))
	require.Equal(t, "ann", user.Name)
	require.Equal(t, Inspect|Desk, user.Rights)
	require.Equal(t, "bob", must(a.Authenticate(t.Context(), withToken("b"))).Name)
	for _, wrong := range []string{"c", "", "a,b", HashToken("a").String()} {
		_, err := a.Authenticate(t.Context(), withToken(wrong))
		require.ErrorIs(t, err, ErrUnauthenticated)
		require.NotErrorIs(t, err, ErrNoCredentials)
	}
	_, err := a.Authenticate(t.Context(), Credentials{})
	require.ErrorIs(t, err, ErrNoCredentials)

	for _, bad := range [][]Account{{ann, ann}, {ann, {"eve", ann.Token, 0, nil}}, {{"", HashToken("x"), 0, nil}}, {{"a\x00", HashToken("x"), 0, nil}}} {
		require.Error(t, a.Replace(bad...))
		_, err := NewAccounts(bad...)
		require.Error(t, err)
	}
	require.Equal(t, "bob", must(a.Authenticate(t.Context(), withToken("b"))).Name, "what cannot be changes nothing")
}

// What a user has open ends with the token and with each right, and goes on whatever happens to
// others.
func TestStreamsEndWhenTheirUserIsRevoked(t *testing.T) {
	ann, bob := Account{"ann", HashToken("a"), Inspect, nil}, Account{"bob", HashToken("b"), Inspect, nil}
	for name, test := range map[string]struct {
		next  []Account
		ended bool
	}{
		"as it was":    {[]Account{bob, ann}, false},
		"more rights":  {[]Account{{"ann", ann.Token, Inspect | Act, nil}}, false},
		"gone":         {[]Account{bob}, true},
		"fewer rights": {[]Account{{"ann", ann.Token, Act, nil}, bob}, true},
		"a new token":  {[]Account{{"ann", HashToken("c"), Inspect, nil}, bob}, true},
		"another name": {[]Account{{"anna", ann.Token, Inspect, nil}, bob}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := must(NewAccounts(ann, bob))
				ctx := must(Authenticate(t.Context(), a, withToken("a")))
				w := httptest.NewRecorder()
				s := NewStream(ctx, w, 0)
				until, stop := UntilRevoked(ctx)
				defer stop()
				require.NoError(t, a.Replace(test.next...))
				synctest.Wait()
				if test.ended {
					require.ErrorIs(t, context.Cause(s.Context()), ErrRevoked)
					require.ErrorIs(t, context.Cause(until), ErrRevoked)
					require.NoError(t, s.Send(Frame{Event: "end", Data: []byte("revoked")}))
					late := NewStream(ctx, httptest.NewRecorder(), 0) // it was let in just before
					synctest.Wait()
					require.ErrorIs(t, context.Cause(late.Context()), ErrRevoked)
					late.Close()
				} else {
					require.NoError(t, s.Context().Err())
					require.NoError(t, until.Err())
					require.NoError(t, a.Replace())
					synctest.Wait()
					require.ErrorIs(t, context.Cause(s.Context()), ErrRevoked, "who was carried over is still known")
				}
				s.Close()
				require.Equal(t, test.ended, w.Code == http.StatusOK && strings.Contains(w.Body.String(), "revoked"))
			})
		})
	}
	// Handlers that know nothing of it end, too.
	a, begun := must(NewAccounts(ann)), make(chan struct{})
	h := must(New(Options{Users: a})).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	}))
	r := httptest.NewRequest("GET", "http://localhost/", http.NoBody)
	r.Header.Set("Authorization", "Bearer a")
	go func() {
		<-begun
		_ = a.Replace()
	}()
	h.ServeHTTP(httptest.NewRecorder(), r)

	until, stop := UntilRevoked(t.Context())
	require.NoError(t, until.Err())
	stop()
}

// A certificate is as good as its name in the accounts, for as long as it is there. The owner has a token only.
func TestCertificatesNameAccounts(t *testing.T) {
	ann, local := Account{"ann", HashToken("a"), Inspect, nil}, Account{session.DefaultUser, HashToken("o"), All, nil}
	accounts := must(NewAccounts(ann, local, Account{"spiffe://x/bot", HashToken("b"), 0, nil}))
	uri := must(url.Parse("spiffe://x/bot"))
	who := func(c *x509.Certificate) (User, error) {
		return accounts.Certificates().Authenticate(t.Context(), Credentials{Certificates: []*x509.Certificate{c}})
	}
	named := func(name string, uris ...*url.URL) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: []string{"x"}}, URIs: uris}
	}
	got, err := who(named("ann"))
	require.NoError(t, err)
	require.Equal(t, "ann", got.Name)
	require.Equal(t, Inspect, got.Rights)
	got, err = who(named("local", uri))
	require.NoError(t, err)
	require.Equal(t, "spiffe://x/bot", got.Name)
	for _, c := range []*x509.Certificate{named(""), named("Ann"), named("ann "), named("CN=ann"), named("ben"), named(session.DefaultUser),
		named("", must(url.Parse(session.DefaultUser))), named("ann", must(url.Parse("spiffe://x/other")))} {
		_, err = who(c)
		require.ErrorIs(t, err, ErrUnauthenticated, c.Subject)
		require.NotErrorIs(t, err, ErrNoCredentials)
	}
	_, err = accounts.Certificates().Authenticate(t.Context(), Credentials{})
	require.ErrorIs(t, err, ErrNoCredentials)

	got, err = who(named("ann"))
	require.NoError(t, err)
	until, stop := UntilRevoked(WithUser(t.Context(), got))
	defer stop()
	require.NoError(t, accounts.Replace(local))
	<-until.Done()
	require.ErrorIs(t, context.Cause(until), ErrRevoked)
	_, err = who(named("ann"))
	require.ErrorIs(t, err, ErrUnauthenticated, "ann was removed")
}

// Names that people, paths or keys could take for others are refused, in the accounts and in a users file alike.
func TestCheckName(t *testing.T) {
	for _, name := range []string{"ann", "ann@example.com", "spiffe://example.org/bot", "Анна", "Zoë", "王芳", "a/b", "ann..b"} {
		require.NoError(t, CheckName(name), name)
	}
	for _, name := range []string{"", "..", ".", "../bob", "a/../b", `a\..\b`, "spiffe://x/..", "a b", "a\u200bb", "\xff", "a\x00", "аnn", "ａnn", "ﬁn", "Zoe\u0308", strings.Repeat("x", 256)} {
		require.Error(t, CheckName(name), "%q", name)
		_, err := NewAccounts(Account{Name: name, Token: HashToken("a")})
		require.Error(t, err, "%q", name)
	}
}

// TestNamesThatLookAlike checks that no two accounts have names which people cannot tell apart.
func TestNamesThatLookAlike(t *testing.T) {
	account := func(name, token string) Account { return Account{Name: name, Token: HashToken(token)} }
	for _, names := range [][2]string{{"paul", "pau1"}, {"paul", "pauI"}, {"Oleg", "0leg"}, {"arno", "amo"}, {"vvill", "will"}, {"coco", "сосо"}, {"ВАТА", "BATA"}, {"ΑΝΝΑ", "ANNA"}} {
		_, err := NewAccounts(account(names[0], "a"), account(names[1], "b"))
		require.ErrorContains(t, err, "look alike", "%q", names)
	}
	for _, names := range [][2]string{{"ann", "Ann"}, {"ann", "anna"}, {"user2", "user3"}, {"zoe", "zoë"}, {"i", "j"}, {"Анна", "Анка"}} {
		_, err := NewAccounts(account(names[0], "a"), account(names[1], "b"))
		require.NoError(t, err, "%q", names)
	}
}
