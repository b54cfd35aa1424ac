package wire

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/access"
)

func TestHostsOnLoopback(t *testing.T) {
	server := serveFront(t, Front{Access: access.Options{Hosts: []string{"Agent.example.com"}}})
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	for host, ok := range map[string]bool{
		"127.0.0.1:" + port: true, "localhost:" + port: true, "LOCALHOST": true, "localhost.": true, "a.localhost:1": true, "[::1]:" + port: true, "127.9.9.9": true,
		"agent.example.com": true, "agent.example.com:443": true,
		"evil.example": false, "evil.example:" + port: false, "192.168.0.1": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"agent.example.com.evil.example": false, "0.0.0.0:" + port: false,
	} {
		for _, path := range []string{"/tasks/t", "/.well-known/agent-card.json"} {
			got := call(t, "GET", server.URL+path, "", "Host", host)
			if ok {
				require.Equal(t, 200, got.status, host)
				continue
			}
			require.Equal(t, 421, got.status, host)
			require.Contains(t, got.body, "public URL")
		}
	}
}

// Elsewhere a name matters only where a browser may have been led astray.
func TestHostsElsewhere(t *testing.T) {
	h := must.Get(New(Front{Handler: NewChecks(&stub{}, nil, nil, nil, nil, nil), Access: access.Options{Hosts: []string{"agent.example.com"}}, Card: func(http.ResponseWriter, *http.Request, string) {}}))
	status := func(host string, headers ...string) int {
		r := httptest.NewRequest("GET", "/tasks/t", nil)
		r.Host = host
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, 200, status("agent.example.com"))
	require.Equal(t, 200, status("health-check"))
	require.Equal(t, 200, status("10.0.0.1", "Origin", "http://10.0.0.1"))
	require.Equal(t, 200, status("agent.example.com", "Sec-Fetch-Site", "same-origin"))
	require.Equal(t, 421, status("evil.example", "Origin", "http://evil.example"))
	require.Equal(t, 421, status("evil.example", "Sec-Fetch-Site", "same-origin"))
}

func TestOrigins(t *testing.T) {
	const app = "https://app.example.com"
	tests := []struct {
		name    string
		allowed []string
		headers []string
		ok      bool
		cors    string
	}{
		{"no browser", nil, nil, true, ""},
		{"the same origin", nil, []string{"Origin", "http://SELF"}, true, ""},
		{"the same origin, behind TLS", nil, []string{"Origin", "https://SELF"}, true, ""},
		{"another", nil, []string{"Origin", app}, false, ""},
		{"another port", nil, []string{"Origin", "http://127.0.0.1:1"}, false, ""},
		{"an opaque one", nil, []string{"Origin", "null"}, false, ""},
		{"two", []string{app}, []string{"Origin", app, "Origin", app}, false, ""},
		{"the same twice", nil, []string{"Origin", "http://SELF", "Origin", "http://SELF"}, false, ""},
		{"one that is allowed", []string{app + "/"}, []string{"Origin", app}, true, app},
		{"one that looks like it", []string{app}, []string{"Origin", app + ".evil.example"}, false, ""},
		{"one of another scheme", []string{app}, []string{"Origin", "http://app.example.com"}, false, ""},
		{"any", []string{"*"}, []string{"Origin", "https://else.example"}, true, "https://else.example"},
		{"an opaque one, where any is allowed", []string{"*"}, []string{"Origin", "null"}, false, ""},
		{"another, which does not say so", nil, []string{"Sec-Fetch-Site", "cross-site"}, false, ""},
		{"a neighbour", nil, []string{"Sec-Fetch-Site", "same-site"}, false, ""},
		{"typed by a person", nil, []string{"Sec-Fetch-Site", "none"}, true, ""},
		{"its own page", nil, []string{"Sec-Fetch-Site", "same-origin"}, true, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			handler := &stub{}
			server := serveFront(t, Front{Handler: handler, Access: access.Options{Origins: test.allowed}})
			for i, h := range test.headers {
				test.headers[i] = strings.ReplaceAll(h, "SELF", server.Listener.Addr().String())
			}
			for _, got := range []reply{
				call(t, "POST", server.URL+"/rpc", rpcBody("GetTask", `{"id":"t"}`), test.headers...),
				call(t, "GET", server.URL+"/tasks/t", "", test.headers...),
			} {
				require.Equal(t, test.cors, got.header.Get("Access-Control-Allow-Origin"))
				require.Contains(t, got.header.Values("Vary"), "Origin")
				require.Empty(t, got.header.Get("Access-Control-Allow-Credentials"))
				if test.ok {
					require.Equal(t, 200, got.status, got.body)
				} else {
					require.Equal(t, 403, got.status)
					reason, _ := got.reason(t)
					require.Equal(t, "ORIGIN_NOT_ALLOWED", reason)
				}
			}
			require.Equal(t, test.ok, handler.seen() != nil)
			require.Equal(t, 200, call(t, "GET", server.URL+"/.well-known/agent-card.json", "", test.headers...).status)

			got := call(t, "OPTIONS", server.URL+"/rpc", "", append(test.headers, "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "content-type, a2a-version, x<y")...)
			require.Equal(t, test.ok, got.status == 204)
			require.Equal(t, test.cors, got.header.Get("Access-Control-Allow-Origin"))
			if test.cors != "" {
				require.Equal(t, "content-type, a2a-version", got.header.Get("Access-Control-Allow-Headers"))
				require.Equal(t, "POST, OPTIONS", got.header.Get("Access-Control-Allow-Methods"))
			} else {
				require.Empty(t, got.header.Get("Access-Control-Allow-Headers"))
			}
		})
	}
}
