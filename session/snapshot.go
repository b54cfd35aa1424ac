package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
)

// Snapshot is a part of something that follows from a session's log, stored beside it so that it
// need not be made from the log again. The log alone decides: who reads a snapshot checks that it
// belongs to the log, and makes anew what does not. Deleting snapshots changes nothing but time.
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

// Snapshots is implemented by stores that keep snapshots. They are deleted with their session, and
// forks have none of their parent's. [SnapshotsOf] finds them behind stores that wrap others.
type Snapshots interface {
	// PutSnapshots stores parts, each of another name, in place of the parts of that name from its Part
	// on: all or none. It returns an error that is [agent.ErrConflict] when the lease is no longer the current
	// one or the log is not at the Seq of a part yet. It need not wait for the disk: a crash of the
	// system may cost the parts, or leave older ones.
	PutSnapshots(ctx context.Context, key Key, lease Lease, parts ...Snapshot) error
	// Snapshots returns the parts of a name in their order, none if there are none.
	Snapshots(ctx context.Context, key Key, name string) ([]Snapshot, error)
}

// SnapshotsOf returns the snapshots of a store, or those of the nearest store that it wraps, nil if it keeps
// none. A store that wraps another one and leaves its sessions as they are implements Unwrap() Store; one that is a [Snapshots]
// of several implements Unwrap() []Store, all of which must keep them; and one that may keep none all the same
// implements KeepsSnapshots() bool.
func SnapshotsOf(store Store) Snapshots {
	if k, ok := store.(interface{ KeepsSnapshots() bool }); ok && !k.KeepsSnapshots() {
		return nil
	}
	found, ok := store.(Snapshots)
	switch w := store.(type) {
	case interface{ Unwrap() Store }:
		if !ok {
			return SnapshotsOf(w.Unwrap())
		}
	case interface{ Unwrap() []Store }:
		if slices.ContainsFunc(w.Unwrap(), func(s Store) bool { return SnapshotsOf(s) == nil }) {
			return nil
		}
	}
	return found
}

// CheckSnapshots reports why parts cannot be stored: two of one name, a name that is none, or a number that is
// negative. Stores call it before they write anything. The error is [agent.ErrBadInput].
func CheckSnapshots(key Key, parts []Snapshot) error {
	for i, p := range parts {
		wrong := ""
		switch {
		case p.Name == "" || len(p.Name) > 255 || strings.ContainsFunc(p.Name, func(r rune) bool { return r < ' ' || r > '~' }):
			wrong = "names are 1 to 255 printable characters of ASCII"
		case p.Part < 0 || p.Seq < 0:
			wrong = "no number is negative"
		case slices.ContainsFunc(parts[:i], func(o Snapshot) bool { return o.Name == p.Name }):
			wrong = "there is another part of this name"
		default:
			continue
		}
		return fmt.Errorf("session %s: part %d of the snapshot %.80q at %d: %s: %w", key, p.Part, p.Name, p.Seq, wrong, agent.ErrBadInput)
	}
	return nil
}

// SnapshotTooNew returns the error of a store that was given a snapshot of events that its log has not. It
// is [agent.ErrConflict].
func SnapshotTooNew(key Key, seq int64) error {
	return fmt.Errorf("session %s: a snapshot of a later position than %d, where the log is: %w", key, seq, agent.ErrConflict)
}
