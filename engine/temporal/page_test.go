package temporal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/engine/temporal"
	"github.com/agentarbor/arbor/engine/temporal/internal/testserver"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/redis"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// play is what docs/durable.md shows; a test of internal/testing/doctest compares them.
func play(ctx context.Context, root agent.Agent, database, cache, address string, show func(*event.Event)) {
	store := must(redis.New(ctx, cache, must(postgres.Open(ctx, database))))
	defer store.Close()
	run := must(runner.New(root, store, runner.WithStreaming(), runner.WithOuterRetries()))

	c := must(client.Dial(client.Options{HostPort: address}))
	defer c.Close()
	engine := must(temporal.New(c, "support", run))

	w := engine.Worker(worker.Options{}) // here, or in any number of other processes
	if err := w.Start(); err != nil {
		panic(err)
	}
	defer w.Stop()

	for ev, err := range engine.Run(ctx, session.ID("s1"), llm.UserText("I was charged twice.")) {
		if err != nil {
			panic(err)
		}
		show(ev)
	}

	turns := must(live.New(run, store, live.WithBackend(func(*runner.Runner) live.Backend { return engine })))
	defer turns.Close(ctx) // after what serves them: package server, and the APIs of other protocols
}

// TestPage runs what the page shows.
func TestPage(t *testing.T) {
	root, err := llmagent.New("support", "", scripted.Func("support", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text("Let me see."))
	}))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said := ""
	play(ctx, root, servers.NewPostgres(t).Database(t), servers.SharedRedis(t), testserver.Shared(t).Address(), func(e *event.Event) {
		if text, ok := e.Data.(*event.Text); ok && !e.Partial {
			said += text.Content
		}
	})
	require.Equal(t, "Let me see.", said)
}
