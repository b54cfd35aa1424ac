package runner_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestRouteOfARunThatIsTakenUp: the condition of a route gets the answer that the
// agent gave before it waited for an approval, or before the session was forked.
func TestRouteOfARunThatIsTakenUp(t *testing.T) {
	for _, name := range []string{"an approval", "a fork"} {
		editor := scriptedAgent(t, "editor", seq(scripted.Reply(scripted.Text("Edited.")), scripted.Reply(scripted.Text("Edited."))))
		steps, call := 0, &event.Event{Data: &event.ToolCall{Name: "publish", Input: json.RawMessage("{}")}}
		root := function(t, "writer", func(context.Context, *agent.Invocation) iterSeq {
			steps++
			published := func() *event.Event {
				return &event.Event{ID: call.ID, Data: &event.ToolResult{Name: "publish", Output: json.RawMessage(`"done"`)}}
			}
			return func(yield func(*event.Event, error) bool) {
				switch {
				case steps > 1: // it has nothing to add
					_ = yield(published(), nil)
				case !yield(&event.Event{Data: &event.Text{Content: "A draft."}}, nil) || !yield(call, nil):
				case name == "a fork":
					_ = yield(published(), nil)
				case yield(&event.Event{Data: &event.Relay{Kind: "permission", ToolCallID: call.ID, Tool: "publish"}}, nil):
					yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}}, nil)
				}
			}
		}, agent.WithSubAgents(agent.Via(editor, agent.When(answers("A draft.")))))
		store := sessiontest.Memory(t)
		r := newRunner(t, root, store)
		run(t, r, s1, "Hi")
		ctx, key := context.Background(), s1
		if name == "a fork" {
			key = forked
			require.NoError(t, store.Fork(ctx, s1, 4, key))
			finish(t, r.Resume(ctx, key))
		} else {
			finish(t, resume(r, key, runner.Approve("c1")))
		}
		require.Equal(t, "editor", must.Get(r.Active(ctx, key)), name)
	}
}
