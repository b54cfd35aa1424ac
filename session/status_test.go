package session_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// TestStatusAfter shows that the status that stores keep is that of the fold, at each position of a log with each end of
// a turn.
func TestStatusAfter(t *testing.T) {
	var fold session.Fold
	var status session.Status
	seen := make(map[session.Status]bool)
	add := func(turn, scope string, data ...event.Data) {
		for _, d := range data {
			e := &event.Event{Seq: fold.Seq + 1, ID: fmt.Sprint("e", fold.Seq), TurnID: turn, RunID: turn + scope, Scope: scope, Agent: "support", Data: d}
			fold.Apply(e)
			status = status.After(e)
			seen[status] = true
			require.Equal(t, fold.Status(), status, "seq %d, %s", e.Seq, e.Type())
		}
	}
	add("t", "", &event.Text{Content: "before any turn"})
	for i, reason := range []event.FinishReason{event.FinishReasonStop, event.FinishReasonLength, event.FinishReasonContentFilter, event.FinishReasonInputRequired,
		event.FinishReasonError, event.FinishReasonLimit, event.FinishReasonCanceled, event.FinishReasonTransfer} {
		turn := fmt.Sprint("t", i)
		add(turn, "", &event.User{}, &event.HarnessStart{})
		add(turn, "inner", &event.HarnessStart{}, &event.HarnessEnd{FinishReason: event.FinishReasonError})
		add(turn, "", &event.Text{Content: "x"}, &event.HarnessEnd{FinishReason: reason}, &event.Text{Content: "y"})
		if reason == event.FinishReasonInputRequired {
			add(turn, "", &event.HarnessStart{}, &event.HarnessEnd{FinishReason: event.FinishReasonTransfer, Target: "b"}, &event.HarnessStart{})
			add(turn, "", &event.HarnessEnd{FinishReason: event.FinishReasonStop})
		}
	}
	require.Len(t, seen, 6)
}
