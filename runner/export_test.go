package runner

import "github.com/agentarbor/arbor/session"

// Resealed returns a snapshot with other data under a checksum that is right, made at the same place of
// the log.
func Resealed(key session.Key, s session.Snapshot, change func(data string) string) session.Snapshot {
	p, data, ok := unseal(key, s)
	if !ok {
		return s
	}
	return seal(key, s.Name, s.Part, p, []byte(change(data)))
}
