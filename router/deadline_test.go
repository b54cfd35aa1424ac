package router_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
)

// asking is a model that does what a function does.
type asking func(ctx context.Context, yield func(llm.Chunk, error) bool)

func (asking) Name() string { return "asking" }
func (m asking) Generate(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) { m(ctx, yield) }
}

// badSignals are what functions and models do that give no signal, or give one too late. They return when release is
// closed, if they ignore the end of their context.
func badSignals(release <-chan struct{}) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"hangs":         func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"ignores it":    func(context.Context) error { <-release; return nil },
		"is slow":       func(context.Context) error { time.Sleep(6 * time.Second); return nil },
		"panics":        func(context.Context) error { panic("oh") },
		"panics late":   func(context.Context) error { time.Sleep(6 * time.Second); panic("oh") },
		"fails":         func(context.Context) error { return errors.New("broken") },
		"fails in time": func(context.Context) error { time.Sleep(10 * time.Millisecond); return errors.New("broken") },
	}
}

// withSignals makes a router that wants all three signals, each of which ends like end, that of the intents by a model or not.
func withSignals(t testing.TB, model bool, end func(context.Context) error) *router.Router {
	of := func(kind router.Kind) router.Classifier {
		return classifier{kind, func(ctx context.Context, _ router.Input) ([]router.Score, error) {
			return []router.Score{{Label: "x", Value: 1}}, end(ctx)
		}}
	}
	intents := of(router.KindIntent)
	if model {
		intents = router.Within(50*time.Millisecond, modelIntent(t, asking(func(ctx context.Context, yield func(llm.Chunk, error) bool) {
			if err := end(ctx); err != nil {
				yield(llm.Chunk{}, err)
			} else if yield(llm.Chunk{Text: "x"}, nil) {
				yield(llm.Chunk{Finish: llm.FinishStop}, nil)
			}
		})))
	}
	x := router.Specialist(quiet(t, "x"))
	return newRouter(t, "front", router.Signals(intents, of(router.KindSentiment), of(router.KindLanguage)), router.Rules(
		router.When(router.Intent("x", 0.7)).To(x), router.When(router.Sentiment("x")).To(x), router.When(router.Language("x")).To(x)), router.Wrap(quiet(t, "rest")))
}

// TestDecisionsAreInTime: whatever signals do, 99 of 100 decisions take less than 200 ms, and none uses what came late.
func TestDecisionsAreInTime(t *testing.T) {
	for name := range badSignals(nil) {
		for _, model := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					release := make(chan struct{})
					r := withSignals(t, model, badSignals(release)[name])
					var took []time.Duration
					for range 200 {
						began := time.Now()
						d, err := r.Explain(t.Context(), "hello", nil, nil)
						require.NoError(t, err)
						require.Equal(t, "rest", d.To)
						require.Len(t, d.Notices, 3)
						took = append(took, time.Since(began))
					}
					slices.Sort(took)
					require.Less(t, took[len(took)*99/100], 200*time.Millisecond)
					require.Less(t, took[len(took)-1], 200*time.Millisecond)
					close(release)
					time.Sleep(7 * time.Second) // until all that is left behind has returned
				})
			})
		}
	}
}

// TestCallsLeftBehind: a classifier that does not return is asked no more when 64 calls of it are left behind, and is
// asked again when they have returned.
func TestCallsLeftBehind(t *testing.T) {
	for _, model := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			release, calls := make(chan struct{}), new(atomic.Int32)
			waits := func(context.Context) error { calls.Add(1); <-release; return nil }
			var signal router.Classifier = classifier{router.KindIntent, func(ctx context.Context, _ router.Input) ([]router.Score, error) { return nil, waits(ctx) }}
			if model {
				signal = router.Within(50*time.Millisecond, modelIntent(t, asking(func(ctx context.Context, _ func(llm.Chunk, error) bool) { _ = waits(ctx) })))
			}
			c := newTalk(t, signalled(t, signal))
			for range 70 {
				require.Equal(t, "front rest", c.say("hello"))
				synctest.Wait() // until what ended with the deadline has returned
				require.NoError(t, c.err)
				require.Equal(t, "signal_late", of[*event.Notice](c)[0].Code)
			}
			require.EqualValues(t, 64, calls.Load())
			require.Equal(t, "the intent of the message is not known: 64 earlier calls of the classifier have not returned", of[*event.Notice](c)[0].Message)
			close(release)
			synctest.Wait()
			require.Equal(t, "front rest", c.say("hello"))
			require.EqualValues(t, 65, calls.Load())
		})
	}
}

