package agentgraph_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestEndsInsideGraphs: the end of a node is in the log also if the node's graph is
// itself a node, and nothing begins after it.
func TestEndsInsideGraphs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{}
		a := s.steady()
		require.NoError(t, s.err)
		_, events, err := try(t, a, "go")
		require.NoError(t, err)
		requireClosed(t, events, "a graph as a node")
	})
}

// requireClosed: every run that begins in a log ends in it, once, and every call has a
// result.
func requireClosed(t testing.TB, events []*event.Event, where string) {
	t.Helper()
	requireEnds(t, events, where)
	open := make(map[string]string)
	for _, e := range events {
		switch d := e.Data.(type) {
		case *event.HarnessStart:
			open[e.RunID] = "the run of " + e.Agent
		case *event.HarnessEnd:
			delete(open, e.RunID)
		case *event.ToolCall:
			open[e.ID] = "the call of " + d.Name
		case *event.ToolResult:
			delete(open, e.ID)
		}
	}
	if len(open) > 0 {
		require.Empty(t, open, "%s\n%s", where, lines(events))
	}
}

// TestFallbackAfterSiblings: the fallback is asked although others had to be stopped
// before.
func TestFallbackAfterSiblings(t *testing.T) {
	slow := does(t, "slow", func(ctx context.Context, _ any) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	a := must.Get(agentgraph.NewBuilder("rescue").Node("a", gives(t, 1)).Node("b", fails(t, 9, "boom", nil)).Node("c", slow).Node("z", gives(t, "saved")).
		Edge("a", "b").Edge("a", "c").OnError(agentgraph.ErrorHandling{Fallback: "z"}).Build())
	result, _, err := try(t, a, "go")
	require.NoError(t, err)
	require.Equal(t, agentgraph.Recovered, result.Status)
	require.Equal(t, []string{"c"}, result.Cancelled)
	require.Equal(t, `"saved"`, string(result.Terminal["z"]))
}

// requireEnds checks what is true of the runs in a log, however they ended. A run
// starts once, ends at most once, and nothing of it comes after its end. Scopes close
// from the inside out: no scope that a run has opened is open when the run ends, and
// none that a call has opened when the call gets its result.
func requireEnds(t testing.TB, events []*event.Event, where string) {
	t.Helper()
	started, ended := make(map[string]bool), make(map[string]bool)
	open := make(map[string]string) // scopes, by whose run is open in them
	cause := make(map[string]string)
	inside := func(e *event.Event, opener string) {
		for scope, run := range open {
			if scope != "" && run != "" && (event.ParentRun(scope) == opener || cause[scope] == opener) {
				t.Fatalf("%s: seq %d is the end of %s, inside of which the run %s is open in %q\n%s", where, e.Seq, opener, run, scope, lines(events))
			}
		}
	}
	for _, e := range events {
		switch e.Data.(type) {
		case *event.User:
			continue
		case *event.HarnessStart:
			if started[e.RunID] || open[e.Scope] != "" {
				t.Fatalf("%s: seq %d starts a run again, or beside another one\n%s", where, e.Seq, lines(events))
			}
			started[e.RunID], open[e.Scope] = true, e.RunID
			if cause[e.Scope] == "" {
				cause[e.Scope] = e.ParentID
			}
			continue
		}
		if !started[e.RunID] || ended[e.RunID] || open[e.Scope] != e.RunID {
			t.Fatalf("%s: seq %d is a %s of the run %s, which has ended\n%s", where, e.Seq, e.Type(), e.RunID, lines(events))
		}
		switch e.Data.(type) {
		case *event.ToolResult:
			inside(e, e.ID)
		case *event.HarnessEnd:
			inside(e, e.RunID)
			ended[e.RunID], open[e.Scope] = true, ""
		}
	}
}

// waits makes an agent that ends only when it is cancelled, and then takes its time.
func (s *scene) waits(name string, tidies time.Duration) agent.Agent {
	return s.yields(name, func(ctx context.Context, yield func(*event.Event, error) bool) {
		<-ctx.Done()
		time.Sleep(tidies)
		yield(nil, context.Cause(ctx))
	})
}

// breaks makes an agent that fails after a time.
func (s *scene) breaks(name string, after time.Duration) agent.Agent {
	return s.yields(name, func(ctx context.Context, yield func(*event.Event, error) bool) {
		if yield(&event.Event{Data: &event.Text{Content: "I try."}}, nil) {
			time.Sleep(after)
			yield(nil, errors.New(name+" is broken"))
		}
	})
}

func (s *scene) yields(name string, f func(context.Context, func(*event.Event, error) bool)) agent.Agent {
	a, err := agent.New(name, "", func(ctx context.Context, _ *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) { f(ctx, yield) }
	})
	s.failed(err)
	return a
}

