package replay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

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

// What a replay allocates grows with the turns, not with their square.
func BenchmarkPlay(b *testing.B) {
	for _, turns := range []int{100, 1000} {
		l := long(b, turns)
		for name, opts := range map[string]func() []Option{
			"log":      func() []Option { return nil },
			"requests": func() []Option { return []Option{Against(shop(b, unasked{b, "m"}, "Orders"))} },
		} {
			b.Run(fmt.Sprintf("%s/turns=%d", name, turns), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r, err := Play(b.Context(), l, shop(b, unasked{b, "m"}, "Orders"), opts()...)
					require.NoError(b, err)
					require.True(b, r.Same())
					require.Equal(b, [3]int{turns, 2*turns + 1, turns}, [3]int{r.Turns, r.Requests, r.Tools})
				}
			})
		}
	}
}
