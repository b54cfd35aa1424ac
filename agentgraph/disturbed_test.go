package agentgraph_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// stride is the distance between the events at which a test disturbs a run. It is more than 1 where the race detector
// makes each run several times as slow, and odd so that tests which alternate still do.
var stride = map[bool]int{false: 1, true: 7}[race.Enabled]

var key = session.ID("s")

// logOf returns the events of the session.
func logOf(r *runner.Runner) []*event.Event {
	return must.All(r.History(context.Background(), key))
}

// resultsOf reads what became of the runs of a graph in the session.
func resultsOf(t testing.TB, a *agentgraph.Agent, r *runner.Runner) (all []agentgraph.Result) {
	for _, run := range must.Get(a.Runs(r.History(context.Background(), key))) {
		all = append(all, run.Result)
	}
	return all
}

// undisturbed runs the graph of a scene as nobody disturbs it.
func undisturbed(t testing.TB, build func(*scene) agent.Agent, graph *agentgraph.Agent) (result agentgraph.Result, events []*event.Event, called map[string]int) {
	s := &scene{}
	root := build(s)
	require.NoError(t, s.err)
	r := must.Get(runner.New(root, sessiontest.Memory(t), runner.WithStreaming()))
	for _, err := range r.Run(context.Background(), key, llm.UserText("go")) {
		require.NoError(t, err)
	}
	if own, ok := root.(*agentgraph.Agent); ok {
		graph = own
	}
	results := resultsOf(t, graph, r)
	require.Len(t, results, 1)
	return results[0], logOf(r), s.take()
}

// requireNotAgain compares a log with the calls of a process that continued it: what
// had finished in the log is not called, and no answer in it is asked for again. What
// agents behind tools had done is lost with the call of the tool.
func requireNotAgain(t testing.TB, log []*event.Event, whole, called map[string]int, where string) {
	answers, results, finished := make(map[string]int), make(map[string]int), make(map[string]bool)
	for _, e := range log {
		switch d := e.Data.(type) {
		case *event.Usage:
			answers[d.Model]++
		case *event.ToolResult:
			results[d.Name]++
		case *event.HarnessEnd:
			if d.FinishReason == event.FinishReasonStop {
				finished[d.AgentID] = true
			}
		}
	}
	for call, n := range whole {
		kind, name, _ := strings.Cut(call, " ")
		part, _, _ := strings.Cut(name, "_")
		switch {
		case name == "expert" || part == "deep":
		case kind == "agent" && n == 1 && finished[name], kind == "model" && finished[name]:
			require.Zero(t, called[call], "%s: %s had finished", where, name)
		case kind == "model":
			require.LessOrEqual(t, called[call]+answers[name], n, "%s: an answer of %s stands in the log", where, name)
		case kind == "tool":
			require.LessOrEqual(t, called[call]+results[name], n, "%s: a result of %s stands in the log", where, name)
		}
	}
}

// TestDisturbed breaks off, cancels and panics at every event of a run. No goroutine is
// left, which synctest checks, the process that continues gets the same result, and the
// session takes a new message.
func TestDisturbed(t *testing.T) {
	build := func(s *scene) agent.Agent { return s.variety() }
	var whole agentgraph.Result
	var events []*event.Event
	var called map[string]int
	synctest.Test(t, func(t *testing.T) { whole, events, called = undisturbed(t, build, nil) })
	delivered := len(events) + called["model tool"] // and some deltas
	ways := map[string]func(cancel context.CancelFunc) (goOn bool){
		"breaks": func(context.CancelFunc) bool { return false },
		"cancels": func(cancel context.CancelFunc) bool {
			cancel()
			return true
		},
		"panics": func(context.CancelFunc) bool { panic("the consumer") },
	}
	for name, disturb := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for k := 0; k < delivered; k += stride {
				synctest.Test(t, func(t *testing.T) {
					where := fmt.Sprintf("%s at %d", name, k)
					store := sessiontest.Memory(t)
					s := &scene{}
					a := s.variety()
					require.NoError(t, s.err)
					r := must.Get(runner.New(a, store, runner.WithStreaming()))
					said := disturbAt(r, k, disturb)
					if name == "panics" {
						require.Equal(t, "the consumer", said, where)
					}
					log := logOf(r)

					again := &scene{} // in the same process, and in another one
					if k%2 == 0 {
						again = s
						s.take()
					} else {
						a = again.variety()
						r = must.Get(runner.New(a, store))
					}
					for _, err := range r.Resume(context.Background(), key) {
						require.NoError(t, err, where)
					}
					results := resultsOf(t, a, r)
					require.Len(t, results, 1, where)
					require.Equal(t, inJSON(whole), inJSON(results[0]), "%s\n%s", where, lines(logOf(r)))
					requireNotAgain(t, log, called, again.take(), where)
					requireClosed(t, logOf(r), where)

					for _, err := range r.Run(context.Background(), key, llm.UserText("go")) {
						require.NoError(t, err, where)
					}
					results = resultsOf(t, a, r)
					require.Len(t, results, 2, where)
					require.Equal(t, inJSON(whole), inJSON(results[1]), where)
				})
			}
		})
	}
}

