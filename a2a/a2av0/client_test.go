package a2av0_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	oldsrv "github.com/a2aproject/a2a-go/a2asrv"
	"github.com/a2aproject/a2a-go/a2asrv/eventqueue"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2av0"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// peer is the server of the Go library of 0.3 on loopback, whose agent does what the test says.
type peer struct {
	*httptest.Server
	card *old.AgentCard

	mu      sync.Mutex
	execute func(ctx context.Context, rc *oldsrv.RequestContext, write func(old.Event)) error
	headers []http.Header
	bodies  []string
	wrap    func(http.Handler) http.Handler
}

func (p *peer) Execute(ctx context.Context, rc *oldsrv.RequestContext, q eventqueue.Queue) error {
	return p.execute(ctx, rc, func(e old.Event) { _ = q.Write(ctx, e) })
}

func (p *peer) Cancel(ctx context.Context, rc *oldsrv.RequestContext, q eventqueue.Queue) error {
	return q.Write(ctx, final(old.NewStatusUpdateEvent(rc, old.TaskStateCanceled, nil)))
}

func final(e *old.TaskStatusUpdateEvent) *old.TaskStatusUpdateEvent {
	e.Final = true
	return e
}

func newPeer(t *testing.T, streaming bool, execute func(context.Context, *oldsrv.RequestContext, func(old.Event)) error) *peer {
	t.Helper()
	p := &peer{execute: execute}
	rpc := oldsrv.NewJSONRPCHandler(oldsrv.NewHandler(p))
	mux := http.NewServeMux()
	serveRPC := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		p.mu.Lock()
		p.headers, p.bodies = append(p.headers, r.Header.Clone()), append(p.bodies, string(body))
		wrap := p.wrap
		p.mu.Unlock()
		if wrap != nil {
			wrap(rpc).ServeHTTP(w, r)
			return
		}
		rpc.ServeHTTP(w, r)
	})
	mux.Handle("/rpc", serveRPC)
	mux.Handle("/rpc/", serveRPC) // for HTTP+JSON, if wrap answers
	mux.HandleFunc("/.well-known/agent-card.json", func(w http.ResponseWriter, r *http.Request) {
		oldsrv.NewStaticAgentCardHandler(p.card).ServeHTTP(w, r)
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	p.card = &old.AgentCard{Name: "Billing", Description: "d", Version: "1", URL: p.URL + "/rpc", ProtocolVersion: "0.3.0",
		Capabilities: old.AgentCapabilities{Streaming: streaming}, Skills: []old.AgentSkill{}}
	return p
}

func newRemote(t *testing.T, url string, opts ...a2a.Option) agent.Agent {
	t.Helper()
	return remotetest.Billing(t, url, append([]a2a.Option{a2a.WithBinding(a2av0.Bindings()...)}, opts...)...)
}

// completes answers with an artifact in pieces.
func completes(pieces ...string) func(context.Context, *oldsrv.RequestContext, func(old.Event)) error {
	return func(_ context.Context, rc *oldsrv.RequestContext, write func(old.Event)) error {
		write(old.NewSubmittedTask(rc, rc.Message))
		write(old.NewStatusUpdateEvent(rc, old.TaskStateWorking, nil))
		first := old.NewArtifactEvent(rc, old.TextPart{Text: pieces[0]})
		write(first)
		for _, piece := range pieces[1:] {
			write(old.NewArtifactUpdateEvent(rc, first.Artifact.ID, old.TextPart{Text: piece}))
		}
		write(final(old.NewStatusUpdateEvent(rc, old.TaskStateCompleted, nil)))
		return nil
	}
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		execute func(context.Context, *oldsrv.RequestContext, func(old.Event)) error
		wrap    func(http.Handler) http.Handler
		code    a2a.ErrorCode
		words   string
	}{
		"failed": {execute: func(_ context.Context, rc *oldsrv.RequestContext, write func(old.Event)) error {
			write(old.NewSubmittedTask(rc, rc.Message))
			write(final(old.NewStatusUpdateEvent(rc, old.TaskStateFailed, old.NewMessageForTask(old.MessageRoleAgent, rc, old.TextPart{Text: "no funds"}))))
			return nil
		}, code: a2a.CodeTaskFailed, words: "no funds"},
		"an error with data that is text": {wrap: answers("application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"not today","data":"because"}}`),
			code: a2a.CodeProtocol, words: "not today"},
		"an error with data in the stream": {wrap: answers("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"error\":{\"code\":-32603,\"message\":\"it broke\",\"data\":{\"trace\":[1]}}}\n\n"),
			code: a2a.CodeProtocol, words: "it broke"},
		"no JSON": {wrap: answers("application/json", `<html>`), code: a2a.CodeProtocol},
	} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streams=%v", name, streams), func(t *testing.T) {
				if !streams && strings.Contains(name, "stream") {
					t.Skip("there is no stream")
				}
				p := newPeer(t, streams, c.execute)
				p.wrap = c.wrap
				_, _, err := remotetest.NewClient(t, newRemote(t, p.URL)).Turn("pay")
				var e *a2a.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, c.code, e.Code, "%v", err)
				require.ErrorContains(t, err, c.words)
			})
		}
	}
}

