package wire

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/access"
)

func TestContentTypeIsChecked(t *testing.T) {
	tests := []struct {
		contentType string
		ok          bool
	}{
		{"application/json", true},
		{"application/a2a+json", true},
		{"application/json; charset=utf-8", true},
		{"Application/JSON;charset=UTF-8", true},
		{`application/a2a+json; profile="x"`, true},
		{"application/json; charset=utf-16", false},
		{"application/jsonp", false},
		{"text/plain", false},
		{"text/json", false},
		{"application/x-www-form-urlencoded", false},
		{"multipart/form-data; boundary=x", false},
		{"application/json, text/plain", false},
		{"application/json; charset", false},
		{"", false},
	}
	server := serveFront(t, Front{})
	for _, test := range tests {
		t.Run(test.contentType, func(t *testing.T) {
			for _, request := range []struct{ path, body string }{
				{"/rpc", rpcBody("SendMessage", hello)}, {"/message:send", hello}, {"/message:stream", hello}, {"/tasks/t:cancel", `{}`},
			} {
				got := call(t, "POST", server.URL+request.path, request.body, "Content-Type", test.contentType)
				if test.ok {
					require.Equal(t, 200, got.status, got.body)
					continue
				}
				require.Equal(t, 415, got.status, got.body)
				reason, _ := got.reason(t)
				require.Equal(t, "CONTENT_TYPE_NOT_SUPPORTED", reason)
				if request.path == "/rpc" {
					require.Equal(t, -32005, got.code(t))
				}
			}
		})
	}
	require.Equal(t, 200, call(t, "POST", server.URL+"/tasks/t:cancel", "").status, "no body needs no type")
	for body, status := range map[string]int{"": 200, "{}": 415} {
		r := must.Get(http.NewRequest("POST", server.URL+"/tasks/t:cancel", io.MultiReader(strings.NewReader(body))))
		resp := must.Get(http.DefaultTransport.RoundTrip(r))
		resp.Body.Close()
		require.Equal(t, status, resp.StatusCode, "chunks without a type")
	}
	got := call(t, "POST", server.URL+"/message:send", hello, "Content-Encoding", "gzip")
	require.Equal(t, 415, got.status)
}

func TestMediaTypesOfPartsAreChecked(t *testing.T) {
	f := Front{Handler: NewChecks(&stub{}, []string{"text/plain", "application/json", "image/*"}, []string{"text/plain"}, nil, nil, nil)}
	server := serveFront(t, f)
	part := func(p string) string {
		return `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"},` + p + `]}}`
	}
	modes := func(list string) string {
		return strings.TrimSuffix(hello, "}") + `,"configuration":{"acceptedOutputModes":` + list + `}}`
	}
	tests := []struct {
		name, params string
		ok           bool
	}{
		{"text", part(`{"text":"x"}`), true},
		{"text with parameters", part(`{"text":"x","mediaType":"text/plain; charset=utf-8"}`), true},
		{"text in capitals", part(`{"text":"x","mediaType":"TEXT/Plain"}`), true},
		{"another text", part(`{"text":"x","mediaType":"text/html"}`), false},
		{"data", part(`{"data":{}}`), true},
		{"an image", part(`{"raw":"AAAA","mediaType":"image/png"}`), true},
		{"an image at a URL", part(`{"url":"https://x/y","mediaType":"image/png"}`), true},
		{"an image by its bytes", part(`{"raw":"iVBORw0KGgoAAAAA"}`), true},
		{"a film", part(`{"raw":"AAAA","mediaType":"video/mp4"}`), false},
		{"a film in snake_case", part(`{"raw":"AAAA","media_type":"video/mp4"}`), false},
		{"unknown bytes", part(`{"raw":"AAAA"}`), false},
		{"a URL of unknown type", part(`{"url":"https://x/y"}`), true},
		{"a page at a URL", part(`{"url":"https://x/y","filename":"a.html"}`), false},
		{"accepts text", modes(`["image/png","text/plain"]`), true},
		{"accepts any text", modes(`["text/*"]`), true},
		{"accepts anything", modes(`["*/*"]`), true},
		{"accepts text with a parameter", modes(`["text/plain;charset=utf-8"]`), true},
		{"accepts text with a comma", modes(`["text/plain;x=\"a,b\""]`), true},
		{"accepts text and nonsense", modes(`["","text/plain","a b"]`), true},
		{"accepts whatever", modes(`[]`), true},
		{"accepts images alone", modes(`["image/png"]`), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
				got := call(t, "POST", server.URL+"/rpc", rpcBody(method, test.params))
				if test.ok {
					require.Contains(t, got.body, `"result"`)
				} else {
					require.Equal(t, -32005, got.code(t), got.body)
				}
			}
			for _, path := range []string{"/message:send", "/message:stream"} {
				got := call(t, "POST", server.URL+path, test.params)
				if test.ok {
					require.Equal(t, 200, got.status, got.body)
					continue
				}
				require.Equal(t, 400, got.status, got.body)
				reason, _ := got.reason(t)
				require.Equal(t, "CONTENT_TYPE_NOT_SUPPORTED", reason)
			}
		})
	}
	got := call(t, "POST", server.URL+"/rpc", rpcBody("SendMessage", modes(`["text"]`)+""))
	require.Equal(t, -32005, got.code(t))
	got = call(t, "POST", server.URL+"/rpc", rpcBody("SendMessage", modes(`["/"]`)))
	require.Equal(t, -32602, got.code(t))
}

