package live_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/crashtest"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/tail"
)

var (
	crashes = flag.Int("crashes", 12, "how many processes TestCrash kills at least, a third of them in a call; from 100 on in all stories, from 500 on at every point there is")
	outages = flag.Int("outages", 1, "how often TestOutages kills the PostgreSQL server, each time in another story")
)

// TestCrash kills real processes with SIGKILL that serve turns on one PostgreSQL. Nobody resumes what they leave: the
// processes that come next find it by themselves.
func TestCrash(t *testing.T) {
	way := adopts
	way.Place = func(t testing.TB) string { return prepared(t, servers.Database(t)) }
	prepared(t, servers.Database(t)) // or skip
	s := crashtest.Suite{Way: way, Child: "TestCrashChild", Kills: *crashes, Calls: (*crashes + 2) / 3}
	if *crashes < 100 {
		for _, story := range crashtest.Stories() {
			if slices.Contains([]string{"cash desk", "approval of one turn", "several hops and turns"}, story.Name) {
				s.Stories = append(s.Stories, story)
			}
		}
	}
	s.Run(t)
}

// TestOutages kills the PostgreSQL server in mid-turn, and sometimes the process, too.
func TestOutages(t *testing.T) {
	server := servers.NewPostgres(t)
	url := prepared(t, server.Database(t)) // one: a server that was killed looks at every file of its databases
	way := adopts
	way.Place = func(testing.TB) string { return url }
	way.Outage = func(t testing.TB) {
		if err := errors.Join(server.Kill(), server.Start()); err != nil {
			t.Error(err)
		}
	}
	stories := crashtest.Stories()
	crashtest.Suite{Way: way, Child: "TestCrashChild", Outages: *outages, Stories: stories[:min(*outages, len(stories))]}.Run(t)
}

// prepared makes the schema: one that is half made is not what dies here.
func prepared(t testing.TB, url string) string {
	store := must.Get(postgres.Open(t.Context(), url))
	require.NoError(t, store.Close())
	return url
}

// TestCrashChild is the process that is killed.
func TestCrashChild(t *testing.T) { crashtest.Child(t, adopts) }

// adopts is the way of turns that processes adopt.
var adopts = crashtest.Way{
	Name:   "adoption",
	Adopts: true,
	Store: func(ctx context.Context, at crashtest.Place) (session.Store, error) {
		return postgres.Open(ctx, at.Address, postgres.WithRetryTime(time.Minute)) // a machine may be busy
	},
	Settle: func(ctx context.Context, at crashtest.Place, process string) error {
		return servers.Quiet(ctx, at.Address, process)
	},
	Play: func(_ context.Context, p *crashtest.Process) (crashtest.Player, error) {
		store, err := tail.New(p.Store)
		if err != nil {
			return nil, err
		}
		run, err := runner.New(p.Root, store, p.Options...)
		if err != nil {
			return nil, err
		}
		turns, err := live.New(run, store, live.WithAdoption(20*time.Millisecond))
		if err != nil {
			return nil, err
		}
		return &player{p, store, run, turns}, nil
	},
}

// player is a process that serves turns, and its client.
type player struct {
	*crashtest.Process
	tail  *tail.Tail
	run   *runner.Runner
	turns *live.Turns
}

func (p *player) Runner() *runner.Runner { return p.run }

func (p *player) Say(ctx context.Context, _, text string, state map[string]any) error {
	return p.follow(ctx, func() (*live.Begun, error) {
		return p.turns.BeginOnce(ctx, p.Key, llm.UserText(text), live.Request{Options: []runner.TurnOption{runner.WithState(state)}})
	})
}

func (p *player) Decide(ctx context.Context, _ string, d runner.Decision) error {
	return p.follow(ctx, func() (*live.Begun, error) {
		now, err := p.turns.Look(ctx, p.Key)
		if err != nil {
			return nil, err
		}
		return p.turns.DecideOnce(ctx, p.Key, now.Turn, live.Request{}, d)
	})
}

// Continue waits until a process adopts the turn.
func (p *player) Continue(context.Context, string, []runner.Decision) error {
	return fmt.Errorf("the turn is not over: %w", agent.ErrSessionBusy)
}

// follow sees what happens in a turn until it ends here. What failed is not over, and will be adopted. Turns begin as a
// server has them begin, which tries again if a crash of the database has taken a lease away that waited for no disk.
func (p *player) follow(ctx context.Context, begin func() (*live.Begun, error)) error {
	following, leave := context.WithCancel(ctx)
	defer leave()
	left := make(chan struct{})
	go func() {
		defer close(left)
		for _, err := range p.tail.Follow(following, p.Key, "") {
			if err == nil {
				p.Odometer.Pass(crashtest.OnEvent)
			}
		}
	}()
	turn, err := begin()
	if err == nil {
		if err := turn.Wait(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	leave()
	<-left
	return err
}

func (p *player) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(p.turns.Close(ctx), p.tail.Close())
}
