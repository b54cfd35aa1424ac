package session

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Key names a session.
type Key = agent.SessionKey

// The parts of a key that [ID] fills in.
const (
	DefaultApp  = "app"
	DefaultUser = "local"
)

// ID returns the key of a session of the default app and user.
func ID(id string) Key { return Key{App: DefaultApp, User: DefaultUser, ID: id} }

// LeaseTTL is how long a lease lasts without a renewal, by the clock of the store. If the process that holds a lease
// has died on the same host, another process can take the lease immediately.
const LeaseTTL = 15 * time.Second

// Leased reports whether a lease that ends at until is valid at now. It returns false if the lease has ended, and if
// it ends later than a lease that is taken now. Such a lease was written before the clock was set back. It must not
// block other processes until the clock reaches its end, and a living holder renews it. Stores call Leased; they must
// read now after they have read until.
func Leased(until, now time.Time) bool {
	return until.After(now) && !until.After(now.Add(LeaseTTL))
}

// ErrAbandoned is the cause with which a turn's context is canceled if another process must adopt the turn. The lease
// is then abandoned instead of released; see [Write]. It is [agent.ErrSuspended].
var ErrAbandoned = fmt.Errorf("the session is left to another process: %w", agent.ErrSuspended)

// ErrStopped is the cause with which a turn's context is canceled if the turn must stop and no process may adopt it. The
// log then says so. It is [agent.ErrSuspended]: a user can resume the turn.
var ErrStopped = fmt.Errorf("the turn was stopped: %w", agent.ErrSuspended)

// Owner identifies a process that holds a lease; see [Self]. The zero value is no owner.
type Owner struct {
	Host string
	PID  int
	// Started is the start time of the process, in a unit of its system. It distinguishes two processes that have the
	// same PID. 0 is unknown.
	Started int64
}

// Lease is the right to write to one session.
type Lease struct {
	// Token is the fencing token. It grows with every lease of the session: it is the store's time in nanoseconds, or
	// the last token plus 1 if that is larger. [Memory] counts instead. If a database is restored and the
	// clock is set back, a token may occur again.
	Token int64
	// Nonce is a random number for each lease. With the token it identifies the lease even after a database was
	// restored.
	Nonce int64
	// Head is the end of the log after the write that returned the lease.
	Head Head
	// Fork reports that the session is a fork. Shared is the number of events that it shares with the session that it
	// was forked from.
	Fork   bool
	Shared int64
	// Incarnation differs between a session and an earlier, deleted session with the same key, so that callers do not
	// mix up the two.
	Incarnation int64
	// Stop is the largest position for which a write has requested a stop, or 0; see [Write] and [Fold.StopsAt].
	Stop int64
}

// Info describes a stored session.
type Info struct {
	Key     Key
	Seq     int64 // the number of events, which is the position of the last one
	Created time.Time
	Updated time.Time
	// Parent is the session whose own log contains the last event that a fork shares. It is zero if the session is
	// not a fork, and if the parent was deleted. ParentSeq is the position of that event. It stays after the parent
	// was deleted.
	Parent    Key
	ParentSeq int64
	// Incarnation is the Incarnation of a [Lease] on the session.
	Incarnation int64
	// LastID is the id of the last event. It may be "" for a fork without events of its own, and for a log whose last
	// event was stored by an old version that did not record the id.
	LastID string
	// Status is the status of the last turn. It is equal to [Fold.Status] of the log unless the log is damaged.
	Status Status
	// Leased reports whether a process holds the session, by the store's clock: a Write that acquires the session
	// would then return [agent.ErrSessionBusy]. A turn with [StatusOpen] is in progress if Leased is true, and was
	// interrupted otherwise.
	Leased bool
}

// State identifies the session's log and its length.
func (i Info) State() LogState { return LogState{i.Key, i.Incarnation, Head{i.Seq, i.LastID}} }

// LogState identifies a session's log at one length. Two equal values stand for the same events, even if the session
// was deleted and created again in between, or the database was restored. Values can be compared with ==.
type LogState struct {
	Key         Key
	Incarnation int64
	Head        Head
}

// Place returns the position of the session in a list.
func (i Info) Place() Place { return Place{Updated: i.Updated, Key: i.Key} }

// Place is a position in the list of sessions: that of a session with the given key and update time. The session need
// not exist any longer. The zero value is no position.
type Place struct {
	Updated time.Time
	Key     Key
}

// Compare returns a negative number if p comes before o in lists, and a positive number if it comes after o. Sessions
// that were updated last come first. Sessions with the same time are sorted by app, user and id.
func (p Place) Compare(o Place) int {
	return cmp.Or(o.Updated.Compare(p.Updated),
		strings.Compare(p.Key.App, o.Key.App), strings.Compare(p.Key.User, o.Key.User), strings.Compare(p.Key.ID, o.Key.ID))
}

