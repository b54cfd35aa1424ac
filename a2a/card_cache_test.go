package a2a_test

import (
	"context"
	"iter"
	"net/http"
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
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

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
	f := newRunner(t, remotetest.Billing(t, srv.cardURL(), counts))
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
	must.Wait(t, func() bool { return srv.fetches() == 1 })
	close(gate)
	wg.Wait()
	require.Zero(t, failed.Load())
	require.EqualValues(t, 1000, turns.Load())
	require.Equal(t, 1, srv.fetches())
}

// TestPreparedCard: a card that is fetched when a program starts is the one that the first turn needs, also if
// that begins meanwhile, or if whoever started the fetch gives up.
func TestPreparedCard(t *testing.T) {
	for name, c := range map[string]struct{ gives, fetches int }{"it has arrived": {0, 1}, "it is under way": {1, 1}, "it was given up": {2, 2}} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, true, remotetest.Completes("Hello."))
			gate, prepared := make(chan struct{}), make(chan struct{})
			if c.gives == 0 {
				close(gate)
			}
			srv.cardGate = gate
			f := newRunner(t, remotetest.Billing(t, srv.cardURL()))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { f.Prepare(ctx); close(prepared) }()
			must.Wait(t, func() bool { return srv.fetches() == 1 })
			if c.gives == 0 {
				<-prepared
			}
			done := make(chan error, 1)
			go func() {
				_, _, err := f.Turn("hi")
				done <- err
			}()
			if c.gives == 2 {
				cancel()
				<-prepared
			}
			if c.gives > 0 {
				close(gate)
			}
			require.NoError(t, <-done)
			require.Equal(t, c.fetches, srv.fetches())
		})
	}
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
		"a year":                  {[]string{"Cache-Control", "max-age=31536000"}, 24 * 60 * 60},
		"forever":                 {[]string{"Cache-Control", "max-age=99999999999999999999"}, 24 * 60 * 60},
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
		"expired long ago":        {[]string{"Date", "Fri, 31 Dec 9999 00:00:00 GMT", "Expires", "Mon, 01 Jan 0001 00:00:00 GMT", "Age", "2147483647"}, 0},
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
	srv, moved := newServer(t, true, nil), newServer(t, true, remotetest.Completes("Here now."))
	srv.wrap = func(http.Handler) http.Handler { return http.NotFoundHandler() }
	f := newRunner(t, remotetest.Billing(t, srv.cardURL()))
	_, _, err := f.Turn("hi")
	require.Error(t, err)
	require.Equal(t, 1, srv.fetches())
	srv.card = moved.card
	events := f.NoError(f.Turn("hi"))
	require.Equal(t, []string{"Here now."}, remotetest.Texts(events))
	require.Equal(t, 2, srv.fetches())
	f.NoError(f.Turn("hi"))
	require.Equal(t, 2, srv.fetches())
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
	must.Wait(t, func() bool {
		runtime.GC()
		return len(destroyed) == 1
	})
	require.Equal(t, "http://peer.test/rpc", <-destroyed)
	events, _, err := newRunner(t, r).Turn("hi")
	require.NoError(t, err)
	require.Equal(t, []string{"http://peer.test/moved"}, remotetest.Texts(events))
	require.Empty(t, destroyed)
	runtime.KeepAlive(r)
}
