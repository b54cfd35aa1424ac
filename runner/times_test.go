package runner_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// TestTimeOfACutOffTurn: what agents did until a turn was cut off is counted, in
// agent tools, too, and not the days until somebody continues it, here or in a
// fork.
func TestTimeOfACutOffTurn(t *testing.T) {
	for _, inner := range []bool{false, true} {
		for _, fork := range []bool{false, true} {
			for _, how := range []string{"resume", "run", "advance"} {
				now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				work := must.Get(tools.Func("work", "", func(tools.Context, struct{}) (string, error) {
					now = now.Add(time.Second)
					return "done", nil
				}))
				halt := must.Get(tools.Func("halt", "", func(tools.Context, struct{}) (string, error) {
					cancel()
					return "", nil
				}))
				cutOff := seq(scripted.Reply(scripted.Call("work", "{}")), scripted.Reply(scripted.Call("halt", "{}")), scripted.Reply(scripted.Text("Done.")))
				root := scriptedAgent(t, "solo", cutOff, llmagent.WithTools(work, halt))
				want := map[string]time.Duration{"solo": time.Second}
				if inner {
					deep := scriptedAgent(t, "deep", cutOff, llmagent.WithTools(work, halt))
					root = scriptedAgent(t, "solo", seq(scripted.Reply(scripted.Call("deep", `{"input":"go"}`)), scripted.Reply(scripted.Text("Done."))), llmagent.WithTools(agentTool(t, deep)))
					want["deep"] = time.Second
				}
				store := sessiontest.Memory(t)
				r := newRunner(t, root, store, runner.WithClock(func() time.Time { return now }), runner.WithBudgets(runner.Budgets{Session: runner.Budget{Time: time.Hour}}))
				_, err := collect(r.Run(ctx, s1, llm.UserText("Go")))
				require.ErrorIs(t, err, context.Canceled)
				key := s1
				if fork {
					key = forked
					require.NoError(t, store.Fork(context.Background(), s1, int64(len(load(t, r, s1))), key))
				}
				now = now.Add(48 * time.Hour)
				switch how {
				case "run":
					_, err = say(r, key, "And now?")
				case "resume":
					_, err = collect(r.Resume(context.Background(), key))
				default:
					for done := false; !done; {
						_, done, err = over(r.Advance(context.Background(), key, runner.Step{Attempt: 2}))
						require.NoError(t, err)
					}
				}
				require.NoError(t, err, "inner %v, fork %v, %s", inner, fork, how)
				log := load(t, r, key)
				require.Equal(t, event.TypeHarnessEnd, log[len(log)-1].Type())
				fold := &session.Fold{}
				for _, e := range log {
					fold.Apply(e)
				}
				got := make(map[string]time.Duration)
				for _, a := range fold.Times.Agents {
					got[a.Agent] = a.Session.Round(time.Millisecond)
				}
				require.Equal(t, want, got, "inner %v, fork %v, %s", inner, fork, how)
				require.Equal(t, time.Second, fold.Times.Session.Round(time.Millisecond))
			}
		}
	}
}
