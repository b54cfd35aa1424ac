package telemetry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/race"
)

// With providers that do nothing, the six spans of a transfer cost few
// allocations beside the turn's own. The race detector has its own.
func TestAllocationsOfTracing(t *testing.T) {
	with := backends(t)
	count := func(name string) float64 { return race.Allocations(t, 200, transfers(t, with[name])) }
	without := count("passthrough")
	// Both counts are averages without what is behind the point: one may be missing.
	require.LessOrEqual(t, count("noop")-without, 65.0+1)
	require.LessOrEqual(t, count("sdk")-without, 125.0+1)
}