// says makes an agent with a model that says so after a time.
func (s *scene) says(name string, after time.Duration, opts ...llmagent.Option) agent.Agent {
	if s.err != nil {
		return nil
	}
	a, err := llmagent.New(name, "", scripted.Always(name, scripted.Reply(scripted.Wait(func(ctx context.Context) error {
		select {
		case <-time.After(after):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}), scripted.Text("I am "+name+"."))), opts...)
	s.failed(err)
	return a
}

// around makes a graph in which agents begin side by side after the first node.
func (s *scene) around(name string, how agentgraph.ErrorHandling, beside ...agent.Agent) *agentgraph.Agent {
	if s.err != nil {
		return nil
	}
	b := agentgraph.NewBuilder(name).Node("first", s.does("first", same)).Node("last", s.does("last", same)).OnError(how)
	for _, a := range beside {
		b.Node(a.Name(), a).Edge("first", a.Name()).Edge(a.Name(), "last")
	}
	return s.build(b, agentgraph.WithName(name))
}

// failingTree is a tree that fails, with what the runner needs for it.
type failingTree struct {
	build func(*scene) agent.Agent
	opts  []runner.Option
}

func (f failingTree) runner(t testing.TB, store session.Store) *runner.Runner {
	s := &scene{}
	a := f.build(s)
	require.NoError(t, s.err)
	return must.Get(runner.New(a, store, append(f.opts[:len(f.opts):len(f.opts)], runner.WithStreaming())...))
}

// failing are graphs that fail, by why they do.
var failing = map[string]failingTree{
	"fail-fast": {build: func(s *scene) agent.Agent {
		return s.around("g", agentgraph.ErrorHandling{}, s.does("quick", same), s.breaks("bad", time.Second), s.says("slow", time.Hour), s.waits("tidy", time.Second))
	}},
	"several at once": {build: func(s *scene) agent.Agent {
		return s.around("g", agentgraph.ErrorHandling{}, s.breaks("bad", time.Second), s.breaks("worse", time.Second), s.says("good", time.Second), s.breaks("later", time.Second+time.Microsecond), s.waits("tidy", 0))
	}},
	"alone": {build: func(s *scene) agent.Agent { return s.around("g", agentgraph.ErrorHandling{}, s.breaks("bad", 0)) }},
	"retry": {build: func(s *scene) agent.Agent {
		return s.around("g", agentgraph.ErrorHandling{Strategy: agentgraph.Retry, MaxRetries: 2}, s.says("good", 0), s.breaks("bad", time.Second), s.waits("tidy", 0))
	}},
	"fallback": {build: func(s *scene) agent.Agent {
		b := agentgraph.NewBuilder("g").Node("first", s.does("first", same)).Node("bad", s.breaks("bad", time.Second)).Node("slow", s.says("slow", time.Hour)).
			Node("spare", s.breaks("spare", time.Second)).Edge("first", "bad").Edge("first", "slow").OnError(agentgraph.ErrorHandling{Fallback: "spare"})
		return s.build(b)
	}},
	"tripwire": {build: func(s *scene) agent.Agent {
		guard := llmagent.WithGuards(agent.Guard{Name: "g", Out: func(context.Context, *agent.Invocation, string) error { return errors.New("no such words") }})
		return s.around("g", agentgraph.ErrorHandling{}, s.says("bad", time.Second, guard), s.says("slow", time.Hour), s.says("good", time.Second))
	}},
	"model calls": {opts: []runner.Option{runner.WithLimits(runner.Limits{ModelCalls: 2})}, build: func(s *scene) agent.Agent {
		return s.around("g", agentgraph.ErrorHandling{}, s.says("one", time.Second), s.says("two", time.Second), s.says("three", time.Second), s.waits("tidy", 0))
	}},
	"time": {opts: []runner.Option{runner.WithLimits(runner.Limits{Time: time.Minute})}, build: func(s *scene) agent.Agent {
		return s.around("g", agentgraph.ErrorHandling{}, s.says("good", time.Second), s.says("slow", time.Hour), s.waits("tidy", time.Second))
	}},
	"budget": {opts: []runner.Option{runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: 60}})}, build: func(s *scene) agent.Agent {
		return s.around("g", agentgraph.ErrorHandling{}, s.hasTool("bad", "Looked.", s.lookup("look")), s.says("slow", time.Hour), s.says("good", 0))
	}},
	"a graph inside": {build: func(s *scene) agent.Agent {
		inner := s.around("inner", agentgraph.ErrorHandling{}, s.says("ready", 0), s.breaks("bad", time.Second), s.says("slow", time.Hour))
		return s.around("g", agentgraph.ErrorHandling{}, inner, s.says("long", time.Hour), s.says("good", 0))
	}},
	"beside a graph": {build: func(s *scene) agent.Agent {
		inner := s.around("inner", agentgraph.ErrorHandling{}, s.says("ready", 0), s.says("slow", time.Hour), s.waits("tidy", time.Second))
		return s.around("g", agentgraph.ErrorHandling{}, inner, s.breaks("bad", time.Second))
	}},
	"beside a graph that fails too": {build: func(s *scene) agent.Agent {
		inner := s.around("inner", agentgraph.ErrorHandling{}, s.breaks("worse", time.Second), s.waits("tidy", 2*time.Second))
		return s.around("g", agentgraph.ErrorHandling{}, inner, s.breaks("bad", 2*time.Second), s.waits("untidy", time.Second))
	}},
	"beside an agent tool": {build: func(s *scene) agent.Agent {
		return s.around("g", agentgraph.ErrorHandling{}, s.hasTool("asks", "Asked.", s.agentTool(s.says("expert", time.Hour))), s.breaks("bad", time.Second))
	}},
	"beside a graph behind a tool": {build: func(s *scene) agent.Agent {
		deep := s.around("deep", agentgraph.ErrorHandling{}, s.says("ready", 0), s.says("slow", time.Hour), s.waits("tidy", time.Second))
		return s.around("g", agentgraph.ErrorHandling{}, s.hasTool("asks", "Asked.", s.agentTool(deep)), s.breaks("bad", time.Second))
	}},
	"a graph behind a tool": {build: func(s *scene) agent.Agent {
		deep := s.around("deep", agentgraph.ErrorHandling{}, s.breaks("bad", time.Second), s.says("slow", time.Hour), s.says("good", 0))
		return s.around("g", agentgraph.ErrorHandling{}, s.hasTool("asks", "Asked.", s.agentTool(deep)), s.breaks("worse", 2*time.Second))
	}},
	"a graph behind a tool whose time is over": {build: func(s *scene) agent.Agent {
		deep := s.around("deep", agentgraph.ErrorHandling{}, s.says("ready", 0), s.hasTool("asks", "Asked.", s.agentTool(s.waits("expert", time.Minute))), s.waits("tidy", time.Hour))
		if s.err != nil {
			return nil
		}
		tool, err := agenttool.New(deep, agenttool.WithTimeout(time.Second))
		s.failed(err)
		return s.hasTool("asking", "Asked.", tool)
	}},
}