func TestAnswersHaveTheTypeThatTheClientWants(t *testing.T) {
	tests := []struct{ accept, sent, want string }{
		{"", "", "application/json"},
		{"*/*", "", "application/json"},
		{"application/json", "", "application/json"},
		{"application/a2a+json", "", "application/a2a+json"},
		{"application/a2a+json, application/json", "", "application/a2a+json"},
		{"application/json, application/a2a+json;q=0.5", "", "application/json"},
		{"application/*;q=0.1, application/a2a+json;q=0", "", "application/json"},
		{"application/a2a+json;q=0.5, application/json, */*;q=0.1", "", "application/json"},
		{"*/*;q=0.1, application/json;q=0.2, application/a2a+json;q=0.5", "", "application/a2a+json"},
		{"text/event-stream", "", "application/json"},
		{"", "application/a2a+json", "application/a2a+json"},
		{"*/*", "application/a2a+json", "application/a2a+json"},
		{"application/json", "application/a2a+json", "application/json"},
		{"text/html, */*;q=0.8", "", "application/json"},
	}
	handler := &stub{}
	server := serveFront(t, Front{Handler: handler})
	for _, test := range tests {
		t.Run(test.accept+" "+test.sent, func(t *testing.T) {
			method, path, body := "GET", "/tasks/t", ""
			if test.sent != "" {
				method, path, body = "POST", "/message:send", hello
			}
			got := call(t, method, server.URL+path, body, "Accept", test.accept, "Content-Type", test.sent)
			require.Equal(t, 200, got.status, got.body)
			require.Equal(t, test.want, got.mediaType())
			got = call(t, method, server.URL+"/nowhere", body, "Accept", test.accept, "Content-Type", test.sent)
			require.Equal(t, 404, got.status)
			require.Equal(t, test.want, got.mediaType(), "errors have it too")
			got = call(t, "POST", server.URL+"/rpc", rpcBody("GetTask", `{"id":"t"}`), "Accept", test.accept)
			require.Equal(t, "application/json", got.mediaType())
		})
	}
	for _, accept := range []string{"text/html", "application/json;q=0", "image/*", "*/*;q=0"} {
		require.Equal(t, 406, call(t, "GET", server.URL+"/tasks/t", "", "Accept", accept).status, accept)
		require.Equal(t, 406, call(t, "POST", server.URL+"/rpc", rpcBody("GetTask", `{"id":"t"}`), "Accept", accept).status, accept)
	}
	got := call(t, "GET", server.URL+"/tasks/t", "")
	require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))
}

func TestBodiesAreBounded(t *testing.T) {
	server := serveFront(t, Front{Access: access.Options{MaxBody: 1000}})
	large := `{"x":"` + strings.Repeat("x", 2000) + `"}`
	got := call(t, "POST", server.URL+"/message:send", large)
	require.Equal(t, 413, got.status)
	require.Contains(t, got.body, "1000")
	got = call(t, "POST", server.URL+"/rpc", large)
	require.Equal(t, 413, got.status)
	require.Equal(t, -32600, got.code(t))

	// The length is not told in advance.
	r := must.Get(http.NewRequest("POST", server.URL+"/rpc", io.MultiReader(strings.NewReader(large))))
	r.Header.Set("Content-Type", "application/json")
	resp := must.Get(http.DefaultTransport.RoundTrip(r))
	resp.Body.Close()
	require.Equal(t, 413, resp.StatusCode)

	server = serveFront(t, Front{})
	require.Equal(t, 413, call(t, "POST", server.URL+"/rpc", strings.Repeat(" ", access.MaxBody)+"{}").status, "the default")
}

func TestABodyThatTrickles(t *testing.T) {
	server := serveFront(t, Front{Access: access.Options{BodyTimeout: 30 * time.Millisecond}})
	conn := must.Get(net.Dial("tcp", server.Listener.Addr().String()))
	defer conn.Close()
	_, err := fmt.Fprint(conn, "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	answer := must.Get(io.ReadAll(conn))
	require.Contains(t, string(answer), "408 Request Timeout")
	require.Contains(t, string(answer), `"jsonrpc"`)
}

// The deadline of the body must not end an answer that takes longer.
func TestAnAnswerMayTakeLongerThanTheBody(t *testing.T) {
	handler := &stub{}
	server := serveFront(t, Front{Handler: handler, Access: access.Options{BodyTimeout: 200 * time.Millisecond}})
	handler.events = slowEvents(5, 60*time.Millisecond)
	got := call(t, "POST", server.URL+"/message:stream", hello)
	require.Equal(t, 5, strings.Count(got.body, "data: "), got.body)
}

func TestLargeHeaders(t *testing.T) {
	got := call(t, "GET", serveFront(t, Front{}).URL+"/tasks", "", "X-Large", strings.Repeat("x", 100<<10))
	require.Equal(t, 431, got.status)
}
