package session

import (
	"context"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Moved is a session on its way from one store to another.
type Moved struct {
	// Info is what the store that it comes from lists of it. Parent is the session of
	// which it is still to be a fork; without one it keeps a past of its own.
	Info
	// Lease is held on it there.
	Lease Lease
	// Events are all of its log, from position 1 on.
	Events []*event.Event
	// Blobs are the bytes that it has or shares, each with the position that the log had
	// when they were put.
	Blobs []MovedBlob
}

// MovedBlob is bytes of a session on its way.
type MovedBlob struct {
	Seq  int64
	Data []byte
}

// Mover is implemented by stores whose sessions can be moved to other stores, which no
// method of a [Store] can do: it would date the session anew, apply its state events
// once more, and take forks away from their parents.
type Mover interface {
	// Digests returns the digests of the bytes that [Store.Blob] finds for a session, each
	// with the position that the log had when they were put.
	Digests(ctx context.Context, key Key) (map[string]int64, error)
	// Adopt makes the session of a key the one that another store has: its log, its dates,
	// its bytes, and what it shares with its parent if that is here with the same events.
	// The state of user and app stays as it is. What the key had before is deleted, and the
	// lease ends, which must be the current one: else the error is [agent.ErrConflict], and
	// nothing has changed. Later tokens are larger than the one of moved.Lease.
	Adopt(ctx context.Context, key Key, lease Lease, moved Moved) error
	// Leave is Delete, unless the lease is no longer the current one: then the error is
	// [agent.ErrConflict], and nothing has changed.
	Leave(ctx context.Context, key Key, lease Lease) error
}

// Check returns an error that is [agent.ErrBadInput] unless the log is whole and can be stored. Stores call it.
func (m Moved) Check(key Key) error {
	if n := int64(len(m.Events)); n != m.Seq || m.Lease.Shared < 0 || m.Lease.Shared > n {
		return fmt.Errorf("session %s: %d events of %d, %d of them shared, are no log to adopt: %w", key, n, m.Seq, m.Lease.Shared, agent.ErrBadInput)
	}
	return CheckEvents(key, 0, m.Events)
}

// Split returns the events that the session shares with its parent, and its own.
func (m Moved) Split() (past, own []*event.Event) {
	return m.Events[:m.Lease.Shared], m.Events[m.Lease.Shared:]
}
