package temporal_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/engine/temporal"
	"github.com/agentarbor/arbor/engine/temporal/internal/testserver"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/crashtest"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/tail"
)

var (
	crashes = flag.Int("crashes", 6, "how many processes TestCrash kills at least in each way, a third of them in a call; from 100 on in all stories, from 500 on at every point there is")
	outages = flag.Int("outages", 1, "how often TestCrash kills the Temporal server in each way, and as often the PostgreSQL server")
)

// TestCrash kills real processes with SIGKILL that are a worker and its client on one PostgreSQL, and now and then one of
// the servers. Temporal hands what they leave to the processes that come next.
func TestCrash(t *testing.T) {
	for _, way := range ways {
		t.Run(way.Name, func(t *testing.T) {
			store, server := servers.NewPostgres(t), testserver.New(t, true)
			url := store.Database(t)                  // one for all stories: a server that was killed looks at every file of its databases
			s, err := postgres.Open(t.Context(), url) // a schema that is half made is not what dies here
			require.NoError(t, err)
			require.NoError(t, s.Close())
			way.Place = func(testing.TB) string { return url + " " + server.Address() }
			var n atomic.Int64
			way.Outage = func(t testing.TB) {
				var err error
				if n.Add(1)%2 == 1 {
					err = errors.Join(server.Kill(), server.Start())
				} else {
					err = errors.Join(store.Kill(), store.Start())
				}
				if err != nil {
					t.Error(err)
				}
			}
			suite := crashtest.Suite{Way: way, Child: "TestCrashChild", Kills: *crashes, Calls: (*crashes + 2) / 3, Outages: 2 * *outages}
			if *crashes < 100 {
				for _, story := range crashtest.Stories() {
					if slices.Contains([]string{"cash desk", "approval of one turn", "several hops and turns"}, story.Name) {
						suite.Stories = append(suite.Stories, story)
					}
				}
			}
			suite.Run(t)
		})
	}
}

// TestCrashChild is the process that TestCrash kills.
func TestCrashChild(t *testing.T) { crashtest.Child(t, ways...) }

var ways = []crashtest.Way{way("a step an activity", 1), way("the whole turn", 0)}

func way(name string, steps int) crashtest.Way {
	return crashtest.Way{
		Name: name,
		Store: func(ctx context.Context, at crashtest.Place) (session.Store, error) {
			url, _, _ := strings.Cut(at.Address, " ")
			return postgres.Open(ctx, url)
		},
		Settle: func(ctx context.Context, at crashtest.Place, process string) error {
			url, _, _ := strings.Cut(at.Address, " ")
			return servers.Quiet(ctx, url, process)
		},
		Play: func(ctx context.Context, p *crashtest.Process) (_ crashtest.Player, err error) {
			x := &player{Process: p}
			if x.tail, err = tail.New(p.Store, tail.WithPoll(10*time.Millisecond)); err != nil {
				return nil, err
			}
			if x.run, err = runner.New(p.Root, x.tail, append(p.Options, runner.WithOuterRetries())...); err != nil {
				return nil, err
			}
			_, address, _ := strings.Cut(p.Address, " ")
			if x.client, err = testserver.Dial(address); err != nil {
				return nil, err
			}
			x.engine, err = temporal.New(x.client, "crash "+temporal.WorkflowID(p.Key), x.run,
				temporal.WithStepsPerActivity(steps), temporal.WithHeartbeat(time.Second), temporal.WithTries(50), temporal.WithTimeToBegin(time.Second))
			if err != nil {
				return nil, err
			}
			x.worker = x.engine.Worker(worker.Options{})
			return x, x.worker.Start()
		},
	}
}

// player is a process that is a worker, and its client.
type player struct {
	*crashtest.Process
	tail   *tail.Tail
	run    *runner.Runner
	client client.Client
	engine *temporal.Engine
	worker worker.Worker
}

func (p *player) Runner() *runner.Runner { return p.run }

func (p *player) Say(ctx context.Context, turn, text string, state map[string]any) error {
	return p.follow(ctx, p.engine.Run(ctx, p.Key, llm.UserText(text), runner.WithState(state), runner.WithTurnID(turn, 2)))
}

func (p *player) Decide(ctx context.Context, _ string, d runner.Decision) error {
	return p.follow(ctx, p.engine.Resume(ctx, p.Key, d))
}

// Continue follows the turn that Temporal continues.
func (p *player) Continue(ctx context.Context, _ string, again []runner.Decision) error {
	return p.follow(ctx, p.engine.Resume(ctx, p.Key, again...))
}

// follow sees what happens in a turn. What failed is not over: a server was killed.
func (p *player) follow(ctx context.Context, turn iter.Seq2[*event.Event, error]) error {
	for _, err := range turn {
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
			return fmt.Errorf("%w: %w", agent.ErrSessionBusy, err)
		}
		p.Odometer.Pass(crashtest.OnEvent)
	}
	return ctx.Err()
}

func (p *player) Close() error {
	p.worker.Stop()
	p.client.Close()
	return p.tail.Close()
}
