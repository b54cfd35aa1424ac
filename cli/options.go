package cli

import (
	"context"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/session"
)

// Every program stores sessions in SQLite, and supports A2A 1.0 over JSON-RPC and HTTP+JSON. Other stores and protocols
// are large, so a program has them only with these options; the command arbor has all of them.
type (
	// GRPC is the gRPC binding of A2A, as package a2a/a2agrpc implements it. Binding connects to remote agents that
	// files name. Interface returns the entry of the card for a server at a URL. Server returns the server of a tree,
	// with the limit of a message in bytes and a logger for errors that clients do not see.
	GRPC = factory.GRPC
	// GRPCServer contains the methods of a *grpc.Server that serve uses: Serve, GracefulStop and Stop.
	GRPCServer = factory.GRPCServer
	// MCP is the Model Context Protocol, as packages agentfile/agentmcp and mcpserver implement it. Servers returns a
	// function that opens the servers of files, and one that ends them. Server returns the server of a tree, with the
	// user of clients without a name, the approver of approvals that name nobody, and the limit of turns.
	MCP = factory.MCP
	// MCPServer contains the methods of a *mcpserver.Server that the commands use: those of http.Handler, Serve and
	// Swap.
	MCPServer = factory.MCPServer
	// Metrics are the metrics of serve. Interceptor and Observer are those of package telemetry, and Handler serves
	// /metrics.
	Metrics = factory.Metrics
	// Redis is a function that adds a live tail to a store, as package session/redis implements it. Its arguments are
	// the URL of a server, the store, the interval at which it checks for missed events, and a logger.
	Redis = factory.Redis
)

// WithMCP lets agents of files use the tools of servers of the Model Context Protocol; cli.MCP{Servers:
// agentmcp.Opener} opens them. If Server is set, the program also has the command mcp, and serve has the flag --mcp.
func WithMCP(m MCP) Option { return func(f *factory.Factory) { f.MCP = &m } }

// WithMetrics gives serve the flag --metrics.
func WithMetrics(of func() (Metrics, error)) Option {
	return func(f *factory.Factory) { f.Metrics = of }
}

// WithGRPC supports remote agents over gRPC, and gives serve the flag --grpc.
func WithGRPC(g GRPC) Option { return func(f *factory.Factory) { f.GRPC = &g } }

// WithA2A03 supports remote agents of protocol 0.3 through the bindings, and gives serve the flag --a2a03, which adds
// the option to its server. Package a2a/a2av0 has both.
func WithA2A03(bindings []a2a.Binding, server a2aserver.Option) Option {
	return func(f *factory.Factory) { f.A2A03, f.A2A03Bindings = server, bindings }
}

// WithPostgres lets --db be the postgres:// address of a database. open connects to it, as package session/postgres
// does.
func WithPostgres(open func(ctx context.Context, address string) (session.Store, error)) Option {
	return func(f *factory.Factory) { f.Postgres = open }
}

// WithRedis gives commands the flag --redis.
func WithRedis(r Redis) Option { return func(f *factory.Factory) { f.Redis = r } }
