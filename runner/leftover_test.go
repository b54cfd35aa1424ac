package runner_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// The tests in this file are about what a turn leaves behind when it ends in an
// unusual way: nothing may run on, and nothing may stay open or held.

// writes counts what is appended to a store.
type writes struct {
	session.Store
	n atomic.Int64
}

func (s *writes) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 {
		return s.Store.Write(ctx, key, w)
	}
	s.n.Add(1)
	return s.Store.Write(ctx, key, w)
}

// besides makes an agent that calls the tools side by side, and answers in
// every other turn.
func besides(t *testing.T, both []tools.Tool, opts ...llmagent.Option) agent.Agent {
	n := 0
	return must.Get(llmagent.New("solo", "", scripted.Func("m", func(*llm.Request) scripted.Answer {
		if n++; n == 1 {
			return scripted.Reply(scripted.Call(both[0].Info().Name, `{"input":"go"}`), scripted.Call(both[1].Info().Name, "{}"))
		}
		return scripted.Reply(scripted.Text("Hello again."))
	}), append(opts, llmagent.WithTools(both...))...))
}

// slowTool runs until it is cancelled, and then still has to tidy up.
func slowTool(t *testing.T, started chan struct{}, over *atomic.Bool) tools.Tool {
	type in struct {
		Input string `json:"input"`
	}
	return must.Get(tools.Func("slow", "", func(c tools.Context, _ in) (string, error) {
		close(started)
		<-c.Done()
		time.Sleep(time.Second) // of the test's bubble
		over.Store(true)
		return "", c.Err()
	}, tools.Timeout(-1)))
}

// slowAgent is an agent tool whose model answers only when it is cancelled, and
// then takes its time.
func slowAgent(t *testing.T, started chan struct{}, over *atomic.Bool) tools.Tool {
	a := must.Get(llmagent.New("slow", "", scripted.Always("slow", scripted.Reply(scripted.Wait(func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		time.Sleep(time.Second) // of the test's bubble
		over.Store(true)
		return ctx.Err()
	})))))
	return agentTool(t, a)
}

func lookAfter(t *testing.T, started chan struct{}) tools.Tool {
	return must.Get(tools.Func("look", "", func(tools.Context, struct{}) (string, error) {
		<-started
		return "seen", nil
	}))
}

// TestPanicsWaitForRunningTools: whoever panics while tools run, the turn is over
// only when the last of them is, and then nothing is written any more.
func TestPanicsWaitForRunningTools(t *testing.T) {
	for kind, slow := range map[string]func(*testing.T, chan struct{}, *atomic.Bool) tools.Tool{"a tool": slowTool, "an agent tool": slowAgent} {
		t.Run("the consumer, beside "+kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var over atomic.Bool
				started := make(chan struct{})
				store := &writes{Store: sessiontest.Memory(t)}
				r := newRunner(t, besides(t, []tools.Tool{slow(t, started, &over), lookAfter(t, started)}), store)
				require.PanicsWithValue(t, "mine", func() {
					for e, err := range r.Run(context.Background(), s1, llm.UserText("Hi")) {
						require.NoError(t, err)
						if e.Type() == event.TypeToolResult {
							panic("mine")
						}
					}
				}, "a consumer's panic is the consumer's")
				require.True(t, over.Load(), "the turn is over while a tool runs")
				wrote := store.n.Load()
				time.Sleep(time.Hour)
				require.Equal(t, wrote, store.n.Load(), "something is written after the turn")
				must.Get(say(r, s1, "And now?")) // the lease was given back
			})
		})
		t.Run("a guard, beside "+kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var over atomic.Bool
				started := make(chan struct{})
				store := &writes{Store: sessiontest.Memory(t)}
				guard := agent.Guard{Name: "g", In: func(_ context.Context, _ *agent.Invocation, in agent.Ingress) error {
					if in.Tool == "look" {
						panic("guard")
					}
					return nil
				}}
				r := newRunner(t, besides(t, []tools.Tool{slow(t, started, &over), lookAfter(t, started)}, llmagent.WithGuards(guard)), store)
				_, err := say(r, s1, "Hi")
				require.Equal(t, event.CodeInternal, must.As[*agent.RunError](err).Code)
				require.True(t, over.Load(), "the turn is over while a tool runs")
				wrote := store.n.Load()
				time.Sleep(time.Hour)
				require.Equal(t, wrote, store.n.Load(), "something is written after the turn")
				run(t, r, s1, "And now?")
			})
		})
	}
}

// TestMemosMayLookAtTheSession: what is kept beside a session is made from it.
func TestMemosMayLookAtTheSession(t *testing.T) {
	count := func(ctx context.Context, s agent.Session) int {
		n, _ := s.Memo("count", func() any {
			n := 0
			for _, err := range s.Events(ctx, 0) {
				if err == nil {
					n++
				}
			}
			_, _ = s.State("x")
			return max(n, int(min(s.Seq(), 1)), s.Memo("other", func() any { return 1 }).(int))
		}).(int)
		return n
	}
	counts := make(chan int, 4)
	counter := func(name string) agent.Agent {
		return function(t, name, func(ctx context.Context, inv *agent.Invocation) iterSeq {
			counts <- count(ctx, inv.Session())
			return yields(&event.Text{Content: "Counted."})
		})
	}
	edge := agent.Via(counter("outer"), agent.When(func(ctx context.Context, inv *agent.Invocation, _ string) (bool, error) {
		counts <- count(ctx, inv.Session())
		return true, nil
	}))
	root := scriptedAgent(t, "root", seq(scripted.Reply(scripted.Call("inner", `{"input":"go"}`)), scripted.Reply(scripted.Text("Done."))),
		llmagent.WithTools(agentTool(t, counter("inner"))), llmagent.WithSubAgents(edge))
	r := newRun(t, root)
	done := make(chan error, 1)
	go func() {
		_, err := say(r, s1, "Hi")
		done <- err
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(2 * time.Minute):
		t.Fatal("it waits for itself")
	}
	close(counts)
	var got []int
	for n := range counts {
		got = append(got, n)
	}
	require.Len(t, got, 3)
	require.Equal(t, 1, got[0], "of the inner scope, its start")
	require.Greater(t, got[1], 5, "of the conversation")
	require.Equal(t, got[1], got[2], "it is made once")
}

