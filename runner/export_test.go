package runner

import "github.com/agentarbor/arbor/session"

// Resealed returns a snapshot with another document under a checksum that is right.
func Resealed(key session.Key, s session.Snapshot, change func(document string) string) session.Snapshot {
	if n := len(sum(key, "")); len(s.Data) >= n && s.Data[:n] == sum(key, s.Data[n:]) {
		document := change(s.Data[n:])
		s.Data = sum(key, document) + document
	}
	return s
}

// AnticipatesFirst has a turn wait until what it anticipates has come, so that a test finds the same each time.
func AnticipatesFirst() Option {
	return func(c *config) { c.anticipated = func(over <-chan struct{}) { <-over } }
}
