package a2a_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

const goodCard = `{"name":"x","supportedInterfaces":[{"url":"http://peer.test/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`

// response makes a response of a peer in memory.
func response(status int, body string, header ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

func inMemory(t *testing.T, p pipe, opts ...a2a.Option) agent.Agent {
	t.Helper()
	r, err := a2a.Remote("billing", "http://peer.test/card", append([]a2a.Option{a2a.WithHTTPClient(&http.Client{Transport: p})}, opts...)...)
	require.NoError(t, err)
	return r
}

func ready(r agent.Agent) error { return r.(agent.Readier).Ready(context.Background()) }

// A thousand turns in a hundred conversations, by many at the same time, fetch one
// card.
func TestOneFetchForAThousandTurns(t *testing.T) {
	srv := newServer(t, true, nil)
	gate := make(chan struct{})
	srv.cardGate = gate
	var turns atomic.Int32
	counts := a2a.WithBinding(a2a.Binding{Protocol: sdk.TransportProtocolJSONRPC, Version: "1.0",
		Dial: func(context.Context, *sdk.AgentInterface, a2a.Environment) (a2aclient.Transport, error) {
			return counting{turns: &turns}, nil
		}})
	f := newRunner(t, newRemote(t, srv.cardURL(), counts))
	var wg sync.WaitGroup
	var failed atomic.Int32
	for i := range 100 {
		wg.Go(func() {
			for range 10 {
				for _, err := range f.Run(context.Background(), session.ID("s"+strconv.Itoa(i)), llm.UserText("hi")) {
					if err != nil {
						failed.Add(1)
					}
				}
			}
		})
	}
	require.Eventually(t, func() bool { return srv.fetches() == 1 }, 10*time.Second, time.Millisecond)
	close(gate)
	wg.Wait()
	require.Zero(t, failed.Load())
	require.EqualValues(t, 1000, turns.Load())
	require.Equal(t, 1, srv.fetches())
}

// counting is a transport that answers and counts.
type counting struct {
	a2aclient.Transport
	turns *atomic.Int32
}

func (c counting) SendStreamingMessage(context.Context, a2aclient.ServiceParams, *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		c.turns.Add(1)
		yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("Yes.")), nil)
	}
}

func (counting) Destroy() error { return nil }

// The headers of a card say how long it is used without asking, and how to ask.
func TestCardLifetime(t *testing.T) {
	const ttl = 100 * time.Second
	for name, c := range map[string]struct {
		header  []string
		seconds int // for which it is used
	}{
		"nothing said":            {nil, 100},
		"nothing said of time":    {[]string{"Cache-Control", "public, must-revalidate"}, 100},
		"max-age":                 {[]string{"Cache-Control", "max-age=30"}, 30},
		"longer than the TTL":     {[]string{"Cache-Control", "public, max-age=3600"}, 3600},
		"a year":                  {[]string{"Cache-Control", "max-age=31536000"}, int(a2a.MaxCardAge / time.Second)},
		"forever":                 {[]string{"Cache-Control", "max-age=99999999999999999999"}, int(a2a.MaxCardAge / time.Second)},
		"quoted, in capitals":     {[]string{"Cache-Control", `Max-Age="30"`}, 30},
		"in several headers":      {[]string{"Cache-Control", "public", "Cache-Control", "max-age=30"}, 30},
		"two that differ":         {[]string{"Cache-Control", "max-age=60, max-age=30"}, 30},
		"not a number":            {[]string{"Cache-Control", "max-age=soon"}, 0},
		"negative":                {[]string{"Cache-Control", "max-age=-5"}, 0},
		"with an age":             {[]string{"Cache-Control", "max-age=30", "Age", "10"}, 20},
		"too old already":         {[]string{"Cache-Control", "max-age=30", "Age", "100"}, 0},
		"no-cache":                {[]string{"Cache-Control", "no-cache, max-age=30"}, 0},
		"no-store":                {[]string{"Cache-Control", "no-store"}, 0},
		"s-maxage is for others":  {[]string{"Cache-Control", "s-maxage=5"}, 100},
		"expires":                 {[]string{"Date", "Sat, 01 Jan 2000 00:00:00 GMT", "Expires", "Sat, 01 Jan 2000 00:00:30 GMT"}, 30},
		"expires, without a date": {[]string{"Expires", "Sat, 01 Jan 2000 00:00:30 GMT"}, 30},
		"expired":                 {[]string{"Expires", "0"}, 0},
		"max-age beats expires":   {[]string{"Cache-Control", "max-age=30", "Expires", "0"}, 30},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // time begins with the year 2000
				fetches := 0
				r := inMemory(t, func(*http.Request) (*http.Response, error) {
					fetches++
					return response(200, goodCard, c.header...), nil
				}, a2a.WithCardTTL(ttl))
				require.NoError(t, ready(r))
				if c.seconds > 0 {
					time.Sleep(time.Duration(c.seconds)*time.Second - time.Nanosecond)
					require.NoError(t, ready(r))
					require.Equal(t, 1, fetches)
					time.Sleep(time.Nanosecond)
				}
				require.NoError(t, ready(r))
				require.Equal(t, 2, fetches)
			})
		})
	}
}

