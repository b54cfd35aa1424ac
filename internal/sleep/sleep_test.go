package sleep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/sleep"
)

func TestForEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.Equal(t, context.DeadlineExceeded, sleep.For(ctx, time.Minute))
		require.Equal(t, time.Second, time.Since(began))
		require.NoError(t, sleep.For(t.Context(), time.Minute))
		require.Equal(t, time.Second+time.Minute, time.Since(began))
	})
}
