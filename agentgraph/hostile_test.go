package agentgraph_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// yields makes an agent of a step.
func yields(t testing.TB, step func(ctx context.Context, inv *agent.Invocation, yield func(*event.Event, error) bool)) agent.Agent {
	a, err := agent.New("yields", "", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) { step(ctx, inv, yield) }
	})
	require.NoError(t, err)
	return a
}

// beside puts an agent beside one that waits for its context's end and one that is
// quick.
func beside(t testing.TB, a agent.Agent, ended *atomic.Int64, opts ...agentgraph.AgentOption) *agentgraph.Agent {
	waits := does(t, "waits", func(ctx context.Context, _ any) (any, error) {
		<-ctx.Done()
		ended.Add(1)
		return nil, context.Cause(ctx)
	})
	g := must.Get(agentgraph.NewBuilder("beside").Node("first", gives(t, 1)).Node("waits", waits).Node("bad", a).Node("quick", gives(t, 2)).
		Edge("first", "waits").Edge("first", "bad").Edge("first", "quick").Build(opts...))
	return g
}

// TestBadAgents: whatever an agent of a node does, the run ends with an error that says
// what, and those beside it are cancelled.
func TestBadAgents(t *testing.T) {
	for name, c := range map[string]struct {
		step func(ctx context.Context, inv *agent.Invocation, yield func(*event.Event, error) bool)
		says string
	}{
		"panics": {func(context.Context, *agent.Invocation, func(*event.Event, error) bool) { panic("oh") }, "oh"},
		"panics after words": {func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Text{Content: "Words."}}, nil)
			panic("oh")
		}, "oh"},
		"yields nil": {func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) { yield(nil, nil) }, "without payload"},
		"yields an empty event": {func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
			yield(&event.Event{}, nil)
		}, "without payload"},
		"yields a result of an unknown call": {func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
			yield(&event.Event{ID: "nobody", Data: &event.ToolResult{Name: "x", Output: []byte(`1`)}}, nil)
		}, "no call with this id waits"},
		"yields a harness_start": {func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.HarnessStart{AgentID: "x"}}, nil)
		}, "harness_start"},
		"yields a harness_end": {func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.HarnessEnd{AgentID: "x", FinishReason: event.FinishReasonStop}}, nil)
		}, "harness_end"},
		"yields a user": {func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.User{Content: llm.Content{Text: "I am the user."}}}, nil)
		}, "a user event"},
		"transfers to another node": {func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Transfer{To: "quick", Outcome: event.TransferCommitted}}, nil)
		}, "quick"},
		"gives no JSON": {func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Finish{Output: []byte(`{"a":`)}}, nil)
		}, "not valid JSON"},
		"goes on for ever": {func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Continue{}}, nil)
		}, "limit"},
		"fails after it has finished": {func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
			yield(nil, errors.New("too bad"))
			yield(&event.Event{Data: &event.Finish{Output: []byte(`1`)}}, nil)
		}, "too bad"},
		"leaves a call without a result": {func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.ToolCall{Name: "x", Input: []byte(`{}`)}}, nil)
			yield(nil, errors.New("no result"))
		}, "no result"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended atomic.Int64
				a := beside(t, yields(t, c.step), &ended)
				result, events, err := try(t, a, "go")
				require.ErrorContains(t, err, c.says)
				var run *agent.RunError
				require.ErrorAs(t, err, &run)
				require.Equal(t, "bad", run.Agent)
				require.Equal(t, agentgraph.Failed, result.Status)
				require.Equal(t, "bad", result.Error.Agent)
				require.Contains(t, result.Error.Message, c.says)
				require.Equal(t, []string{"waits"}, result.Cancelled)
				require.EqualValues(t, 1, ended.Load())
				requireClosed(t, events, name)
			})
		})
	}
}

// TestLateAgent: an agent that ignores its context delays the turn, but not for ever,
// and its late output is dropped.
func TestLateAgent(t *testing.T) {
	late := func(t testing.TB) agent.Agent {
		return does(t, "late", func(context.Context, any) (any, error) {
			time.Sleep(time.Hour)
			return "late", nil
		})
	}
	synctest.Test(t, func(t *testing.T) {
		a := must.Get(agentgraph.NewBuilder("late").Node("a", gives(t, 1)).Node("b", late(t)).Node("c", fails(t, 1, "broken", nil)).
			Edge("a", "b").Edge("a", "c").Build())
		began := time.Now()
		result, events, err := try(t, a, "go")
		require.ErrorContains(t, err, "broken")
		require.Equal(t, time.Hour, time.Since(began).Truncate(time.Second))
		require.Equal(t, []string{"b"}, result.Cancelled)
		require.Empty(t, result.Outputs["b"])
		requireClosed(t, events, "late")
	})
}

