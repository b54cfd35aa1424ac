package responses

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// TestResponsesDeltaAllocations: a delta costs no more than one of the native API may.
func TestResponsesDeltaAllocations(t *testing.T) {
	sent := 0
	r := &Response{ID: ID{Turn: "t1", Session: "s1"}, Model: "support", Send: func(string, []byte) error { sent++; return nil }, last: -1, in: true}
	e := &event.Event{ID: "b", Partial: true, Data: &event.Text{Content: " charges"}}
	rep, at := &live.Report{}, session.Position{Seq: 2}
	entries := make([]session.Entry, 1101)
	for i := range entries {
		at.Part++
		entries[i] = session.Entry{ID: at.String(), Event: e}
	}
	allocs := race.Allocations(t, len(entries)-1, func() {
		require.NoError(t, r.Apply(entries[0], rep))
		entries = entries[1:]
	})
	require.LessOrEqual(t, allocs, 6.0)
	require.Equal(t, 1101+2, sent)
}
