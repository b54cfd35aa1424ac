package session

import (
	"fmt"

	"github.com/agentarbor/arbor/agent"
)

// Snapshot is a document that was computed from a session's log. A store keeps the last one next to the log so that
// readers need not compute it again. Only the log is authoritative: a reader checks that a snapshot belongs to the
// log, and otherwise computes it again. Deleting a session deletes its snapshot. A fork does not have its parent's
// snapshot. The zero value is no snapshot.
type Snapshot struct {
	// Seq is the position of the log from which the document was computed.
	Seq int64
	// Data is the document, "" for none. Its format belongs to the reader, and contains its own checksum.
	Data string
}

// check returns an error if the snapshot cannot be stored with a log that ends at a position: [agent.ErrBadInput] for
// a negative Seq, and [agent.ErrConflict] for one after the end.
func (s Snapshot) check(key Key, end int64) error {
	switch {
	case s.Seq < 0:
		return fmt.Errorf("session %s: the snapshot has the negative position %d: %w", key, s.Seq, agent.ErrBadInput)
	case s.Seq > end:
		return fmt.Errorf("session %s: the snapshot is for position %d, but the log ends at %d: %w", key, s.Seq, end, agent.ErrConflict)
	}
	return nil
}
