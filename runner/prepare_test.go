package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/workflowagent"
)

// fetching is an agent that takes a while to find out whether it can start.
type fetching struct {
	agent.Agent
	ready func(ctx context.Context) error
}

func (f *fetching) Unwrap() agent.Agent             { return f.Agent }
func (f *fetching) Ready(ctx context.Context) error { return f.ready(ctx) }

// TestPrepare: all agents that may be unable to start are asked, wherever they are, a few at the same time.
func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked, now, most := map[string]int{}, 0, 0
		far := func(name string, err error) agent.Agent {
			return &fetching{says(t, name, name), func(context.Context) error {
				mu.Lock()
				asked[name]++
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				if name == "bad" {
					panic("oh")
				}
				return err
			}}
		}
		tool := must.Get(agenttool.New(far("in_a_tool", nil)))
		plan := must.Get(workflowagent.Sequential("plan", "", []agent.Agent{far("in_a_workflow", nil)}))
		below := []agent.Agent{plan, agent.Via(far("down", errors.New("it is down"))), far("bad", nil)}
		for i := range 20 {
			below = append(below, far(fmt.Sprint("far", i), nil))
		}
		var logged bytes.Buffer
		r := newRun(t, says(t, "root", "Hi.", llmagent.WithSubAgents(below...), llmagent.WithTools(tool)),
			runner.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
		began := time.Now()
		r.Prepare(t.Context())
		require.Equal(t, 3*time.Second, time.Since(began))
		require.Equal(t, 8, most)
		require.Len(t, asked, 24)
		for name, times := range asked {
			require.Equal(t, 1, times, name)
		}
		require.Contains(t, logged.String(), `msg="an agent cannot start yet" agent=down error="it is down"`)
		require.Contains(t, logged.String(), `msg="an agent panicked" agent=bad`)
		require.Equal(t, 2, strings.Count(logged.String(), "\n"))
	})
}

// TestPrepareEnds: it ends with its context, and says nothing of agents that were not asked to the end.
func TestPrepareEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		hangs := &fetching{says(t, "far", "far"), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		r := newRun(t, says(t, "root", "Hi.", llmagent.WithSubAgents(hangs)), runner.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		r.Prepare(ctx)
		require.Equal(t, time.Second, time.Since(began))
		require.Empty(t, logged.String())
	})
}

// TestNilOptions: a nil is either refused when the runner is made or means the
// default; it never shows as a panic in a turn.
func TestNilOptions(t *testing.T) {
	budgets := runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 1000}})
	for name, c := range map[string]struct {
		opts []runner.Option
		want string
	}{
		"an option":            {[]runner.Option{budgets, nil}, "option 1 is nil"},
		"the clock":            {[]runner.Option{runner.WithClock(nil)}, "nil"},
		"the logger":           {[]runner.Option{runner.WithLogger(nil)}, "nil"},
		"an interceptor":       {[]runner.Option{runner.WithInterceptors(spy{}, nil)}, "nil"},
		"no interceptors":      {[]runner.Option{runner.WithInterceptors()}, ""},
		"the ids":              {[]runner.Option{runner.WithIDs(nil)}, ""},
		"the token counter":    {[]runner.Option{runner.WithTokenCounter(nil), budgets}, ""},
		"the prices":           {[]runner.Option{runner.WithPrices(nil)}, ""},
		"a negative cache":     {[]runner.Option{runner.WithCache(-1)}, ""},
		"a negative wait":      {[]runner.Option{runner.WithWait(-time.Second)}, ""},
		"no limit on time":     {[]runner.Option{runner.WithLimits(runner.Limits{Time: runner.NoLimit})}, ""},
		"a price below naught": {[]runner.Option{runner.WithPrices(llm.Prices{"m": {Output: -1}})}, `"m" is -1`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := runner.New(says(t, "solo", "Hello."), sessiontest.Memory(t), c.opts...)
			if c.want != "" {
				require.Nil(t, r)
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			events := run(t, r, s1, "Hi")
			require.Equal(t, "solo: Hello.", said(events))
			preview := must.Get(r.Preview(t.Context(), s1, "solo"))
			require.Equal(t, llm.CountRequest(preview.Request, llm.EstimateTokens), preview.Tokens)
		})
	}
	_, err := runner.New(nil, sessiontest.Memory(t))
	require.ErrorContains(t, err, "the root agent is nil")
	_, err = runner.New(says(t, "solo", "Hello."), nil)
	require.ErrorContains(t, err, "the store is nil")
}