// A peer that can tell whether its card has changed is asked just that.
func TestCardRevalidation(t *testing.T) {
	for name, c := range map[string]struct{ validator, value, ask string }{
		"ETag":          {"ETag", `"v1"`, "If-None-Match"},
		"Last-Modified": {"Last-Modified", "Sat, 01 Jan 2000 00:00:00 GMT", "If-Modified-Since"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				whole, value, body := 0, c.value, goodCard
				r := inMemory(t, func(req *http.Request) (*http.Response, error) {
					asked = append(asked, req.Header.Get(c.ask))
					if req.Header.Get(c.ask) == value {
						return response(304, ""), nil // which repeats nothing
					}
					whole++
					return response(200, body, c.validator, value, "Cache-Control", "max-age=30"), nil
				})
				for range 5 {
					require.NoError(t, ready(r))
					time.Sleep(30 * time.Second)
				}
				require.Equal(t, []string{"", c.value, c.value, c.value, c.value}, asked)
				require.Equal(t, 1, whole)
				value, body = "something else", "no card any more"
				require.Error(t, ready(r))
				require.Equal(t, 2, whole)
				body = goodCard
				require.NoError(t, ready(r))
				require.Equal(t, []string{c.value, c.value}, asked[5:], "what was no card is not kept")
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, func(req *http.Request) (*http.Response, error) {
			require.Empty(t, req.Header.Get("If-None-Match"), "what must not be stored cannot be asked for")
			return response(200, goodCard, "ETag", `"v1"`, "Cache-Control", "no-store"), nil
		})
		require.NoError(t, ready(r))
		require.NoError(t, ready(r))
	})
	r := inMemory(t, func(*http.Request) (*http.Response, error) { return response(304, ""), nil })
	var e *a2a.Error
	require.ErrorAs(t, ready(r), &e, "nobody asked whether it has changed")
	require.Equal(t, 304, e.Status)
}

func TestCardTTLOfNothing(t *testing.T) {
	fetches := 0
	r := inMemory(t, func(*http.Request) (*http.Response, error) {
		fetches++
		return response(200, goodCard), nil
	}, a2a.WithCardTTL(0))
	for range 3 {
		require.NoError(t, ready(r))
	}
	require.Equal(t, 3, fetches)
}

