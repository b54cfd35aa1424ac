package runner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// TestApprovedIsWhatRuns: a call whose tool, its source, or who may decide about it, has changed since the approval asks
// again; a decision about the older question is none.
func TestApprovedIsWhatRuns(t *testing.T) {
	store, key, ran := sessiontest.Memory(t), session.ID("s"), 0
	process := func(description, source string, by tools.By) *runner.Runner {
		pay := must.Get(tools.Func("pay", description, func(tools.Context, struct{}) (string, error) { ran++; return "paid", nil }, tools.NeedsApproval(by)))
		model := callsThen("m", "Paid.", scripted.CallID("c1", "pay", `{}`))
		root := must.Get(llmagent.New("clerk", "You pay.", model, llmagent.WithTools(from{pay, source})))
		return newRunner(t, root, store)
	}
	asked := func(r *runner.Runner) *event.Relay {
		all := must.Get(r.Pending(context.Background(), key))
		require.Len(t, all, 1)
		return all[0]
	}
	v1 := process("Pays one euro.", "bank", tools.ByUser())
	run(t, v1, key, "Pay")
	first := asked(v1)
	v2 := process("Pays all.", "bank", tools.ByUser())
	finish(t, v2.Resume(context.Background(), key, runner.Decision{CallID: first.ToolCallID, Approved: true, Digest: first.Digest}))
	require.Zero(t, ran)
	second := asked(v2)
	require.NotEqual(t, first.Digest, second.Digest)
	_, err := collect(v2.Resume(context.Background(), key, runner.Decision{CallID: first.ToolCallID, Approved: true, Digest: first.Digest}))
	require.ErrorIs(t, err, runner.ErrNoApproval)
	v3 := process("Pays all.", "bank", tools.ByStaff())
	finish(t, v3.Resume(context.Background(), key, runner.Approve(second.ToolCallID)))
	require.Zero(t, ran)
	v3 = process("Pays all.", "another bank", tools.ByStaff())
	finish(t, v3.Resume(context.Background(), key, runner.Approve(second.ToolCallID)))
	require.Zero(t, ran)
	require.Equal(t, []string{event.ByStaff}, asked(v3).By)
	finish(t, v3.Resume(context.Background(), key, runner.Approve(second.ToolCallID)))
	require.Equal(t, 1, ran)
}

// from is a tool of a source.
type from struct {
	tools.Tool
	source string
}

func (t from) Info() tools.Info {
	info := t.Tool.Info()
	info.Source = t.source
	return info
}
