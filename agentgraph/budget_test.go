package agentgraph_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// spender answers with a thousand tokens each time.
func spender(t testing.TB, name string, opts ...llmagent.Option) agent.Agent {
	t.Helper()
	return must.Get(llmagent.New(name, "", scripted.Func(name, func(req *llm.Request) scripted.Answer {
		if len(req.Tools) > 0 && req.Messages[len(req.Messages)-1].Role != llm.RoleTool {
			input := `{"input":"Look."}`
			if req.Tools[0].Name == agent.TransferTool {
				input = `{"agent_name":"editor"}`
			}
			return scripted.Reply(scripted.Call(req.Tools[0].Name, input), scripted.Usage(900, 100, 0))
		}
		return scripted.Reply(scripted.Text("Done."), scripted.Usage(900, 100, 0))
	}), opts...))
}

// spenders is a graph with agents everywhere that one can be: two nodes share an
// agent, one asks an agent tool, one is a graph, and one hands over.
func spenders(t testing.TB) agent.Agent {
	t.Helper()
	tool := must.Get(agenttool.New(spender(t, "facts")))
	inner := must.Get(agentgraph.NewBuilder("review").Node("judge", spender(t, "critic")).Build())
	writer := spender(t, "writer")
	graph := must.Get(agentgraph.NewBuilder("article").
		Node("draft", writer).Node("final", writer).Node("check", spender(t, "checker", llmagent.WithTools(tool))).Node("verdict", inner).
		Node("print", spender(t, "printer", llmagent.WithSubAgents(spender(t, "editor")))).
		Edge("draft", "final").Edge("final", "check").Edge("check", "verdict").Edge("verdict", "print").Build())
	return graph
}

// TestBudgetsOfNodes: a budget finds an agent of a graph by the id of its node and by its
// own name, nodes that share an agent together, wherever the graph is.
func TestBudgetsOfNodes(t *testing.T) {
	wrapped := must.Get(agenttool.New(spenders(t)))
	for name, c := range map[string]struct {
		tokens int64
		turns  int    // that are answered
		at     string // the node whose model is not asked any more
	}{
		"draft":   {900, 1, "draft"},
		"final":   {900, 1, "final"},
		"writer":  {900, 0, "final"},
		"check":   {1900, 1, "check"},
		"checker": {1900, 1, "check"},
		"judge":   {900, 1, "judge"},
		"critic":  {900, 1, "judge"},
		"facts":   {900, 1, ""}, // an agent tool: the calling model reads why
		"editor":  {900, 1, "editor"},
		"printer": {900, 1, "print"},
	} {
		t.Run(name, func(t *testing.T) {
			budgets := runner.WithBudgets(runner.Budgets{Agents: map[string]runner.Budget{name: {Tokens: c.tokens}}})
			r := must.Get(runner.New(spenders(t), sessiontest.Memory(t), budgets))
			for range c.turns {
				_, err := say(r)
				require.NoError(t, err)
			}
			events, err := say(r)
			if c.at == "" {
				require.NoError(t, err)
			} else {
				var budget *agent.BudgetError
				require.ErrorAs(t, err, &budget)
				require.Equal(t, "the agent "+name, budget.Of)
			}
			at := make(map[string]string)
			for _, e := range events {
				if d, ok := e.Data.(*event.Failure); ok {
					at[e.Agent] = d.Code
				}
			}
			if c.at == "" {
				require.Equal(t, map[string]string{name: "budget"}, at)
			} else {
				require.Equal(t, "budget", at[c.at])
			}
			_, err = runner.New(spender(t, "root", llmagent.WithTools(wrapped)), sessiontest.Memory(t), budgets)
			require.NoError(t, err, "in a graph behind an agent tool")
		})
	}
}

func say(r *runner.Runner) (events []*event.Event, failed error) {
	for e, err := range r.Run(context.Background(), session.ID("s1"), llm.UserText("Go.")) {
		if failed = err; err == nil {
			events = append(events, e)
		}
	}
	return events, failed
}

// TestTimeOfNodes: what the nodes of one agent take counts together for its budget.
func TestTimeOfNodes(t *testing.T) {
	for name, taken := range map[string]time.Duration{"writer": 3 * time.Second, "final": 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			slow := does(t, "writer", func(ctx context.Context, in any) (any, error) {
				select {
				case <-time.After(2 * time.Second):
					return in, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			})
			a := must.Get(agentgraph.NewBuilder("article").Node("draft", slow).Node("final", slow).Edge("draft", "final").Build())
			began := time.Now()
			_, _, err := try(t, a, "go", runner.WithBudgets(runner.Budgets{Agents: map[string]runner.Budget{name: {Time: 3 * time.Second}}}))
			require.Equal(t, taken, time.Since(began).Round(time.Second), name)
			var budget *agent.BudgetError
			require.Equal(t, taken < 4*time.Second, errors.As(err, &budget), name)
		})
	}
}

// TestBudgetForNoNode: a name that nobody has is refused, and the error names the nearest.
func TestBudgetForNoNode(t *testing.T) {
	for name, nearest := range map[string]string{"wirter": "writer", "drafts": "draft", "jugde": "judge", "fact": "facts", "article/draft": "", "editors": "editor"} {
		_, err := runner.New(spenders(t), sessiontest.Memory(t), runner.WithBudgets(runner.Budgets{Agents: map[string]runner.Budget{name: {Tokens: 1}}}))
		require.ErrorContains(t, err, `"`+name+`"`)
		if nearest != "" {
			require.ErrorContains(t, err, `did you mean "`+nearest+`"?`)
		}
	}
}
