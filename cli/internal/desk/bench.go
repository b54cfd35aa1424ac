package desk

import (
	"cmp"
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/remote"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/client"
	"github.com/agentarbor/arbor/session"
)

// bench is where people answer: at the database, or at a server.
type bench interface {
	// handoffs returns those that are under way, the oldest first.
	handoffs(ctx context.Context) ([]human.Handoff, error)
	// deliver tells what was said or done. Its error is human.ErrGone, human.ErrTransition, or
	// another one.
	deliver(ctx context.Context, h human.Handoff, e human.Event) error
	// feed is the session of a handoff.
	feed(h human.Handoff) factory.Feed
}

// openBench opens the one that the flags name. After a handoff the agent named to goes on, if that is
// given.
func openBench(f *factory.Factory, cmd *cobra.Command, to string) (bench, error) {
	served, err := remote.Given(f, cmd)
	if err != nil {
		return nil, err
	}
	if served {
		if flag := cmd.Flag("name"); flag != nil && flag.Changed {
			return nil, factory.Usagef("--name does not go with --server: the log keeps whose the token is")
		}
		api, err := remote.Connect(cmd.Context(), f, remote.Away(f))
		return servedBench{api}, err
	}
	db, err := f.OpenDB(cmd.Context(), false)
	if err != nil {
		return nil, err
	}
	// Agents of the tree are not needed, because none runs.
	nobody, err := agent.New(cmp.Or(to, "nobody"), "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(func(*event.Event, error) bool) {}
	})
	if err != nil {
		return nil, factory.Usagef("--to: %w", err)
	}
	run, err := runner.New(nobody, db.Store, runner.WithDesk(human.Log{}), runner.WithWait(factory.ResumeWait))
	return ownBench{db, run}, err
}

// ownBench is the database of this machine.
type ownBench struct {
	db  *factory.Database
	run *runner.Runner
}

func (b ownBench) handoffs(ctx context.Context) ([]human.Handoff, error) {
	state, err := b.db.SharedState(ctx, session.ID("desk"))
	return human.Handoffs(state), err
}

func (b ownBench) deliver(ctx context.Context, h human.Handoff, e human.Event) error {
	return b.run.Deliver(ctx, keyOf(h), e)
}

func (b ownBench) feed(h human.Handoff) factory.Feed {
	return factory.StoredSession{DB: b.db, Key: keyOf(h)}
}

// servedBench is a server.
type servedBench struct{ *client.Client }

func (b servedBench) handoffs(ctx context.Context) ([]human.Handoff, error) { return b.Handoffs(ctx) }

func (b servedBench) deliver(ctx context.Context, _ human.Handoff, e human.Event) error {
	err := b.Deliver(ctx, e)
	if remote.Missing(err) {
		return human.ErrGone
	}
	return err
}

func (b servedBench) feed(h human.Handoff) factory.Feed {
	return remote.Served{Client: b.Of(h.User), ID: h.Session}
}
