package runner_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/workflowagent"
)

// cashier is a tree support → billing whose agent "support" has the tool refund,
// which waits for an approval, and lookup, which does not.
type cashier struct {
	t       *testing.T
	script  *scripted.Script
	refunds []int
	store   session.Store
	opts    []llmagent.Option
}

func newCashier(t *testing.T, script string, opts ...llmagent.Option) *cashier {
	s := must.Get(scripted.Parse([]byte(script)))
	store := must.Get(sqlite.Open(filepath.Join(t.TempDir(), "s.db")))
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &cashier{t: t, script: s, store: store, opts: opts}
}

// process returns a runner that knows only what is stored.
func (c *cashier) process() *runner.Runner {
	type in struct {
		Amount int `json:"amount"`
	}
	refund := must.Get(tools.Func("refund", "Refunds.", func(_ tools.Context, in in) (string, error) {
		c.refunds = append(c.refunds, in.Amount)
		return fmt.Sprintf("refunded %d", in.Amount), nil
	}, tools.NeedsApproval()))
	lookup := must.Get(tools.Func("lookup", "Looks.", func(tools.Context, struct{}) (string, error) { return "found", nil }))
	billing := must.Get(llmagent.New("billing", "", checked{c.script.Model("billing")}))
	support := must.Get(llmagent.New("support", "", checked{c.script.Model("support")},
		append([]llmagent.Option{llmagent.WithTools(refund, lookup), llmagent.WithSubAgents(billing)}, c.opts...)...))
	return newRunner(c.t, support, c.store)
}

func (c *cashier) resume(decisions ...runner.Decision) ([]*event.Event, error) {
	r := c.process()
	events, err := collect(resume(r, s1, decisions...))
	return events, err
}

func (c *cashier) say(text string) []*event.Event {
	r := c.process()
	events := run(c.t, r, s1, text)
	return events
}

func endOf(events []*event.Event) event.FinishReason {
	return events[len(events)-1].Data.(*event.HarnessEnd).FinishReason
}

const refundAndHandOver = `
support: call lookup#c1 {} call refund#c2 {"amount": 19} call transfer_to_agent#c3 {"agent_name": "billing"}
billing: expect user "refund" "Done."
billing: "Bye."`

func TestApprovalPausesBeforeTheTransfer(t *testing.T) {
	c := newCashier(t, refundAndHandOver)
	events := c.say("Money back")
	require.Equal(t, event.FinishReasonInputRequired, endOf(events))
	relay := events[len(events)-2].Data.(*event.Relay)
	require.Equal(t, "refund", relay.Tool)
	require.Equal(t, "c2", transcript.CallsOf(events).Name(relay.ToolCallID))
	require.Empty(t, c.refunds)

	none := must.Get(c.resume())
	require.Empty(t, none, "nobody has decided yet")
	_, err := c.resume(runner.Approve("c9"))
	require.ErrorIs(t, err, runner.ErrNoApproval)
	_, err = c.resume(runner.Approve("c1"))
	require.ErrorIs(t, err, runner.ErrNoApproval, "lookup was never asked about")

	events = must.Get(c.resume(runner.Approve("c2")))
	require.Equal(t, []int{19}, c.refunds)
	who, text := lastText(events)
	require.Equal(t, "billing Done.", who+" "+text)
	require.Equal(t, event.TypeRelayResolved, events[0].Type())
	require.Equal(t, events[0].RunID+":harness_end", events[1].ParentID, "the new run is caused by the paused one's end")
	require.Equal(t, events[0].RunID, events[2].RunID, "the result belongs to the run that called")

	again := must.Get(c.resume(runner.Approve("c2")))
	require.Len(t, again, 1, "the recorded result")
	require.Equal(t, `"refunded 19"`, string(again[0].Data.(*event.ToolResult).Output))
	require.Equal(t, []int{19}, c.refunds, "once")

	who, _ = lastText(c.say("And now?"))
	require.Equal(t, "billing", who)
	require.NoError(t, c.script.Done())
}

// Who decides can name the decision, and find it in the log.
func TestDecisionWithAnID(t *testing.T) {
	c := newCashier(t, `
support: call refund#c1 {"amount": 19}
support: "Done."`)
	c.say("Money back")
	for _, id := range []string{"a b", "ä", strings.Repeat("x", 65)} {
		_, err := c.resume(runner.Decision{CallID: "c1", Approved: true, ID: id})
		require.ErrorIs(t, err, agent.ErrBadInput)
	}
	require.Empty(t, c.refunds)
	events := must.Get(c.resume(runner.Decision{CallID: "c1", Approved: true, ID: "by-mail-17"}))
	require.Equal(t, "by-mail-17", events[0].ID)
	require.Equal(t, event.TypeRelayResolved, events[0].Type())
	require.Equal(t, []int{19}, c.refunds)
}

