package replay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// Each change is found in the first request that it changes.
func TestChangesAreFound(t *testing.T) {
	l := long(t, 4)
	more, err := tools.Func("more", "Says more.", func(tools.Context, struct{}) (string, error) { return "", nil })
	require.NoError(t, err)
	model := unasked{t, "m"}
	old := shop(t, model, "Orders")
	tree := func(about string, opts ...llmagent.Option) agent.Agent { return shop(t, model, about, opts...) }
	for name, tt := range map[string]struct {
		tree  agent.Agent
		turn  int
		agent string
		parts []string
	}{
		"description": {tree("Invoices"), 1, "support", []string{"system", "tools"}},
		"tool":        {tree("Orders", llmagent.WithTools(more)), 1, "billing", []string{"tools"}},
		"view":        {tree("Orders", llmagent.WithHistory(view.LastTurns(1))), 3, "billing", []string{"messages"}},
		"model":       {shop(t, unasked{t, "n"}, "Orders"), 1, "support", []string{"model"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Play(t.Context(), l, tt.tree)
			require.NoError(t, err)
			require.True(t, r.Same(), "the log alone does not show it: %s", told(t, r))
			r, err = Play(t.Context(), l, tt.tree, Against(old))
			require.NoError(t, err)
			require.NotNil(t, r.Difference, told(t, r))
			require.Equal(t, []any{kindRequest, tt.turn, tt.agent}, []any{r.Difference.Kind, r.Difference.Turn, r.Difference.Agent}, told(t, r))
			var parts []string
			for _, c := range r.Difference.Changes {
				parts = append(parts, c.Part)
			}
			require.Equal(t, tt.parts, parts)
		})
	}
}

