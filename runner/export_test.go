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
