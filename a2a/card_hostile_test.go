package a2a_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// What is in a card besides what we need does not matter, whatever it is.
func TestHarmlessCards(t *testing.T) {
	with := func(field string) string { return strings.Replace(goodCard, `{`, `{`+field+`,`, 1) }
	for name, card := range map[string]string{
		"itself":                  with(`"capabilities":{"extensions":[{"uri":"urn:x","params":{"$ref":"#/capabilities/extensions/0"}}]}`),
		"deep parameters":         with(`"capabilities":{"extensions":[{"uri":"urn:x","params":{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}}]}`),
		"unknown security scheme": with(`"securitySchemes":{"x":{"quantumSecurityScheme":{}}}`),
		"skills of another form":  with(`"skills":{"a":1}`),
		"signature of no form":    with(`"signatures":"none"`),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, ready(inMemory(t, func(*http.Request) (*http.Response, error) { return response(200, card), nil })))
		})
	}
}

// endless is a body that does not end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// What is no card ends with a clear error, in bounded memory.
func TestHostileCards(t *testing.T) {
	serve := func(body io.Reader) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, body) }
	}
	deep := strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		code    a2a.ErrorCode
		text    string
	}{
		"10 MB":       {serve(strings.NewReader(`{"name":"` + strings.Repeat("x", 10<<20) + `"}`)), a2a.CodeTooLarge, "limit of 1048576 bytes"},
		"endless":     {serve(endless{}), a2a.CodeTooLarge, "limit of 1048576 bytes"},
		"empty":       {serve(strings.NewReader("")), a2a.CodeCard, "the card is invalid"},
		"HTML":        {serve(strings.NewReader("<html>")), a2a.CodeCard, "the card is invalid"},
		"cut off":     {serve(strings.NewReader(goodCard[:40])), a2a.CodeCard, "the card is invalid"},
		"a list":      {serve(strings.NewReader("[]")), a2a.CodeCard, "the card is invalid"},
		"null":        {serve(strings.NewReader("null")), a2a.CodeCard, "no interface"},
		"too deep":    {serve(strings.NewReader(deep)), a2a.CodeCard, "exceeded max depth"},
		"deep params": {serve(strings.NewReader(`{"capabilities":{"extensions":[{"params":` + deep + `}]}}`)), a2a.CodeCard, "exceeded max depth"},
		"a bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.Copy(z, io.LimitReader(endless{}, 4<<20))
			_ = z.Close()
		}, a2a.CodeTooLarge, "limit of 1048576 bytes"},
		"endless headers": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 1000 {
				w.Header().Set("X-"+strconv.Itoa(i), strings.Repeat("x", 1000))
			}
			_, _ = io.WriteString(w, goodCard)
		}, a2a.CodeUnreachable, "headers"},
		"silence": {func(w http.ResponseWriter, req *http.Request) {
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		}, a2a.CodeTimeout, "did not arrive within 100ms"},
		"a redirect to itself": {func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "/.well-known/agent-card.json", http.StatusFound)
		}, a2a.CodeUnreachable, "stopped after 5 redirects"},
		"a redirect elsewhere": {func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "http://127.0.0.1:1/?secret=hunter2", http.StatusFound)
		}, a2a.CodeUnreachable, "to http://127.0.0.1:1"},
		"a redirect to a file": {func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "file:///etc/passwd", http.StatusFound)
		}, a2a.CodeUnreachable, "another origin"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(c.handler)
			defer srv.Close()
			limit := time.Minute
			if c.code == a2a.CodeTimeout {
				limit = 100 * time.Millisecond
			}
			r := remotetest.Billing(t, srv.URL, a2a.WithCardTimeout(limit))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := ready(r)
			runtime.ReadMemStats(&after)
			requireCode(t, err, c.code)
			require.ErrorContains(t, err, c.text)
			require.NotContains(t, err.Error(), "hunter2")
			// All that was allocated, that of the server included, which is little.
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
		})
	}
}

// Redirects within the origin are followed, with the credentials.
func TestRedirectWithinTheOrigin(t *testing.T) {
	var hops atomic.Int32
	var redirects atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer hunter2" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if n := hops.Add(1); n <= redirects.Load() {
			http.Redirect(w, req, "/"+strconv.Itoa(int(n)), http.StatusMovedPermanently)
			return
		}
		_, _ = io.WriteString(w, goodCard)
	}))
	defer srv.Close()
	redirects.Store(5)
	require.NoError(t, ready(remotetest.Billing(t, srv.URL, a2a.WithBearer("hunter2"))))
	hops.Store(0)
	redirects.Store(6)
	require.ErrorContains(t, ready(remotetest.Billing(t, srv.URL, a2a.WithBearer("hunter2"))), "stopped after 5 redirects")
	require.EqualValues(t, 6, hops.Load())
}

