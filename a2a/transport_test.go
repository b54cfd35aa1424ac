package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/internal/dialguard"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// onLocalhost is a URL of a server on loopback with the name of the host.
func onLocalhost(t *testing.T, serverURL string) string {
	t.Helper()
	u := must.Get(url.Parse(serverURL))
	return "http://localhost:" + u.Port() + u.Path
}

// A card may be anywhere. What it names must be public, unless the developer said
// so, and is refused before anything is sent.
func TestCardsMustNotLeadInside(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(string(protocol), func(t *testing.T) {
			srv, inside := newPeer(t, protocol, nil), newPeer(t, protocol, nil)
			port := inside.URL[strings.LastIndex(inside.URL, ":")+1:]
			turn := func(interfaceURL string, opts ...a2a.Option) error {
				srv.card.SupportedInterfaces = []*sdk.AgentInterface{sdk.NewAgentInterface(interfaceURL, protocol)}
				_, _, err := newRunner(t, remotetest.Billing(t, onLocalhost(t, srv.URL), opts...)).Turn("hi")
				return err
			}
			at := inside.card.SupportedInterfaces[0].URL
			for _, host := range []string{"0.0.0.0", "[::]", "169.254.169.254", "10.0.0.1", "192.168.1.1", "[fd00:ec2::254]",
				"[fe80::1%25lo]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "100.64.0.1", "224.0.0.1"} {
				err := turn("http://" + host + ":" + port)
				var e *a2a.Error
				require.ErrorAs(t, err, &e, host)
				require.Equal(t, a2a.CodeAddress, e.Code, "%v", err)
				require.ErrorContains(t, err, "WithPrivateNetworks")
				var refused *dialguard.Error
				require.ErrorAs(t, err, &refused)
			}
			// What some resolvers take for an address is none of theirs.
			for _, host := range []string{"2130706433", "0x7f000001", "127.1", "017700000001"} {
				require.Error(t, turn("http://"+host+":"+port, a2a.WithTimeout(2*time.Second)), host)
			}
			require.Empty(t, inside.asked())

			require.NoError(t, turn(at, a2a.WithPrivateNetworks()))
			require.NoError(t, turn(at, a2a.WithTrustedOrigin(inside.URL)))
			require.NoError(t, turn(onLocalhost(t, at)), "the card's own host")
			require.NoError(t, turn(at), "which has more than one name")
			require.NotEmpty(t, inside.asked())
			require.Error(t, turn("http://169.254.169.254", a2a.WithPrivateNetworks()))
		})
	}
}

// This machine has several names. A card on it may use another one than the developer, whose name is called, with the
// credentials. A card elsewhere must not lead to this machine under any of them.
func TestNamesOfLoopback(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(string(protocol), func(t *testing.T) {
			srv := newPeer(t, protocol, nil)
			port := srv.URL[strings.LastIndex(srv.URL, ":"):]
			path := strings.TrimPrefix(srv.card.SupportedInterfaces[0].URL, srv.URL)
			for _, host := range []string{"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "LOCALHOST", "localhost.", "127.8.9.10"} {
				srv.card.SupportedInterfaces = []*sdk.AgentInterface{sdk.NewAgentInterface("http://"+host+port+path, protocol)}
				before := len(srv.asked())
				_, _, err := newRunner(t, remotetest.Billing(t, srv.URL, a2a.WithBearer("secret-of-ours"))).Turn("hi")
				require.NoError(t, err, host)
				for _, req := range srv.asked()[before:] {
					require.Equal(t, srv.URL, "http://"+req.Host, "only the developer's name is called")
					require.Equal(t, "Bearer secret-of-ours", req.Header.Get("Authorization"))
				}
			}
		})
	}
	for _, host := range []string{"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.8.9.10"} {
		r := inMemory(t, func(*http.Request) (*http.Response, error) {
			return response(200, strings.Replace(goodCard, "peer.test/rpc", host+"/rpc", 1)), nil
		})
		var e *a2a.Error
		require.ErrorAs(t, ready(r), &e, host)
		require.Equal(t, a2a.CodeAddress, e.Code)
	}
}

