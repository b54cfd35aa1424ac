package runner_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
)

// timed makes a tool that takes a time, and returns its name.
func timed(t testing.TB, name string, takes time.Duration) tools.Tool {
	return must.Get(tools.Func(name, "", func(c tools.Context, _ struct{}) (string, error) {
		if takes > 0 {
			time.Sleep(takes) // of the test's bubble
		}
		c.Set("turn:"+name, true)
		return name, nil
	}))
}

// caller makes an agent that calls the tools in one answer, then says that it is done.
func caller(t *testing.T, all []tools.Tool, opts ...llmagent.Option) agent.Agent {
	calls := make([]scripted.Item, len(all))
	for i, tool := range all {
		calls[i] = scripted.CallID(fmt.Sprint("c", i), tool.Info().Name, "{}")
	}
	return scriptedAgent(t, "solo", seq(scripted.Reply(calls...), scripted.Reply(scripted.Text("Done."))), append(opts, llmagent.WithTools(all...))...)
}

// TestToolsOfOneAnswerMakeOneLog: tools that are equally quick leave the same log, whoever
// of them is first.
func TestToolsOfOneAnswerMakeOneLog(t *testing.T) {
	all := make([]tools.Tool, 8)
	for _, parallel := range []int{len(all), 3, 1} {
		for name, takes := range map[string]func(i int) time.Duration{
			"instant":      func(int) time.Duration { return 0 },
			"equally slow": func(int) time.Duration { return time.Second },
			"in turns":     func(i int) time.Duration { return time.Duration(i%2) * time.Second },
		} {
			t.Run(fmt.Sprint(name, ", ", parallel, " at once"), func(t *testing.T) {
				first, times := "", 20
				if name == "instant" && parallel == len(all) {
					times = 200
				}
				for range times {
					synctest.Test(t, func(t *testing.T) {
						for i := range all {
							all[i] = timed(t, fmt.Sprint("tool", i), takes(i))
						}
						var n atomic.Int64
						r := newRun(t, caller(t, all, llmagent.WithParallelTools(parallel)),
							runner.WithIDs(func() string { return fmt.Sprint("id", n.Add(1)) }))
						run(t, r, s1, "Hi")
						var log strings.Builder
						for _, e := range load(t, r, s1) {
							line := must.Get(e.MarshalJSON())
							log.Write(append(line, '\n'))
						}
						if first == "" {
							first = log.String()
						}
						require.Equal(t, first, log.String())
					})
				}
			})
		}
	}
}

// TestSlowToolHoldsUpNobody: the result of a tool is stored while others of the same
// answer still run, and a tool that comes after them does not wait for that.
func TestSlowToolHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		all := []tools.Tool{timed(t, "slow", 30*time.Second), timed(t, "quick", 0), timed(t, "longer", 10*time.Second), timed(t, "second", time.Second)}
		r := newRun(t, caller(t, all))
		stored := make(map[string]time.Duration)
		for e, err := range r.Run(context.Background(), s1, llm.UserText("Hi")) {
			require.NoError(t, err)
			if d, ok := e.Data.(*event.ToolResult); ok {
				stored[d.Name] = time.Since(began).Truncate(10 * time.Millisecond)
			}
		}
		require.Equal(t, map[string]time.Duration{"quick": 0, "second": time.Second, "longer": 10 * time.Second, "slow": 30 * time.Second}, stored)
	})
}

// TestResultsBesideAFailure: results that arrive together with a failure that ends the
// run are kept, whichever of the calls is first.
func TestResultsBesideAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []tools.Tool{timed(t, "bad", time.Second), timed(t, "good", time.Second)}
		broken := meddler{tool: func(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
			res, err := next(ctx, c.Input)
			if c.Name == "bad" {
				return nil, &agent.RunError{Agent: "solo", Code: "broken", Err: fmt.Errorf("broken")}
			}
			return res, err
		}}
		r := newRun(t, caller(t, all), runner.WithInterceptors(broken))
		events, err := say(r, s1, "Hi")
		require.Error(t, err)
		results := make(map[string]string)
		for _, d := range find[*event.ToolResult](events) {
			results[d.Name] = string(d.Output)
		}
		require.Equal(t, `"good"`, results["good"])
		require.Contains(t, results["bad"], "outcome unknown")
	})
}
