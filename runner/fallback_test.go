package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// fails is an agent that says something and then ends as it is told.
func fails(t testing.TB, name string, end func() error) agent.Agent {
	t.Helper()
	return must.Get(agent.New(name, "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			if yield(&event.Event{Data: &event.Text{Content: name + " begins."}}, nil) {
				if err := end(); err != nil {
					yield(nil, err)
				}
			}
		}
	}))
}

// TestOnError: another agent goes on for one that failed, in the same turn.
func TestOnError(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		end  func() error
		said string
		fail bool
	}{
		"an error": {func() error { return broken }, "a begins.|b begins.", false},
		"a panic":  {func() error { panic("oh") }, "a begins.|b begins.", false},
		"a limit":  {func() error { return &agent.LimitError{Name: "x", Limit: 1} }, "a begins.", true},
		"nothing":  {func() error { return nil }, "a begins.", false},
		"a guard":  {func() error { return &agent.TripwireError{Guard: "g", Agent: "a", Err: broken} }, "a begins.", true},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := fails(t, "a", c.end), fails(t, "b", func() error { return nil })
			root := must.Get(agent.New("root", "", goesTo("a"), agent.WithSubAgents(agent.Via(a, agent.OnError("b")), b)))
			r := newRun(t, root)
			var said []string
			var failed *event.Route
			var last error
			for e, err := range sessiontest.Turn(t, r.Run(t.Context(), session.ID("s"), llm.UserText("Hello"))) {
				if last = err; err != nil {
					break
				}
				if words := e.Visible(); words != "" {
					said = append(said, words)
				}
				if d, ok := e.Data.(*event.Route); ok {
					failed = d
				}
			}
			require.Equal(t, c.fail, last != nil, last)
			require.Equal(t, c.said, strings.Join(said, "|"))
			require.Equal(t, c.said == "a begins.|b begins.", failed != nil)
			if failed != nil {
				require.Equal(t, []string{"b"}, failed.GraphPath)
				require.NotEmpty(t, failed.Failed.Message)
			}
		})
	}
}

// TestOnErrorOfARoute: an agent fails as well if nobody can say whether its route leads on.
func TestOnErrorOfARoute(t *testing.T) {
	b := fails(t, "b", func() error { return nil })
	unclear := func(context.Context, *agent.Invocation, string) (bool, error) { return false, errors.New("who knows") }
	a := must.Get(agent.New("a", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Text{Content: "a begins."}}, nil)
		}
	}, agent.WithRoutes(agent.OnStop("c", unclear))))
	root := must.Get(agent.New("root", "", goesTo("a"), agent.WithSubAgents(agent.Via(a, agent.OnError("b")), b, fails(t, "c", func() error { return nil }))))
	r := newRun(t, root)
	require.Equal(t, "a begins.|b begins.", tells(t, r, session.ID("s"), "Hello"))
}

