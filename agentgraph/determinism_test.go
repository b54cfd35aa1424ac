package agentgraph_test

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

var repeats = flag.Int("repeats", 8, "how often TestDeterminism runs each graph")

// TestDeterminism runs graphs again and again, and compares their whole logs: what is
// in a log does not depend on which of several agents that are equally quick a
// processor happens to prefer. -repeats=N runs each graph N times.
//
// Ids are counted here. Agents that run side by side draw theirs when they need them,
// so that the scheduler decides who gets which. Ids only say who is who, and are
// compared as such: each is replaced by the place at which it comes first.
func TestDeterminism(t *testing.T) {
	for name, build := range map[string]func(*scene) *agentgraph.Agent{
		"diamond": func(s *scene) *agentgraph.Agent {
			return s.grid(func(b *agentgraph.Builder, _ int) {
				b.Edge("n0", "n1").Edge("n0", "n2").Edge("n1", "n3").Edge("n2", "n3")
			}, 4)
		},
		"wide":    func(s *scene) *agentgraph.Agent { return s.grid(shapes["wide"], 50) },
		"random":  func(s *scene) *agentgraph.Agent { return s.grid(shapes["random"], 60) },
		"bounded": func(s *scene) *agentgraph.Agent { return s.grid(shapes["random"], 60, agentgraph.WithConcurrency(3)) },
		"variety": func(s *scene) *agentgraph.Agent { return s.variety() },
		"steady":  func(s *scene) *agentgraph.Agent { return s.steady() },
		"tools": func(s *scene) *agentgraph.Agent {
			beside := make([]agent.Agent, 4)
			for i := range beside {
				beside[i] = s.hasTools(id(i), "Done.", s.lookup(id(i)+"_one"), s.agentTool(s.says(id(i)+"_two", 0)), s.lookup(id(i)+"_three"))
			}
			return s.around("tools", agentgraph.ErrorHandling{}, beside...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, streaming := range []bool{false, true} {
				first := ""
				for i := range *repeats {
					var log string
					var err error
					synctest.Test(t, func(t *testing.T) { log, err = playOnce(t, build, streaming) })
					require.NoError(t, err)
					if i == 0 {
						first = log
					}
					if log != first {
						t.Fatalf("run %d is another one than the first:\n%s", i, firstDifference(first, log))
					}
				}
			}
		})
	}
}

// playOnce runs a graph in a session of its own and returns the log, its ids replaced.
func playOnce(t sessiontest.TB, build func(*scene) *agentgraph.Agent, streaming bool) (string, error) {
	s := &scene{}
	a := build(s)
	if s.err != nil {
		return "", s.err
	}
	var n atomic.Int64
	opts := []runner.Option{runner.WithIDs(func() string { return fmt.Sprintf("id-%d-", n.Add(1)) }), runner.WithClock(func() time.Time { return time.Unix(0, 0) })}
	if streaming {
		opts = append(opts, runner.WithStreaming())
	}
	r, err := runner.New(a, sessiontest.Memory(t), opts...)
	if err != nil {
		return "", err
	}
	ctx, key := context.Background(), session.ID("s")
	for _, err := range r.Run(ctx, key, llm.UserText("go")) {
		if err != nil {
			return "", err
		}
	}
	var log strings.Builder
	for e, err := range r.History(ctx, key) {
		if err != nil {
			return "", err
		}
		own := *e
		own.Time = time.Time{}
		line, err := own.MarshalJSON()
		if err != nil {
			return "", err
		}
		log.Write(append(line, '\n'))
	}
	return renamed(log.String()), nil
}

var counted = regexp.MustCompile(`id-\d+-`)

// renamed replaces each id by the place at which it comes first.
func renamed(log string) string {
	names := make(map[string]string)
	return counted.ReplaceAllStringFunc(log, func(id string) string {
		if names[id] == "" {
			names[id] = fmt.Sprintf("#%d", len(names)+1)
		}
		return names[id]
	})
}

// firstDifference returns the lines at which two logs part, with those before.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("%s\n< %s\n> %s", strings.Join(x[max(0, i-4):i], "\n"), strings.Join(x[i:min(i+6, len(x))], "\n< "), strings.Join(y[i:min(i+6, len(y))], "\n> "))
		}
	}
	return fmt.Sprintf("%d lines, and %d", len(x), len(y))
}