// Beyond the first difference the models are asked, and calls get what the log has for the same call; one that it does not
// have is not run.
func TestLiveRunsNoTool(t *testing.T) {
	l := long(t, 2)
	play := func(answers ...scripted.Answer) *Result {
		r, err := Play(t.Context(), l, shop(t, scripted.New().Add("m", answers...).Model("m"), "Invoices"), Against(shop(t, unasked{t, "m"}, "Orders")), Live())
		require.NoError(t, err)
		require.Equal(t, []string{"support", "billing"}, r.Difference.Route)
		return r
	}
	over := scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`))
	r := play(over, scripted.Reply(scripted.Call("lookup", `{"id": 7}`)), scripted.Reply(scripted.Text("Shipped.")))
	require.Nil(t, r.Stopped)
	require.False(t, r.Difference.Open)
	require.Equal(t, [2]int{3, 1}, [2]int{r.Requests, r.Tools})
	for _, again := range []llm.ToolCall{{Arguments: `{"id":8}`}, {Arguments: `{"id":7}`}} {
		r = play(over, scripted.Reply(scripted.Call("lookup", `{"id":7}`)), scripted.Reply(scripted.Call("lookup", again.Arguments)))
		require.Contains(t, r.Stopped.Reason, "has no recorded result, and no tool is run", again.Arguments)
		require.True(t, r.Difference.Open)
	}
	r = play(over)
	require.Contains(t, r.Stopped.Reason, "continuing the turn fails", "a model that does not answer is said")
}

// payer is a tool that pays before it runs an agent.
type payer struct {
	tools.Tool
	clerk agent.Agent
}

func (p payer) InnerAgents() []agent.Agent { return []agent.Agent{p.clerk} }

// TestHostsWithEffectsDoNotRun: a tool that runs agents and does something else besides is not called.
func TestHostsWithEffectsDoNotRun(t *testing.T) {
	paid := 0
	tree := func(m llm.Model) agent.Agent {
		clerk, err := llmagent.New("clerk", "You write receipts.", m)
		require.NoError(t, err)
		pay, err := tools.Func("pay", "Pays.", func(ctx tools.Context, _ struct{}) (string, error) {
			paid++
			return ctx.RunAgent(clerk, "Write it.")
		})
		require.NoError(t, err)
		root, err := llmagent.New("till", "", m, llmagent.WithTools(payer{pay, clerk}))
		require.NoError(t, err)
		return root
	}
	store := sessiontest.Memory(t)
	model := scripted.New().Add("m", scripted.Reply(scripted.Call("pay", `{}`)), scripted.Reply(scripted.Text("A receipt.")), scripted.Reply(scripted.Text("Paid."))).Model("m")
	r, err := runner.New(tree(model), store)
	require.NoError(t, err)
	_, err = runner.Collect(r.Run(t.Context(), key, llm.UserText("pay")))
	require.NoError(t, err)
	require.Equal(t, 1, paid)
	result, err := Play(t.Context(), read(t, store), tree(unasked{t, "m"}))
	require.NoError(t, err)
	require.Equal(t, 1, paid, told(t, result))
}

// A function that asks a model, and gets calls instead of the text that it needs, is played to the end.
func TestAnswerWithoutText(t *testing.T) {
	tree := func(m llm.Model) agent.Agent {
		desk, err := llmagent.Func("desk", "Answers.", func(s *llmagent.Step) error {
			if _, err := s.Ask(m, "Answer."); err != nil {
				return s.Say("I cannot say.")
			}
			return nil
		})
		require.NoError(t, err)
		return desk
	}
	store := sessiontest.Memory(t)
	r, err := runner.New(tree(scripted.Always("m", scripted.Reply(scripted.Call("lookup", `{}`)))), store)
	require.NoError(t, err)
	_, err = runner.Collect(r.Run(t.Context(), key, llm.UserText("hello")))
	require.NoError(t, err)
	result, err := Play(t.Context(), read(t, store), tree(unasked{t, "m"}))
	require.NoError(t, err)
	require.True(t, result.Same(), told(t, result))
	require.Equal(t, 1, result.Requests)
}

// What a replay allocates grows with the turns, not with their square.
func TestPlayIsLinear(t *testing.T) {
	allocated := func(turns int) float64 {
		l, old, now := long(t, turns), shop(t, unasked{t, "m"}, "Orders"), shop(t, unasked{t, "m"}, "Orders")
		return race.Allocations(t, 1, func() {
			r, err := Play(t.Context(), l, now, Against(old))
			require.NoError(t, err)
			require.True(t, r.Same())
		}) / float64(turns)
	}
	require.InEpsilon(t, allocated(50), allocated(400), 0.15)
}

// shop is a tree in which the conversation goes to billing, which looks something up in each turn.
func shop(t testing.TB, model llm.Model, about string, more ...llmagent.Option) agent.Agent {
	lookup, err := tools.Func("lookup", "Looks an order up.", func(tools.Context, struct {
		ID int `json:"id"`
	}) (string, error) {
		return "shipped", nil
	})
	require.NoError(t, err)
	billing, err := llmagent.New("billing", "You handle orders.", model, append([]llmagent.Option{llmagent.WithDescription(about), llmagent.WithTools(lookup)}, more...)...)
	require.NoError(t, err)
	support, err := llmagent.New("support", "You find who helps.", model, llmagent.WithSubAgents(billing))
	require.NoError(t, err)
	return support
}

// long returns the log of a session of so many turns of one call each.
func long(t testing.TB, turns int) *Log {
	script := scripted.New().Func("m", func(req *llm.Request) scripted.Answer {
		last := req.Messages[len(req.Messages)-1]
		switch {
		case !slices.ContainsFunc(req.Tools, func(t llm.ToolSpec) bool { return t.Name == "lookup" }):
			return scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`))
		case last.Role == llm.RoleTool:
			return scripted.Reply(scripted.Text("It was shipped."))
		}
		return scripted.Reply(scripted.Call("lookup", `{"id":7}`))
	})
	store := session.NewMemory()
	r, err := runner.New(shop(t, script.Model("m"), "Orders"), store)
	require.NoError(t, err)
	for i := range turns {
		for _, err := range r.Run(t.Context(), key, llm.UserText(fmt.Sprintf("Where is my order %d?", i))) {
			require.NoError(t, err)
		}
	}
	return read(t, store)
}
