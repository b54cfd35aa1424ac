package runner_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestPanicAfterATransfer: a function that panics after its transfer has transferred all
// the same.
func TestPanicAfterATransfer(t *testing.T) {
	a := must.Get(agent.New("a", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Transfer{To: "b"}}, nil)
			panic("too late")
		}
	}, agent.WithSubAgents(says(t, "b", "Here I am."))))
	r := newRun(t, a)
	var said string
	for e, err := range sessiontest.Turn(t, r.Run(t.Context(), session.ID("s1"), llm.UserText("Hello"))) {
		require.NoError(t, err)
		said += e.Visible()
	}
	require.Equal(t, "Here I am.", said)
}
