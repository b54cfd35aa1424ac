package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

var forked = session.ID("forked")

// fork forks the cashier's session at its end.
func (c *cashier) fork() []*event.Event {
	past := load(c.t, c.process(), s1)
	require.NoError(c.t, c.store.Fork(context.Background(), s1, int64(len(past)), forked))
	return past
}

func (c *cashier) resumeFork(decisions ...runner.Decision) ([]*event.Event, error) {
	r := c.process()
	return collect(resume(r, forked, decisions...))
}

// TestApprovalInAFork: a call that waits for an approval stays in its session. The fork goes on
// without it, and it cannot be approved there.
func TestApprovalInAFork(t *testing.T) {
	c := newCashier(t, refundAndHandOver+"\nbilling: \"Done, too.\"")
	c.say("Money back")
	past := c.fork()
	for _, d := range []runner.Decision{runner.Approve("c2"), runner.Approve("c9"), runner.Approve("c1")} {
		_, err := c.resumeFork(d)
		require.ErrorIs(t, err, runner.ErrNoApproval)
	}
	require.Len(t, load(t, c.process(), forked), len(past), "nothing is stored")

	events := must.Get(c.resumeFork(runner.Deny("c2", "Not twice")))
	require.Empty(t, c.refunds)
	who, text := lastText(events)
	require.Equal(t, "billing Done.", who+" "+text)
	require.Equal(t, event.TypeHarnessStart, events[0].Type())
	denial := events[2].Data.(*event.RelayResolved)
	require.False(t, denial.Approved)
	require.Equal(t, "Not twice; "+agent.NotInFork, denial.Reason)
	require.Equal(t, events[0].Time, events[2].Time, "one write")
	_, err := c.resumeFork(runner.Approve("c2"))
	require.ErrorIs(t, err, runner.ErrNoApproval)
	again := must.Get(c.resumeFork(runner.Deny("c2", "Not twice")))
	require.Len(t, again, 1, "the recorded result")
	require.Empty(t, c.refunds)

	require.Len(t, load(t, c.process(), s1), len(past))
	must.Get(c.resume(runner.Approve("c2")))
	require.Equal(t, []int{19}, c.refunds)
}

// TestDecideInAFork: an engine takes the turn up there without a decision, too.
func TestDecideInAFork(t *testing.T) {
	c := newCashier(t, "support: call refund#c1 {\"amount\": 1}\nsupport: expect result \"forked\" \"It is elsewhere.\"")
	c.say("Money back")
	c.fork()
	r, ctx := c.process(), context.Background()
	_, state, err := r.Decide(ctx, forked)
	require.NoError(t, err)
	require.False(t, state.Waits)
	for done := false; !done; {
		_, done, err = over(r.Advance(ctx, forked, runner.Step{}))
		require.NoError(t, err)
	}
	require.Empty(t, c.refunds)
	require.NoError(t, c.script.Done())
}

// TestForksRunNoCallAgain: wherever forks are taken once a model has made calls, and whatever is
// approved in them, no call runs that the session itself can run.
func TestForksRunNoCallAgain(t *testing.T) {
	c := newCashier(t, `
support: call refund#c1 {"amount": 1} call refund#c2 {"amount": 2}
support: "Both."`)
	c.say("Money back")
	for e, err := range resume(c.process(), s1, runner.Approve("c1")) {
		require.NoError(t, err)
		if e.Type() == event.TypeHarnessStart { // cut off before the call has run
			break
		}
	}
	require.Empty(t, c.refunds)
	log := load(t, c.process(), s1)
	first := slices.IndexFunc(log, func(e *event.Event) bool { return e.Type() == event.TypeToolCall })
	for i, e := range log {
		if i+1 < len(log) && e.Time.Equal(log[i+1].Time) || i < first {
			continue
		}
		for _, approves := range []bool{true, false} {
			script := must.Get(scripted.Parse([]byte("support: expect result \"forked\" \"It is elsewhere.\"")))
			in := *c
			in.script = script
			key, r := session.ID(fmt.Sprint("fork ", e.Seq, approves)), in.process()
			require.NoError(t, c.store.Fork(context.Background(), s1, e.Seq, key))
			for range 3 {
				if approves {
					for _, id := range []string{"c1", "c2"} {
						_, err := collect(resume(r, key, runner.Approve(id)))
						require.ErrorIs(t, errors.Join(err, runner.ErrNoApproval), runner.ErrNoApproval)
					}
				}
				finish(t, r.Resume(context.Background(), key))
				require.Empty(t, must.Get(r.Pending(context.Background(), key)))
			}
			require.Empty(t, in.refunds, key.ID)
			require.NoError(t, script.Done())
		}
	}
	require.Greater(t, len(log)-first, 3)
}