// TestOnErrorOfAGraph: a transfer that a node has tried is not under way when its graph fails.
func TestOnErrorOfAGraph(t *testing.T) {
	model := scripted.Always("m", scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"x"}`), scripted.Call(agent.TransferTool, `{"agent_name":"y"}`)))
	node := must.Get(llmagent.New("node", "You hand over.", model))
	a := must.Get(agentgraph.NewBuilder("a").Node("n", node).Build())
	r := newRun(t, newChooser(t, "front", agent.WithSubAgents(agent.Via(a, agent.OnError("b")), says(t, "b", "Near."))), runner.WithLimits(runner.Limits{Transfers: 1}))
	require.Equal(t, "Near.", tells(t, r, session.ID("s"), "a"))
}

// TestOnErrorOfAGraphThatIsAsked: what waits inside of a graph is withdrawn before the transfer with which another agent goes
// on, because nothing comes between that and the end of the graph's run.
func TestOnErrorOfAGraphThatIsAsked(t *testing.T) {
	first := says(t, "first", "Go.")
	inner := must.Get(agentgraph.NewBuilder("inner").Node("x", says(t, "x", "X."), agentgraph.AskFirst("May x?")).Build())
	a := must.Get(agentgraph.NewBuilder("a").Node("first", first).Node("deep", inner).Node("y", says(t, "y", "Y."), agentgraph.AskFirst("May y?")).
		Edge("first", "deep").Edge("first", "y").Build())
	root := must.Get(agent.New("root", "", goesTo("a"), agent.WithSubAgents(agent.Via(a, agent.OnError("b")), says(t, "b", "Near."))))
	r := newRun(t, root)
	events := run(t, r, s1, "Hi")
	var decisions []runner.Decision
	for _, e := range events {
		if d, ok := e.Data.(*event.Relay); ok && e.Scope == "" {
			decisions = append(decisions, runner.Deny(d.ToolCallID, "no"))
		} else if ok {
			decisions = append(decisions, runner.Approve(d.ToolCallID))
		}
	}
	require.Len(t, decisions, 2)
	events = finish(t, r.Resume(t.Context(), s1, decisions...))
	_, text := lastText(events)
	require.Equal(t, "Near.", text)
}

// TestOnErrorBelow: who goes on for an agent goes on for those below it as well, and may be a
// person.
func TestOnErrorBelow(t *testing.T) {
	desk := &noting{}
	below := fails(t, "below", func() error { return errors.New("broken") })
	a := must.Get(agent.New("a", "", goesTo("below"), agent.WithSubAgents(below)))
	root := must.Get(agent.New("root", "", goesTo("a"), agent.WithSubAgents(agent.Via(a, agent.OnError(agent.Human)))))
	r := newRun(t, root, runner.WithDesk(desk))
	require.Equal(t, "below begins.|I have asked for a person to join us.", tells(t, r, session.ID("s"), "Hello"))
	require.Equal(t, "below", desk.requests[0].From)
	_, err := runner.New(root, sessiontest.Memory(t))
	require.ErrorContains(t, err, `"human" must continue when a fails, but there is no such agent`)
}

func goesTo(name string) agent.RunFunc {
	return func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Transfer{To: name}}, nil)
		}
	}
}

// chooser is a router that follows the user's words.
type chooser struct{ agent.Agent }

func (c *chooser) Properties() agent.Properties {
	p := agent.PropertiesOf(c.Agent)
	p.Router = true
	return p
}

func newChooser(t testing.TB, name string, opts ...agent.Option) agent.Agent {
	t.Helper()
	a := must.Get(agent.New(name, "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			target := inv.Message().PlainText()
			raw, _ := json.Marshal(target)
			yield(&event.Event{More: true, Data: &event.Route{From: name, To: target, GraphPath: inv.Tree().Node(target).GraphPath()}}, nil)
			yield(&event.Event{Data: &event.Transfer{To: target, RouteDecision: raw, TransferType: event.TransferTypeBotToBot}}, nil)
		}
	}, opts...))
	return &chooser{a}
}

// TestRouter: a turn below a router begins with the router, which reaches everybody below
// it, at the cost of no transfer.
func TestRouter(t *testing.T) {
	deep := says(t, "deep", "Deep.")
	mid := newChooser(t, "mid", agent.WithSubAgents(deep))
	root := newChooser(t, "front", agent.WithSubAgents(mid, says(t, "near", "Near.")))
	r := newRun(t, root, runner.WithLimits(runner.Limits{Transfers: 1}))
	key := session.ID("s")
	for _, turn := range [][2]string{{"near", "Near."}, {"deep", "Deep."}, {"near", "Near."}} {
		require.Equal(t, turn[1], tells(t, r, key, turn[0]))
		require.Equal(t, "front", must.Get(r.Active(t.Context(), key)))
	}
	require.Equal(t, []string{"front", "mid", "deep"}, r.Tree().Node("deep").GraphPath())
	for e, err := range r.Run(t.Context(), key, llm.UserText("front")) {
		if err != nil {
			require.ErrorIs(t, err, agent.ErrTransferRejected)
			continue
		}
		require.NotEqual(t, "transfer", e.Type())
	}
}
