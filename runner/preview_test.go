package runner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/view"
)

// TestPreviewIsWhatIsSent: before each step that asks a model, the agent's preview
// is the request that is then sent, also where the instructions are made from
// what the turn is about, and before the target of a transfer has started.
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
				return must.Get(llmagent.New(name, "", scripted.Func(name, func(req *llm.Request) scripted.Answer {
					sent, sender = req, name
					answer := answers[0]
					answers = answers[1:]
					return answer
				}), append(opts, about)...))
			}
			lookup := lookupTool(t, "found")
			billing := made("billing", seq(scripted.Reply(scripted.Text("One moment."), scripted.Call("lookup", "{}")), scripted.Reply(scripted.Text("Done.")), scripted.Reply(scripted.Text("Again."))),
				llmagent.WithTools(lookup), llmagent.WithHistory(view.LastTurns(1)))
			root := made("support", seq(scripted.Reply(scripted.Call("lookup", "{}")), scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing","input":{"order":7}}`))),
				llmagent.WithTools(lookup), llmagent.WithSubAgents(agent.Via(billing, agent.WithTransferInput[refundCase]())))
			store := sessiontest.Memory(t)
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
				_, _, err := process().Begin(ctx, s1, llm.UserText(text))
				require.NoError(t, err)
				for done := false; !done; {
					previews := make(map[string]*runner.Preview)
					for n := range r.Tree().Walk() {
						previews[n.Agent.Name()], err = process().Preview(ctx, s1, n.Agent.Name())
						require.NoError(t, err)
					}
					sent = nil
					_, done, err = over(process().Advance(ctx, s1, runner.Step{Attempt: 1}))
					require.NoError(t, err)
					if sent != nil {
						senders = append(senders, sender)
						preview := previews[sender]
						require.Equal(t, llm.CountRequest(preview.Request, nil), preview.Tokens)
						require.Equal(t, sent, preview.Request, "request %d", len(senders))
					}
				}
			}
			require.Equal(t, []string{"support", "support", "billing", "billing", "billing"}, senders)
		})
	}
}

// TestPreviewsThatCannotBe: an agent's own functions may fail here, too, and the
// session continues all the same.
func TestPreviewsThatCannotBe(t *testing.T) {
	broken := true
	boom := errors.New("boom")
	moody := func(fails func() (string, error)) llmagent.Option {
		return llmagent.WithInstructionFunc(func(context.Context, *agent.Invocation) (string, error) {
			if broken {
				return fails()
			}
			return "Be kind.", nil
		})
	}
	root := says(t, "root", "Hello.", llmagent.WithSubAgents(
		says(t, "panics", "", moody(func() (string, error) { panic("no words") })),
		says(t, "fails", "", moody(func() (string, error) { return "", boom })),
		function(t, "function", func(context.Context, *agent.Invocation) iterSeq { return yields() })))
	r := newRun(t, root)
	run(t, r, s1, "Hi")
	ctx := context.Background()

	_, err := r.Preview(ctx, s1, "nobody")
	require.ErrorContains(t, err, `"nobody"`)
	preview := must.Get(r.Preview(ctx, s1, "function"))
	require.Nil(t, preview, "it has no model")
	_, err = r.Preview(ctx, s1, "fails")
	require.ErrorIs(t, err, boom)
	_, err = r.Preview(ctx, s1, "panics")
	var failed *agent.RunError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, agent.RunError{Agent: "panics", Code: event.CodeInternal, Err: failed.Err}, *failed)

	broken = false
	for _, name := range []string{"fails", "panics", "root"} {
		preview = must.Get(r.Preview(ctx, s1, name))
		require.Len(t, preview.Messages, 2, name)
	}
	run(t, r, s1, "And now?")
}
