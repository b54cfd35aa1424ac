package temporal_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	"github.com/agentarbor/arbor/engine/temporal"
	"github.com/agentarbor/arbor/engine/temporal/internal/testserver"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/tail"
	"github.com/agentarbor/arbor/tools"
)

var measure = flag.Bool("measure", false, "have TestFigures measure what docs/durable.md says, on a machine that does nothing else")

// stepsOfATurn is four answers of the model and three tools between them.
const stepsOfATurn = 7

// TestFigures measures turns of seven steps whose model and tools take no time, one way beside the other in one run: on
// PostgreSQL with its disk, with a Temporal server that keeps everything in a SQLite file, all on this machine. Without
// -measure it only shows that it works.
func TestFigures(t *testing.T) {
	loads := []int{1}
	turnsOf := func(int) int { return 2 }
	if *measure {
		loads = []int{1, 100, 1000}
		turnsOf = func(sessions int) int { return max(1, 100/sessions) }
	}
	store, err := postgres.Open(t.Context(), servers.NewPostgres(t).Database(t))
	require.NoError(t, err)
	followed, err := tail.New(store)
	require.NoError(t, err)
	t.Cleanup(func() { _ = followed.Close() })
	server := testserver.New(t, true)
	c := server.Client(t)

	lookup, err := tools.Func("lookup", "Looks.", func(tools.Context, struct{}) (string, error) { return "found", nil })
	require.NoError(t, err)
	root, err := llmagent.New("desk", "You look.", scripted.Func("desk", func(req *llm.Request) scripted.Answer {
		looked := 0
		for _, m := range slices.Backward(req.Messages) {
			if m.Role == llm.RoleUser {
				break
			}
			if m.Role == llm.RoleTool {
				looked++
			}
		}
		if looked < stepsOfATurn/2 {
			return scripted.Reply(scripted.Call("lookup", "{}"))
		}
		return scripted.Reply(scripted.Text("Here it is."))
	}), llmagent.WithTools(lookup))
	require.NoError(t, err)
	run, err := runner.New(root, followed, runner.WithCache(4096))
	require.NoError(t, err)
	all := func(events iter.Seq2[*event.Event, error]) error {
		over := false
		for e, err := range events {
			if err != nil {
				return err
			}
			end, ok := e.Data.(*event.HarnessEnd)
			over = over || ok && end.FinishReason == event.FinishReasonStop
		}
		if !over {
			return errors.New("the turn is not over")
		}
		return nil
	}
	turns, err := live.New(run, followed, live.WithAdoption(time.Second), live.WithLimit(access.NewLimit(0, 0)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = turns.Close(context.Background()) })
	var engines []*temporal.Engine
	for _, steps := range []int{1, 0} {
		e, err := temporal.New(c, fmt.Sprint("figures ", steps), run, temporal.WithStepsPerActivity(steps))
		require.NoError(t, err)
		w := e.Worker(worker.Options{MaxConcurrentActivityTaskPollers: 8, MaxConcurrentWorkflowTaskPollers: 8})
		require.NoError(t, w.Start())
		t.Cleanup(w.Stop)
		engines = append(engines, e)
	}
	ways := []struct {
		name string
		turn func(context.Context, session.Key) error
	}{
		{"plain", func(ctx context.Context, key session.Key) error { return all(run.Run(ctx, key, llm.UserText("Look"))) }},
		{"adoption", func(ctx context.Context, key session.Key) error {
			x, err := turns.Begin(ctx, key, llm.UserText("Look"))
			if err != nil {
				return err
			}
			return x.Wait(ctx)
		}},
		{"Temporal, a step an activity", func(ctx context.Context, key session.Key) error {
			return all(engines[0].Run(ctx, key, llm.UserText("Look")))
		}},
		{"Temporal, the whole turn", func(ctx context.Context, key session.Key) error {
			return all(engines[1].Run(ctx, key, llm.UserText("Look")))
		}},
	}
	t.Logf("%-30s %8s %10s %10s %10s %22s", "", "sessions", "p50", "p99", "turns/s", "server's CPU a step")
	for _, sessions := range loads {
		for i, way := range ways {
			key := func(n int) session.Key { return session.ID(fmt.Sprint("figures-", i, "-", sessions, "-", n)) }
			require.NoError(t, way.turn(t.Context(), key(-1))) // it is warm
			before, began := cpu(t, server.PID()), time.Now()
			took, failed := together(t, sessions, turnsOf(sessions), func(n int) error { return way.turn(t.Context(), key(n)) })
			elapsed, used := time.Since(began), cpu(t, server.PID())-before
			if i < 2 {
				used = 0
			}
			t.Logf("%-30s %8d %10s %10s %10.1f %22s", way.name, sessions, took[len(took)/2].Round(10*time.Microsecond), took[len(took)*99/100].Round(10*time.Microsecond),
				float64(len(took))/elapsed.Seconds(), (used / time.Duration(len(took)*stepsOfATurn)).Round(10*time.Microsecond))
			if failed > 0 {
				t.Logf("%-30s %8d turns failed: the server could not keep up", way.name, failed)
			}
			if sessions == 1 && i >= 2 {
				d, err := c.DescribeWorkflowExecution(t.Context(), temporal.WorkflowID(key(-1)), "")
				require.NoError(t, err)
				t.Logf("%-30s %d events of history, %d bytes", way.name, d.WorkflowExecutionInfo.HistoryLength, d.WorkflowExecutionInfo.HistorySizeBytes)
			}
		}
	}
}

// together runs turns of many sessions at once, those of a session one after the other, and returns how long each took,
// shortest first, and how many failed, of which there may be some only where the load is meant to be too much.
func together(t *testing.T, sessions, turns int, turn func(session int) error) (took []time.Duration, failed int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n := range sessions {
		wg.Go(func() {
			for range turns {
				began := time.Now()
				err := turn(n)
				mu.Lock()
				took = append(took, time.Since(began))
				if err != nil {
					failed++
				}
				mu.Unlock()
				if err != nil && sessions < 1000 {
					t.Errorf("session %d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took, failed
}

// cpu returns the processor time that a process has used, 0 where that is not to be had.
func cpu(t *testing.T, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
	var ticks int64
	for _, field := range fields[11:13] { // in user mode, and in the kernel
		n, err := strconv.ParseInt(field, 10, 64)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
