package router

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
)

// TestPastFromSnapshot: what was stored is read back, by a router with the same agents below it alone.
func TestPastFromSnapshot(t *testing.T) {
	of := &Router{index: map[string]agent.Agent{"a": nil, "b": nil}}
	for _, p := range []*past{
		{name: "r", of: of},
		{name: "r", of: of, seq: 70, turn: "t", active: "a", before: "b", gone: []string{"a", "b"}, asking: []asks{{"a", true}, {"b", false}}, asked: true,
			moods: []mood{{"t", map[string]float64{"anger": 0.25, "joy": 1}}, {"u", map[string]float64{}}}},
	} {
		require.Equal(t, `router "r"`, p.SnapshotName())
		part, data, err := p.Snapshot(false)
		require.NoError(t, err)
		require.Zero(t, part)
		got := &past{name: "r", of: of}
		require.True(t, got.Restore([]string{string(data)}))
		require.Equal(t, p, got)
		require.Equal(t, p.seq, got.Seq())

		other := &past{name: "r", of: &Router{index: map[string]agent.Agent{"a": nil}}}
		require.False(t, other.Restore([]string{string(data)}))
		require.False(t, got.Restore(nil))
		for i := range data {
			fresh := &past{name: "r", of: of}
			require.False(t, fresh.Restore([]string{string(data[:i])}))
			require.Equal(t, &past{name: "r", of: of}, fresh)
		}
	}
}
