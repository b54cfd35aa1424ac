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

// LeaseTTL is how long a lease lasts without renewal, by the clock of the store. A lease of a process that died on
// the same host is replaced immediately.
const LeaseTTL = 15 * time.Second

// Leased reports whether a lease that ends at until is valid at now: it has not ended, and it ends no later than a
// lease that is taken or renewed now. A lease that ends later was written before the clock was set back, and must not
// block others until the clock reaches it; a living holder renews it. Leased is for stores; now must be read after
// until.
func Leased(until, now time.Time) bool {
	return until.After(now) && !until.After(now.Add(LeaseTTL))
}

// ErrAbandoned is the cause with which a turn's context is canceled when another process is to continue the turn. The
// lease is then abandoned instead of released; see [Write].
var ErrAbandoned = fmt.Errorf("the session is left to another process: %w", agent.ErrSuspended)

// Owner says who holds a lease.
type Owner struct {
	Host string
	PID  int
	// Started tells two processes of one PID apart: the process's start time in
	// whatever unit its system counts.
	Started int64
}

// Lease is the right to write to one session.
type Lease struct {
	// Token grows with every lease of the session. It is the store's time in nanoseconds, or the last token plus 1 if that is
	// more. After a database was restored it may repeat, if the clock was set back as well.
	Token int64
	// Nonce is a random number. It never repeats, whatever happens to the database.
	Nonce int64
	// Head is where the log ended after the write that returned the lease.
	Head Head
	// Fork says that the session is a fork, and Shared how many events it shares with
	// the one it was forked from.
	Fork   bool
	Shared int64
	// Incarnation differs between a session and one of the same key that was
	// deleted before, so that nobody takes what is known of the one for the other.
	Incarnation int64
}

// Info describes a stored session.
type Info struct {
	Key     Key
	Seq     int64 // number of events
	Created time.Time
	Updated time.Time
	// Parent is zero unless the session is a fork: then it is the session whose
	// own log holds the last event that the two share, which is the one at
	// ParentSeq. It is zero too when that session was deleted; ParentSeq stays.
	Parent    Key
	ParentSeq int64
	// Incarnation is the Incarnation of a [Lease] on the session.
	Incarnation int64
	// LastID is the id of the last event. It may be "" for a fork without events of its own, and for a log whose last event
	// was stored by a program of before that did not note the id.
	LastID string
	// Status is the status of the last turn, as [Fold.Status] of the log has it. It may differ if the log is damaged.
	Status Status
	// Leased reports whether a process holds the session, by the store's clock: a Write that acquires it would
	// return agent.ErrSessionBusy. So a turn that is not over is under way somewhere,
	// and otherwise was cut off.
	Leased bool
}

// State identifies the log of the session and its length.
func (i Info) State() LogState { return LogState{i.Key, i.Incarnation, Head{i.Seq, i.LastID}} }

// LogState identifies a session's log at one length. Two equal ones are of the same events, also if the session was deleted
// and created again in between, or the database restored.
type LogState struct {
	Key         Key
	Incarnation int64
	Head        Head
}

// Place returns the position of the session in a list.
func (i Info) Place() Place { return Place{Updated: i.Updated, Key: i.Key} }

// Place is a place in the list of all sessions that were ever stored: that of a session
// when it was updated at that time, whether it still is there or not.
type Place struct {
	Updated time.Time
	Key     Key
}

// Compare is negative if a place comes before another one in lists: the sessions that
// were updated last come first, ties by app, user and id.
func (p Place) Compare(o Place) int {
	return cmp.Or(o.Updated.Compare(p.Updated),
		strings.Compare(p.Key.App, o.Key.App), strings.Compare(p.Key.User, o.Key.User), strings.Compare(p.Key.ID, o.Key.ID))
}

// Page says which part of a list is wanted. The zero value is all of it.
type Page struct {
	// After leaves out the sessions before a place, and the one at it. So a list
	// that is read page by page has every session once that was not updated
	// meanwhile, whatever was stored or deleted. One that was updated is at the
	// beginning again. The zero value leaves out nothing.
	After Place
	// Limit is how many sessions are wanted; 0 is all.
	Limit int
	// Status leaves out the sessions whose last turn has another status. The zero value leaves out nothing.
	Status Status
}

