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
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
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
