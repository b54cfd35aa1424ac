package main

import (
	"context"
	"iter"
	"log/slog"
	"os"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/sleep"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/tools"
)

// replicaVariable is set in the processes of the replicas, which also run this program.
const replicaVariable = "CLUSTER_REPLICA"

func isReplica() bool { return os.Getenv(replicaVariable) != "" }

// replica runs the command "serve" as the command arbor does.
func replica() {
	cli.Main(cli.WithName("cluster"), cli.WithTreeFunc(tree),
		cli.WithPostgres(func(ctx context.Context, address string) (session.Store, error) { return postgres.Open(ctx, address) }),
		cli.WithRedis(func(ctx context.Context, url string, s session.Store, poll time.Duration, logger *slog.Logger) (session.Store, error) {
			return redis.New(ctx, url, s, redis.WithPoll(poll), redis.WithLogger(logger))
		}))
}

// tree returns the agents: one that talks to users, and one for orders.
func tree(model llm.Model) (agent.Agent, error) {
	model = slow{model}
	list, err := tools.Func("list_orders", "List the orders of the user and where each is.", func(ctx tools.Context, _ struct{}) (string, error) {
		return "order 4711 is on its way", sleep.For(ctx, 300*time.Millisecond)
	}, tools.Idempotent())
	if err != nil {
		return nil, err
	}
	ticket, err := tools.Func("open_ticket", "Open a ticket for an order that is late.", func(ctx tools.Context, _ struct{}) (string, error) {
		return "the ticket is open", sleep.For(ctx, 300*time.Millisecond)
	})
	if err != nil {
		return nil, err
	}
	orders, err := llmagent.New("orders", "You look after orders.", model, llmagent.WithDescription("Orders, where they are, tickets for late ones"), llmagent.WithTools(list, ticket))
	if err != nil {
		return nil, err
	}
	return llmagent.New("desk", "You find out what people want.", model, llmagent.WithSubAgents(orders))
}

// slow is a model that waits before each word, as real models do.
type slow struct{ llm.Model }

func (s slow) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for c, err := range s.Model.Generate(ctx, req) {
			if c.Text != "" && err == nil {
				err = sleep.For(ctx, 60*time.Millisecond)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}
