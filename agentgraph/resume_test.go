package agentgraph_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestReferenceCut cuts the logs of random graphs behind each write, and goes on. What
// comes of them is the same. Their agents take no time, because a time that begins anew
// would be another one.
func TestReferenceCut(t *testing.T) {
	few(t, 150)
	cuts := 0
	rapid.Check(t, func(rt *rapid.T) {
		c := drawGraph(rt)
		c.settle = time.Millisecond
		for id, d := range c.does {
			d.takes, d.tool = 0, false // a tool's run has steps, and what begins again has fewer of them
			c.does[id] = d
		}
		var whole played
		var parts []played
		synctest.Test(t, func(*testing.T) {
			whole = c.play(t)
			for k := 2; k < len(whole.events); k++ {
				if !whole.events[k-1].Time.Equal(whole.events[k].Time) {
					parts = append(parts, c.play(t, whole.events[:k]...))
				}
			}
		})
		cuts += len(parts)
		require.NoError(rt, whole.err)
		for _, p := range parts {
			require.NoError(rt, p.err)
			require.Len(rt, p.results, 1)
			if inJSON(whole.results[0]) != inJSON(p.results[0]) {
				rt.Fatalf("want %s\ngot  %s\n%s%+v\nat most %d at once, input %s\nwhole:\n%s\nthe rest:\n%s", inJSON(whole.results[0]), inJSON(p.results[0]),
					c.text, c.does, c.concurrency, c.input, lines(whole.events), lines(p.events))
			}
			require.Equal(rt, fmt.Sprint(whole.failed), fmt.Sprint(p.failed))
			require.Equal(rt, inJSON(whole.events[len(whole.events)-1].Data), inJSON(p.events[len(p.events)-1].Data))
		}
	})
	t.Log(cuts, "cuts")
}

// trees are trees with a graph in them.
var trees = map[string]func(*scene) (agent.Agent, *agentgraph.Agent){
	"root": func(s *scene) (agent.Agent, *agentgraph.Agent) {
		a := s.variety()
		return a, a
	},
	"one at a time": func(s *scene) (agent.Agent, *agentgraph.Agent) {
		a := s.variety(agentgraph.WithConcurrency(1))
		return a, a
	},
	"target of a transfer": func(s *scene) (agent.Agent, *agentgraph.Agent) {
		a := s.variety()
		return s.model("front", func(llm.Message) items {
			return items{scripted.Text("One moment."), scripted.Call(agent.TransferTool, `{"agent_name":"variety"}`)}
		}, llmagent.WithSubAgents(a)), a
	},
	"behind a tool": func(s *scene) (agent.Agent, *agentgraph.Agent) {
		a := s.steady()
		return s.hasTool("asks", "So it is.", s.agentTool(a)), a
	},
}

// mayEndAt reports whether a log can end after k events: between two writes. Those by
// which a graph ends nodes and starts others need not be whole either.
func mayEndAt(events []*event.Event, k int) bool {
	bound := func(e *event.Event) bool {
		end, ends := e.Data.(*event.HarnessEnd)
		return e.Type() == event.TypeHarnessStart || ends && end.FinishReason != event.FinishReasonTransfer
	}
	last, next := events[k-1], events[k]
	return !last.Time.Equal(next.Time) || bound(last) && bound(next)
}

// TestCutAnywhere cuts the log of a run after each of its writes, and lets another
// process continue. What has finished is not called again, and the run has the outcome
// of the one that was not cut.
func TestCutAnywhere(t *testing.T) {
	for name, tree := range trees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				whole, events, called := wholeOf(t, tree)
				for k := 1; k < len(events); k += stride {
					if !mayEndAt(events, k) {
						continue
					}
					where := fmt.Sprint("cut after ", k)
					store := sessiontest.Memory(t)
					lease, err := sessiontest.Acquire(context.Background(), store, key, session.Owner{Host: "test"})
					require.NoError(t, err)
					require.NoError(t, sessiontest.Append(context.Background(), store, key, 0, lease, events[:k]...))
					require.NoError(t, sessiontest.Release(context.Background(), store, key, lease))
					goOn(t, tree, store, key, whole, events[:k], called, name == "behind a tool", where)
				}
			})
		})
	}
}