func answers(contentType, body string) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			fmt.Fprint(w, body)
		})
	}
}

// Parts that 0.3 does not know take nothing from the others.
func TestUnknownParts(t *testing.T) {
	message := `{"kind":"message","messageId":"m","role":"agent","contextId":"c","metadata":{"parts":[{"kind":"mine"}]},"parts":[{"kind":"hologram","depth":3},{"kind":"text","text":"Fine."}]}`
	for _, streams := range []bool{true, false} {
		p := newPeer(t, streams, nil)
		p.wrap = answers("application/json", `{"jsonrpc":"2.0","id":7,"result":`+message+`}`)
		if streams {
			p.wrap = answers("text/event-stream; charset=utf-8", "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":"+message+"}\r\n\r\n")
		}
		events, _, err := remotetest.NewClient(t, newRemote(t, p.URL)).Turn("hi")
		require.NoError(t, err)
		require.Equal(t, []string{"Fine."}, remotetest.Texts(events))
		require.Equal(t, "0.3", p.headers[0].Get("A2A-Version"))
		require.Contains(t, p.bodies[0], `"blocking":true`)
	}
}

// What the SDK cannot read takes nothing from the rest of an answer, in both bindings.
func TestOddAnswers(t *testing.T) {
	odd := map[string]map[string]string{
		"JSONRPC": {
			"a time without a zone":  `{"kind":"status-update","taskId":"t","contextId":"c","status":{"state":"working","timestamp":"2025-01-01T00:00:00.123456"}}`,
			"an event of a new kind": `{"kind":"credit-update","taskId":"t","contextId":"c"}`,
			"a file without one":     `{"kind":"artifact-update","taskId":"t","contextId":"c","artifact":{"artifactId":"b","parts":[{"kind":"file"},{"kind":"data","data":[1]}]}}`,
		},
		"HTTP+JSON": {
			"a time without a zone":  `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING","timestamp":"2025-01-01T00:00:00.123456"}}}`,
			"an event of a new kind": `{"creditUpdate":{"taskId":"t","contextId":"c"}}`,
			"an unknown part":        `{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"b","parts":[{"hologram":{}}]}}}`,
		},
	}
	rest := map[string]string{
		"JSONRPC": `{"kind":"task","id":"t","contextId":"c","status":{"state":"completed"},"artifacts":[{"artifactId":"a","parts":[
			{"kind":"text","text":"Fine. "},{"kind":"data","data":{"n":1}},{"kind":"file","file":{"name":"f","uri":"https://x.example/f"}}]}]}`,
		"HTTP+JSON": `{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[
			{"text":"Fine. "},{"data":{"data":{"n":1}}},{"file":{"name":"f","fileWithUri":"https://x.example/f"}}]}]}}`,
	}
	for transport, events := range odd {
		for name, first := range events {
			p := newPeer(t, true, nil)
			p.card.PreferredTransport = old.TransportProtocol(transport)
			body := ""
			for _, data := range []string{first, strings.ReplaceAll(rest[transport], "\n", "")} {
				if transport == "JSONRPC" {
					data = `{"jsonrpc":"2.0","id":"7","result":` + data + `}`
				}
				body += "data: " + data + "\n\n"
			}
			p.wrap = answers("text/event-stream", body)
			events, _, err := remotetest.NewClient(t, newRemote(t, p.URL)).Turn("hi")
			require.NoError(t, err, "%s: %s", transport, name)
			require.Equal(t, []string{`Fine. {"n":1}`}, remotetest.Texts(events), "%s: %s", transport, name)
			require.Len(t, remotetest.Find[*event.File](events), 1, "%s: %s", transport, name)
		}
	}
}

