// Package sleep waits for a time that a context may cut short.
package sleep

import (
	"context"
	"time"
)

// For waits for a time, or returns the cause of a context that ends before. If d is not positive, For only looks at the
// context.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
