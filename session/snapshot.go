package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
)

// Snapshot is a part of a value that was computed from a session's log. A store keeps it next to the log so that
// readers need not compute the value again. Only the log is authoritative: a reader checks that a snapshot belongs to
// the log, and otherwise computes the value again. Deleting a session deletes its snapshots. A fork does not have its
// parent's snapshots.
type Snapshot struct {
	// Name is the name of the value, such as "session": 1 to 255 printable ASCII characters. Part is the number of
	// this part and orders the parts of a value. A growing list is stored as one part for each time that it grew.
	Name string
	Part int64
	// Seq is the position of the log from which the part was computed.
	Seq int64
	// Data is the content. Its format belongs to the reader, and contains its own checksum.
	Data string
}

// checkSnapshots returns an error if the parts cannot be stored. It is [agent.ErrBadInput] for two parts with the
// same name, an invalid name or a negative number, and [agent.ErrConflict] for a part whose position comes after the
// end of the log.
func checkSnapshots(key Key, end int64, parts []Snapshot) error {
	for i, p := range parts {
		wrong := ""
		switch {
		case p.Name == "" || len(p.Name) > 255 || strings.ContainsFunc(p.Name, func(r rune) bool { return r < ' ' || r > '~' }):
			wrong = "a name must have 1 to 255 printable ASCII characters"
		case p.Part < 0 || p.Seq < 0:
			wrong = "part and position must not be negative"
		case slices.ContainsFunc(parts[:i], func(o Snapshot) bool { return o.Name == p.Name }):
			wrong = "one write can contain only one part with this name"
		case p.Seq > end:
			return fmt.Errorf("session %s: the snapshot %.80q is for position %d, but the log ends at %d: %w", key, p.Name, p.Seq, end, agent.ErrConflict)
		default:
			continue
		}
		return fmt.Errorf("session %s: part %d of the snapshot %.80q at %d: %s: %w", key, p.Part, p.Name, p.Seq, wrong, agent.ErrBadInput)
	}
	return nil
}
