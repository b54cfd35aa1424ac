package runner_test

import (
	"context"
	"errors"
	"iter"
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
	"github.com/agentarbor/arbor/tools"
)

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
		s, err := r.Sample(ctx, s1, seq, "support")
		require.NoError(t, err)
		require.Equal(t, "Let me see.", s.Text)
		require.Equal(t, llm.RoleAssistant, s.Role)
		require.Equal(t, "Who knows.", s.Parts[0].(llm.Reasoning).Text)
		require.Equal(t, "lookup", s.Parts[1].(llm.ToolCall).Name)
		require.Equal(t, llm.FinishToolCalls, s.Finish)
		require.Equal(t, 7, s.Usage.InputTokens)
		require.Equal(t, "support", s.Model)
		preview, err := r.PreviewAt(ctx, s1, seq, "support")
		require.NoError(t, err)
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
	s, err := r.Sample(context.Background(), s1, 2, "support")
	require.NoError(t, err)
	require.Equal(t, "billing", s.Text)
	require.Equal(t, []string{"decider"}, listens.models)
}