// alongTheLog checks the status of a run after each event of its log: the result of an edge stays the same, a node
// returns to an earlier phase only if it is called again, no node works in a run that has ended, and the lists agree with
// the phases.
func alongTheLog(t require.TestingT, a *agentgraph.Agent, log []*event.Event) {
	log = slices.DeleteFunc(slices.Clone(log), func(e *event.Event) bool { return e.Partial })
	var edges []agentgraph.ResultEdge
	var before map[string]agentgraph.Phase
	for n := range log {
		last := n == len(log)-1
		if !last && (log[n].Time.Equal(log[n+1].Time) || n%(1+len(log)/16) != 0) { // in the middle of a write; or enough were seen
			continue
		}
		results := must.Get(a.Runs(must.Seq(log[:n+1], nil)))
		if len(results) != 1 { // it has not begun, or began again
			continue
		}
		r := results[0].Result
		for i, e := range edges {
			if e.State != agentgraph.EdgeState("waiting") {
				require.Equal(t, e, r.Edges[i])
			}
		}
		edges = r.Edges
		require.Len(t, r.Phases, len(r.Calls))
		for id, phase := range r.Phases {
			if was := before[id]; (was == agentgraph.PhaseSkipped || was == agentgraph.PhaseNotRun) && r.Calls[id] == 0 {
				require.Equal(t, was, phase, id)
			}
			switch phase {
			case agentgraph.PhaseWaiting, agentgraph.PhaseAsking, agentgraph.PhaseDue, agentgraph.PhaseRunning, agentgraph.PhasePaused:
				require.True(t, r.Open || r.Status == agentgraph.Waiting, "%s is %s after %d of %d events", id, phase, n+1, len(log))
			}
			for list, of := range map[agentgraph.Phase][]string{agentgraph.PhaseSkipped: r.Skipped, agentgraph.PhaseFailed: r.Failed, agentgraph.PhaseCancelled: r.Cancelled} {
				if !r.Open && r.Status != agentgraph.Waiting && slices.Contains(of, id) {
					require.Equal(t, list, phase, id)
				}
			}
		}
		before = r.Phases
	}
}

// While a run is under way, waits or is over, the phases of its nodes and its edges say how far
// it is.
func TestUnderWay(t *testing.T) {
	type look = map[string]agentgraph.Phase
	s := begin(t, "1", human(t, "fail-fast"))
	states := func(r agentgraph.Result) (out string) {
		for _, e := range r.Edges {
			out += e.From + e.To + " " + string(e.State) + ", "
		}
		return out
	}
	r := s.result()
	require.False(t, r.Open)
	require.Equal(t, look{"a": "finished", "b": "asking", "c": "asking", "d": "finished", "e": "waiting", "f": "waiting"}, r.Phases)
	require.Equal(t, "ab taken, ac taken, ad taken, de taken, be waiting, ce waiting, ", states(r))

	log := s.log()
	at := func(n int) agentgraph.Result {
		results := must.Get(s.make().Runs(must.Seq(log[:n], nil)))
		return results[0].Result
	}
	var seen []look
	for n := 2; n <= len(log); n++ {
		r := at(n)
		require.Equal(t, n < len(log), r.Open)
		if len(seen) == 0 || !equal(seen[len(seen)-1], r.Phases) {
			seen = append(seen, r.Phases)
		}
	}
	require.Equal(t, look{"a": "due", "b": "waiting", "c": "waiting", "d": "waiting", "e": "waiting", "f": "waiting"}, seen[0])
	require.Equal(t, look{"a": "running", "b": "waiting", "c": "waiting", "d": "waiting", "e": "waiting", "f": "waiting"}, seen[1])
	require.Contains(t, seen, look{"a": "finished", "b": "asking", "c": "asking", "d": "running", "e": "waiting", "f": "waiting"})

	var calls []runner.Decision
	for i, id := range s.waits() {
		calls = append(calls, runner.Decision{CallID: id, Approved: i == 0})
	}
	s.resume(calls...)
	r = s.result()
	require.False(t, r.Open)
	require.NotContains(t, r.Phases, "asking")
	alongTheLog(t, s.make(), s.log())
}

func equal(a, b map[string]agentgraph.Phase) bool {
	for id := range a {
		if a[id] != b[id] {
			return false
		}
	}
	return true
}