// TestWhoIsLeftRunningSeesNoOtherTurn: an agent behind a tool that ignores the end of
// its time reads the session while the next turn writes to it. It shares nothing with
// that turn, and what it stores comes too late.
func TestWhoIsLeftRunningSeesNoOtherTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(chan int64, 1)
		late := function(t, "late", func(_ context.Context, inv *agent.Invocation) iterSeq {
			return func(yield func(*event.Event, error) bool) {
				time.Sleep(time.Hour)
				seen <- inv.Session().Seq()
				yield(&event.Event{Data: &event.Text{Content: "So late."}}, nil)
			}
		})
		tool := must.Get(agenttool.New(late, agenttool.WithTimeout(time.Second)))
		root := scriptedAgent(t, "root", seq(scripted.Reply(scripted.Call("late", `{"input":"go"}`)), scripted.Reply(scripted.Text("One.")), scripted.Reply(scripted.Text("Two."))),
			llmagent.WithTools(tool))
		r := newRun(t, root)
		run(t, r, s1, "Hi")
		first := load(t, r, s1)
		run(t, r, s1, "And now?")
		log := load(t, r, s1)
		time.Sleep(2 * time.Hour)
		require.LessOrEqual(t, <-seen, int64(len(first)), "it sees what a later turn has stored")
		require.Equal(t, log, load(t, r, s1), "something is stored after the turn")
	})
}

// sickForInner fails the writes of an inner tool's result, as often as it is
// set to.
type sickForInner struct {
	session.Store
	left int
}

var errDisk = errors.New("the disk is full")

func (s *sickForInner) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 {
		return s.Store.Write(ctx, key, w)
	}
	events := w.Events
	if events[0].Scope != "" && events[0].Type() == event.TypeToolResult && s.left > 0 {
		s.left--
		return session.Lease{}, errDisk
	}
	return s.Store.Write(ctx, key, w)
}

// TestInnerRunsThatCouldNotBeClosed: an inner run that an outage of the store has cut off is ended by whatever is
// written next.
func TestInnerRunsThatCouldNotBeClosed(t *testing.T) {
	for _, newProcess := range []bool{false, true} {
		inner := scriptedAgent(t, "inner", seq(scripted.Reply(scripted.Call("lookup", "{}"))), llmagent.WithTools(lookupTool(t, "found")))
		root := scriptedAgent(t, "root", seq(scripted.Reply(scripted.Call("inner", `{"input":"go"}`)), scripted.Reply(scripted.Text("One.")), scripted.Reply(scripted.Text("Two."))),
			llmagent.WithTools(agentTool(t, inner)))
		store := &sickForInner{sessiontest.Memory(t), 1}
		r := newRunner(t, root, store)
		_, err := say(r, s1, "Hi")
		require.ErrorIs(t, err, errDisk)
		require.Zero(t, store.left)
		if newProcess {
			r = newRunner(t, root, store)
		}
		run(t, r, s1, "And now?")
		open := make(map[string]string)
		for _, e := range load(t, r, s1) {
			switch e.Data.(type) {
			case *event.HarnessStart:
				open[e.RunID] = e.Agent
			case *event.HarnessEnd:
				delete(open, e.RunID)
			}
		}
		require.Empty(t, open)
	}
}

// checkedOften counts how often its place in a tree is checked, which is once for
// each tree that it gets.
type checkedOften struct {
	agent.Agent
	n *int
}

func (c *checkedOften) CheckNode(*agent.Node) []string {
	*c.n++
	return nil
}

// TestAgentToolsShareTheirTree: what agents keep beside their nodes would grow
// with every call if each had a tree of its own.
func TestAgentToolsShareTheirTree(t *testing.T) {
	for name, wrap := range map[string]func(agent.Agent) agent.Agent{
		"alone":   func(a agent.Agent) agent.Agent { return a },
		"an edge": func(a agent.Agent) agent.Agent { return agent.Via(a, agent.HideReason()) },
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			tool := must.Get(agenttool.New(wrap(&checkedOften{says(t, "inner", "Yes."), &n})))
			turns := 0
			call := scripted.Call("inner", `{"input":"go"}`)
			root := must.Get(llmagent.New("root", "", scripted.Func("m", func(*llm.Request) scripted.Answer {
				if turns++; turns%2 == 1 {
					return scripted.Reply(call, call, call)
				}
				return scripted.Reply(scripted.Text("Done."))
			}), llmagent.WithTools(tool)))
			r := newRun(t, root)
			n = 0
			for i := range 5 {
				run(t, r, session.ID(fmt.Sprint("s", i)), "Hi")
			}
			require.Equal(t, 1, n)
		})
	}
}
