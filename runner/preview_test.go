package runner_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/view"
)

// TestPreviewIsWhatIsSent: before each step that asks a model of an agent whose
// run is open, the agent's preview is the request that is then sent, also where
// the instructions are made from what the turn is about. Before a target has
// started, its instructions know nothing of the turn yet, but the rest is sent.
func TestPreviewIsWhatIsSent(t *testing.T) {
	for name, cold := range map[string]bool{"warm": false, "in a process of its own": true} {
		t.Run(name, func(t *testing.T) {
			var sent *llm.Request
			var sender string
			about := llmagent.WithInstructionFunc(func(_ context.Context, inv *agent.Invocation) (string, error) {
				in, ok, err := agent.InputOf[refundCase](inv)
				return fmt.Sprintf("The user says: %s Order %d, %v.", inv.Message().PlainText(), in.Order, ok), err
			})
			made := func(name string, answers []scripted.Answer, opts ...llmagent.Option) *llmagent.Agent {
				a, err := llmagent.New(name, "", scripted.Func(name, func(req *llm.Request) scripted.Answer {
					sent, sender = req, name
					answer := answers[0]
					answers = answers[1:]
					return answer
				}), append(opts, about)...)
				require.NoError(t, err)
				return a
			}
			lookup := lookupTool(t, "found")
			billing := made("billing", seq(scripted.Reply(scripted.Text("One moment."), scripted.Call("lookup", "{}")), scripted.Reply(scripted.Text("Done.")), scripted.Reply(scripted.Text("Again."))),
				llmagent.WithTools(lookup), llmagent.WithHistory(view.LastTurns(1)))
			root := made("support", seq(scripted.Reply(scripted.Call("lookup", "{}")), scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing","input":{"order":7}}`))),
				llmagent.WithTools(lookup), llmagent.WithSubAgents(agent.Via(billing, agent.WithTransferInput[refundCase](), agent.ShowReason())))
			store := session.NewMemory()
			r := newRunner(t, root, store)
			process := func() *runner.Runner {
				if cold {
					r = newRunner(t, root, store)
				}
				return r
			}
			ctx := context.Background()
			var senders []string
			for _, text := range []string{"Refund 7.", "And now?"} {
				_, err := process().Begin(ctx, s1, llm.UserText(text))
				require.NoError(t, err)
				for done := false; !done; {
					history := load(t, r, s1)
					open := history[len(history)-1].Type() != agent.TypeHarnessEnd
					previews := make(map[string]*runner.Preview)
					for n := range r.Tree().Walk() {
						previews[n.Agent.Name()], err = process().Preview(ctx, s1, n.Agent.Name())
						require.NoError(t, err)
					}
					sent = nil
					_, done, err = process().Advance(ctx, s1, 1)
					require.NoError(t, err)
					if sent != nil {
						senders = append(senders, sender)
						preview := previews[sender]
						require.Equal(t, llm.CountRequest(preview.Request, nil), preview.Tokens)
						if !open {
							preview.System = sent.System
						}
						require.Equal(t, sent, preview.Request, "request %d", len(senders))
					}
				}
			}
			require.Equal(t, []string{"support", "support", "billing", "billing", "billing"}, senders)
			checkLog(t, r, load(t, r, s1))
		})
	}
}
