package graphtest

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// call runs a mock as an agent of its own and returns what it gives.
func call(ctx context.Context, t *testing.T, a agent.Agent) (string, error) {
	t.Helper()
	r := must.Get(runner.New(a, sessiontest.Memory(t)))
	output := ""
	for e, err := range r.Run(ctx, session.ID("s"), llm.UserText("hi")) {
		if err != nil {
			return "", err
		}
		if end, ok := e.Data.(*event.HarnessEnd); ok {
			output = string(end.Output)
		}
	}
	return output, nil
}

func TestMock(t *testing.T) {
	for name, tt := range map[string]struct {
		mock Mock
		want []string // what calls give, or the error with ! before it
	}{
		"zero value":       {Mock{}, []string{"null", "null"}},
		"output":           {Mock{Output: map[string]any{"<a>": []any{uint64(18446744073709551615), "\u2028"}}}, []string{`{"<a>":[18446744073709551615,"\u2028"]}`}},
		"raw JSON":         {Mock{Output: json.RawMessage(`{"a": 1}`)}, []string{`{"a":1}`}},
		"outputs":          {Mock{Outputs: []any{1, nil, "x"}}, []string{"1", "null", `"x"`, `"x"`}},
		"error":            {Mock{Error: "down"}, []string{"!down", "!down", "!down"}},
		"errors first":     {Mock{Error: "down", Times: 2, Output: 1}, []string{"!down", "!down", "1", "1"}},
		"then two outputs": {Mock{Error: "down", Times: 1, Outputs: []any{1, 2}}, []string{"!down", "1", "2", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := must.Get(tt.mock.Agent("m"))
			require.Equal(t, "m", a.Name())
			for _, want := range tt.want {
				got, err := call(t.Context(), t, a)
				if want[0] == '!' {
					require.ErrorContains(t, err, want[1:])
					continue
				}
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		})
	}
	for want, m := range map[string]Mock{
		"output and outputs exclude each other": {Output: 1, Outputs: []any{1}},
		"times must be at least 1":              {Error: "x", Times: -1},
		"error is missing":                      {Times: 1},
		"the delay is negative":                 {Delay: -1},
		"its output has no JSON form":           {Output: make(chan int)},
	} {
		_, err := m.Agent("m")
		require.ErrorContains(t, err, "the mock m: ")
		require.ErrorContains(t, err, want)
	}
	_, err := Mock{}.Agent("no name")
	require.Error(t, err)
}

// TestMockDelay: a mock takes the time of its delay, and ends with its context.
func TestMockDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := must.Get(Mock{Delay: time.Minute, Error: "late", Times: 1, Output: 1}.Agent("m"))
		start := time.Now()
		_, err := call(t.Context(), t, a)
		require.ErrorContains(t, err, "late")
		require.Equal(t, time.Minute, time.Since(start))
		_, err = call(t.Context(), t, a)
		require.NoError(t, err)
		require.Equal(t, 2*time.Minute, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		_, err = call(ctx, t, a)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
	})
}

// TestBarrier: who waits for others ends when all are there, with its context, or at
// the limit, and says who was missing.
func TestBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := barriers([][]string{{"a", "b", "c"}, {"c", "d"}})
		require.Len(t, waits, 4)
		errs := make(map[string]chan error)
		begin := func(id string) {
			errs[id] = make(chan error, 1)
			go func() { errs[id] <- waits[id](t.Context()) }()
			synctest.Wait()
		}
		begin("a")
		begin("b")
		require.Empty(t, errs["a"])
		begin("c")
		require.NoError(t, <-errs["a"])
		require.NoError(t, <-errs["b"])
		require.Empty(t, errs["c"], "it waits for d as well")
		begin("d")
		require.NoError(t, <-errs["c"])
		require.NoError(t, <-errs["d"])

		waits = barriers([][]string{{"a", "b", "c"}})
		begin("b")
		err := <-errs["b"]
		require.ErrorIs(t, err, errAlone)
		require.ErrorContains(t, err, "b waited 5s, and a, c did not start")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, waits["a"](ctx), context.Canceled)
	})
}