// TestManyDecisionsAtOnce: a busy router asks its classifier for all decisions under way. If these calls become late
// together, it starts no other one until fewer than 64 of them have not returned.
func TestManyDecisionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, answers := new(atomic.Int32), make(chan struct{})
		r := signalled(t, classifier{router.KindIntent, func(context.Context, router.Input) ([]router.Score, error) {
			calls.Add(1)
			<-answers
			return []router.Score{{Label: "x", Value: 1}}, nil
		}}).(*router.Router)
		decideAtOnce := func(n, answered int, want string) (asked int32) {
			before, all := calls.Load(), new(sync.WaitGroup)
			for range n {
				all.Go(func() {
					d, err := r.Explain(t.Context(), "hello", nil, nil)
					assert.NoError(t, err)
					assert.Equal(t, want, d.To)
				})
			}
			synctest.Wait()
			for range answered {
				answers <- struct{}{}
			}
			all.Wait()
			synctest.Wait()
			return calls.Load() - before
		}
		require.EqualValues(t, 1000, decideAtOnce(1000, 1000, "x"))
		require.EqualValues(t, 1000, decideAtOnce(1000, 0, "rest"))
		require.Zero(t, decideAtOnce(1000, 1000-64, "rest"))
		require.Zero(t, decideAtOnce(1000, 1, "rest"))
		require.EqualValues(t, 1000, decideAtOnce(1000, 0, "rest"))
		close(answers)
	})
}

// TestModelPanics: it costs the signal, and is counted as a question.
func TestModelPanics(t *testing.T) {
	c := newTalk(t, signalled(t, longer(t, asking(func(_ context.Context, yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Text: "x"}, nil)
		panic("the key is sk-123")
	}))))
	require.Equal(t, "front rest", c.say("hello"))
	require.NoError(t, c.err)
	require.Equal(t, "the intent of the message is not known: the classifier failed", of[*event.Notice](c)[0].Message)
	require.Equal(t, "signal_failed", of[*event.Discard](c)[0].Code)
}

// TestChainOfModels: whether a chain may ask another model for an intent depends on the turn's limits.
func TestChainOfModels(t *testing.T) {
	for beside, want := range map[int]string{2: "front x", 3: "front rest"} {
		chain := asking(func(ctx context.Context, yield func(llm.Chunk, error) bool) {
			if err := llm.Admit(ctx, hanging{}, &llm.Request{}, beside); err != nil {
				yield(llm.Chunk{}, err)
			} else if yield(llm.Chunk{Text: "x"}, nil) {
				yield(llm.Chunk{Finish: llm.FinishStop}, nil)
			}
		})
		c := newTalk(t, signalled(t, longer(t, chain)), runner.WithLimits(runner.Limits{ModelCalls: 3}))
		require.Equal(t, want, c.say("hello"))
		require.NoError(t, c.err)
	}
}

// TestAModelNeedsADeadline: without one decisions would take as long as the model.
func TestAModelNeedsADeadline(t *testing.T) {
	_, err := router.New("front", router.Signals(modelIntent(t, hanging{})), router.Wrap(quiet(t, "rest")))
	require.ErrorContains(t, err, "asks a model and has no deadline: set one by Within")
}

// TestInterceptorsOfSignals: interceptors see the question on the turn's own goroutine, as they see all others.
func TestInterceptorsOfSignals(t *testing.T) {
	seen := &seesModels{}
	c := newTalk(t, signalled(t, longer(t, scripted.Always("m", scripted.Reply(scripted.Text("x"))))), runner.WithInterceptors(seen))
	require.Equal(t, "front x", c.say("hello"))
	require.Equal(t, []string{"m"}, seen.names)
}

type seesModels struct {
	agent.Passthrough
	names []string
}

func (s *seesModels) ModelCall(ctx context.Context, info agent.ModelCallInfo, next agent.ModelFunc) iter.Seq2[llm.Chunk, error] {
	s.names = append(s.names, info.Model.Name())
	return next(ctx, info.Request)
}

// BenchmarkSignals measures decisions that need a signal, and the 99th of 100 of them.
func BenchmarkSignals(b *testing.B) {
	release := make(chan struct{})
	defer close(release)
	bad := badSignals(release)
	for _, name := range []string{"hangs", "ignores it", "is slow", "panics", "fails"} {
		for _, model := range []bool{false, true} {
			b.Run(name+map[bool]string{false: "/functions", true: "/functions and a model"}[model], func(b *testing.B) {
				r := withSignals(b, model, bad[name])
				var took []time.Duration
				for b.Loop() {
					began := time.Now()
					decide(b, r, "hello")
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			})
		}
	}
}