// After a call failed the card may be another one.
func TestCardIsFetchedAgainAfterFailure(t *testing.T) {
	srv, moved := newServer(t, true, nil), newServer(t, true, completes("Here now."))
	srv.wrap = func(http.Handler) http.Handler { return http.NotFoundHandler() }
	f := newRunner(t, newRemote(t, srv.cardURL()))
	_, _, err := f.turn("hi")
	require.Error(t, err)
	require.Equal(t, 1, srv.fetches())
	srv.card = moved.card
	events, _, err := f.turn("hi")
	require.NoError(t, err)
	require.Equal(t, []string{"Here now."}, said(events))
	require.Equal(t, 2, srv.fetches())
	_, _, err = f.turn("hi")
	require.NoError(t, err)
	require.Equal(t, 2, srv.fetches())
}

func TestWellKnownPaths(t *testing.T) {
	for name, c := range map[string]struct {
		url    string
		status map[string]int
		asked  []string
		fails  bool
	}{
		"the first":        {"http://peer.test", map[string]int{"/.well-known/agent-card.json": 200}, []string{"/.well-known/agent-card.json"}, false},
		"the second":       {"http://peer.test/", map[string]int{"/.well-known/agent.json": 200}, []string{"/.well-known/agent-card.json", "/.well-known/agent.json"}, false},
		"none":             {"http://peer.test", nil, []string{"/.well-known/agent-card.json", "/.well-known/agent.json"}, true},
		"a broken first":   {"http://peer.test", map[string]int{"/.well-known/agent-card.json": 500, "/.well-known/agent.json": 200}, []string{"/.well-known/agent-card.json"}, true},
		"a path":           {"http://peer.test/x", map[string]int{"/x": 200}, []string{"/x"}, false},
		"a path, none":     {"http://peer.test/x", nil, []string{"/x"}, true},
		"a query, no path": {"http://peer.test?tenant=1", map[string]int{"/.well-known/agent.json": 200}, []string{"/.well-known/agent-card.json?tenant=1", "/.well-known/agent.json?tenant=1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			r, err := a2a.Remote("billing", c.url, a2a.WithHTTPClient(&http.Client{Transport: pipe(func(req *http.Request) (*http.Response, error) {
				asked = append(asked, req.URL.RequestURI())
				status := c.status[req.URL.Path]
				if status == 0 {
					status = 404
				}
				return response(status, goodCard), nil
			})}))
			require.NoError(t, err)
			err = ready(r)
			require.Equal(t, c.fails, err != nil, "%v", err)
			require.Equal(t, c.asked, asked)
		})
	}
}

// spoken is a transport that only knows who made it.
type spoken struct {
	a2aclient.Transport
	by        string
	tenant    *string
	version   *string
	destroyed chan<- string
}

func (s *spoken) SendMessage(_ context.Context, params a2aclient.ServiceParams, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	*s.tenant, *s.version = req.Tenant, strings.Join(params[sdk.SvcParamVersion], ",")
	return sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart(s.by)), nil
}

func (s *spoken) Destroy() error {
	if s.destroyed != nil {
		s.destroyed <- s.by
	}
	return nil
}

