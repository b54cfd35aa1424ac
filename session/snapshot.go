package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
)

// Snapshot is a part of something that follows from a session's log, stored next to the log so that it
// need not be made again. The log alone decides: a reader checks that the snapshot belongs to the log, and makes
// anew what does not. Snapshots are deleted with their session, and a fork has none of its parent's.
type Snapshot struct {
	// Name says of what it is, such as "session", in 1 to 255 printable characters of ASCII. Part orders the parts of one thing: a list that
	// grows is stored as what came since the last part.
	Name string
	Part int64
	// Seq is the position of the log that it was made at.
	Seq int64
	// Data are bytes of a form of its own, checksums included.
	Data string
}

// checkSnapshots returns an error if parts cannot be stored. It is [agent.ErrBadInput] for two parts of one name, an
// invalid name or a negative number, and [agent.ErrConflict] for a part of a position after the end of the log.
func checkSnapshots(key Key, end int64, parts []Snapshot) error {
	for i, p := range parts {
		wrong := ""
		switch {
		case p.Name == "" || len(p.Name) > 255 || strings.ContainsFunc(p.Name, func(r rune) bool { return r < ' ' || r > '~' }):
			wrong = "names are 1 to 255 printable characters of ASCII"
		case p.Part < 0 || p.Seq < 0:
			wrong = "no number is negative"
		case slices.ContainsFunc(parts[:i], func(o Snapshot) bool { return o.Name == p.Name }):
			wrong = "there is another part of this name"
		case p.Seq > end:
			return fmt.Errorf("session %s: a snapshot of a later position than %d, where the log is: %w", key, end, agent.ErrConflict)
		default:
			continue
		}
		return fmt.Errorf("session %s: part %d of the snapshot %.80q at %d: %s: %w", key, p.Part, p.Name, p.Seq, wrong, agent.ErrBadInput)
	}
	return nil
}
