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
	// GRPC is the gRPC binding of A2A, as package a2a/a2agrpc has it.
	GRPC = factory.GRPC
	// GRPCServer is what serve needs of a *grpc.Server.
	GRPCServer = factory.GRPCServer
	// MCP is the Model Context Protocol, as packages agentfile/agentmcp and mcpserver have it.
	MCP = factory.MCP
	// MCPServer is what the commands need of a *mcpserver.Server.
	MCPServer = factory.MCPServer
	// Metrics are what serve measures: package telemetry makes the interceptor and the observer.
	Metrics = factory.Metrics
	// Redis puts a live tail around a store, as package session/redis does.
	Redis = factory.Redis
)

// WithMCP lets agents of files have the tools of servers of the Model Context Protocol, and
// gives the program the command mcp and serve the flag --mcp.
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