// TestForkAnywhere goes on in a fork that was taken at each checkpoint of a run, and in
// one that is cut off in its turn. Nothing is written there to a run of the past. A new
// message is answered there, too.
func TestForkAnywhere(t *testing.T) {
	for name, tree := range trees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				whole, events, called := wholeOf(t, tree)
				store := sessiontest.Memory(t)
				lease := must.Get(sessiontest.Acquire(context.Background(), store, key, session.Owner{Host: "test"}))
				for first := 0; first < len(events); { // write by write, as it was
					last := first + 1
					for last < len(events) && events[last].Time.Equal(events[first].Time) {
						last++
					}
					require.NoError(t, sessiontest.Append(context.Background(), store, key, int64(first), lease, events[first:last]...))
					first = last
				}
				require.NoError(t, sessiontest.Release(context.Background(), store, key, lease))
				sessions := must.Get(checkpoint.New(store))
				n := 0
				for _, at := range must.All(sessions.History(context.Background(), key)) {
					if at.Seq == 0 || at.Seq == int64(len(events)) {
						continue
					}
					n++
					fork := session.ID(fmt.Sprint("fork", at.Seq))
					require.NoError(t, sessions.Fork(context.Background(), key, at.Seq, fork))
					where := fmt.Sprint("fork at ", at.Seq)
					goOn(t, tree, store, fork, whole, events[:at.Seq], called, name == "behind a tool", where)
					requireOwnRuns(t, store, fork, at.Seq, where)

					fork = session.ID(fmt.Sprint("cut", at.Seq))
					require.NoError(t, sessions.Fork(context.Background(), key, at.Seq, fork))
					root, _ := tree(&scene{})
					r := must.Get(runner.New(root, store))
					more := 0
					for _, err := range r.Resume(context.Background(), fork) {
						require.NoError(t, err)
						if more++; more > n%9 {
							break
						}
					}
					log := eventsOf(store, fork)
					var fold session.Fold
					for _, e := range log {
						fold.Apply(e)
					}
					if fold.Unfinished() {
						where = fmt.Sprintf("fork at %d, cut off after %d", at.Seq, more)
						goOn(t, tree, store, fork, whole, log, called, name == "behind a tool", where)
						requireOwnRuns(t, store, fork, at.Seq, where)
					}

					fork = session.ID(fmt.Sprint("new", at.Seq))
					require.NoError(t, sessions.Fork(context.Background(), key, at.Seq, fork))
					for _, err := range r.Run(context.Background(), fork, llm.UserText("go")) {
						require.NoError(t, err)
					}
					requireOwnRuns(t, store, fork, at.Seq, fmt.Sprint("new message in a fork at ", at.Seq))
				}
				require.Greater(t, n, 18)
			})
		})
	}
}

func eventsOf(store session.Store, key session.Key) []*event.Event {
	return must.All(store.Load(context.Background(), key, 0))
}

// requireOwnRuns holds a fork against the rule that no run is written to in two sessions.
func requireOwnRuns(t testing.TB, store session.Store, fork session.Key, shared int64, where string) {
	past := make(map[string]bool)
	for _, e := range eventsOf(store, fork) {
		if e.Seq <= shared {
			past[e.RunID] = true
		} else if past[e.RunID] {
			require.Fail(t, "a run of the past was written to", "%s: seq %d of %s\n%s", where, e.Seq, e.Agent, lines(eventsOf(store, fork)))
		}
	}
}

func wholeOf(t testing.TB, tree func(*scene) (agent.Agent, *agentgraph.Agent)) (agentgraph.Result, []*event.Event, map[string]int) {
	var graph *agentgraph.Agent
	s := &scene{}
	root, graph := tree(s)
	require.NoError(t, s.err)
	r := must.Get(runner.New(root, sessiontest.Memory(t)))
	for _, err := range r.Run(context.Background(), key, llm.UserText("go")) {
		require.NoError(t, err)
	}
	results := resultsOf(t, graph, r)
	require.Len(t, results, 1)
	return results[0], logOf(r), s.take()
}

// goOn resumes a session whose log ends early, and compares.
func goOn(t testing.TB, tree func(*scene) (agent.Agent, *agentgraph.Agent), store session.Store, key session.Key, whole agentgraph.Result, log []*event.Event,
	called map[string]int, behindTool bool, where string) {
	s := &scene{}
	root, graph := tree(s)
	require.NoError(t, s.err)
	r := must.Get(runner.New(root, store))
	var last *event.Event
	for e, err := range r.Resume(context.Background(), key) {
		require.NoError(t, err, where)
		last = e
	}
	require.NotNil(t, last, where)
	require.Equal(t, event.TypeHarnessEnd, last.Type(), where)
	results := must.Get(graph.Runs(r.History(context.Background(), key)))
	got := results[len(results)-1].Result // a tool that was cut off runs its graph anew
	if !behindTool {
		require.Len(t, results, 1, where)
		requireNotAgain(t, log, called, s.take(), where)
	}
	if inJSON(whole) != inJSON(got) {
		require.Equal(t, inJSON(whole), inJSON(got), "%s\n%s", where, lines(eventsOf(store, key)))
	}
}
