package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
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
						previews[n.Agent.Name()] = must.Get(process().Preview(ctx, s1, n.Agent.Name()))
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
	failed := must.As[*agent.RunError](err)
	require.Equal(t, agent.RunError{Agent: "panics", Code: event.CodeInternal, Err: failed.Err}, *failed)

	broken = false
	for _, name := range []string{"fails", "panics", "root"} {
		preview = must.Get(r.Preview(ctx, s1, name))
		require.Len(t, preview.Messages, 2, name)
	}
	run(t, r, s1, "And now?")
}

// heard notes what models are asked.
type heard struct {
	agent.Passthrough
	requests []*llm.Request
	models   []string
}

func (h *heard) ModelCall(ctx context.Context, c agent.ModelCallInfo, next agent.ModelFunc) iter.Seq2[llm.Chunk, error] {
	h.requests, h.models = append(h.requests, c.Request), append(h.models, c.Model.Name())
	return next(ctx, c.Request)
}

// A sample is an answer to the request of the preview, by way of the interceptors. Nothing is
// stored and no tool runs.
func TestSample(t *testing.T) {
	ctx := context.Background()
	var answer scripted.Answer
	ran := 0
	lookup := must.Get(tools.Func("lookup", "Looks up.", func(tools.Context, struct{}) (string, error) { ran++; return "found", nil }))
	billing := must.Get(llmagent.New("billing", "", scripted.Always("thrifty", scripted.Reply(scripted.Text("It is paid.")))))
	idle := function(t, "idle", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] { return nil })
	root := must.Get(llmagent.New("support", "Help.", scripted.Func("support", func(*llm.Request) scripted.Answer { return answer }),
		llmagent.WithTools(lookup), llmagent.WithSubAgents(billing, idle)))
	store, listens := sessiontest.Memory(t), &heard{}
	r := newRunner(t, root, store, runner.WithInterceptors(listens), runner.WithBudgets(runner.Budgets{Agents: map[string]runner.Budget{"billing": {Tokens: 1}}, MissingUsage: runner.EstimateMissingUsage}))
	answer = scripted.Reply(scripted.Text("Hello."))
	log := run(t, r, s1, "hi")

	answer = scripted.Reply(scripted.Think("Who knows."), scripted.Text("Let me see."), scripted.Call("lookup", "{}"), scripted.Usage(7, 3, 0))
	for seq := int64(2); seq <= int64(len(log)); seq++ {
		listens.requests = nil
		s := must.Get(r.Sample(ctx, s1, seq, "support"))
		require.Equal(t, "Let me see.", s.Text)
		require.Equal(t, llm.RoleAssistant, s.Role)
		require.Equal(t, "Who knows.", s.Parts[0].(llm.Reasoning).Text)
		require.Equal(t, "lookup", s.Parts[1].(llm.ToolCall).Name)
		require.Equal(t, llm.FinishToolCalls, s.Finish)
		require.Equal(t, 7, s.Usage.InputTokens)
		require.Equal(t, "support", s.Model)
		preview := must.Get(r.PreviewAt(ctx, s1, seq, "support"))
		require.Equal(t, []*llm.Request{preview.Request}, listens.requests)
		require.Equal(t, "support", preview.Model.Name())
	}
	require.Zero(t, ran)
	after := finish(t, r.History(ctx, s1))
	require.Equal(t, log, after)

	answer = scripted.Reply(scripted.Status(503, 0))
	_, err := r.Sample(ctx, s1, 5, "support")
	require.ErrorAs(t, err, new(*llm.Error))
	var spent *agent.BudgetError
	_, err = r.Sample(ctx, s1, 5, "billing")
	require.ErrorAs(t, err, &spent)
	for _, of := range []struct {
		seq  int64
		name string
	}{{99, "support"}, {5, "nobody"}, {5, "idle"}} {
		_, err = r.Sample(ctx, s1, of.seq, of.name)
		require.ErrorIs(t, err, agent.ErrBadInput, of.name)
	}
	answer = scripted.Reply(scripted.Wait(func(context.Context) error { panic("out of order") }))
	_, err = r.Sample(ctx, s1, 5, "support")
	require.ErrorAs(t, err, new(*agent.RunError))
	stopped, stop := context.WithCancelCause(ctx)
	because := errors.New("nobody wants to know")
	answer = scripted.Reply(scripted.Wait(func(ctx context.Context) error { stop(because); return nil }), scripted.Text("Too late."))
	_, err = r.Sample(stopped, s1, 5, "support")
	require.Error(t, err)
}

// A question who answers is sampled from the model that is asked it.
func TestSampleOfADecision(t *testing.T) {
	decider := scripted.Always("decider", scripted.Reply(scripted.Text("billing")))
	billing := must.Get(llmagent.New("billing", "", scripted.Always("billing", scripted.Reply(scripted.Text("Paid.")))))
	root := must.Get(llmagent.New("support", "", scripted.Always("support", scripted.Reply(scripted.Text("Hello."))), llmagent.WithSubAgents(billing), llmagent.WithDecision(decider)))
	listens := &heard{}
	r := newRun(t, root, runner.WithInterceptors(listens))
	_, _, err := r.Begin(context.Background(), s1, llm.UserText("hi"))
	require.NoError(t, err)
	s := must.Get(r.Sample(context.Background(), s1, 2, "support"))
	require.Equal(t, "billing", s.Text)
	require.Equal(t, []string{"decider"}, listens.models)
}