// Without the bindings a card of 0.3 is refused, and the error says what to import.
func TestWithoutBindings(t *testing.T) {
	p := newPeer(t, true, completes("x"))
	r := must.Get(a2a.Remote("billing", p.URL))
	err := r.(agent.Readier).Ready(context.Background())
	var e *a2a.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, a2a.CodeCard, e.Code)
	require.ErrorContains(t, err, "a2a/a2av0")
}

// The ids of a peer do not lead to other paths.
func TestIDsInPaths(t *testing.T) {
	for _, id := range []string{"..", "../../admin", "a?b", "a%2fb", "a#b", `a\nb`, `a\\b`} {
		var mu sync.Mutex
		var paths []string
		mux := http.NewServeMux()
		srv := httptest.NewServer(mux)
		t.Cleanup(srv.Close)
		card := &old.AgentCard{Name: "Billing", URL: srv.URL, PreferredTransport: "HTTP+JSON", ProtocolVersion: "0.3.0", Capabilities: old.AgentCapabilities{Streaming: true}}
		mux.Handle("/.well-known/agent-card.json", oldsrv.NewStaticAgentCardHandler(card))
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			paths = append(paths, r.URL.Path)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"task\":{\"id\":\"%s\",\"contextId\":\"c\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}\n\n", id)
		})
		_, _, err := remotetest.NewClient(t, newRemote(t, srv.URL)).Turn("hi")
		var e *a2a.Error
		require.ErrorAs(t, err, &e, id)
		require.Equal(t, a2a.CodeProtocol, e.Code, "%s: %v", id, err)
		require.ErrorIs(t, err, sdk.ErrInvalidAgentResponse, id)
		mu.Lock()
		require.Equal(t, []string{"/v1/message:stream"}, paths, id)
		mu.Unlock()
	}
}

func TestParseCard(t *testing.T) {
	type iface struct{ url, binding string }
	for name, c := range map[string]struct {
		doc  string
		want []iface
	}{
		"JSON-RPC is the default": {`{"protocolVersion":"0.3.0","url":"https://a.example/rpc"}`, []iface{{"https://a.example/rpc", "JSONRPC"}}},
		"no version":              {`{"url":"https://a.example/rpc"}`, []iface{{"https://a.example/rpc", "JSONRPC"}}},
		"0.2.6":                   {`{"protocolVersion":"0.2.6","url":"https://a.example/rpc"}`, []iface{{"https://a.example/rpc", "JSONRPC"}}},
		"two at one URL": {`{"protocolVersion":"0.3.0","url":"https://a.example","preferredTransport":"HTTP+JSON","additionalInterfaces":[
			{"url":"https://a.example","transport":"HTTP+JSON"},{"url":"https://a.example","transport":"JSONRPC"},{"url":"a.example:443","transport":"GRPC"}]}`,
			[]iface{{"https://a.example", "HTTP+JSON"}, {"https://a.example", "JSONRPC"}, {"a.example:443", "GRPC"}}},
		"schemes that nobody knows": {`{"protocolVersion":"0.3.0","url":"https://a.example","securitySchemes":{"x":{"type":"quantum"}},"security":[{"x":[]}]}`,
			[]iface{{"https://a.example", "JSONRPC"}}},
	} {
		card, err := a2av0.ParseCard([]byte(c.doc))
		require.NoError(t, err, name)
		var got []iface
		for _, i := range card.SupportedInterfaces {
			require.EqualValues(t, "0.3", i.ProtocolVersion)
			got = append(got, iface{i.URL, string(i.ProtocolBinding)})
		}
		require.Equal(t, c.want, got, name)
	}
	for _, doc := range []string{`<html>`, `{}`, `{"protocolVersion":"0.3.0"}`, `{"protocolVersion":"1.0","url":"https://a.example"}`, `{"url":5}`} {
		require.Error(t, must.Err(a2av0.ParseCard([]byte(doc))), doc)
	}
	card := must.Get(a2av0.ParseCard([]byte(`{"name":"n","url":"https://a.example","capabilities":{"streaming":true},"supportsAuthenticatedExtendedCard":true}`)))
	require.True(t, card.Capabilities.Streaming)
	require.True(t, card.Capabilities.ExtendedAgentCard)
}

func FuzzParseCard(f *testing.F) {
	f.Add([]byte(`{"protocolVersion":"0.3.0","url":"u","additionalInterfaces":[{"url":"v","transport":"GRPC"}],"securitySchemes":{"x":{"type":"apiKey","in":"header","name":"k"}}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		card, err := a2av0.ParseCard(doc)
		if err == nil {
			require.NotEmpty(t, card.SupportedInterfaces)
			require.True(t, json.Valid(doc))
		}
	})
}