// A client can give results of its calls together with the user's next message.
func TestTheUserGoesOnAfterResults(t *testing.T) {
	c := newCashier(t, `
support: call page#c1 {} call page#c2 {}
support: expect result "withdrawn" "As you like."`)
	say := func(opts ...runner.TurnOption) ([]*event.Event, error) {
		return collect(c.process().Run(t.Context(), s1, llm.UserText("Show it"), opts...))
	}
	var calls, results []string
	events := must.Get(say(runner.WithMetadata(broughtTools)))
	for _, e := range events {
		if e.Type() == event.TypeToolCall {
			calls = append(calls, e.ID)
		}
	}
	_, err := say(runner.WithResults(runner.Decision{CallID: calls[0], Approved: true, Content: []byte("{")}))
	require.ErrorIs(t, err, agent.ErrBadInput)
	events = must.Get(say(runner.WithResults(runner.Answer(calls[0], "shown"), runner.Answer(calls[0], "again"), runner.Answer("c9", "of no call"), runner.Deny(calls[1], "no"))))
	for _, e := range events {
		if d, ok := e.Data.(*event.ToolResult); ok {
			require.Equal(t, calls[len(results)], e.ID)
			results = append(results, event.OutputText(d.Output))
		}
	}
	require.Equal(t, []string{"shown", "withdrawn: the user went on"}, results)
	require.Equal(t, event.FinishReasonStop, endOf(events))
}

// TestDecisionFoundInTheLog: whoever finds a decision in the log cannot know how far the
// one came who stored it.
func TestDecisionFoundInTheLog(t *testing.T) {
	c := newCashier(t, `
support: call refund#c1 {"amount": 1} call refund#c2 {"amount": 2}
support: expect result "outcome unknown" "Perhaps."`)
	c.say("Money back")
	for _, id := range []string{"c1", "c2"} { // each time nothing but the decision is stored
		for range resume(c.process(), s1, runner.Approve(id)) {
			break
		}
	}
	must.Get(c.resume())
	require.Empty(t, c.refunds)
}

// TestFailureBesideAWaitingCall: when a run fails beside a call that nobody has decided
// about, that call was not executed, and its outcome is no riddle.
func TestFailureBesideAWaitingCall(t *testing.T) {
	guard := agent.Guard{Name: "g", In: func(_ context.Context, _ *agent.Invocation, in agent.Ingress) error {
		if in.Tool == "refund" {
			return errors.New("suspicious")
		}
		return nil
	}}
	c := newCashier(t, `support: call refund#c1 {"amount": 1} call refund#c2 {"amount": 2}`, llmagent.WithGuards(guard))
	c.say("Money back")
	events, err := c.resume(runner.Approve("c1"))
	var tripped *agent.TripwireError
	require.ErrorAs(t, err, &tripped)
	require.Equal(t, []int{1}, c.refunds)
	results := make(map[string]string)
	for _, e := range events {
		if d, ok := e.Data.(*event.ToolResult); ok {
			results[e.ID] = string(d.Output)
		}
	}
	calls := transcript.CallsOf(load(t, c.process(), s1))
	require.Contains(t, results[calls.ID("c2")], "not executed")
}

func TestTransferApproval(t *testing.T) {
	for _, approve := range []bool{true, false} {
		script := `
support: call transfer_to_agent#c1 {"agent_name": "billing"}
`
		decision := runner.Approve("c1")
		if approve {
			script += `billing: "Hello."`
		} else {
			script += `support: expect result "not now" "Then I answer."`
			decision = runner.Deny("c1", "not now")
		}
		c := newCashier(t, script, llmagent.WithTransferApproval())
		require.Equal(t, event.FinishReasonInputRequired, endOf(c.say("Hi")))
		events := must.Get(c.resume(decision))
		who, _ := lastText(events)
		require.Equal(t, map[bool]string{true: "billing", false: "support"}[approve], who)
		require.NoError(t, c.script.Done())
	}
}

func TestPolicyRules(t *testing.T) {
	policy := must.Get(tools.NewPolicy(
		tools.Rule{Tool: "refund", Args: map[string]tools.Arg{"amount": {Matches: `^\d{4,}$`}}, Decision: tools.Deny},
		tools.Rule{Tool: "look*", Decision: tools.Ask}))
	c := newCashier(t, `
support: call refund#c1 {"amount": 5000} call lookup#c2 {}
support: expect result "found" "Fine."`, llmagent.WithToolPolicy(policy))
	events := c.say("Money back")
	require.Equal(t, event.FinishReasonInputRequired, endOf(events))
	_, err := c.resume(runner.Approve("c1"))
	require.ErrorIs(t, err, runner.ErrNoApproval, "a denial is not asked about")
	events = must.Get(c.resume(runner.Approve("c2")))
	require.Equal(t, event.FinishReasonStop, endOf(events))
	require.Empty(t, c.refunds)
}

