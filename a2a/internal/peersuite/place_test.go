package peersuite

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2agrpc"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/view"
)

// place is where a specialist stands: beside its coordinator, or behind a server on
// loopback to which a remote node speaks.
type place struct {
	name    string
	remote  bool
	binding string // of the card, "" is the server's first
}

var places = []place{{name: "local"}, {"JSON-RPC", true, "JSONRPC"}, {"HTTP+JSON", true, "HTTP+JSON"}, {"gRPC", true, "GRPC"}}

// desk is a specialist in its place.
type desk struct {
	agent.Agent
	server *a2aserver.Server // nil beside the coordinator
	front  *httptest.Server
	grpc   *grpc.Server
	store  session.Store // the server's
}

// put stands a specialist in its place. It is served for as long as the test goes on.
func (p place) put(t testing.TB, a agent.Agent, opts ...a2a.Option) *desk {
	t.Helper()
	if !p.remote {
		return &desk{Agent: a}
	}
	d := &desk{store: sessiontest.Memory(t)}
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	d.server = must.Get(a2aserver.New(a, d.store, a2aserver.WithLogger(logger(t)), a2aserver.WithInterface(a2agrpc.Interface("http://"+lis.Addr().String()))))
	d.front = httptest.NewServer(d.server)
	d.grpc = must.Get(a2agrpc.NewServer(d.server, nil))
	var serving sync.WaitGroup
	serving.Go(func() { _ = d.grpc.Serve(lis) })
	t.Cleanup(func() {
		require.NoError(t, d.server.Close(context.Background()))
		d.front.Close()
		d.grpc.Stop()
		serving.Wait()
	})
	d.Agent = p.node(t, a.Name(), d.front.URL, append([]a2a.Option{a2a.WithDescription(a.Description())}, opts...)...)
	return d
}

// node is a remote node that speaks this place's binding only.
func (p place) node(t testing.TB, name, url string, opts ...a2a.Option) agent.Agent {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return must.Get(a2a.Remote(name, url, append([]a2a.Option{a2a.WithHTTPClient(&http.Client{Transport: offers{transport, p.binding}}), a2a.WithBinding(a2agrpc.Binding())}, opts...)...))
}

func logger(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// recorder notes what a model is asked.
type recorder struct {
	llm.Model
	record func(*llm.Request)
}

func (r recorder) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	r.record(req)
	return r.Model.Generate(ctx, req)
}

// checked refuses requests that an endpoint would refuse.
type checked struct{ llm.Model }

func (m checked) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	if err := view.Check(req); err != nil {
		return func(yield func(llm.Chunk, error) bool) {
			yield(llm.Chunk{}, &llm.Error{Code: llm.CodeBadRequest, Message: "wire check: " + err.Error()})
		}
	}
	return m.Model.Generate(ctx, req)
}

// asked keeps what the models of a tree were asked, by agent.
type asked struct {
	mu       sync.Mutex
	requests map[string][]*llm.Request
}

func (a *asked) model(name string, m llm.Model) llm.Model {
	return checked{recorder{m, func(req *llm.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.requests == nil {
			a.requests = make(map[string][]*llm.Request)
		}
		a.requests[name] = append(a.requests[name], req)
	}}}
}

func (a *asked) of(name string) []*llm.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests[name]
}

func (a *asked) count(name string) int { return len(a.of(name)) }

// wire renders what an agent's model was asked.
func (a *asked) wire(name string) (lines []string) {
	for _, req := range a.of(name) {
		lines = append(lines, "to "+name)
		for _, t := range req.Tools {
			lines = append(lines, "  tool "+t.Name+" "+t.Description)
		}
		for _, m := range req.Messages {
			line := fmt.Sprintf("  %s %q", m.Role, m.PlainText())
			for _, p := range m.Parts {
				switch p := p.(type) {
				case llm.ToolCall:
					line += fmt.Sprintf(" call #%s %s %s", p.ID, p.Name, p.Arguments)
				case llm.ToolResult:
					line += fmt.Sprintf(" #%s %s", p.CallID, p.Output)
				}
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// news returns, for each request, the words that the model had not answered yet.
func (a *asked) news(name string) (all [][]string) {
	for _, req := range a.of(name) {
		var words []string
		for _, m := range req.Messages {
			switch m.Role {
			case llm.RoleAssistant:
				words = nil
			case llm.RoleUser:
				if len(m.Parts) == 0 {
					words = append(words, m.Text)
				}
				for _, p := range m.Parts {
					if p, ok := p.(llm.TextPart); ok {
						words = append(words, p.Text)
					}
				}
			}
		}
		all = append(all, words)
	}
	return all
}