// A transport that dials by itself is checked where it got to.
func TestOwnDialers(t *testing.T) {
	var inside *peer
	card := strings.Replace(goodCard, "http://peer.test/rpc", "http://rebinding.test/rpc", 1)
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, card) }))
	defer outside.Close()
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) { // names lead where somebody else says
		target := outside.Listener.Addr().String()
		if strings.HasPrefix(addr, "rebinding.test:") {
			target = inside.Listener.Addr().String()
		}
		return (&net.Dialer{}).DialContext(ctx, network, target)
	}
	for name, transport := range map[string]*http.Transport{
		"DialContext": {DialContext: dial},
		"Dial":        {Dial: func(network, addr string) (net.Conn, error) { return dial(context.Background(), network, addr) }},
	} {
		t.Run(name, func(t *testing.T) {
			defer transport.CloseIdleConnections()
			inside = newPeer(t, sdk.TransportProtocolJSONRPC, nil)
			r := must.Get(a2a.Remote("billing", "http://peer.test", a2a.WithHTTPClient(&http.Client{Transport: transport})))
			require.NoError(t, ready(r), "the developer named this host")
			_, _, err := newRunner(t, r).Turn("hi")
			requireCode(t, err, a2a.CodeAddress)
			require.Empty(t, inside.asked())
			r = must.Get(a2a.Remote("billing", "http://peer.test", a2a.WithHTTPClient(&http.Client{Transport: transport}), a2a.WithTrustedOrigin("http://REBINDING.test.")))
			_, _, err = newRunner(t, r).Turn("hi")
			require.NoError(t, err)
		})
	}
	inside = newPeer(t, sdk.TransportProtocolJSONRPC, nil)
	var dialed []string
	withTLS := &http.Transport{DialTLSContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		dialed = append(dialed, addr)
		return (&net.Dialer{}).Dial("tcp", inside.Listener.Addr().String())
	}, DialContext: dial}
	card = strings.Replace(card, "http://rebinding", "https://rebinding", 1)
	r := must.Get(a2a.Remote("billing", "http://peer.test", a2a.WithHTTPClient(&http.Client{Transport: withTLS})))
	_, _, err := newRunner(t, r).Turn("hi")
	requireCode(t, err, a2a.CodeAddress)
	require.Equal(t, []string{"rebinding.test:443"}, dialed)
	require.Empty(t, inside.asked())
}

// A proxy may be anywhere, and is where the guard ends: only addresses are refused
// before it is asked.
func TestProxies(t *testing.T) {
	srv := newPeer(t, sdk.TransportProtocolJSONRPC, nil)
	srv.card.SupportedInterfaces[0].URL = "http://elsewhere.test/rpc"
	var hosts sync.Map
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		hosts.Store(req.URL.Host, true)
		srv.Config.Handler.ServeHTTP(w, req)
	}))
	defer proxy.Close()
	u := must.Get(url.Parse(proxy.URL))
	transport := &http.Transport{Proxy: http.ProxyURL(u)}
	defer transport.CloseIdleConnections()
	turn := func() error {
		r := must.Get(a2a.Remote("billing", "http://peer.test", a2a.WithHTTPClient(&http.Client{Transport: transport})))
		_, _, err := newRunner(t, r).Turn("hi")
		return err
	}
	require.NoError(t, turn())
	_, asked := hosts.Load("elsewhere.test")
	require.True(t, asked)
	srv.card.SupportedInterfaces[0].URL = "http://10.0.0.1/rpc"
	requireCode(t, turn(), a2a.CodeAddress)
	_, asked = hosts.Load("10.0.0.1")
	require.False(t, asked)
}

// A round tripper that is not of package http is asked for no address that a card
// must not lead to.
func TestOwnRoundTrippers(t *testing.T) {
	r := inMemory(t, func(req *http.Request) (*http.Response, error) {
		require.Equal(t, "peer.test", req.URL.Host)
		return response(200, strings.Replace(goodCard, "peer.test/rpc", "169.254.169.254/latest", 1)), nil
	})
	requireCode(t, ready(r), a2a.CodeAddress)
}