// Page selects a part of a list. The zero value selects all of it.
type Page struct {
	// After excludes the session at a place and all sessions before it in the list. A caller that reads a list page
	// by page gets each session once, unless the session is updated meanwhile: it then moves to the front of the
	// list. Creating or deleting other sessions does not matter. The zero value excludes nothing.
	After Place
	// Limit is the maximal number of sessions. 0 is no limit.
	Limit int
	// Status excludes the sessions with another status. The zero value excludes nothing.
	Status Status
}

// Check returns an error that is [agent.ErrBadInput] if the limit is negative or the status is unknown.
func (p Page) Check() error {
	if p.Limit < 0 {
		return fmt.Errorf("the limit of a page is %d: give the maximal number of sessions, or 0 for all: %w", p.Limit, agent.ErrBadInput)
	}
	return p.Status.Check()
}

// has reports whether a session belongs to the page by its status and its place. It ignores Limit.
func (p Page) has(i Info) bool {
	return (p.Status == "" || p.Status == i.Status) && (p.After == Place{} || p.After.Compare(i.Place()) < 0)
}

// Store stores sessions. Implementations are safe for concurrent use. Two values for the same database, in one
// process or in several, behave like one. If the database fails, the error is [ErrUnavailable].
//
// Stored events are immutable: a store may return the payloads that it was given, so callers must not change them.
type Store interface {
	// Load yields the events after a position, oldest first. A session that does not exist has no events. Load may
	// yield one error, as its last element.
	Load(ctx context.Context, key Key, after int64) iter.Seq2[*event.Event, error]
	// Write changes a session in one transaction. As w says, it acquires the lease, stores events and a snapshot, and
	// releases the lease. It returns the lease after the write.
	//
	// If another owner holds the lease, the error is [agent.ErrSessionBusy]. If the log does not end at w.Head, it is
	// a [*HeadError]. If w.Lease is no longer the current lease, it is [agent.ErrConflict]. In these cases Write has
	// changed nothing. After any other error, such as a lost connection, it may be unknown whether the write was
	// made; the Head of the next lease shows it.
	//
	// When Write has returned nil, its events survive a crash of the system. Snapshots, and leases that were written
	// without events, may not.
	Write(ctx context.Context, key Key, w Write) (Lease, error)
	// Snapshot returns the session's snapshot. If none is stored, it returns the zero value and no error.
	Snapshot(ctx context.Context, key Key) (Snapshot, error)
	// KeepsSnapshots reports whether the store keeps the snapshots that are written.
	KeepsSnapshots() bool
	// Orphans returns the listed sessions whose last lease was not released and is no longer held: its holder has
	// died, or has abandoned it. The next process that asks for the lease gets it. A session stops being an orphan
	// when a process acquires its lease and releases it. The order is that of List. The cost depends on the number of
	// orphans and of sessions with a lease, not on the number of other sessions.
	Orphans(ctx context.Context, page Page) ([]Info, error)
	// Fork creates the session to, which begins with the first seq events of the session of. The two sessions share
	// the storage of these events: nothing is copied, and the cost does not depend on the length of the log. If seq
	// is not the end of the log, the store reads back to the last event that sets the status, which is in the same
	// turn. With seq 0 the fork shares no event, but still has a parent.
	//
	// The given events, if any, follow the shared ones, and are stored as by Write. The fork is created with all of
	// them or not at all. Fork does not touch leases: the parent session continues as before. If it is deleted, the
	// fork keeps what it shares.
	//
	// If the parent session or the position does not exist, the error is [agent.ErrBadInput]. If the session to
	// already has events, is a fork or is leased, the error is [agent.ErrConflict].
	Fork(ctx context.Context, of Key, seq int64, to Key, events ...*event.Event) error
	// SharedState returns the state of the session's user and app: the keys with the prefixes "user:" and "app:".
	SharedState(ctx context.Context, key Key) (map[string]any, error)
	// List returns the sessions that have events or are forks and whose key matches the filter: an empty part of the
	// filter matches everything. Sessions that were updated last come first; see [Place.Compare]. If the filter has
	// an app and a user, the cost of a page depends only on the page. Otherwise the store may read all sessions, or
	// all sessions with the page's status.
	List(ctx context.Context, filter Key, page Page) ([]Info, error)
	// Delete deletes a session with its events, files and snapshot, except what forks share. The state of the user
	// and the app stays. Deleting a session that does not exist does nothing.
	Delete(ctx context.Context, key Key) error
	Blobs
	// Close releases the store's resources. The store must not be used afterwards.
	Close() error
}
