package agui

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/race"
	"github.com/agentarbor/arbor/session"
)

// TestDeltasAreCheap: what a delta costs each page that follows.
func TestDeltasAreCheap(t *testing.T) {
	p := begun(t)
	e := delta("b", " charges")
	at := session.Position{Seq: 2}
	allocations := race.Allocations(t, 1000, func() {
		at.Part++
		for _, out := range p.apply(at, e) {
			must.Get(json.Marshal(out))
		}
	})
	require.LessOrEqual(t, allocations, 4.0)
}
