package cli

import (
	"log/slog"
	"net"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agentfile"
)

// Every program keeps sessions in SQLite, and speaks A2A 1.0 over JSON-RPC and HTTP+JSON.
// Other stores and protocols are large, so that a program has them only if it says so;
// the command arbor does.

// GRPC is the gRPC binding of A2A, as package a2a/a2agrpc has it.
type GRPC struct {
	// Binding reaches remote agents that files name.
	Binding a2a.Binding
	// Interface is what the card says of the server at a URL.
	Interface func(url string) sdk.AgentInterface
	// Server makes what serves a tree. It logs what clients do not get to know.
	Server func(s *a2aserver.Server, maxBody int, logger *slog.Logger) (GRPCServer, error)
}

// GRPCServer is what serve needs of a *grpc.Server.
type GRPCServer interface {
	Serve(net.Listener) error
	GracefulStop()
	Stop()
}

// WithGRPC lets remote agents be reached over gRPC, and gives serve the flag --grpc.
func WithGRPC(g GRPC) Option { return func(p *program) { p.grpc = &g } }

// WithA2A03 lets remote agents of protocol 0.3 be reached through the bindings, and
// gives serve the flag --a2a03, which adds the option to its server; package a2a/a2av0
// has both.
func WithA2A03(bindings []a2a.Binding, server a2aserver.Option) Option {
	return func(p *program) { p.a2a03, p.a2a03Bindings = server, bindings }
}

// bindings lets remote agents of files speak what the program has built in.
func (p *program) bindings() agentfile.Option {
	list := p.a2a03Bindings
	if p.grpc != nil {
		list = append(list[:len(list):len(list)], p.grpc.Binding)
	}
	return agentfile.WithRemoteOptions(a2a.WithBinding(list...))
}
