package router

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// TestPastFromSnapshot: what was stored is read back, by a router with the same agents below it alone.
func TestPastFromSnapshot(t *testing.T) {
	of := &Router{index: map[string]agent.Agent{"a": nil, "b": nil}}
	fresh := func(of *Router) *past { return &past{name: "r", of: of, Below: of.namesBelow()} }
	full := fresh(of)
	full.Position, full.Turn, full.Active, full.Before, full.Asked = 70, "t", "a", "b", true
	full.Gone, full.Asking = []string{"a", "b"}, []asking{{"a", true}, {"b", false}}
	full.Moods = []mood{{"t", map[string]float64{"anger": 0.25, "joy": 1}}, {"u", map[string]float64{}}}
	for _, p := range []*past{fresh(of), full} {
		require.Equal(t, "router r", p.SnapshotName())
		data := must.Get(json.Marshal(p))
		got := fresh(of)
		require.NoError(t, json.Unmarshal(data, got))
		require.Equal(t, p, got)
		require.Equal(t, p.Position, got.Seq())
		require.Error(t, json.Unmarshal(data, fresh(&Router{index: map[string]agent.Agent{"a": nil}})))
	}
}
