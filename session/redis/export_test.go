package redis

import "time"

// WithTTL sets how long a stream lives without activity.
func WithTTL(d time.Duration) Option { return func(t *Tail) { t.ttl = d } }

// WithMaxQueue bounds the partial events that wait to be published, by number and by their size in memory in bytes.
func WithMaxQueue(number, bytes int) Option {
	return func(t *Tail) { t.maxQueued, t.maxBytes = number, bytes }
}

// WithGrace sets how long a follower that finds recent events in the store waits for them to arrive through Redis.
func WithGrace(d time.Duration) Option { return func(t *Tail) { t.grace = d } }

// WithMaxLen bounds the number of entries of a stream, approximately.
func WithMaxLen(n int64) Option { return func(t *Tail) { t.maxLen = n } }
