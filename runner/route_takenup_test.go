package runner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// TestRouteOfARunThatIsTakenUp: the condition of a route gets the answer that the
// agent gave before it waited for an approval, or before the session was forked.
func TestRouteOfARunThatIsTakenUp(t *testing.T) {
	for name, option := range map[string]tools.Option{"an approval": tools.NeedsApproval(), "a fork": tools.Idempotent()} {
		publish, err := tools.Func("publish", "", func(tools.Context, struct{}) (string, error) { return "done", nil }, option)
		require.NoError(t, err)
		editor := scriptedAgent(t, "editor", seq(scripted.Reply(scripted.Text("Edited.")), scripted.Reply(scripted.Text("Edited."))))
		root := scriptedAgent(t, "writer", seq(scripted.Reply(scripted.Text("A draft."), scripted.CallID("c1", "publish", "{}")), scripted.Reply(), scripted.Reply()),
			llmagent.WithTools(publish), llmagent.WithSubAgents(agent.Via(editor, agent.When(answers("A draft.")))))
		store := session.NewMemory()
		r := newRunner(t, root, store)
		_, err = say(r, s1, "Hi")
		require.NoError(t, err)
		ctx, key := context.Background(), s1
		if name == "a fork" {
			key = forked
			require.NoError(t, store.Fork(ctx, s1, 5, key))
			_, err = collect(r.Resume(ctx, key))
		} else {
			_, err = collect(r.Resume(ctx, key, runner.Approve("c1")))
		}
		require.NoError(t, err)
		active, err := r.Active(ctx, key)
		require.NoError(t, err)
		require.Equal(t, "editor", active, name)
		checkLog(t, r, load(t, r, key))
	}
}