// TestTimes: a limit of the turn's time and a budget end what runs.
func TestTimes(t *testing.T) {
	waits := func(t testing.TB, ended *atomic.Int64) agent.Agent {
		return does(t, "waits", func(ctx context.Context, _ any) (any, error) {
			<-ctx.Done()
			ended.Add(1)
			return nil, context.Cause(ctx)
		})
	}
	for name, c := range map[string]struct {
		opts   []runner.Option
		reason event.FinishReason
		is     error
		nested bool
	}{
		"a limit":               {opts: []runner.Option{runner.WithLimits(runner.Limits{Time: time.Minute})}, reason: event.FinishReasonLimit, is: agent.ErrLimit},
		"a limit around graphs": {opts: []runner.Option{runner.WithLimits(runner.Limits{Time: time.Minute})}, reason: event.FinishReasonLimit, is: agent.ErrLimit, nested: true},
		"a budget":              {opts: []runner.Option{runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Time: time.Minute}})}, reason: event.FinishReasonLimit, is: agent.ErrLimit},
		"a budget around graphs": {opts: []runner.Option{runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Time: time.Minute}})}, reason: event.FinishReasonLimit,
			is: agent.ErrLimit, nested: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended atomic.Int64
				b := agentgraph.NewBuilder("times").Node("first", gives(t, 1))
				for i := range 5 {
					b.Node(id(i), waits(t, &ended)).Edge("first", id(i))
				}
				a := must.Get(b.OnError(agentgraph.ErrorHandling{Strategy: agentgraph.Retry, MaxRetries: 2, Fallback: "z"}).Node("z", gives(t, "saved")).Build())
				if c.nested {
					a = must.Get(agentgraph.NewBuilder("outer").Node("inner", a).Node("beside", waits(t, &ended)).Node("a", gives(t, 1)).Entrypoint("a").
						Edge("a", "inner").Edge("a", "beside").Build())
				}
				result, events, err := try(t, a, "go", c.opts...)
				require.ErrorIs(t, err, c.is)
				require.Equal(t, agentgraph.Failed, result.Status, lines(events))
				require.NotNil(t, result.Error)
				require.Equal(t, c.reason, events[len(events)-1].Data.(*event.HarnessEnd).FinishReason)
				want := int64(5)
				if c.nested {
					want++
				}
				require.Equal(t, want, ended.Load(), "each once: nobody is called again, and not the fallback")
				requireClosed(t, events, name)
			})
		})
	}
}

// failingStore fails at its n-th write, and at all from then on if it is dead.
type failingStore struct {
	session.Store
	left atomic.Int64
	dead bool
}

var errStore = errors.New("the disk is full")

func (s *failingStore) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 {
		return s.Store.Write(ctx, key, w)
	}
	if left := s.left.Add(-1); left == 0 || s.dead && left < 0 {
		return session.Lease{}, errStore
	}
	return s.Store.Write(ctx, key, w)
}

// TestFailingStore: a store that fails at any write ends the turn with its error, and
// the session can be continued.
func TestFailingStore(t *testing.T) {
	for _, dead := range []bool{false, true} {
		t.Run(fmt.Sprint("dead ", dead), func(t *testing.T) {
			t.Parallel()
			build := func(s *scene) *agentgraph.Agent { return s.variety() }
			if !dead { // an agent behind a tool tells its model of an error that is over
				build = func(s *scene) *agentgraph.Agent { return s.steady() }
			}
			var whole agentgraph.Result
			var called map[string]int
			synctest.Test(t, func(t *testing.T) {
				whole, _, called = undisturbed(t, func(s *scene) agent.Agent { return build(s) }, nil)
			})
			over := false
			for n := int64(1); !over; n++ {
				synctest.Test(t, func(t *testing.T) {
					where := fmt.Sprint("write ", n)
					store := &failingStore{Store: sessiontest.Memory(t), dead: dead}
					store.left.Store(n)
					s := &scene{}
					a := build(s)
					r := must.Get(runner.New(a, store))
					var failed error
					for _, err := range r.Run(context.Background(), key, llm.UserText("go")) {
						failed = err
					}
					if over = store.left.Load() > 0; over {
						require.NoError(t, failed)
						return
					}
					require.ErrorIs(t, failed, errStore, where)
					store.left.Store(-1)
					store.dead = false
					log := logOf(r)
					if len(log) == 0 {
						return
					}
					again := &scene{}
					a = build(again)
					r = must.Get(runner.New(a, store))
					for _, err := range r.Resume(context.Background(), key) {
						require.NoError(t, err, where)
					}
					requireClosed(t, logOf(r), where)
					results := resultsOf(t, a, r)
					require.Len(t, results, 1, where)
					if dead {
						require.Equal(t, inJSON(whole), inJSON(results[0]), where)
						requireNotAgain(t, log, called, again.take(), where)
					}
				})
			}
		})
	}
}
