// Command arbor runs trees of LLM agents. It is package cli with the stores and protocols that are too large for every
// program.
package main

import (
	"context"
	"log/slog"
	"time"

	driver "github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"github.com/agentarbor/arbor/a2a/a2agrpc"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2av0"
	"github.com/agentarbor/arbor/agentfile/agentmcp"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/mcpserver"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/tools"
)

func main() {
	driver.SetLogger(silence{})
	cli.Main(options()...)
}

// options returns the options for everything that package cli does not contain.
func options() []cli.Option {
	return []cli.Option{
		cli.WithPostgres(func(ctx context.Context, address string) (session.Store, error) { return postgres.Open(ctx, address) }),
		cli.WithRedis(liveTail),
		cli.WithA2A03(a2av0.Bindings(), a2av0.Server()),
		cli.WithMCP(cli.MCP{Servers: agentmcp.Opener, Server: mcpServer}),
		cli.WithMetrics(metrics),
		cli.WithGRPC(cli.GRPC{Binding: a2agrpc.Binding(), Interface: a2agrpc.Interface, Server: grpcServer}),
	}
}

func liveTail(ctx context.Context, url string, s session.Store, poll time.Duration, logger *slog.Logger) (session.Store, error) {
	return redis.New(ctx, url, s, redis.WithPoll(poll), redis.WithLogger(logger))
}

// silence keeps the Redis driver from writing to standard error. The tail logs what people need to know.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func mcpServer(r *runner.Runner, user string, approver tools.By, who access.Options, turns *access.Limit, logger *slog.Logger) (cli.MCPServer, error) {
	return mcpserver.New(r, mcpserver.WithUser(user), mcpserver.WithApprover(approver), mcpserver.WithAccess(who), mcpserver.WithLimit(turns), mcpserver.WithLogger(logger))
}

func grpcServer(s *a2aserver.Server, maxBody int, logger *slog.Logger) (cli.GRPCServer, error) {
	return a2agrpc.NewServer(s, logger, grpc.ConnectionTimeout(10*time.Second), grpc.MaxRecvMsgSize(maxBody))
}