// TestApprovalWithoutItsAgentOrTool: where the tree lacks the agent or the tool that asks, an approval is refused, nothing
// is stored, and the call keeps waiting. A denial is stored, and the root goes on for an agent that is gone.
func TestApprovalWithoutItsAgentOrTool(t *testing.T) {
	c := newCashier(t, `support: call refund#c1 {"amount": 19}`)
	c.say("Money back")
	before := load(t, c.process(), s1)
	root, script := tree(t, "front", `front: expect user "not executed" "I take over."`)
	front := newRunner(t, root, c.store)
	for missing, r := range map[string]*runner.Runner{`the agent "support"`: front, `the tool "refund"`: newRunner(t, says(t, "support", "Hello."), c.store)} {
		_, err := collect(resume(r, s1, runner.Approve("c1")))
		require.ErrorIs(t, err, agent.ErrBadInput)
		require.ErrorContains(t, err, missing)
		require.Equal(t, before, load(t, r, s1))
	}
	who, text := lastText(finish(t, resume(front, s1, runner.Deny("c1", ""))))
	require.Equal(t, "front I take over.", who+" "+text)
	require.Empty(t, c.refunds)
	require.NoError(t, script.Done())
}

// TestApprovalWithoutItsToolInside: as in the conversation, where an agent inside of a tool or a workflow, or one around
// it, lacks the tool, an approval is refused and nothing is stored.
func TestApprovalWithoutItsToolInside(t *testing.T) {
	for name, around := range map[string]func(box []tools.Tool, buyers bool) agent.Agent{
		"an agent tool": func(box []tools.Tool, buyers bool) agent.Agent {
			buyer := must.Get(llmagent.New("buyer", "", callsThen("buyer", "Paid.", scripted.CallID("c1", "pay", `{}`)), llmagent.WithTools(box...)))
			var opts []llmagent.Option
			if buyers {
				opts = append(opts, llmagent.WithTools(agentTool(t, buyer)))
			}
			return must.Get(llmagent.New("front", "", callsThen("front", "Done.", scripted.CallID("c0", "buyer", `{"input":"Pay"}`)), opts...))
		},
		"a workflow": func(box []tools.Tool, _ bool) agent.Agent {
			buyer := must.Get(llmagent.New("buyer", "", callsThen("buyer", "Paid.", scripted.CallID("c1", "pay", `{}`)), llmagent.WithTools(box...)))
			return must.Get(workflowagent.Sequential("front", "", []agent.Agent{buyer}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ran, store := 0, sessiontest.Memory(t)
			pay := must.Get(tools.Func("pay", "Pays.", func(tools.Context, struct{}) (string, error) { ran++; return "paid", nil }, tools.NeedsApproval()))
			process := func(box []tools.Tool, buyers bool) *runner.Runner {
				return must.Get(runner.New(around(box, buyers), store))
			}
			whole := process([]tools.Tool{pay}, true)
			run(t, whole, s1, "Pay")
			call := must.Get(whole.Pending(t.Context(), s1))[0].ToolCallID
			before := load(t, whole, s1)
			others := []*runner.Runner{process(nil, true)}
			if name == "an agent tool" {
				others = append(others, process([]tools.Tool{pay}, false))
			}
			for _, r := range others {
				_, err := collect(resume(r, s1, runner.Approve(call)))
				require.ErrorIs(t, err, agent.ErrBadInput)
				require.Equal(t, before, load(t, r, s1))
			}
			finish(t, resume(whole, s1, runner.Approve(call)))
			require.Equal(t, 1, ran)
		})
	}
}

// TestSeveralApproversAtOnce: whoever decides first runs the call; the others
// get its recorded result.
func TestSeveralApproversAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int32
		pay := must.Get(tools.Func("pay", "", func(tools.Context, struct{}) (string, error) {
			ran.Add(1)
			time.Sleep(time.Second) // of the test's bubble
			return "paid", nil
		}, tools.NeedsApproval()))
		root := scriptedAgent(t, "solo", seq(scripted.Reply(scripted.CallID("c1", "pay", "{}")), scripted.Reply(scripted.Text("Paid."))), llmagent.WithTools(pay))
		store := sessiontest.Memory(t)
		run(t, newRunner(t, root, store), s1, "Pay")
		var wg sync.WaitGroup
		for range 4 {
			r := newRunner(t, root, store, runner.WithWait(time.Minute))
			wg.Go(func() {
				events, err := collect(resume(r, s1, runner.Approve("c1")))
				if err != nil {
					t.Error(err)
				}
				results := 0
				for _, e := range events {
					if d, ok := e.Data.(*event.ToolResult); ok && string(d.Output) == `"paid"` {
						results++
					}
				}
				if results != 1 {
					t.Errorf("%d results of the call", results)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, ran.Load())
	})
}