// Of the interfaces of a card the first is taken that we speak.
func TestChoiceOfInterface(t *testing.T) {
	var tenant, version string
	binding := func(protocol, v, by string) a2a.Binding {
		return a2a.Binding{Protocol: sdk.TransportProtocol(protocol), Version: v,
			Dial: func(_ context.Context, i *sdk.AgentInterface, env a2a.Environment) (a2aclient.Transport, error) {
				if strings.Contains(i.URL, "broken") {
					return nil, errors.New("it is broken")
				}
				if env.HTTP == nil || env.DialContext == nil || env.MaxResponse == 0 {
					return nil, errors.New("something is missing")
				}
				return &spoken{by: by + " to " + i.URL, tenant: &tenant, version: &version}, nil
			}}
	}
	with := a2a.WithBinding(binding("GRPC", "1.0", "grpc"), binding("JSONRPC", "0.3", "old"), binding("HTTP+JSON", "1.0", "rest"), binding("JSONRPC", "1.0", "rpc"))
	i := func(protocol, version, url string) string {
		return fmt.Sprintf(`{"url":%q,"protocolBinding":%q,"protocolVersion":%q,"tenant":"acme"}`, url, protocol, version)
	}
	for name, c := range map[string]struct {
		interfaces     []string
		says, version  string
		fails, failsTo []string
	}{
		"the first": {interfaces: []string{i("HTTP+JSON", "1.0", "http://peer.test/a"), i("JSONRPC", "1.0", "http://peer.test/b")},
			says: "rest to http://peer.test/a", version: "1.0"},
		"the first of the other order": {interfaces: []string{i("JSONRPC", "1.0", "http://peer.test/b"), i("HTTP+JSON", "1.0", "http://peer.test/a")},
			says: "rpc to http://peer.test/b", version: "1.0"},
		"an older one, if it is preferred": {interfaces: []string{i("JSONRPC", "0.3.0", "http://peer.test/c"), i("JSONRPC", "1.0", "http://peer.test/b")},
			says: "old to http://peer.test/c", version: "0.3"},
		"another binding": {interfaces: []string{i("CARRIER-PIGEON", "1.0", "coo:1"), i("GRPC", "1.0", "peer.test:443")},
			says: "grpc to peer.test:443", version: "1.0"},
		"a later one of the same line": {interfaces: []string{i("JSONRPC", "1.7.2", "http://peer.test/b")}, says: "rpc to http://peer.test/b", version: "1.0"},
		"a broken one": {interfaces: []string{i("GRPC", "1.0", "broken:1"), "null", i("JSONRPC", "1.0", "http://peer.test/b")},
			says: "rpc to http://peer.test/b", version: "1.0"},
		"no URL": {interfaces: []string{i("JSONRPC", "1.0", "file:///etc/passwd"), i("HTTP+JSON", "1.0", "http://peer.test/a")},
			says: "rest to http://peer.test/a", version: "1.0"},
		"user and password are not taken": {interfaces: []string{i("JSONRPC", "1.0", "http://u:p@peer.test/b#x")}, says: "rpc to http://peer.test/b", version: "1.0"},
		"none": {interfaces: []string{i("CARRIER-PIGEON", "1.0", "coo:1"), i("JSONRPC", "2.0", "http://peer.test/b"), i("GRPC", "0.2", "x:1"), i("JSONRPC", "", "http://peer.test/b")},
			fails: []string{"CARRIER-PIGEON 1.0", "JSONRPC 2.0", "GRPC 0.2", "this agent speaks GRPC 1.0, JSONRPC 0.3, HTTP+JSON 1.0, JSONRPC 1.0"}},
		"only broken ones": {interfaces: []string{i("GRPC", "1.0", "broken:1"), i("JSONRPC", "1.0", "nowhere")}, fails: []string{"GRPC 1.0", "it is broken", "JSONRPC 1.0", "absolute"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := inMemory(t, func(*http.Request) (*http.Response, error) {
				return response(200, `{"name":"x","supportedInterfaces":[`+strings.Join(c.interfaces, ",")+`]}`), nil
			}, with)
			events, _, err := newRunner(t, r).turn("hi")
			if c.fails != nil {
				var e *a2a.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, a2a.CodeCard, e.Code)
				for _, part := range c.fails {
					require.ErrorContains(t, err, part)
				}
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{c.says}, said(events))
			require.Equal(t, "acme", tenant)
			require.Equal(t, c.version, version)
		})
	}
}

