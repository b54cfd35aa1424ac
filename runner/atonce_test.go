package runner_test

import (
	"context"
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
)

// ready can start at once, and says so only when it is asked.
type ready struct{ agent.Agent }

func (ready) Ready(context.Context) error { return nil }

// TestATransferIsPartOfTheAnswer: a transfer that nobody has to be asked about is one write
// with the answer that asks for it; else the answer is stored first.
func TestATransferIsPartOfTheAnswer(t *testing.T) {
	const (
		begun    = "user harness_start"
		handed   = "tool_result transfer harness_end harness_start"
		finished = "text usage harness_end"
	)
	atOnce := []string{begun, "tool_call usage " + handed, finished}
	before := []string{begun, "tool_call usage", handed, finished}
	call := scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`)
	for name, c := range map[string]struct {
		answer []scripted.Item
		target func(agent.Agent) agent.Agent
		agent  []llmagent.Option
		runner []runner.Option
		wrote  []string
	}{
		"a call alone":    {wrote: atOnce},
		"words beside it": {answer: []scripted.Item{scripted.Text("One moment."), call}, wrote: []string{begun, "text tool_call usage " + handed, finished}},
		"an interceptor":  {runner: []runner.Option{runner.WithInterceptors(agent.Passthrough{})}, wrote: before},
		"a guard":         {agent: []llmagent.Option{llmagent.WithGuards(agent.Guard{Name: "none"})}, wrote: before},
		"another's guard": {target: func(agent.Agent) agent.Agent {
			return says(t, "billing", "Hi.", llmagent.WithGuards(agent.Guard{Name: "none"}))
		}, wrote: atOnce},
		"it must be ready": {target: func(a agent.Agent) agent.Agent { return ready{a} }, wrote: before},
		"two calls": {answer: []scripted.Item{call, call},
			wrote: []string{begun, "tool_call tool_call usage", "tool_result tool_result transfer harness_end harness_start", finished}},
		"one call is left": {runner: []runner.Option{runner.WithLimits(runner.Limits{ToolCalls: 1})}, wrote: atOnce},
	} {
		t.Run(name, func(t *testing.T) {
			if c.answer == nil {
				c.answer = []scripted.Item{call}
			}
			var billing agent.Agent = says(t, "billing", "Hi.")
			if c.target != nil {
				billing = c.target(billing)
			}
			s := scripted.New().Add("support", scripted.Reply(c.answer...))
			support := must.Get(llmagent.New("support", "", s.Model("support"), append(c.agent, llmagent.WithSubAgents(billing))...))
			store := &batches{Store: sessiontest.Memory(t)}
			run(t, newRunner(t, support, store, c.runner...), s1, "Go")
			require.Equal(t, c.wrote, store.wrote)
		})
	}
}

// TestATransferBeyondTheLimitOfCalls: a transfer counts as a call of a tool also where it
// would be stored with its answer.
func TestATransferBeyondTheLimitOfCalls(t *testing.T) {
	s := scripted.New().Add("support", handsOver("billing"), handsOver("billing"))
	s.Add("billing", handsOver("support", "Not mine."))
	policy := llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})
	billing := must.Get(llmagent.New("billing", "", s.Model("billing"), policy))
	support := must.Get(llmagent.New("support", "", s.Model("support"), policy, llmagent.WithSubAgents(billing)))
	r := newRun(t, support, runner.WithLimits(runner.Limits{ToolCalls: 2}))
	events, err := collect(r.Run(t.Context(), s1, llm.UserText("Go")))
	require.ErrorIs(t, err, agent.ErrLimit)
	transfers := 0
	for _, e := range events {
		if _, ok := e.Data.(*event.Transfer); ok {
			transfers++
		}
	}
	require.Equal(t, 2, transfers)
}

// TestWordsBesideATransferAreNoBounce: what is said in the answer that asks for a transfer counts,
// whether the answer is stored by then or not.
func TestWordsBesideATransferAreNoBounce(t *testing.T) {
	answer := scripted.Reply(scripted.Text("Done."))
	for name, c := range map[string]struct {
		back   scripted.Answer
		bounce bool
	}{
		"nothing was said": {handsOver("support"), true},
		"words beside it":  {handsOver("support", "Just a moment."), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted.New().Add("support", handsOver("billing"), handsOver("billing")).Add("billing", c.back)
			s.Add(map[bool]string{true: "support", false: "billing"}[c.bounce], answer)
			policy := llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})
			billing := must.Get(llmagent.New("billing", "", s.Model("billing"), policy))
			support := must.Get(llmagent.New("support", "", s.Model("support"), policy, llmagent.WithSubAgents(billing)))
			r := newRun(t, support)
			events := run(t, r, s1, "Go")
			refused := false
			for _, e := range events {
				d, ok := e.Data.(*event.Transfer)
				refused = refused || ok && d.Outcome == event.TransferRejected
			}
			require.Equal(t, c.bounce, refused)
			require.NoError(t, s.Done())
		})
	}
}
