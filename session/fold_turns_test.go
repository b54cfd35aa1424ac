package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// TestFoldKnowsWhereTurnsBegin: however long the log is, the start of a turn is known, or one that is not much earlier.
func TestFoldKnowsWhereTurnsBegin(t *testing.T) {
	f := new(session.Fold)
	require.Zero(t, f.Turns.At(1))
	for n := 1; n <= 100_000; n++ {
		f.Apply(&event.Event{Seq: int64(2 * n), Data: &event.User{Content: llm.UserText("q").Content}})
		if n > 300 && n%997 != 0 {
			continue
		}
		require.Equal(t, n, f.Turns.Count)
		require.LessOrEqual(t, len(f.Turns.Begun), 128)
		require.Zero(t, f.Turns.At(0))
		for turn := 1; turn <= n; turn += 1 + n/200 {
			got := f.Turns.At(turn)
			require.Equal(t, int64(2*got.Turn), got.Seq)
			require.LessOrEqual(t, got.Turn, turn)
			require.LessOrEqual(t, turn-got.Turn, (n-got.Turn)/3, "turn %d of %d", turn, n)
		}
		require.Equal(t, agent.TurnStart{Turn: n, Seq: int64(2 * n)}, f.Turns.At(n+1))
	}
}
