// Command arbor runs trees of LLM agents. All of it is package cli, with the larger
// protocols of its remote agents.
package main

import (
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/agentarbor/arbor/a2a/a2agrpc"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2av0"
	"github.com/agentarbor/arbor/cli"
)

func main() {
	cli.Main(
		cli.WithA2A03(a2av0.Bindings(), a2av0.Server()),
		cli.WithGRPC(cli.GRPC{Binding: a2agrpc.Binding(), Interface: a2agrpc.Interface, Server: grpcServer}),
	)
}

func grpcServer(s *a2aserver.Server, logger *slog.Logger) (cli.GRPCServer, error) {
	return a2agrpc.NewServer(s, a2agrpc.WithLogger(logger), grpc.ConnectionTimeout(10*time.Second))
}
