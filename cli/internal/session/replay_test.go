package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPause(t *testing.T) {
	for _, tt := range []struct {
		took  time.Duration
		speed float64
		want  time.Duration
	}{
		{time.Second, 1, time.Second},
		{time.Second, 4, time.Second / 4},
		{time.Second, 0.8, 1250 * time.Millisecond},
		{time.Hour, 1, maxPause},
		{time.Hour, 3600, time.Second},
		{time.Second, 0.0001, maxPause},
		{time.Second, 0, 0},
		{0, 1, 0},
		{-time.Hour, 1, 0},
	} {
		require.Equal(t, tt.want, pause(tt.took, tt.speed), "%v at %v", tt.took, tt.speed)
	}
}
