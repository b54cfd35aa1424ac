package workflowagent_test

import (
	"context"
	"encoding/json"
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
	"github.com/agentarbor/arbor/workflowagent"
)

// asks makes an agent whose model calls a tool that needs an approval.
func (c *calls) asks(t testing.TB, name string) agent.Agent {
	t.Helper()
	pay := must.Get(tools.New(tools.Info{ToolSpec: llm.ToolSpec{Name: "pay"}, Approval: tools.Ask}, func(ctx tools.Context, _ json.RawMessage) (any, error) {
		c.note("pay")
		return "paid", nil
	}))
	return must.Get(llmagent.New(name, "", scripted.Func(name, func(req *llm.Request) scripted.Answer {
		c.note(name)
		if last := req.Messages[len(req.Messages)-1]; last.Role != llm.RoleTool {
			return scripted.Reply(scripted.Call("pay", "{}"))
		}
		return scripted.Reply(scripted.Text("It is paid."))
	}), llmagent.WithTools(pay)))
}

// TestPauses: what stands beside a child that waits ends, the question names the
// workflows around it, and another process goes on at that child.
func TestPauses(t *testing.T) {
	for name, tree := range map[string]struct {
		build  func(c *calls) agent.Agent
		within []string
		before []string // ran until the question, in any order
		after  []string // ran since
		output string
	}{
		"in turn": {func(c *calls) agent.Agent {
			return sequential(t, "line", []agent.Agent{c.adds(t, "a"), c.asks(t, "payer"), c.adds(t, "b")})
		}, []string{"line", "payer"}, []string{"a", "payer"}, []string{"pay", "payer", "b"}, `"It is paid. b"`},
		"side by side": {func(c *calls) agent.Agent {
			return parallel(t, "wide", []agent.Agent{c.adds(t, "a"), c.asks(t, "payer"), c.adds(t, "b")})
		}, []string{"wide", "payer"}, []string{"a", "b", "payer"}, []string{"pay", "payer"}, `{"a":"go a","payer":"It is paid.","b":"go b"}`},
		"one in another, and in a loop": {func(c *calls) agent.Agent {
			wide := parallel(t, "wide", []agent.Agent{sequential(t, "line", []agent.Agent{c.asks(t, "payer"), c.adds(t, "a")}), c.adds(t, "b")})
			return loop(t, "again", []agent.Agent{wide, c.adds(t, "c")}, workflowagent.WithLimit(1))
		}, []string{"again", "wide", "line", "payer"}, []string{"b", "payer"}, []string{"pay", "payer", "a", "c"}, `"{\"line\":\"It is paid. a\",\"b\":\"go b\"} c"`},
	} {
		t.Run(name, func(t *testing.T) {
			store := sessiontest.Memory(t)
			first, second := &calls{}, &calls{}
			log := must.Get(say(t, newRunner(t, tree.build(first), store), store, "go"))
			require.ElementsMatch(t, tree.before, first.made)
			relays := find[*event.Relay](log)
			require.Len(t, relays, 1)
			require.Equal(t, tree.within[:len(tree.within)-1], relays[0].Within)
			require.Empty(t, said(log))

			r := newRunner(t, tree.build(second), store)
			must.All(sessiontest.Turn(t, r.Resume(context.Background(), key, runner.Approve(relays[0].ToolCallID))))
			require.ElementsMatch(t, tree.after, second.made)
			require.Equal(t, tree.output, string(output(t, logOf(t, store))))
		})
	}
}

// TestTwoQuestions: of two that wait, the one that was answered goes on, and the workflow
// waits for the other.
func TestTwoQuestions(t *testing.T) {
	store, c := sessiontest.Memory(t), &calls{}
	r := newRunner(t, parallel(t, "wide", []agent.Agent{c.asks(t, "one"), c.asks(t, "two")}), store)
	log := must.Get(say(t, r, store, "go"))
	relays := find[*event.Relay](log)
	require.Len(t, relays, 2)
	for i, relay := range relays {
		require.Equal(t, i, len(ends(logOf(t, store), relay.Within[0]))-1, "it waits once more")
		must.All(sessiontest.Turn(t, r.Resume(context.Background(), key, runner.Approve(relay.ToolCallID))))
	}
	require.Equal(t, `{"one":"It is paid.","two":"It is paid."}`, string(output(t, logOf(t, store))))
	paid := 0
	for _, made := range c.made {
		if made == "pay" {
			paid++
		}
	}
	require.Equal(t, 2, paid)
}