// Bindings that are not HTTP dial through the same guard.
func TestDialOfBindings(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	var accepted atomic.Int32
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			_ = conn.Close()
		}
	}()
	var env a2a.Environment
	b := a2a.Binding{Protocol: sdk.TransportProtocolJSONRPC, Version: "1.0",
		Dial: func(_ context.Context, _ *sdk.AgentInterface, e a2a.Environment) (a2aclient.Transport, error) {
			env = e
			return counting{}, nil
		}}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	for _, allowed := range []bool{false, true} {
		opts := []a2a.Option{a2a.WithBinding(b)}
		if allowed {
			opts = append(opts, a2a.WithPrivateNetworks())
		}
		require.NoError(t, ready(inMemory(t, func(*http.Request) (*http.Response, error) { return response(200, goodCard), nil }, opts...)))
		conn, err := env.DialContext(context.Background(), "tcp", "localhost:"+port)
		if allowed {
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			continue
		}
		var refused *dialguard.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, dialguard.Loopback, refused.Kind)
	}
	must.Wait(t, func() bool { return accepted.Load() == 1 })
	require.Error(t, must.Err(env.DialContext(context.Background(), "tcp", "no port")))
}

// The limits hold in both bindings.
func TestLimits(t *testing.T) {
	drain := func(req *http.Request) { // else the server would not notice that the client has gone
		_, _ = io.Copy(io.Discard, req.Body)
		<-req.Context().Done()
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		code    a2a.ErrorCode
		opt     a2a.Option
	}{
		"endless stream": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for {
				if _, err := io.WriteString(w, ": still here\n\n"); err != nil {
					return
				}
			}
		}, a2a.CodeTooLarge, a2a.WithMaxResponse(1 << 20)},
		"endless line": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: ")
			_, _ = io.Copy(w, endless{})
		}, a2a.CodeTooLarge, a2a.WithMaxResponse(1 << 20)},
		"endless JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.Copy(w, endless{})
		}, a2a.CodeTooLarge, a2a.WithMaxResponse(1 << 20)},
		"endless error": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.Copy(w, endless{})
		}, a2a.CodeProtocol, a2a.WithMaxResponse(1 << 20)},
		"silence": {func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			drain(req)
		}, a2a.CodeTimeout, a2a.WithIdleTimeout(20 * time.Millisecond)},
		"no answer": {func(_ http.ResponseWriter, req *http.Request) { drain(req) }, a2a.CodeTimeout, a2a.WithTimeout(50 * time.Millisecond)},
	} {
		for _, protocol := range protocols {
			t.Run(name+"/"+string(protocol), func(t *testing.T) {
				srv := newPeer(t, protocol, nil)
				srv.wrap = func(w http.ResponseWriter, req *http.Request) bool {
					if strings.HasPrefix(req.URL.Path, "/.well-known") {
						return false
					}
					c.handler(w, req)
					return true
				}
				_, _, err := newRunner(t, remotetest.Billing(t, srv.URL, c.opt)).Turn("hi")
				requireCode(t, err, c.code)
			})
		}
	}
}

// Errors of the protocol are understood however they come.
func TestErrorsOfTheProtocol(t *testing.T) {
	const info = `"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org"}]`
	for name, c := range map[string]struct {
		protocol    sdk.TransportProtocol
		status      int
		contentType string
		body        string
		is          error
		text        string
	}{
		"JSON-RPC": {sdk.TransportProtocolJSONRPC, 200, "application/json", `{"jsonrpc":"2.0","id":"1","error":{"code":-32004,"message":"not today"}}`, sdk.ErrUnsupportedOperation, "not today"},
		"JSON-RPC with a status": {sdk.TransportProtocolJSONRPC, 400, "application/json; charset=utf-8", `{"jsonrpc":"2.0","id":null,"error":{"code":-32004,"message":"not today"}}`,
			sdk.ErrUnsupportedOperation, "not today"},
		"HTTP+JSON": {sdk.TransportProtocolHTTPJSON, 400, "application/json", `{"error":{"code":400,"message":"not today",` + info + `}}`, sdk.ErrUnsupportedOperation, "not today"},
		"HTTP+JSON of its own type": {sdk.TransportProtocolHTTPJSON, 400, "application/a2a+json", `{"error":{"code":400,"message":"not today",` + info + `}}`,
			sdk.ErrUnsupportedOperation, "not today"},
		"of nobody's":     {sdk.TransportProtocolHTTPJSON, 400, "application/json", `{"error":{"code":400,"message":"not today"}}`, nil, "HTTP status 400: not today"},
		"details of none": {sdk.TransportProtocolHTTPJSON, 400, "application/json", `{"error":{"message":"not today","details":"none"}}`, nil, "HTTP status 400: not today"},
		"JSON":            {sdk.TransportProtocolHTTPJSON, 400, "application/json", `"not today"`, nil, "HTTP status 400"},
		"text":            {sdk.TransportProtocolHTTPJSON, 400, "text/plain", "not today", nil, "HTTP status 400"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, streams := range []bool{true, false} {
				srv := newPeer(t, c.protocol, nil)
				srv.card.Capabilities.Streaming = streams
				srv.wrap = func(w http.ResponseWriter, req *http.Request) bool {
					if strings.HasPrefix(req.URL.Path, "/.well-known") {
						return false
					}
					w.Header().Set("Content-Type", c.contentType)
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.body)
					return true
				}
				_, _, err := newRunner(t, remotetest.Billing(t, srv.URL)).Turn("hi")
				requireCode(t, err, a2a.CodeProtocol)
				require.ErrorContains(t, err, c.text)
				if c.is != nil {
					require.ErrorIs(t, err, c.is)
				}
			}
		})
	}
}