// TestTheUserGoesOnInAFork: a call that waits for an approval there has not run, and
// the model does not read that it may have.
func TestTheUserGoesOnInAFork(t *testing.T) {
	c := newCashier(t, `
support: call refund#c1 {"amount": 19}
support: expect result "withdrawn" "As you like."`)
	c.say("Money back")
	c.fork()
	run(t, c.process(), forked, "Never mind")
	_, err := c.resumeFork(runner.Approve("c1"))
	require.ErrorIs(t, err, runner.ErrNoApproval)
	require.Empty(t, c.refunds)
}

// TestTheUserGoesOnAfterACrash: of two calls one was approved and may have run when
// the process died, and the other still waits.
func TestTheUserGoesOnAfterACrash(t *testing.T) {
	c := newCashier(t, `
support: call refund#c1 {"amount": 1} call refund#c2 {"amount": 2}
support: expect result "withdrawn" "As you like."`)
	c.say("Money back")
	for e, err := range resume(c.process(), s1, runner.Approve("c1")) {
		require.NoError(t, err)
		if e.Type() == event.TypeHarnessStart {
			break
		}
	}
	events := c.say("Never mind")
	told := make(map[string]string)
	calls := transcript.CallsOf(load(t, c.process(), s1))
	for _, e := range events {
		if d, ok := e.Data.(*event.ToolResult); ok {
			told[calls.Name(e.ID)] = event.OutputText(d.Output)
		}
	}
	require.Equal(t, map[string]string{"c1": "interrupted; outcome unknown", "c2": "withdrawn: the user went on"}, told)
}

// TestForkOfAnAgentThatLeftTheTree: its calls are answered, and the root goes on.
func TestForkOfAnAgentThatLeftTheTree(t *testing.T) {
	c := newCashier(t, `support: call refund#c1 {"amount": 19}`)
	c.say("Money back")
	past := c.fork()
	root, script := tree(t, "front", `front: expect user "not executed" "I take over."`)
	r := newRunner(t, root, c.store)
	events := finish(t, r.Resume(context.Background(), forked))
	who, text := lastText(events)
	require.Equal(t, "front I take over.", who+" "+text)
	require.Empty(t, c.refunds)
	for _, e := range events {
		require.NotEqual(t, past[len(past)-1].RunID, e.RunID, "it is the other session's")
	}
	require.NoError(t, script.Done())
}

// TestForkAdvances: the first step in a fork does not run a tool that the other
// session may have run, whatever try of the step it is.
func TestForkAdvances(t *testing.T) {
	ran := 0
	pay := must.Get(tools.Func("pay", "", func(tools.Context, struct{}) (string, error) { ran++; return "paid", nil }))
	root := scriptedAgent(t, "solo", seq(scripted.Reply(scripted.CallID("c1", "pay", "{}")), scripted.Reply(scripted.Text("Paid.")), scripted.Reply(scripted.Text("Perhaps."))), llmagent.WithTools(pay))
	store := sessiontest.Memory(t)
	r := newRunner(t, root, store)
	run(t, r, s1, "Pay")
	ctx := context.Background()
	require.NoError(t, store.Fork(ctx, s1, 4, forked))
	for done := false; !done; {
		var err error
		_, done, err = over(r.Advance(ctx, forked, runner.Step{Attempt: 1}))
		require.NoError(t, err)
	}
	require.Equal(t, 1, ran)
}

// TestIdempotencyKeyInAFork: a call has one key wherever it is executed, so that what
// it does outside is done once.
func TestIdempotencyKeyInAFork(t *testing.T) {
	var keys []string
	pay := must.Get(tools.Func("pay", "", func(ctx tools.Context, _ struct{}) (string, error) {
		keys = append(keys, ctx.IdempotencyKey())
		return "paid", nil
	}, tools.Idempotent()))
	root := scriptedAgent(t, "solo", seq(scripted.Reply(scripted.CallID("c1", "pay", "{}")), scripted.Reply(scripted.Text("Paid.")), scripted.Reply(scripted.Text("Paid."))), llmagent.WithTools(pay))
	store := sessiontest.Memory(t)
	r := newRunner(t, root, store)
	events := run(t, r, s1, "Pay")
	require.NoError(t, store.Fork(context.Background(), s1, 4, forked))
	finish(t, r.Resume(context.Background(), forked))
	want := events[2].RunID + "/" + events[2].ID
	require.Equal(t, []string{want, want}, keys)
}
