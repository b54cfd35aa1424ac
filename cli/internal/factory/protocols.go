package factory

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
)

// MCP is the Model Context Protocol, as packages agentfile/agentmcp and mcpserver have it.
type MCP struct {
	// Servers makes what opens the servers that files name, and what ends all of them. It
	// logs what people should know.
	Servers func(logger *slog.Logger) (open func(agentfile.MCPServer) (tools.Set, error), end func() error)
	// Server makes what serves a tree. Its clients are user where nobody is asked, and approver
	// decides where nothing else says it. turns bounds the turns that run at the same time.
	Server func(r *runner.Runner, user string, approver tools.By, who access.Options, turns *access.Limit, logger *slog.Logger) (MCPServer, error)
}

// MCPServer is what the commands need of a *mcpserver.Server.
type MCPServer interface {
	http.Handler
	Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error
	Swap(*runner.Runner)
}

// mcpServers lets files name servers, if the program has them built in. They are started when
// an agent needs them, and end with the command.
func mcpServers(f *Factory) []agentfile.Option {
	if f.MCP == nil {
		return nil
	}
	if f.openMCP == nil {
		open, end := f.MCP.Servers(f.Warnings())
		f.openMCP = open
		f.AtEnd(func() { _ = end() })
	}
	return []agentfile.Option{agentfile.WithMCP(f.openMCP)}
}

// Metrics are what serve measures: package telemetry makes the interceptor and the observer.
type Metrics struct {
	Interceptor agent.Interceptor
	Observer    access.Observer
	// Handler answers at the path /metrics.
	Handler http.Handler
}

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

// Bindings lets remote agents of files speak what the program has built in.
func Bindings(f *Factory) agentfile.Option {
	list := f.A2A03Bindings
	if f.GRPC != nil {
		list = append(list[:len(list):len(list)], f.GRPC.Binding)
	}
	return agentfile.WithRemoteOptions(a2a.WithBinding(list...))
}