// Cards that offer what a package of ours speaks say which.
func TestErrorsNameThePackage(t *testing.T) {
	for card, name := range map[string]string{
		`{"supportedInterfaces":[{"url":"peer.test:443","protocolBinding":"GRPC","protocolVersion":"1.0"}]}`:             "a2a/a2agrpc",
		`{"supportedInterfaces":[{"url":"http://peer.test","protocolBinding":"JSONRPC","protocolVersion":"0.3"}]}`:       "a2a/a2av0",
		`{"name":"x","protocolVersion":"0.3.0","url":"http://peer.test","preferredTransport":"JSONRPC"}`:                 "a2a/a2av0",
		`{"name":"x","protocolVersion":"0.2.6","url":"http://peer.test","capabilities":{"streaming":true},"skills":"x"}`: "A2A 0.2.6",
	} {
		err := ready(inMemory(t, func(*http.Request) (*http.Response, error) { return response(200, card), nil }))
		var e *a2a.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, a2a.CodeCard, e.Code)
		require.ErrorContains(t, err, name)
	}
}

// A card of an earlier version is read by whoever can.
func TestOldCards(t *testing.T) {
	var tenant, version string
	old := a2a.Binding{Protocol: sdk.TransportProtocolJSONRPC, Version: "0.3",
		Dial: func(_ context.Context, i *sdk.AgentInterface, _ a2a.Environment) (a2aclient.Transport, error) {
			return &spoken{by: i.URL, tenant: &tenant, version: &version}, nil
		},
		ParseCard: func(card []byte) (*sdk.AgentCard, error) {
			var c struct{ URL string }
			if err := json.Unmarshal(card, &c); err != nil {
				return nil, err
			}
			return &sdk.AgentCard{SupportedInterfaces: []*sdk.AgentInterface{{URL: c.URL, ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: "0.3.0"}}}, nil
		}}
	other := old
	other.ParseCard = func([]byte) (*sdk.AgentCard, error) { return nil, errors.New("not mine") }
	for _, card := range []string{
		`{"name":"x","protocolVersion":"0.3.0","url":"http://peer.test/old"}`,
		`{"name":"x","protocolVersion":"0.3.0","url":"http://peer.test/old","capabilities":{"extensions":7}}`, // which is no card of 1.0 at all
	} {
		r := inMemory(t, func(*http.Request) (*http.Response, error) { return response(200, card), nil }, a2a.WithBinding(other, old))
		events, _, err := newRunner(t, r).turn("hi")
		require.NoError(t, err)
		require.Equal(t, []string{"http://peer.test/old"}, said(events))
		require.Equal(t, "0.3", version)
	}
	// One that offers both is one of 1.0.
	r := inMemory(t, func(*http.Request) (*http.Response, error) {
		return response(200, strings.Replace(goodCard, `{`, `{"protocolVersion":"0.3.0","url":"http://peer.test/old",`, 1)), nil
	}, a2a.WithBinding(old))
	_, _, err := newRunner(t, r).turn("hi")
	var e *a2a.Error
	require.ErrorAs(t, err, &e, "JSON-RPC of 1.0 gets a card for an answer")
	require.Equal(t, a2a.CodeProtocol, e.Code)
}

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
		"empty":       {serve(strings.NewReader("")), a2a.CodeCard, "not what the protocol promises"},
		"HTML":        {serve(strings.NewReader("<html>")), a2a.CodeCard, "not what the protocol promises"},
		"cut off":     {serve(strings.NewReader(goodCard[:40])), a2a.CodeCard, "not what the protocol promises"},
		"a list":      {serve(strings.NewReader("[]")), a2a.CodeCard, "not what the protocol promises"},
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
		}, a2a.CodeTimeout, "not there within 100ms"},
		"a redirect to itself": {func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "/.well-known/agent-card.json", http.StatusFound)
		}, a2a.CodeUnreachable, "more than 5 redirects"},
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
			r := newRemote(t, srv.URL, a2a.WithCardTimeout(5*time.Second))
			if c.code == a2a.CodeTimeout {
				r = newRemote(t, srv.URL, a2a.WithCardTimeout(100*time.Millisecond))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := ready(r)
			runtime.ReadMemStats(&after)
			var e *a2a.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.code, e.Code, "%v", err)
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
	require.NoError(t, ready(newRemote(t, srv.URL, a2a.WithBearer("hunter2"))))
	hops.Store(0)
	redirects.Store(6)
	require.ErrorContains(t, ready(newRemote(t, srv.URL, a2a.WithBearer("hunter2"))), "more than 5 redirects")
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
				var e *a2a.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, a2a.CodeCard, e.Code)
				require.ErrorContains(t, err, "nobody we know")
			}
		}
		require.Equal(t, [][]byte{[]byte(" " + goodCard + "\n"), []byte(" " + goodCard + "\n")}, got)
	}
}

