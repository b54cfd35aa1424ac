package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// TestApprovedIsWhatRuns: a call whose tool, its source, or who may decide about it, has changed since the approval asks
// again; a decision about the older question is none.
func TestApprovedIsWhatRuns(t *testing.T) {
	store, key, ran := sessiontest.Memory(t), session.ID("s"), 0
	process := func(description, source string, by tools.By) *runner.Runner {
		pay := must.Get(tools.Func("pay", description, func(tools.Context, struct{}) (string, error) { ran++; return "paid", nil }, tools.NeedsApproval(by)))
		model := callsThen("m", "Paid.", scripted.CallID("c1", "pay", `{}`))
		root := must.Get(llmagent.New("clerk", "You pay.", model, llmagent.WithTools(from{pay, source})))
		return newRunner(t, root, store)
	}
	asked := func(r *runner.Runner) *event.Relay {
		all := must.Get(r.Pending(context.Background(), key))
		require.Len(t, all, 1)
		return all[0]
	}
	v1 := process("Pays one euro.", "bank", tools.ByUser())
	run(t, v1, key, "Pay")
	first := asked(v1)
	v2 := process("Pays all.", "bank", tools.ByUser())
	finish(t, v2.Resume(context.Background(), key, runner.Decision{CallID: first.ToolCallID, Approved: true, Digest: first.Digest}))
	require.Zero(t, ran)
	second := asked(v2)
	require.NotEqual(t, first.Digest, second.Digest)
	_, err := collect(v2.Resume(context.Background(), key, runner.Decision{CallID: first.ToolCallID, Approved: true, Digest: first.Digest}))
	require.ErrorIs(t, err, runner.ErrNoApproval)
	v3 := process("Pays all.", "bank", tools.ByStaff())
	finish(t, v3.Resume(context.Background(), key, runner.Approve(second.ToolCallID)))
	require.Zero(t, ran)
	v3 = process("Pays all.", "another bank", tools.ByStaff())
	finish(t, v3.Resume(context.Background(), key, runner.Approve(second.ToolCallID)))
	require.Zero(t, ran)
	require.Equal(t, []string{event.ByStaff}, asked(v3).By)
	finish(t, v3.Resume(context.Background(), key, runner.Approve(second.ToolCallID)))
	require.Equal(t, 1, ran)
}

// from is a tool of a source.
type from struct {
	tools.Tool
	source string
}

func (t from) Info() tools.Info {
	info := t.Tool.Info()
	info.Source = t.source
	return info
}

// swaps is an interceptor that passes on other arguments, if there are some.
func swaps(input *string) agent.Interceptor {
	return meddler{tool: func(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
		if *input != "" {
			return next(ctx, json.RawMessage(*input))
		}
		return next(ctx, c.Input)
	}}
}

// TestChangedArguments: arguments that an interceptor changes after the rules have judged a call do not run
// unless they are those that were approved, or need no approval.
func TestChangedArguments(t *testing.T) {
	policy := must.Get(tools.NewPolicy(
		tools.Rule{Tool: "pay", Args: map[string]tools.Arg{"amount": {Above: 100}}, Decision: tools.Ask},
		tools.Rule{Tool: "pay", Args: map[string]tools.Arg{"amount": {Above: 5000}}, Decision: tools.Deny}))
	for name, c := range map[string]struct {
		called, runs string
		asks         bool
		paid         []int
	}{
		"as approved":                          {`{"amount":150}`, "", true, []int{150}},
		"as approved, but spelled wider":       {`{"amount":150}`, ` { "amount" : 150 } `, true, []int{150}},
		"more than approved":                   {`{"amount":150}`, `{"amount":9000}`, true, nil},
		"less than approved":                   {`{"amount":150}`, `{"amount":5}`, true, nil},
		"approved and more besides":            {`{"amount":150}`, `{"amount":150,"amount":4000}`, true, nil},
		"a larger amount, without an approval": {`{"amount":50}`, `{"amount":4000}`, false, nil},
		"denied, without an approval":          {`{"amount":50}`, `{"amount":9000}`, false, nil},
		"a smaller amount, without one":        {`{"amount":50}`, `{"amount":5}`, false, []int{5}},
	} {
		t.Run(name, func(t *testing.T) {
			var paid []int
			pay := must.Get(tools.Func("pay", "Pays.", func(_ tools.Context, in struct {
				Amount int `json:"amount"`
			}) (string, error) {
				paid = append(paid, in.Amount)
				return "paid", nil
			}))
			root := must.Get(llmagent.New("clerk", "", callsThen("m", "Done.", scripted.CallID("c1", "pay", c.called)), llmagent.WithTools(pay), llmagent.WithToolPolicy(policy)))
			r := newRun(t, root, runner.WithInterceptors(swaps(&c.runs)))
			run(t, r, s1, "Pay")
			require.Equal(t, c.asks, len(must.Get(r.Pending(context.Background(), s1))) == 1)
			if c.asks {
				require.Empty(t, paid)
				finish(t, resume(r, s1, runner.Approve("c1")))
			}
			require.Equal(t, c.paid, paid)
		})
	}
}

