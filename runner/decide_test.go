package runner_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// decidingDesk is support, whose model small decides who answers, and billing.
func decidingDesk(t testing.TB, script string, opts ...llmagent.Option) (agent.Agent, *scripted.Script) {
	s := must.Get(scripted.Parse([]byte(script)))
	return deskOf(t, s, opts...), s
}

func deskOf(t testing.TB, s *scripted.Script, opts ...llmagent.Option) agent.Agent {
	billing := must.Get(llmagent.New("billing", "", checked{s.Model("billing")}))
	return must.Get(llmagent.New("support", "", checked{s.Model("support")},
		append([]llmagent.Option{llmagent.WithDecision(checked{s.Model("small")}), llmagent.WithSubAgents(billing)}, opts...)...))
}

// kinds are the types of the stored events, those of notices and discards with their
// codes.
func kinds(events []*event.Event) (all []string) {
	for _, e := range events {
		switch d := e.Data.(type) {
		case *event.Notice:
			all = append(all, "notice "+d.Code)
		case *event.Discard:
			all = append(all, "discard "+d.Code)
		default:
			all = append(all, e.Type())
		}
	}
	return all
}

// TestAFailedDecision leaves it to the agent's own model, which then has the tool.
func TestAFailedDecision(t *testing.T) {
	for name, c := range map[string]struct {
		small string
		want  []string
	}{
		"at once":         {"small: fault=status:503", []string{"notice undecided"}},
		"refused":         {"small: fault=bad_request", []string{"notice undecided"}},
		"broken off":      {"small: \"{\" fault=cut\nsmall: fault=cut", []string{"discard truncated", "discard truncated", "notice undecided"}},
		"in the middle":   {"small: \"{\" fault=unauthorized", []string{"discard unauthorized", "notice undecided"}},
		"whole, and none": {"small: \"nobody\" usage=5/1", []string{"notice undecided", "usage"}},
		"cut by length":   {"small: \"{\" finish=length usage=5/1", []string{"notice undecided", "usage"}},
		"empty":           {"small: usage=5/1", []string{"notice undecided", "usage"}},
		"filtered":        {"small: finish=content_filter", []string{"notice undecided", "usage"}},
	} {
		t.Run(name, func(t *testing.T) {
			root, script := decidingDesk(t, c.small+"\nsupport: expect tools transfer_to_agent \"I answer.\"")
			r := newRun(t, root)
			events := run(t, r, s1, "Hi")
			require.Equal(t, slices.Concat([]string{"user", "harness_start"}, c.want, []string{"text", "usage", "harness_end"}), kinds(events))
			require.NoError(t, script.Done())
		})
	}
	root, script := decidingDesk(t, "small: \"bil\" fault=cut\nsmall: \"billing\" usage=7/1\nbilling: \"Hello.\"")
	events := run(t, newRun(t, root), s1, "Hi")
	require.Equal(t, []string{"user", "harness_start", "discard truncated", "tool_call", "usage"}, kinds(events)[:5], "it is asked once more")
	require.Equal(t, &event.Usage{InputTokens: 7, OutputTokens: 1, Model: "small"}, events[4].Data)
	require.NoError(t, script.Done())
}

// TestADecisionIsAModelCall of the agent, towards limits and budgets.
func TestADecisionIsAModelCall(t *testing.T) {
	const script = "small: always \"support\" usage=390/10\nsupport: always \"I answer.\" usage=100/10"
	priced := runner.WithPrices(llm.Prices{"support": {Input: 1}, "billing": {Input: 1}}) // and not small
	begin := []string{"user", "harness_start", "notice decided", "usage", "error", "harness_end"}
	for name, c := range map[string]struct {
		opts []runner.Option
		want []string
	}{
		"model calls":          {[]runner.Option{runner.WithLimits(runner.Limits{ModelCalls: 1})}, begin},
		"steps":                {[]runner.Option{runner.WithLimits(runner.Limits{Steps: 1})}, begin},
		"a turn's budget":      {[]runner.Option{runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: 400}})}, begin},
		"the agent's budget":   {[]runner.Option{runner.WithBudgets(runner.Budgets{Agents: map[string]runner.Budget{"support": {Tokens: 400}}})}, begin},
		"ends at the question": {[]runner.Option{runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: 1}})}, []string{"user", "harness_start", "error", "harness_end"}},
		"without a price":      {[]runner.Option{priced, runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Cost: 1}})}, []string{"user", "harness_start", "error", "harness_end"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := must.Get(scripted.Parse([]byte(script)))
			short := llmagent.DecisionSettings(func(s *llm.Settings) { s.MaxTokens = 1 }) // which are reserved
			root := deskOf(t, s, llmagent.WithDecision(s.Model("small"), short))
			r := newRun(t, root, c.opts...)
			events, err := say(r, s1, "Hi")
			require.True(t, errors.Is(err, agent.ErrLimit) || errors.Is(err, agent.ErrUnknownPrice), "%v", err)
			require.Equal(t, c.want, kinds(events))
		})
	}
}

