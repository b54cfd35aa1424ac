package cli

import (
	"context"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/session"
)

// Every program keeps sessions in SQLite, and speaks A2A 1.0 over JSON-RPC and HTTP+JSON.
// Other stores and protocols are large, so that a program has them only if it says so;
// the command arbor does.
type (
	// GRPC is the gRPC binding of A2A, as package a2a/a2agrpc has it. Its fields: Binding reaches remote agents that
	// files name; Interface is what the card says of the server at a URL; Server makes the server of a tree, with the
	// limit of a message in bytes and a logger for what clients do not read.
	GRPC = factory.GRPC
	// GRPCServer is what serve needs of a *grpc.Server: Serve, GracefulStop and Stop.
	GRPCServer = factory.GRPCServer
	// MCP is the Model Context Protocol, as packages agentfile/agentmcp and mcpserver have it. Its fields: Servers makes
	// the function that opens the servers of files, and the one that ends them; Server makes the server of a tree, with
	// the user of clients without a name, the approver where nothing else names one, and the limit of turns.
	MCP = factory.MCP
	// MCPServer is what the commands need of a *mcpserver.Server: http.Handler, Serve and Swap.
	MCPServer = factory.MCPServer
	// Metrics are what serve measures. Its fields: Interceptor and Observer, as package telemetry makes them, and
	// Handler, which answers at /metrics.
	Metrics = factory.Metrics
	// Redis is a function that puts a live tail around a store, as package session/redis does: it gets the URL of a
	// server, the store, the interval at which it looks for what it missed, and a logger.
	Redis = factory.Redis
)

// WithMCP lets agents of files have the tools of servers of the Model Context Protocol, which
// cli.MCP{Servers: agentmcp.Opener} opens. With the field Server the program also has the command mcp,
// and serve the flag --mcp.
func WithMCP(m MCP) Option { return func(f *factory.Factory) { f.MCP = &m } }

// WithMetrics gives serve the flag --metrics.
func WithMetrics(of func() (Metrics, error)) Option {
	return func(f *factory.Factory) { f.Metrics = of }
}

// WithGRPC lets remote agents be reached over gRPC, and gives serve the flag --grpc.
func WithGRPC(g GRPC) Option { return func(f *factory.Factory) { f.GRPC = &g } }

// WithA2A03 lets remote agents of protocol 0.3 be reached through the bindings, and
// gives serve the flag --a2a03, which adds the option to its server; package a2a/a2av0
// has both.
func WithA2A03(bindings []a2a.Binding, server a2aserver.Option) Option {
	return func(f *factory.Factory) { f.A2A03, f.A2A03Bindings = server, bindings }
}

// WithPostgres lets --db be the postgres:// address of a database, which open connects to,
// as package session/postgres does.
func WithPostgres(open func(ctx context.Context, address string) (session.Store, error)) Option {
	return func(f *factory.Factory) { f.Postgres = open }
}

// WithRedis gives commands the flag --redis.
func WithRedis(r Redis) Option { return func(f *factory.Factory) { f.Redis = r } }
