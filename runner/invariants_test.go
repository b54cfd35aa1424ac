package runner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

func load(t testing.TB, r *runner.Runner, key session.Key) []*agent.Event {
	var events []*agent.Event
	for e, err := range r.History(context.Background(), key) {
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

// checkLog holds a log against what is true of every log: positions without
// gaps, ids once, one result for every call before its run's model answers
// again, runs that start once and end once, each caused by something before it,
// and every committed transfer followed by its target.
func checkLog(t testing.TB, r *runner.Runner, events []*agent.Event) {
	type run struct {
		agent   string
		ended   bool
		paused  bool
		pending map[string]bool
	}
	runs := make(map[string]*run)
	seen := make(map[string]bool) // graph nodes
	ids := make(map[string]bool)
	open := make(map[string]string) // scope → open run
	active := make(map[string]string)
	for i, e := range events {
		require.EqualValues(t, i+1, e.Seq)
		require.False(t, e.Partial)
		require.NotEmpty(t, e.ID)
		require.NotEmpty(t, e.TurnID)
		require.NotEmpty(t, e.RunID)
		require.False(t, e.Time.IsZero())
		_, isResult := e.Data.(*agent.ToolResult)
		if !isResult {
			require.False(t, ids[e.ID], "the id %s stands twice", e.ID)
			ids[e.ID] = true
		}
		seen[e.ID] = true
		if e.ParentID != "" {
			require.True(t, seen[e.ParentID], "seq %d: its parent %s was never seen", e.Seq, e.ParentID)
		}
		if _, ok := e.Data.(*agent.User); ok {
			require.Empty(t, open, "seq %d: runs are open when the user speaks", e.Seq)
			for _, u := range runs {
				require.Empty(t, u.pending, "seq %d: calls have no result when the user speaks", e.Seq)
			}
			seen[e.RunID+":user"] = true
			continue
		}
		if _, ok := e.Data.(*agent.HarnessStart); ok {
			require.Nil(t, runs[e.RunID], "seq %d: the run starts twice", e.Seq)
			require.Empty(t, open[e.Scope], "seq %d: another run of the scope is open", e.Seq)
			require.NotEmpty(t, e.ParentID)
			if to := active[e.Scope]; to != "" && r.Tree().Node(to) != nil {
				require.Equal(t, to, e.Agent, "seq %d: not the agent the conversation went to", e.Seq)
			}
			runs[e.RunID] = &run{agent: e.Agent, pending: make(map[string]bool)}
			open[e.Scope] = e.RunID
			continue
		}
		if e.Agent == "user" {
			continue // a notice of the runner's
		}
		u := runs[e.RunID]
		require.NotNil(t, u, "seq %d: %s of a run that never started", e.Seq, e.Type())
		switch e.Data.(type) {
		case *agent.ToolResult, *agent.RelayResolved: // may settle what a paused run asked
			require.True(t, !u.ended || u.paused, "seq %d: %s of a run that has ended", e.Seq, e.Type())
		default:
			require.False(t, u.ended, "seq %d: %s of a run that has ended", e.Seq, e.Type())
		}
		require.Equal(t, u.agent, e.Agent)
		switch d := e.Data.(type) {
		case *agent.ToolCall:
			u.pending[e.ID] = true
		case *agent.ToolResult:
			require.True(t, u.pending[e.ID], "seq %d: a result without a call, or a second one", e.Seq)
			delete(u.pending, e.ID)
		case *agent.Text:
			require.Empty(t, u.pending, "seq %d: the model answered before its calls had results", e.Seq)
		case *agent.Transfer:
			if d.Outcome == agent.TransferCommitted {
				active[e.Scope] = d.To
				end, ok := events[i+1].Data.(*agent.HarnessEnd)
				require.True(t, ok && end.FinishReason == agent.FinishReasonTransfer && end.Target == d.To, "seq %d: a commit without the run's end", e.Seq)
			}
		case *agent.HarnessEnd:
			u.ended, u.paused = true, d.FinishReason == agent.FinishReasonInputRequired
			require.True(t, u.paused || len(u.pending) == 0, "seq %d: a run ends with calls that have no result", e.Seq)
			delete(open, e.Scope)
			seen[e.RunID+":harness_end"] = true
		}
	}
}