// A signed card is used, and one that was changed on the way is not.
func TestSignedCards(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	signer, err := cardsign.NewSigner(key, cardsign.WithKeyID("2026"))
	require.NoError(t, err)
	signed, err := signer.SignJSON([]byte(goodCard))
	require.NoError(t, err)
	verifier, err := cardsign.NewVerifier(signer.Key())
	require.NoError(t, err)
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
			var e *a2a.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, a2a.CodeCard, e.Code)
		})
	}
}

// A connection is kept while the card stays the same, also over a failure, and
// destroyed when nothing uses it any more.
func TestConnectionsAreKeptAndDestroyed(t *testing.T) {
	var tenant, version string
	dials, card := 0, goodCard
	destroyed := make(chan string, 10)
	b := a2a.Binding{Protocol: sdk.TransportProtocolJSONRPC, Version: "1.0",
		Dial: func(_ context.Context, i *sdk.AgentInterface, _ a2a.Environment) (a2aclient.Transport, error) {
			dials++
			return &spoken{by: i.URL, tenant: &tenant, version: &version, destroyed: destroyed}, nil
		}}
	r := inMemory(t, func(*http.Request) (*http.Response, error) { return response(200, card), nil }, a2a.WithBinding(b), a2a.WithCardTTL(0))
	for range 3 {
		require.NoError(t, ready(r))
	}
	require.Equal(t, 1, dials)
	card = strings.Replace(goodCard, "/rpc", "/moved", 1)
	require.NoError(t, ready(r))
	require.Equal(t, 2, dials)
	require.Eventually(t, func() bool {
		runtime.GC()
		return len(destroyed) == 1
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, "http://peer.test/rpc", <-destroyed)
	events, _, err := newRunner(t, r).turn("hi")
	require.NoError(t, err)
	require.Equal(t, []string{"http://peer.test/moved"}, said(events))
	require.Empty(t, destroyed)
	runtime.KeepAlive(r)
}

// With a client of one's own there is no card.
func TestWithClient(t *testing.T) {
	srv := newServer(t, true, completes("Without ", "a card."))
	client, err := a2aclient.NewFromCard(context.Background(), srv.card)
	require.NoError(t, err)
	for _, url := range []string{"", "https://example.com/card?key=hunter2"} {
		r, err := a2a.Remote("billing", url, a2a.WithClient(client))
		require.NoError(t, err)
		require.NoError(t, ready(r))
		events, _, err := newRunner(t, r).turn("hi")
		require.NoError(t, err)
		require.Equal(t, []string{"Without a card."}, said(events))
	}
	require.Zero(t, srv.fetches())
	srv.Close()
	r, err := a2a.Remote("billing", "", a2a.WithClient(client))
	require.NoError(t, err)
	_, _, err = newRunner(t, r).turn("hi")
	require.ErrorContains(t, err, `remote agent "billing" (remote_unreachable)`)
}

// BenchmarkCard is what a turn pays for a card that is there.
func BenchmarkCard(b *testing.B) {
	r, err := a2a.Remote("billing", "http://peer.test/card", a2a.WithHTTPClient(&http.Client{Transport: pipe(func(*http.Request) (*http.Response, error) {
		return response(200, goodCard), nil
	})}))
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if err := ready(r); err != nil {
			b.Fatal(err)
		}
	}
}