// Check returns an error that is [agent.ErrBadInput] if there is no such page.
func (p Page) Check() error {
	if p.Limit < 0 {
		return fmt.Errorf("a page of %d sessions: give how many are wanted, or 0 for all: %w", p.Limit, agent.ErrBadInput)
	}
	return p.Status.Check()
}

// Has reports whether a session belongs to the page for its status and its place. It is for stores.
func (p Page) Has(i Info) bool {
	return (p.Status == "" || p.Status == i.Status) && (p.After == Place{} || p.After.Compare(i.Place()) < 0)
}

// Store keeps sessions. Implementations are safe for concurrent use, and two
// values of one database, in one or in several processes, behave like one. An error that says that the database could not do
// what it was asked for is [ErrUnavailable].
//
// Stored events are immutable: a store may hand out the payloads it was given.
type Store interface {
	// Load yields the events after a position, oldest first. A session that does
	// not exist has no events.
	Load(ctx context.Context, key Key, after int64) iter.Seq2[*event.Event, error]
	// Write changes a session in one transaction: as asked, it takes the lease, stores events and snapshots, and gives the lease
	// back. It returns the lease after the write. The error is [agent.ErrSessionBusy] if another owner holds the lease, a
	// [*HeadError] if the log does not end at the write's Head, and [agent.ErrConflict] if the writer's lease is no longer
	// the current one; Write changes nothing then. After any other error, such as a lost connection, the write may have been
	// made or not: the Head of the next lease tells. Events survive a crash of the system when Write returns; snapshots, and
	// leases without events, may not.
	Write(ctx context.Context, key Key, w Write) (Lease, error)
	// Snapshots returns the parts of a name in their order. It returns no parts if none are stored.
	Snapshots(ctx context.Context, key Key, name string) ([]Snapshot, error)
	// KeepsSnapshots reports whether snapshots that are written can be read again.
	KeepsSnapshots() bool
	// Orphans returns the sessions that List would, whose last lease was not given back and is
	// held by no process: its holder has died, or has abandoned it. Write gives it to the next process
	// that asks. Who takes the lease of one and gives it back ends its being one, whatever was done
	// in between. They come in the order of List, and cost what they and the sessions under way
	// are, however many others there are. Leases that were taken before the store knew of
	// orphans need not be among them.
	Orphans(ctx context.Context, page Page) ([]Info, error)
	// Fork makes a session that begins with the first seq events of another, whose storage they share:
	// nothing is copied, and it costs the same for a log of any length. If seq is not where the log ends, the store
	// reads back to the last event that says the status, which is in the same turn. Seq 0 shares no event, but
	// still names the parent. Events of its own, if any are given, follow, as Write would store them;
	// the session is there with all of them or not at all. Leases are not touched, and the other
	// session can continue as before; deleting it leaves a fork all it shares. It returns an error
	// that is [agent.ErrBadInput] when there is no such session or position, and [agent.ErrConflict]
	// when the new session exists already: it has events, is a fork, or is leased.
	Fork(ctx context.Context, of Key, seq int64, to Key, events ...*event.Event) error
	// SharedState returns the keys with the prefixes "user:" and "app:" that the
	// session's user and app have.
	SharedState(ctx context.Context, key Key) (map[string]any, error)
	// List returns the sessions that have events or are forks and whose key has the
	// parts of the filter (empty parts match all), in the order of their places: most
	// recently updated first. If the filter names app and user, a page costs what its
	// sessions cost, however many there are; else the store may look at all of them, or at all of the page's status.
	List(ctx context.Context, filter Key, page Page) ([]Info, error)
	// Delete removes a session, its events and the bytes of its files, but what forks
	// of it share. The user's and app's state stay.
	Delete(ctx context.Context, key Key) error
	Blobs
	// Close releases what the store holds; it must not be used afterwards.
	Close() error
}