// A card is verified as it was received, before anything of it is used.
func TestCardVerifier(t *testing.T) {
	refused := errors.New("nobody we know has signed it")
	for _, verdict := range []error{nil, refused} {
		var got [][]byte
		r := inMemory(t, func(*http.Request) (*http.Response, error) { return response(200, " "+goodCard+"\n"), nil }, a2a.WithCardTTL(0),
			a2a.WithCardVerifier(func(ctx context.Context, card []byte) error {
				_, bounded := ctx.Deadline()
				require.True(t, bounded)
				got = append(got, bytes.Clone(card))
				clear(card) // what it does to it is its own affair
				return verdict
			}))
		for range 2 {
			err := ready(r)
			require.ErrorIs(t, err, verdict)
			if verdict != nil {
				requireCode(t, err, a2a.CodeCard)
				require.ErrorContains(t, err, "nobody we know")
			}
		}
		require.Equal(t, [][]byte{[]byte(" " + goodCard + "\n"), []byte(" " + goodCard + "\n")}, got)
	}
}

// A signed card is used, and one that was changed on the way is not.
func TestSignedCards(t *testing.T) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	signer := must.Get(cardsign.NewSigner(key, cardsign.WithKeyID("2026")))
	signed := must.Get(signer.SignJSON([]byte(goodCard)))
	verifier := must.Get(cardsign.NewVerifier(signer.Key()))
	evil := `"supportedInterfaces":[{"url":"http://evil.test/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],`
	for name, c := range map[string]struct {
		card     string
		accepted bool
	}{
		"as it was signed": {string(signed), true},
		"with more space":  {strings.ReplaceAll(string(signed), ":[", ": ["), true},
		"not signed":       {goodCard, false},
		"another URL":      {strings.Replace(string(signed), "peer.test", "evil.test", 1), false},
		"a second list":    {strings.Replace(string(signed), "{", "{"+evil, 1), false},
		"in capitals":      {strings.Replace(string(signed), "{", "{"+strings.Replace(evil, "supported", "Supported", 1), 1), false},
		"in capitals, at the end": {strings.TrimSuffix(strings.TrimSpace(string(signed)), "}") + "," +
			strings.TrimSuffix(strings.Replace(evil, "supported", "SUPPORTED", 1), ",") + "}", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := ready(inMemory(t, func(*http.Request) (*http.Response, error) { return response(200, c.card), nil }, a2a.WithCardVerifier(verifier.Verify)))
			if c.accepted {
				require.NoError(t, err)
				return
			}
			requireCode(t, err, a2a.CodeCard)
		})
	}
}

// FuzzCard fetches whatever a peer may send as its card.
func FuzzCard(f *testing.F) {
	var card, control, expires, age string
	r := must.Get(a2a.Remote("billing", "http://peer.test/card", a2a.WithHTTPClient(&http.Client{Transport: pipe(func(*http.Request) (*http.Response, error) {
		return response(200, card, "Cache-Control", control, "Expires", expires, "Age", age), nil
	})})))
	f.Add(goodCard, "max-age=0", "", "")
	f.Add(`{"protocolVersion":"0.3.0","url":"x"}`, "no-cache", "0", "-1")
	f.Add(`{"supportedInterfaces":[null,{"url":"http://127.0.0.1","protocolBinding":"JSONRPC","protocolVersion":"1"}]}`, `max-age="1`, "Sat, 01 Jan 2000 00:00:00 GMT", "99999999999")
	f.Add(`{"supportedInterfaces":[{"url":":","protocolBinding":"GRPC","protocolVersion":"1.0"}]}`, "=,;", "x", "x")
	f.Fuzz(func(t *testing.T, body, cacheControl, expiry, seconds string) {
		card, control, expires, age = body, cacheControl, expiry, seconds
		if err := ready(r); err != nil {
			var e *a2a.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, []a2a.ErrorCode{a2a.CodeCard, a2a.CodeAddress}, e.Code)
			require.True(t, utf8.ValidString(e.Error()))
		}
	})
}
