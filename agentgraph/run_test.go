package agentgraph_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
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

// does makes an agent of a function from its input to its output.
func does(t testing.TB, name string, f func(ctx context.Context, input any) (any, error)) agent.Agent {
	t.Helper()
	return must.Get(agent.New(name, "", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			var input any
			if err := json.Unmarshal(inv.Input(), &input); err != nil {
				yield(nil, err)
				return
			}
			out, err := f(ctx, input)
			if err != nil {
				yield(nil, err)
				return
			}
			yield(&event.Event{Data: &event.Finish{Output: event.EncodeJSON(out)}}, nil)
		}
	}))
}

// gives makes an agent that always gives the same.
func gives(t testing.TB, out any) agent.Agent {
	return does(t, "gives", func(context.Context, any) (any, error) { return out, nil })
}

// fails makes an agent whose first calls fail.
func fails(t testing.TB, times int, message string, out any) agent.Agent {
	var calls atomic.Int64
	return does(t, "fails", func(context.Context, any) (any, error) {
		if calls.Add(1) <= int64(times) {
			return nil, errors.New(message)
		}
		return out, nil
	})
}

// try runs a graph once, on a new session. It returns what became of the run, the
// session's log, and the turn's error.
func try(t testing.TB, a *agentgraph.Agent, input string, opts ...runner.Option) (agentgraph.Result, []*event.Event, error) {
	t.Helper()
	r := must.Get(runner.New(a, sessiontest.Memory(t), opts...))
	var failed error
	for _, err := range sessiontest.Turn(t, r.Run(context.Background(), session.ID("s"), llm.UserText(input))) {
		failed = err
	}
	events := must.All(r.History(context.Background(), session.ID("s")))
	results := must.Get(a.Runs(r.History(context.Background(), session.ID("s"))))
	require.Len(t, results, 1)
	alongTheLog(t, a, events)
	return results[0].Result, events, failed
}

func TestFailFast(t *testing.T) {
	a := must.Get(agentgraph.NewBuilder("ff").Node("a", gives(t, 1)).Node("b", fails(t, 9, "boom", nil)).Node("c", gives(t, 3)).
		Edge("a", "b").Edge("b", "c").Build())
	result, _, err := try(t, a, "go")
	var failed *agent.RunError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "b", failed.Agent)
	require.Equal(t, agentgraph.Failed, result.Status)
	require.Equal(t, []string{"c"}, result.NotRun)
	require.Equal(t, &agentgraph.ResultError{Agent: "b", Message: "boom"}, result.Error)
}

// A node that waits to be called again is not, when the run stops meanwhile.
func TestStopDuringAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once := 0
		flaky := does(t, "flaky", func(context.Context, any) (any, error) {
			once++
			return nil, errors.New("boom")
		})
		slow := does(t, "slow", func(context.Context, any) (any, error) {
			time.Sleep(time.Second)
			return map[string]any{}, nil
		})
		a := must.Get(agentgraph.NewBuilder("pauses").Node("a", gives(t, 1)).Node("b", flaky).Node("c", slow).Node("d", gives(t, 2)).
			Edge("a", "b").Edge("a", "c").
			Edge("c", "d", agentgraph.When(func(agentgraph.Values) (bool, error) { return false, errors.New("no way") })).
			OnError(agentgraph.ErrorHandling{Strategy: agentgraph.Retry, MaxRetries: 3}).Build(agentgraph.WithBackoff(time.Minute, time.Minute)))
		result, _, err := try(t, a, "go")
		require.ErrorContains(t, err, "no way")
		require.Equal(t, 1, once)
		require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1, "d": 0}, result.Calls)
		require.Equal(t, []string{"b"}, result.Failed)
		require.Equal(t, []string{"d"}, result.NotRun)
		require.Equal(t, "c->d", result.Error.Edge)
	})
}

// Ids are any texts: what a file may hold, a run can have.
func TestAnyIDs(t *testing.T) {
	ids := []string{"user", "human", "größe", "my node", "step.1", "a/b", "2/a", "..", "ends with #2", strings.Repeat("long ", 200), "\x1b[31mred"}
	b := agentgraph.NewBuilder("odd")
	for i, id := range ids {
		b.Node(id, gives(t, i))
		if i > 0 {
			b.Edge(ids[i-1], id)
		}
	}
	a := must.Get(b.Build())
	result, _, err := try(t, a, "go")
	require.NoError(t, err)
	require.Equal(t, agentgraph.Completed, result.Status)
	require.Equal(t, ids, result.Order)
}

// A node whose agent says itself that it was canceled has failed; nobody has stopped it.
func TestAgentThatSaysItWasCanceled(t *testing.T) {
	quits := must.Get(agent.New("quits", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonCanceled}}, nil)
		}
	}))
	a := must.Get(agentgraph.NewBuilder("user").Node("a", quits).Node("b", gives(t, 1)).Edge("a", "b").Build())
	require.Equal(t, "user-graph", a.Name())
	result, _, err := try(t, a, "go")
	require.ErrorContains(t, err, "finish reason canceled")
	require.Equal(t, agentgraph.Failed, result.Status)
	require.Equal(t, []string{"a"}, result.Failed)
}
