package a2a_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// A question of a remote agent is no answer: where the user cannot be asked, inside of an
// agent tool or a graph, the call fails and says who asks what. The task, which nobody
// will go on with, is canceled, and what was shown of the words is taken back.
func TestQuestionsInsideOfAgents(t *testing.T) {
	const question = "Which of the two charges?"
	newGraph := func(t *testing.T, node agent.Agent) agent.Agent {
		g, err := agentgraph.NewBuilder("desk").Node("ask", node).Build()
		require.NoError(t, err)
		return g
	}
	calls := func(t *testing.T, inner agent.Agent) agent.Agent {
		tool, err := agenttool.New(inner)
		require.NoError(t, err)
		s := scripted.New().Add("support", scripted.Reply(scripted.Call(inner.Name(), `{"input":"refund"}`)),
			scripted.Reply(scripted.ExpectResult(question), scripted.ExpectResult("billing"), scripted.ExpectResult("transfer to it"), scripted.Text("Which one?")))
		support, err := llmagent.New("support", "You ask.", s.Model("support"), llmagent.WithTools(tool))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Done()) })
		return support
	}
	for name, c := range map[string]struct {
		root   func(t *testing.T, remote agent.Agent) agent.Agent
		called bool // by an agent that goes on; else the turn ends with the error
	}{
		"an agent tool":         {func(t *testing.T, remote agent.Agent) agent.Agent { return calls(t, remote) }, true},
		"a node of a graph":     {func(t *testing.T, remote agent.Agent) agent.Agent { return newGraph(t, remote) }, false},
		"a graph in a graph":    {func(t *testing.T, remote agent.Agent) agent.Agent { return newGraph(t, newGraph(t, remote)) }, false},
		"a graph behind a tool": {func(t *testing.T, remote agent.Agent) agent.Agent { return calls(t, newGraph(t, remote)) }, true},
		"a target inside a tool": {func(t *testing.T, remote agent.Agent) agent.Agent {
			return calls(t, tree(t, scripted.New().Add("support", transfer()), remote))
		}, true},
		"a target inside a node": {func(t *testing.T, remote agent.Agent) agent.Agent {
			return newGraph(t, tree(t, scripted.New().Add("support", transfer()), remote))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, streaming := range []bool{false, true} {
				var opts []runner.Option
				if streaming {
					opts = append(opts, runner.WithStreaming())
				}
				peer := a2atest.New().Add(a2atest.Reply(a2atest.Text("There are two. "), a2atest.InputRequired(question)))
				remote, err := a2a.Remote("billing", "", a2a.WithClient(peer))
				require.NoError(t, err)
				events, _, err := newRunner(t, c.root(t, remote), opts...).turn("refund")
				var failed *a2a.Error
				if !c.called {
					require.ErrorAs(t, err, &failed)
					require.Equal(t, a2a.CodeInputRequired, failed.Code)
					require.Equal(t, "billing", failed.Agent)
					require.Equal(t, `remote agent "billing" (remote_input_required): it asks for more input, and inside of an agent tool or a graph there is nobody to ask; `+
						`give it everything at once, or make it a sub-agent and transfer to it. It asks: There are two. `+"\n\n"+question, failed.Error())
				} else {
					require.NoError(t, err)
					require.Equal(t, event.FinishReasonStop, lastEnd(events))
				}
				codes := map[string]bool{}
				for _, f := range find[*event.Failure](events) {
					codes[f.Code] = true
				}
				require.Equal(t, map[string]bool{string(a2a.CodeInputRequired): true}, codes)
				require.Equal(t, 1, strings.Count(strings.Join(operations(peer), " "), "CancelTask"))
				for _, d := range find[*event.Text](events) {
					require.NotContains(t, d.Content, question, "the question is no answer")
				}
				require.NoError(t, peer.Done())
			}
		})
	}
}

func operations(peer *a2atest.Mock) (names []string) {
	for _, c := range peer.Calls() {
		names = append(names, c.Operation)
	}
	return names
}

// Words that the peer takes back are discarded before those that take their place, and a
// question behind words that were shown is shown as well.
func TestWordsOnTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		answer  a2atest.Answer
		visible []string
		types   []string
	}{
		"replaced": {a2atest.Reply(a2atest.Snapshots("Hello there", "Goodbye")), []string{"Hello there", "Goodbye"}, []string{"discard", "text"}},
		"asked":    {a2atest.Reply(a2atest.Text("Two ", "charges."), a2atest.InputRequired("Which one?")), []string{"Two ", "charges.", "\n\nWhich one?"}, []string{"text"}},
	} {
		t.Run(name, func(t *testing.T) {
			node, err := a2a.Remote("billing", "", a2a.WithClient(a2atest.New().Add(c.answer)))
			require.NoError(t, err)
			f := newRunner(t, node, runner.WithStreaming())
			var visible, types []string
			for e, err := range sessiontest.Turn(t, f.Run(context.Background(), key, llm.UserText("help"))) {
				require.NoError(t, err)
				if w := e.Visible(); w != "" {
					visible = append(visible, w)
				}
				if typ := e.Type(); !e.Partial && (typ == event.TypeText || typ == event.TypeDiscard) {
					types = append(types, typ)
				}
			}
			require.Equal(t, c.visible, visible)
			require.Equal(t, c.types, types)
		})
	}
}
