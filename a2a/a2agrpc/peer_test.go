package a2agrpc_test

import (
	"context"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	sdkgrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2agrpc"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
)

// peer is the protocol library's own server over gRPC on loopback, whose agent does what the
// test says. Its card stands on a server of its own.
type peer struct {
	card    *sdk.AgentCard
	cardURL string
	address string
	grpc    *grpc.Server

	mu       sync.Mutex
	execute  remotetest.Execute
	got      []*sdk.Message
	metadata []metadata.MD
	broken   func(method string) error // instead of an answer
}

func (p *peer) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		p.mu.Lock()
		p.got = append(p.got, ec.Message)
		execute := p.execute
		p.mu.Unlock()
		execute(ctx, ec, yield)
	}
}

func (p *peer) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateCanceled, nil), nil)
	}
}

func (p *peer) set(e remotetest.Execute) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.execute = e
}

func (p *peer) messages() []*sdk.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got
}

func (p *peer) seen() []metadata.MD {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.metadata
}

// admit notes the metadata of a call, and fails it if the test says so.
func (p *peer) admit(ctx context.Context, method string) error {
	md, _ := metadata.FromIncomingContext(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.metadata = append(p.metadata, md)
	if p.broken != nil {
		return p.broken(method)
	}
	return nil
}

// serve begins a gRPC server at an address, and returns where it is.
func (p *peer) serve(t *testing.T, address string, handler a2asrv.RequestHandler, opts ...grpc.ServerOption) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", address))
	p.grpc = grpc.NewServer(append(opts,
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := p.admit(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := p.admit(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, stream)
		}))...)
	sdkgrpc.NewHandler(handler).RegisterWith(p.grpc)
	go func() { _ = p.grpc.Serve(listener) }()
	p.address = listener.Addr().String()
}

func newPeer(t *testing.T, streaming bool, e remotetest.Execute, opts ...grpc.ServerOption) *peer {
	t.Helper()
	p := &peer{execute: e}
	p.serve(t, servers.Address(t), a2asrv.NewHandler(p), opts...)
	t.Cleanup(func() { p.grpc.Stop() })
	p.card = &sdk.AgentCard{Name: "Billing", Description: "Says what it likes", Version: "1",
		SupportedInterfaces: []*sdk.AgentInterface{{URL: p.address, ProtocolBinding: sdk.TransportProtocolGRPC, ProtocolVersion: sdk.Version}},
		Capabilities:        sdk.AgentCapabilities{Streaming: streaming}}
	cards := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a2asrv.NewStaticAgentCardHandler(p.card).ServeHTTP(w, r)
	}))
	t.Cleanup(cards.Close)
	p.cardURL = cards.URL + "/.well-known/agent-card.json"
	return p
}

// newRemote makes a node that speaks gRPC.
func newRemote(t *testing.T, url string, opts ...a2a.Option) agent.Agent {
	t.Helper()
	return remotetest.Billing(t, url, append([]a2a.Option{a2a.WithBinding(a2agrpc.Binding())}, opts...)...)
}
