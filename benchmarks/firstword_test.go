package benchmarks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFirstWords: each framework asks the model once more in a turn with a transfer. Only times tell whether one of them
// asks both at once, and times are not compared here.
func TestFirstWords(t *testing.T) {
	all, err := FirstWords(t.Context(), time.Millisecond, 2)
	require.NoError(t, err)
	require.Len(t, all, len(All())+1)
	for _, w := range all {
		require.GreaterOrEqual(t, w.Plain, time.Millisecond, w.Who)
		require.GreaterOrEqual(t, w.TransferMost, w.Transfer, w.Who)
	}
}