// The id of a task is the peer's, and leads to no other path than its own.
func TestTaskIDsAreNotPaths(t *testing.T) {
	for _, id := range []string{"../../admin", "a/b", "a?b=c", "a#b", "..", "%2e%2e", `a\\b`} {
		srv := newPeer(t, sdk.TransportProtocolHTTPJSON, nil)
		srv.wrap = func(w http.ResponseWriter, req *http.Request) bool {
			if strings.HasPrefix(req.URL.Path, "/.well-known") {
				return false
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"task\":{\"id\":%q,\"contextId\":\"c\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}\n\n", id)
			return true
		}
		_, _, err := newRunner(t, remotetest.Billing(t, srv.URL)).Turn("hi")
		var e *a2a.Error
		require.ErrorAs(t, err, &e, id)
		require.Equal(t, a2a.CodeProtocol, e.Code, "%s: %v", id, err)
		for _, req := range srv.asked() {
			require.Contains(t, []string{"/.well-known/agent-card.json", "/message:stream"}, req.URL.Path)
		}
	}
}

// An error of the connection does not show the URL that was asked for.
func TestErrorsShowNoQuery(t *testing.T) {
	r := inMemory(t, func(*http.Request) (*http.Response, error) { return nil, errors.New("the wire was cut") })
	err := ready(r)
	require.ErrorContains(t, err, "the wire was cut")
	require.NotContains(t, everything(err), "Get ")
}

// FuzzResponses has the client read whatever a peer may answer.
func FuzzResponses(f *testing.F) {
	var answer *http.Response
	var env a2a.Environment
	b := a2a.Binding{Protocol: sdk.TransportProtocolJSONRPC, Version: "1.0",
		Dial: func(_ context.Context, _ *sdk.AgentInterface, e a2a.Environment) (a2aclient.Transport, error) {
			env = e
			return counting{}, nil
		}}
	r := must.Get(a2a.Remote("billing", "http://peer.test/card", a2a.WithBinding(b), a2a.WithMaxResponse(1<<16),
		a2a.WithHTTPClient(&http.Client{Transport: pipe(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/card" {
				return response(200, goodCard), nil
			}
			return answer, nil
		})})))
	require.NoError(f, ready(r))
	f.Add(200, "text/event-stream", "data: {}\n\n", true)
	f.Add(200, "application/json", `{"a":1}`, true)
	f.Add(400, "application/json; charset=utf-8", `{"jsonrpc":"2.0","error":{"code":-32004,"message":"x"}}`, true)
	f.Add(404, "application/a2a+json", `{"error":{"code":404,"message":"x","details":[{"domain":"a2a-protocol.org"}]}}`, false)
	f.Add(500, "application/json", `{"error":{"details":7}}`, false)
	f.Fuzz(func(t *testing.T, status int, contentType, body string, streams bool) {
		answer = response(100+abs(status%500), body, "Content-Type", contentType)
		req := must.Get(http.NewRequest(http.MethodPost, "http://peer.test/rpc", nil))
		if streams {
			req.Header.Set("Accept", "text/event-stream")
		}
		resp, err := env.HTTP.Do(req)
		if err != nil {
			return
		}
		data, _ := io.ReadAll(resp.Body)
		require.LessOrEqual(t, len(data), 2<<16)
		require.NoError(t, resp.Body.Close())
	})
}

func abs(n int) int { return max(n, -n) }
