package postgres

import "time"

// WithClock replaces the server's clock.
func WithClock(now func() time.Time) Option { return func(s *Store) { s.now = now } }
