package a2a_test

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
)

// waitsForever is a peer that takes tasks and never ends them.
func waitsForever(t *testing.T) *wire {
	return newWire(t, func(w http.ResponseWriter, c call) {
		if c.Method == cancels {
			c.reply(w, taskJSON("CANCELED", ""))
			return
		}
		c.stream(w, taskEvent("WORKING", ""))
		<-c.ctx.Done()
	})
}

// insideOfAgents are the places in which a remote agent can be, and how many tasks a turn has there.
var insideOfAgents = map[string]struct {
	root  func(t *testing.T, billing agent.Agent) agent.Agent
	tasks int
}{
	"a tool": {func(t *testing.T, billing agent.Agent) agent.Agent { return withTool(t, billing) }, 1},
	"tools side by side": {func(t *testing.T, billing agent.Agent) agent.Agent {
		return withTool(t, billing, scripted.Call("billing", `{"input":"two"}`))
	}, 2},
	"a node of a graph": {func(t *testing.T, billing agent.Agent) agent.Agent {
		return must.Get(agentgraph.NewBuilder("desk").Node("ask", billing).Build())
	}, 1},
	"nodes side by side": {func(t *testing.T, billing agent.Agent) agent.Agent {
		first := must.Get(llmagent.New("first", "", scripted.Always("first", scripted.Reply(scripted.Text("go")))))
		return must.Get(agentgraph.NewBuilder("desk").Node("first", first).Node("a", billing).Node("b", billing).Node("c", billing).
			Edge("first", "a").Edge("first", "b").Edge("first", "c").Build())
	}, 3},
	"a graph in a tool": {func(t *testing.T, billing agent.Agent) agent.Agent {
		g := must.Get(agentgraph.NewBuilder("billing").Node("ask", billing).Build())
		return withTool(t, g)
	}, 1},
}

// Canceling the turn cancels the tasks at the peers, wherever their nodes run.
func TestCancelInsideOfAgents(t *testing.T) {
	for name, c := range insideOfAgents {
		t.Run(name, func(t *testing.T) {
			p := waitsForever(t)
			f := newRunner(t, c.root(t, remotetest.Billing(t, p.URL)))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go onceStored(f, c.tasks, cancel)
			_, _, last := f.Collect(f.Run(ctx, key, llm.UserText("refund")))
			require.ErrorIs(t, last, context.Canceled)
			require.Len(t, p.made(cancels), c.tasks)
			for _, made := range p.made(cancels) {
				require.Equal(t, "t1", made.Params.ID)
			}
		})
	}
}

// onceStored does something as soon as the log names so many tasks, which may be before they
// are delivered: what is stored inside of tools is delivered later.
func onceStored(f *fixture, tasks int, do func()) {
	defer do()
	for stored := 0; stored < tasks; runtime.Gosched() {
		stored = 0
		for e, err := range f.Store.Load(context.Background(), key, 0) {
			if err == nil && e.Type() == event.TypeRemoteTask {
				stored++
			}
		}
	}
}

func withTool(t *testing.T, a agent.Agent, more ...scripted.Item) agent.Agent {
	tool := must.Get(agenttool.New(a, agenttool.WithName("billing")))
	s := scripted.New().Add("support", scripted.Reply(append(more, scripted.Call("billing", `{"input":"refund"}`))...))
	return must.Get(llmagent.New("support", "", s.Model("support"), llmagent.WithTools(tool)))
}

// A call that takes too long, or a node that does, cancels its own task; the turn goes on.
func TestTimeoutInsideOfAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := func() (*a2atest.Mock, agent.Agent) {
			peer := a2atest.New().Add(a2atest.Reply(a2atest.Block()))
			return peer, must.Get(a2a.Remote("billing", "", a2a.WithClient(peer)))
		}
		peer, billing := blocked()
		tool := must.Get(agenttool.New(billing, agenttool.WithTimeout(time.Minute)))
		s := scripted.New().Add("support", scripted.Reply(scripted.Call("billing", `{"input":"refund"}`)), scripted.Reply(scripted.Text("It takes too long.")))
		support := must.Get(llmagent.New("support", "", s.Model("support"), llmagent.WithTools(tool)))
		_, _, err := newRunner(t, support).Turn("refund")
		require.NoError(t, err)
		require.Equal(t, 1, cancellations(peer))

		peer, billing = blocked()
		g := must.Get(agentgraph.NewBuilder("desk").Node("ask", billing, agentgraph.Timeout(time.Minute)).Build())
		_, _, err = newRunner(t, g).Turn("refund")
		require.ErrorIs(t, err, agent.ErrTimeout)
		require.Equal(t, 1, cancellations(peer))
	})
}

// cancellations is how often a peer was asked to cancel a task.
func cancellations(peer *a2atest.Mock) (n int) {
	for _, call := range peer.Calls() {
		if call.Operation == "CancelTask" {
			n++
		}
	}
	return n
}