// TestACanceledDecision leaves nothing behind, and is asked for again.
func TestACanceledDecision(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := scripted.New().
		Add("small", scripted.Reply(scripted.Wait(func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() })), scripted.Reply(scripted.Text("billing"))).
		Add("billing", scripted.Reply(scripted.Text("Hello.")))
	root := deskOf(t, s)
	r := newRun(t, root)
	events, err := collect(r.Run(ctx, s1, llm.UserText("Hi")))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"user", "harness_start"}, kinds(events))
	events = finish(t, r.Resume(context.Background(), s1))
	who, _ := lastText(events)
	require.Equal(t, "billing", who)
	require.NoError(t, s.Done())
}

// TestARecordedDecisionIsNotAskedForAgain, by a process that knows only the log.
func TestARecordedDecisionIsNotAskedForAgain(t *testing.T) {
	for script, want := range map[string]string{
		"small: \"billing\"\nbilling: \"Hello.\"":                             "billing",
		"small: \"support\"\nsupport: expect tools none \"Hello.\"":           "support",
		"small: \"none\"\nsupport: expect tools transfer_to_agent \"Hello.\"": "support",
	} {
		root, s := decidingDesk(t, script)
		store := sessiontest.Memory(t)
		r := newRunner(t, root, store)
		for e, err := range r.Run(context.Background(), s1, llm.UserText("Hi")) {
			require.NoError(t, err)
			if e.Type() == event.TypeUsage {
				break
			}
		}
		fresh := newRunner(t, root, store)
		events := finish(t, fresh.Resume(context.Background(), s1))
		who, text := lastText(events)
		require.Equal(t, want+": Hello.", who+": "+text)
		require.NoError(t, s.Done())
	}
}

// TestApprovalOfADecision: it waits like a call of the model's, and after a no the
// agent's own model goes on.
func TestApprovalOfADecision(t *testing.T) {
	for _, approve := range []bool{true, false} {
		script := "small: \"billing\"\nbilling: \"Hello.\""
		if !approve {
			script = "small: \"billing\"\nsupport: expect tools transfer_to_agent expect result \"not now\" \"Then I answer.\""
		}
		root, s := decidingDesk(t, script, llmagent.WithTransferApproval())
		r := newRun(t, root)
		events := run(t, r, s1, "Hi")
		require.Equal(t, []string{"user", "harness_start", "tool_call", "usage", "relay", "harness_end"}, kinds(events))
		decision := runner.Approve(events[2].ID)
		if !approve {
			decision = runner.Deny(events[2].ID, "not now")
		}
		events = finish(t, r.Resume(context.Background(), s1, decision))
		who, _ := lastText(events)
		require.Equal(t, map[bool]string{true: "billing", false: "support"}[approve], who)
		require.NoError(t, s.Done())
	}
}

