package agentgraph_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
)

// TestModelCallsSideBySide: the limit of model calls holds for agents that run side by
// side, also if one asks when the answer of another is there and not stored yet.
func TestModelCallsSideBySide(t *testing.T) {
	for _, apart := range []time.Duration{0, 100 * time.Microsecond, time.Second} {
		t.Run(apart.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{}
				b := agentgraph.NewBuilder("limited").Node("a", gives(t, 1)).OnError(agentgraph.ErrorHandling{Strategy: agentgraph.Continue})
				for i := range 8 {
					b.Node(id(i), s.model(id(i), func(llm.Message) items { return items{scripted.Text("Yes.")} },
						llmagent.WithInstructionFunc(func(context.Context, *agent.Invocation) (string, error) {
							time.Sleep(time.Duration(i) * apart)
							return "Say yes.", nil
						}))).Edge("a", id(i))
				}
				require.NoError(t, s.err)
				a := must.Get(b.Build())
				result, events, err := try(t, a, "go", runner.WithLimits(runner.Limits{ModelCalls: 3}))
				require.NoError(t, err)
				require.Equal(t, agentgraph.CompletedWithErrors, result.Status)
				require.Len(t, result.Failed, 5)
				require.Len(t, s.take(), 3, "models that were asked")
				requireClosed(t, events, "limited")
			})
		})
	}
}

// sideBySide is a graph of nodes that all run at once and whose failures do not stop it.
func sideBySide(t testing.TB, n int, node func(i int) agent.Agent) *agentgraph.Agent {
	t.Helper()
	b := agentgraph.NewBuilder("limited").Node("a", gives(t, 1)).OnError(agentgraph.ErrorHandling{Strategy: agentgraph.Continue})
	for i := range n {
		b.Node(id(i), node(i)).Edge("a", id(i))
	}
	return must.Get(b.Build())
}

// started makes a tool that notes its calls and takes a second.
func started(t testing.TB, s *scene, name string) tools.Tool {
	t.Helper()
	return must.Get(tools.Func(name, "Looks up.", func(c tools.Context, _ struct{}) (string, error) {
		time.Sleep(time.Second)
		return "nothing", s.note(c, "tool")
	}))
}

// TestToolCallsSideBySide: the limit of tool calls holds exactly for agents that run side
// by side, and it is the same ones that it stops each time: those whose calls the log has
// last.
func TestToolCallsSideBySide(t *testing.T) {
	for _, apart := range []time.Duration{0, 100 * time.Microsecond, 10 * time.Millisecond, 3 * time.Second} {
		for _, calls := range []int{1, 2} {
			t.Run(fmt.Sprintf("%d calls each, %s apart", calls, apart), func(t *testing.T) {
				for range 5 {
					synctest.Test(t, func(t *testing.T) {
						s := &scene{}
						tool := started(t, s, "lookup")
						a := sideBySide(t, 8, func(i int) agent.Agent {
							return s.model(id(i), func(last llm.Message) items {
								if last.Role == llm.RoleTool {
									return items{scripted.Text("Done.")}
								}
								return slices.Repeat(items{scripted.Call("lookup", "{}")}, calls)
							}, llmagent.WithTools(tool), llmagent.WithInstructionFunc(func(context.Context, *agent.Invocation) (string, error) {
								time.Sleep(time.Duration(i) * apart)
								return "Look it up.", nil
							}))
						})
						require.NoError(t, s.err)
						result, events, err := try(t, a, "go", runner.WithLimits(runner.Limits{ToolCalls: 5}))
						require.NoError(t, err)
						run := 5 / calls
						require.Equal(t, run*calls, s.take()["tool"], "calls that were run")
						require.Equal(t, agentgraph.CompletedWithErrors, result.Status)
						var late []string
						for i := run; i < 8; i++ {
							late = append(late, id(i))
						}
						require.Equal(t, late, result.Failed)
						requireClosed(t, events, "limited")
					})
				}
			})
		}
	}
}

// TestTransfersSideBySide: the limit of transfers holds exactly for agents that run in parallel. After the limit a model
// gets the result that it must answer itself, and other agents fail.
func TestTransfersSideBySide(t *testing.T) {
	const most = 3
	slowTarget := func(t *testing.T, s *scene) agent.Agent {
		return s.model("target", func(llm.Message) items { return items{scripted.Text("Here.")} }, llmagent.WithInstructionFunc(func(context.Context, *agent.Invocation) (string, error) {
			time.Sleep(time.Second)
			return "", nil
		}))
	}
	model := func(t *testing.T, s *scene, i int) agent.Agent {
		return s.model(id(i), func(last llm.Message) items {
			if last.Role == llm.RoleTool {
				return items{scripted.Text("Then I answer.")}
			}
			return items{scripted.Call(agent.TransferTool, `{"agent_name":"target"}`)}
		}, llmagent.WithSubAgents(slowTarget(t, s)))
	}
	refused := []string{id(3), id(4), id(5), id(6), id(7)}
	for name, c := range map[string]struct {
		node     func(t *testing.T, s *scene, i int) agent.Agent
		answered []string // whose results say to answer themselves
		failed   int
	}{
		"models": {model, refused, 0},
		"functions": {func(t *testing.T, s *scene, i int) agent.Agent {
			return must.Get(agent.New(id(i), "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
				return func(yield func(*event.Event, error) bool) {
					yield(&event.Event{Data: &event.Transfer{To: "target", Outcome: event.TransferCommitted}}, nil)
				}
			}, agent.WithSubAgents(slowTarget(t, s))))
		}, nil, 5},
		"routes": {func(t *testing.T, s *scene, i int) agent.Agent {
			return s.model(id(i), func(llm.Message) items { return items{scripted.Text("One moment.")} }, llmagent.WithSubAgents(slowTarget(t, s)), llmagent.WithRoutes(agent.OnStop("target")))
		}, nil, 5},
		"targets that are slow to be ready": {func(t *testing.T, s *scene, i int) agent.Agent {
			return s.model(id(i), func(last llm.Message) items {
				if last.Role == llm.RoleTool {
					return items{scripted.Text("Then I answer.")}
				}
				return items{scripted.Call(agent.TransferTool, `{"agent_name":"target"}`)}
			}, llmagent.WithSubAgents(slowly{slowTarget(t, s).(*llmagent.Agent), time.Duration(9-i) * time.Second}))
		}, refused, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				synctest.Test(t, func(t *testing.T) {
					s := &scene{}
					a := sideBySide(t, 8, func(i int) agent.Agent { return c.node(t, s, i) })
					require.NoError(t, s.err)
					result, events, err := try(t, a, "go", runner.WithLimits(runner.Limits{Transfers: most}))
					require.NoError(t, err)
					committed := 0
					var answered []string
					for _, e := range events {
						switch d := e.Data.(type) {
						case *event.Transfer:
							if d.Outcome == event.TransferCommitted {
								committed++
							}
						case *event.Text:
							if d.Content == "Then I answer." {
								answered = append(answered, e.Agent)
							}
						}
					}
					require.Equal(t, most, committed)
					require.Len(t, result.Failed, c.failed, strings.Join(result.Failed, " "))
					if c.answered != nil {
						require.ElementsMatch(t, c.answered, answered)
					}
					requireClosed(t, events, "limited")
				})
			}
		})
	}
}

// slowly takes its time to be ready.
type slowly struct {
	*llmagent.Agent
	after time.Duration
}

func (s slowly) Ready(context.Context) error { time.Sleep(s.after); return nil }
