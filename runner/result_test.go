package runner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// A turn's result follows from its events, streamed or not.
func TestCollect(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		s := scripted.New()
		s.Add("support", scripted.Reply(scripted.Text("One moment."), scripted.Call(agent.TransferTool, `{"agent_name":"billing","reason":"money"}`), scripted.Usage(10, 2, 0)))
		s.Add("billing",
			scripted.Reply(scripted.Text("Let me see."), scripted.CallID("c1", "refund", `{"amount":3}`), scripted.CallID("c2", "refund", `{"amount":4}`), scripted.Usage(20, 3, 0)),
			scripted.Reply(scripted.Text("Refunded."), scripted.Usage(30, 4, 0)))
		refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct {
			Amount int `json:"amount"`
		}) (string, error) {
			return "ok", nil
		}, tools.NeedsApproval()))
		billing := must.Get(llmagent.New("billing", "", s.Model("billing"), llmagent.WithTools(refund)))
		support := must.Get(llmagent.New("support", "", s.Model("support"), llmagent.WithSubAgents(billing)))
		var opts []runner.Option
		if streamed {
			opts = append(opts, runner.WithStreaming())
		}
		r := newRun(t, support, opts...)
		ctx, key := context.Background(), session.ID("s")
		require.Empty(t, must.Get(r.Pending(ctx, key)))

		res := must.Get(runner.Collect(r.Run(ctx, key, llm.UserText("I was charged twice"))))
		require.Equal(t, event.Answer{Text: "Let me see.", Agent: "billing", FinishReason: event.FinishReasonInputRequired}, res.Answer)
		require.Equal(t, llm.Usage{InputTokens: 30, OutputTokens: 5}, res.Usage)
		require.Len(t, res.Transfers, 1)
		require.Equal(t, "money", res.Transfers[0].Reason)
		require.Equal(t, []string{"c2", "c3"}, callsOf(t, r, key, res.Pending))

		res = must.Get(runner.Collect(resume(r, key, runner.Approve("c3"))))
		require.Equal(t, event.FinishReasonInputRequired, res.FinishReason)
		require.Equal(t, "billing", res.Agent)
		pending := must.Get(r.Pending(ctx, key))
		require.Equal(t, []string{"c2"}, callsOf(t, r, key, pending), "a page that is loaded anew asks about the other one")
		require.JSONEq(t, `{"amount":3}`, string(pending[0].Params))

		res = must.Get(runner.Collect(resume(r, key, runner.Deny("c2", "enough"))))
		require.Equal(t, event.Answer{Text: "Refunded.", Agent: "billing", FinishReason: event.FinishReasonStop}, res.Answer)
		require.Empty(t, res.Pending)
		require.Empty(t, must.Get(r.Pending(ctx, key)))

		res, err := runner.Collect(r.Run(ctx, key, llm.UserText("And now?"))) // the script is at its end
		require.Error(t, err)
		require.Equal(t, event.FinishReasonError, res.FinishReason)
		require.Equal(t, "billing", res.Agent)
	}
}

// The words for the user are the same whether they come in deltas or whole.
func TestVisible(t *testing.T) {
	for _, opts := range [][]runner.Option{nil, {runner.WithStreaming()}} {
		s := scripted.New()
		s.Add("support", scripted.Reply(scripted.Text("One ", "moment. "), scripted.Call("ask", `{"input":"why"}`)),
			scripted.Reply(scripted.Text("That ", "is why.")))
		s.Add("inner", scripted.Reply(scripted.Text("Not ", "for the user")))
		inner := must.Get(llmagent.New("inner", "", s.Model("inner")))
		ask := must.Get(agenttool.New(inner, agenttool.WithName("ask")))
		support := must.Get(llmagent.New("support", "", s.Model("support"), llmagent.WithTools(ask)))
		r := newRun(t, support, opts...)
		var words []string
		for _, e := range must.All(r.Run(context.Background(), session.ID("s"), llm.UserText("Why?"))) {
			if w := e.Visible(); w != "" {
				words = append(words, w)
			}
		}
		if opts == nil {
			require.Equal(t, []string{"One moment. ", "That is why."}, words)
		} else {
			require.Equal(t, []string{"One ", "moment. ", "That ", "is why."}, words)
		}
		for _, e := range must.All(r.History(context.Background(), session.ID("s"))) {
			require.False(t, e.Streamed, "the log does not tell")
		}
	}
}

func callsOf(t *testing.T, r *runner.Runner, key session.Key, relays []*event.Relay) (names []string) {
	calls := transcript.CallsOf(load(t, r, key))
	for _, d := range relays {
		names = append(names, calls.Name(d.ToolCallID))
	}
	return names
}