// TestChangedTransfer: a transfer is committed with the target and the input that were approved. One that an
// interceptor has changed since, or whose target is another agent by now, asks again.
func TestChangedTransfer(t *testing.T) {
	const toBilling, toRefunds, toBillingFor9 = `{"agent_name":"billing"}`, `{"agent_name":"refunds"}`, `{"agent_name":"billing","reason":"9000"}`
	for name, c := range map[string]struct{ runs, about, to string }{
		"another target":      {toRefunds, "Bills.", "refunds"},
		"another input":       {toBillingFor9, "Bills.", "billing"},
		"another description": {"", "Sends the bills of others.", "billing"},
	} {
		t.Run(name, func(t *testing.T) {
			store, input := sessiontest.Memory(t), ""
			process := func(about string) *runner.Runner {
				billing := must.Get(llmagent.New("billing", "", scripted.Always("b", scripted.Reply(scripted.Text("Hello."))), llmagent.WithDescription(about)))
				root := must.Get(llmagent.New("support", "", scripted.Always("s", scripted.Reply(scripted.CallID("c1", agent.TransferTool, toBilling))),
					llmagent.WithTransferApproval(), llmagent.WithSubAgents(billing, says(t, "refunds", "Hello."))))
				return newRunner(t, root, store, runner.WithInterceptors(swaps(&input)))
			}
			asked := func(r *runner.Runner) *event.Relay {
				all := must.Get(r.Pending(context.Background(), s1))
				require.Len(t, all, 1)
				return all[0]
			}
			committed := func(r *runner.Runner) (to []string) {
				for _, e := range load(t, r, s1) {
					if d, ok := e.Data.(*event.Transfer); ok && d.Outcome == event.TransferCommitted {
						to = append(to, d.To)
					}
				}
				return to
			}
			v1 := process("Bills.")
			run(t, v1, s1, "Hi")
			first := asked(v1)
			require.JSONEq(t, toBilling, string(first.Params))
			_, err := collect(resume(v1, s1, runner.Decision{CallID: "c1", Approved: true, Digest: strings.Replace(first.Digest, "sha256:", "sha256:0", 1)}))
			require.ErrorIs(t, err, runner.ErrNoApproval)

			input = c.runs
			v2 := process(c.about)
			finish(t, resume(v2, s1, runner.Decision{CallID: "c1", Approved: true, Digest: first.Digest}))
			require.Empty(t, committed(v2))
			second := asked(v2)
			require.NotEqual(t, first.Digest, second.Digest)
			if c.runs != "" {
				require.JSONEq(t, c.runs, string(second.Params), "the question shows what would be committed")
			}
			_, err = collect(resume(v2, s1, runner.Decision{CallID: "c1", Approved: true, Digest: first.Digest}))
			require.ErrorIs(t, err, runner.ErrNoApproval)
			require.Empty(t, committed(v2))
			finish(t, resume(v2, s1, runner.Decision{CallID: "c1", Approved: true, Digest: second.Digest}))
			require.Equal(t, []string{c.to}, committed(v2))
		})
	}
}
