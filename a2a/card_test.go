package a2a_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
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
	return must.Get(a2a.Remote("billing", "http://peer.test/card", append([]a2a.Option{a2a.WithHTTPClient(&http.Client{Transport: p})}, opts...)...))
}

func ready(r agent.Agent) error { return r.(agent.Readier).Ready(context.Background()) }

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
			r := must.Get(a2a.Remote("billing", c.url, a2a.WithHTTPClient(&http.Client{Transport: pipe(func(req *http.Request) (*http.Response, error) {
				asked = append(asked, req.URL.RequestURI())
				status := c.status[req.URL.Path]
				if status == 0 {
					status = 404
				}
				return response(status, goodCard), nil
			})})))
			err := ready(r)
			require.Equal(t, c.fails, err != nil, "%v", err)
			require.Equal(t, c.asked, asked)
		})
	}
}