// TestEndsOfGraphsThatFail: however a graph fails, and whatever runs in it then, each
// run ends once; also if the turn is disturbed at any event, and goes on.
func TestEndsOfGraphsThatFail(t *testing.T) {
	for name, c := range failing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0 // deltas not counted
			synctest.Test(t, func(t *testing.T) {
				r := c.runner(t, sessiontest.Memory(t))
				disturbAt(r, -1, nil)
				time.Sleep(2 * time.Hour) // whatever was left behind
				requireClosed(t, logOf(r), name)
				n = len(logOf(r))
			})
			for k := 0; k < n; k += stride {
				for _, how := range []string{"breaks", "cancels"} {
					synctest.Test(t, func(t *testing.T) {
						where := fmt.Sprintf("%s, %s at %d", name, how, k)
						store := sessiontest.Memory(t)
						r := c.runner(t, store)
						disturbAt(r, k, func(cancel context.CancelFunc) bool { cancel(); return how != "breaks" })
						requireEnds(t, logOf(r), where)
						if k%2 == 1 {
							r = c.runner(t, store) // in another process
						}
						for _, err := range r.Resume(context.Background(), key) {
							_ = err // it fails again, or is over
						}
						time.Sleep(2 * time.Hour)
						requireClosed(t, logOf(r), where)
						disturbAt(r, -1, nil)
						time.Sleep(2 * time.Hour)
						requireClosed(t, logOf(r), where+", and another turn")
					})
				}
			}
		})
	}
}