// TestGuardsOfADecision: what comes in is checked before anybody decides about it, and the
// question to the user is checked as the agent's words.
func TestGuardsOfADecision(t *testing.T) {
	refuses := agent.Guard{Name: "none", In: func(context.Context, *agent.Invocation, agent.Ingress) error { return errGuard }}
	root, s := decidingDesk(t, "", llmagent.WithGuards(refuses))
	events, err := say(newRun(t, root), s1, "Hi")
	require.ErrorIs(t, err, errGuard)
	require.Equal(t, []string{"user", "harness_start", "error", "harness_end"}, kinds(events))
	require.NoError(t, s.Done())

	mute := agent.Guard{Name: "mute", Out: func(context.Context, *agent.Invocation, string) error { return errGuard }}
	root, s = decidingDesk(t, `small: likely "billing" 0.29 {"support": 0.71} usage=9/1`, llmagent.WithGuards(mute))
	events, err = say(newRun(t, root), s1, "Hi")
	require.ErrorIs(t, err, errGuard)
	require.NotContains(t, kinds(events), "text")
	require.Contains(t, kinds(events), "usage", "it was paid for")
	require.NoError(t, s.Done())
}

// TestADecisionInAnInnerScope asks no user: there the likeliest name counts.
func TestADecisionInAnInnerScope(t *testing.T) {
	const hello = "\nbilling: \"Hello.\""
	inner, s := decidingDesk(t, "small: likely \"billing\" 0.29 {\"support\": 0.71}\nouter: call ask {\"input\": \"Hi\"}\nouter: \"Done.\""+hello)
	ask := must.Get(agenttool.New(inner, agenttool.WithName("ask")))
	outer := must.Get(llmagent.New("outer", "", s.Model("outer"), llmagent.WithTools(ask)))
	node, nodeScript := decidingDesk(t, "small: likely \"billing\" 0.29 {\"desk\": 0.71}"+hello) // the agent has the node's name
	g := must.Get(agentgraph.NewBuilder("g").Node("desk", node).Entrypoint("desk").Build())
	for _, root := range []agent.Agent{outer, g} {
		events := run(t, newRun(t, root), s1, "Hi")
		i := slices.IndexFunc(events, func(e *event.Event) bool { d, ok := e.Data.(*event.Transfer); return ok && d.To == "billing" })
		require.Positive(t, i)
		require.Equal(t, "decided with a confidence of 0.29; the target asks again", events[i].Data.(*event.Transfer).Reason)
		require.NotEmpty(t, events[i].Scope)
	}
	require.NoError(t, s.Done())
	require.NoError(t, nodeScript.Done())
}

// TestADecisionThatCannotBeCarriedOut is answered as a call is, and the agent's own model
// goes on, with the targets that are left.
func TestADecisionThatCannotBeCarriedOut(t *testing.T) {
	s := scripted.New().Add("support", scripted.Reply(scripted.ExpectTools("transfer_to_agent"), scripted.ExpectResult("unplugged"), scripted.Text("Then I answer.")))
	decides := llmagent.WithDecision(scripted.Always("small", scripted.Reply(scripted.Text("away"))))
	away := unready{function(t, "away", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] { return nil })}
	root := must.Get(llmagent.New("support", "", s.Model("support"), decides, llmagent.WithSubAgents(away)))
	events := run(t, newRun(t, root), s1, "Hi")
	who, _ := lastText(events)
	require.Equal(t, "support", who)
	require.NoError(t, s.Done())

	// Beyond the limit no transfer is offered any more.
	deep, script := tree(t, "support decide\n  desk decide\n    billing", `
support: "{\"agent\": \"billing\"}"
desk: "{\"agent\": \"billing\"}"
desk: expect tools none expect result "limit reached" "I answer."`)
	run(t, newRun(t, deep, runner.WithLimits(runner.Limits{Transfers: 1})), s1, "Hi")
	require.NoError(t, script.Done())

	// An input is for the agent's own model to give.
	script = scripted.New().Add("support", scripted.Reply(scripted.ExpectTools("transfer_to_agent"), scripted.Call(agent.TransferTool, `{"agent_name":"billing","input":{"n":1}}`))).
		Add("billing", scripted.Reply(scripted.Text("Hello.")))
	billing := must.Get(llmagent.New("billing", "", script.Model("billing")))
	root = must.Get(llmagent.New("support", "", script.Model("support"), llmagent.WithDecision(scripted.Always("small", scripted.Reply(scripted.Text("billing")))),
		llmagent.WithSubAgents(agent.Via(billing, someInput))))
	events = run(t, newRun(t, root), s1, "Hi")
	require.Contains(t, kinds(events), "notice undecided")
	require.NoError(t, script.Done())
}