// disturbAt runs a turn and disturbs it at its k-th event. It returns what the panic
// said, or the turn's error.
func disturbAt(r *runner.Runner, k int, disturb func(context.CancelFunc) bool) (said any) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			said = p
		}
	}()
	n := 0
	for _, err := range r.Run(ctx, key, llm.UserText("go")) {
		if err != nil {
			return err
		}
		if n++; n == k+1 && !disturb(cancel) {
			break
		}
	}
	return nil
}

// TestNewMessageInstead: after a turn was cut off the user can just say something else.
// The run is then recorded as cancelled.
func TestNewMessageInstead(t *testing.T) {
	build := func(s *scene) agent.Agent { return s.variety() }
	synctest.Test(t, func(t *testing.T) {
		whole, events, _ := undisturbed(t, build, nil)
		for k := 0; k < len(events); k += stride {
			s := &scene{}
			a := s.variety()
			r := must.Get(runner.New(a, sessiontest.Memory(t)))
			disturbAt(r, k, func(context.CancelFunc) bool { return false })
			cut := logOf(r)
			before := resultsOf(t, a, r)
			for _, err := range r.Run(context.Background(), key, llm.UserText("go")) {
				require.NoError(t, err)
			}
			where := fmt.Sprint("break at ", k)
			requireClosed(t, logOf(r), where)
			results := resultsOf(t, a, r)
			require.Len(t, results, 2)
			require.Equal(t, inJSON(whole), inJSON(results[1]), where)
			if len(cut) < len(events) {
				require.Equal(t, agentgraph.Cancelled, results[0].Status, where)
				require.Equal(t, agentgraph.Cancelled, before[0].Status, where)
				require.Equal(t, startsIn(cut), results[0].Calls, where)
				require.Equal(t, startsIn(cut), before[0].Calls, where)
			}
		}
	})
}

// TestStandInCutOff: a run is cancelled that was cut off while its fallback stood in for a node, also if all other nodes are over.
func TestStandInCutOff(t *testing.T) {
	begun := make(chan struct{})
	spare := does(t, "spare", func(ctx context.Context, _ any) (any, error) {
		close(begun)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	a := must.Get(agentgraph.NewBuilder("cut").Node("a", gives(t, 1)).Node("b", fails(t, 9, "broken", nil)).Node("c", gives(t, 2)).Node("spare", spare).
		Edge("a", "b").Edge("b", "c").OnError(agentgraph.ErrorHandling{Strategy: agentgraph.Continue, Fallback: "spare"}).Build())
	r := must.Get(runner.New(a, sessiontest.Memory(t)))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-begun
		cancel()
	}()
	for _, err := range r.Run(ctx, key, llm.UserText("go")) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	require.Equal(t, agentgraph.Cancelled, resultsOf(t, a, r)[0].Status)
}

// startsIn counts the calls of the nodes of a graph in the conversation that have begun.
func startsIn(events []*event.Event) map[string]int {
	calls := make(map[string]int)
	for _, id := range []string{"plan", "tool", "over", "ask", "ask2", "inner", "direct", "rounds", "flaky", "broken", "never", "join", "last", "spare"} {
		calls[id] = 0
	}
	graph := ""
	for _, e := range events {
		if _, ok := e.Data.(*event.HarnessStart); ok {
			if e.Scope == "" {
				graph = e.RunID
			} else if _, there := calls[e.Agent]; there && strings.HasPrefix(e.Scope, graph+".") {
				calls[e.Agent]++
			}
		}
	}
	return calls
}
