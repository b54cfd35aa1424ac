package agentgraph_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/runner"
)

// alongTheLog checks what is told of a run after each event of its log: what has become of an edge
// stays so, no node goes back but to be called again, nobody is at work in a run that has ended, and what the
// lists say the phases do.
func alongTheLog(t require.TestingT, a *agentgraph.Agent, log []*event.Event) {
	log = slices.DeleteFunc(slices.Clone(log), func(e *event.Event) bool { return e.Partial })
	var edges []agentgraph.ResultEdge
	var before map[string]agentgraph.Phase
	for n := range log {
		last := n == len(log)-1
		if !last && (log[n].Time.Equal(log[n+1].Time) || n%(1+len(log)/16) != 0) { // in the middle of a write; or enough were seen
			continue
		}
		results := must.Get(a.Results(func(yield func(*event.Event, error) bool) {
			for _, e := range log[:n+1] {
				if !yield(e, nil) {
					return
				}
			}
		}))
		if len(results) != 1 { // it has not begun, or began again
			continue
		}
		r := results[0]
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
		results := must.Get(s.make().Results(func(yield func(*event.Event, error) bool) {
			for _, e := range log[:n] {
				if !yield(e, nil) {
					return
				}
			}
		}))
		return results[0]
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
