package access

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accounts := must(NewAccounts(Account{"ann", HashToken("good"), 0, nil}))
		var g Guesses
		limited := g.Limit(accounts)
		from := func(addr, token string) error {
			c := withToken(token)
			if c.Remote = netip.MustParseAddr(addr); token == "" {
				c.Header = nil
			}
			_, err := limited.Authenticate(t.Context(), c)
			return err
		}
		var refused *RefusedError
		for range 100 { // requests without a token are no guesses
			require.ErrorIs(t, from("203.0.113.7", ""), ErrNoCredentials)
		}
		for range 19 {
			require.ErrorIs(t, from("203.0.113.7", "bad"), ErrUnauthenticated)
		}
		require.NoError(t, from("203.0.113.7", "good"))
		require.ErrorIs(t, from("::ffff:203.0.113.7", "bad"), ErrUnauthenticated)
		time.Sleep(30 * time.Second)
		require.ErrorAs(t, from("203.0.113.7", "good"), &refused)
		require.Equal(t, http.StatusTooManyRequests, refused.Status)
		require.Equal(t, 30*time.Second, refused.RetryAfter)
		require.NoError(t, from("203.0.113.8", "good"))
		time.Sleep(30 * time.Second)
		require.NoError(t, from("203.0.113.7", "good"))

		for range 19 { // 20 a minute are for ever too few
			require.ErrorIs(t, from("203.0.113.7", "bad"), ErrUnauthenticated)
		}
		time.Sleep(time.Minute)
		for range 19 {
			require.ErrorIs(t, from("203.0.113.7", "bad"), ErrUnauthenticated)
		}
		for range 1000 {
			require.ErrorIs(t, from("127.0.0.1", "bad"), ErrUnauthenticated)
			require.ErrorIs(t, from("::1", "bad"), ErrUnauthenticated)
		}
		for i := range 20 { // one client has a whole network
			require.ErrorIs(t, from(fmt.Sprintf("2001:db8::%x", i+1), "bad"), ErrUnauthenticated)
		}
		require.ErrorAs(t, from("2001:db8::ffff", "good"), &refused)
		require.NoError(t, from("2001:db8:0:1::1", "good"))
	})
}

// Who comes from ever new addresses costs a bounded memory, and gains nothing for the last ones.
func TestGuessesKnowABoundedNumberOfAddresses(t *testing.T) {
	accounts := must(NewAccounts())
	var g Guesses
	last := Credentials{}
	for i := range 3*maxAddresses + 5 {
		c := withToken("bad")
		c.Remote = netip.AddrFrom4([4]byte{203, byte(i >> 16), byte(i >> 8), byte(i)})
		_, err := g.Limit(accounts).Authenticate(t.Context(), c)
		require.ErrorIs(t, err, ErrUnauthenticated)
		require.LessOrEqual(t, len(g.new), maxAddresses)
		require.LessOrEqual(t, len(g.before), maxAddresses)
		last = c
	}
	var refused *RefusedError
	for range 19 {
		_, err := g.Limit(accounts).Authenticate(t.Context(), last)
		require.NotErrorAs(t, err, &refused)
	}
	_, err := g.Limit(accounts).Authenticate(t.Context(), last)
	require.ErrorAs(t, err, &refused)
}

func TestTooManyGuessesOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Guesses
		guard := must(New(Options{Users: g.Limit(must(NewAccounts(Account{"ann", HashToken("good"), 0, nil})))}))
		ask := func(token string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("POST", "http://agents.example.com/", http.NoBody) // from 192.0.2.1
			r.Header.Set("Authorization", "Bearer "+token)
			guard.Handler(http.HandlerFunc(hello)).ServeHTTP(w, r)
			return w
		}
		require.Equal(t, 200, ask("good").Code)
		for range 20 {
			require.Equal(t, 401, ask("bad").Code)
		}
		got := ask("good")
		require.Equal(t, 429, got.Code)
		require.Equal(t, "60", got.Header().Get("Retry-After"))
		require.Contains(t, string(must(io.ReadAll(got.Body))), "too many wrong credentials")
	})
}
