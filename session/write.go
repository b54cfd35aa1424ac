package session

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Write is a change of a session's lease, of its log, or of both. [Store.Write] makes all of it or nothing.
//
// A Write that only has a Lease renews the lease.
type Write struct {
	// Acquire is the owner that takes the session's lease. If it is the zero value, the writer already holds the
	// lease in Lease.
	Acquire Owner
	// Lease is the lease that the writer holds. It is ignored if Acquire is set.
	Lease Lease
	// Head is where the log must end before the write. It is checked only if the write has events or a snapshot.
	Head Head
	// Events are appended after Head. State events also update the state of the user and the app.
	Events []*event.Event
	// Snapshot replaces the stored snapshot. A store that keeps no snapshots drops it.
	Snapshot Snapshot
	// Release gives up the lease at the end of the turn.
	Release bool
	// Abandon ends the lease without releasing it: the session is an orphan at once, and another process adopts its
	// turn.
	Abandon bool
	// Stop requests that the turn stops that the log has at this position. Any process may make such a write; it has no
	// other field. The process that runs the turn sees the request in the lease that its next write returns, and a
	// process that would adopt the turn sees it too. If the log has no such position, the error is a [*HeadError].
	Stop int64
}

// Acquires reports whether the write takes the lease.
func (w *Write) Acquires() bool { return w.Acquire != (Owner{}) }

// Ends reports whether the lease ends with the write.
func (w *Write) Ends() bool { return w.Release || w.Abandon }

// Stores reports whether the write has events or a snapshot.
func (w *Write) Stores() bool { return len(w.Events) > 0 || w.Snapshot.Data != "" }

// End returns the head of the log after the write.
func (w *Write) End() Head {
	if n := len(w.Events); n > 0 {
		return HeadOf(w.Events[n-1])
	}
	return w.Head
}

// Check returns an error if no store can make the write, whatever the state of the session is. Stores call it first.
func (w *Write) Check(key Key) error {
	if w.Release && w.Abandon {
		return fmt.Errorf("session %s: a write cannot both release and abandon the lease: %w", key, agent.ErrBadInput)
	}
	if w.Stop < 0 || w.Stop > 0 && (w.Acquires() || w.Ends() || w.Stores() || w.Lease != Lease{}) {
		return fmt.Errorf("session %s: a request to stop has a positive position, and nothing else: %w", key, agent.ErrBadInput)
	}
	if err := CheckEvents(key, w.Head.Seq, w.Events); err != nil {
		return err
	}
	return w.Snapshot.check(key, w.End().Seq)
}

// Head is the last event of a log. The zero value is the head of an empty log.
type Head struct {
	// Seq is the position of the last event.
	Seq int64
	// ID is the id of the last event.
	ID string
}

// HeadOf returns the head of a log whose last event is e.
func HeadOf(e *event.Event) Head {
	id := e.ID
	if !utf8.ValidString(id) {
		id = string([]rune(id)) // the form that the id has when the event is read again
	}
	return Head{e.Seq, id}
}

// HeadError is the error of a write whose Head is not the end of the log: another process has written to the session,
// or the database was restored to an earlier state. It is [agent.ErrConflict].
type HeadError struct {
	Key Key
	// Want is the Head of the write, and Got the head of the stored log.
	Want, Got Head
}

// Error describes the two heads.
func (e *HeadError) Error() string {
	return fmt.Sprintf("session %s: the log ends at %d with event %q, and not at %d with event %q: another process has written, or the database was restored: %v",
		e.Key, e.Got.Seq, e.Got.ID, e.Want.Seq, e.Want.ID, agent.ErrConflict)
}

// Unwrap returns [agent.ErrConflict].
func (e *HeadError) Unwrap() error { return agent.ErrConflict }

// Row is what a store keeps of a session in addition to its events. Stores load it, and apply a write with
// [Row.Change].
type Row struct {
	Lease            // the last lease; Head is the end of the log, and its ID is "" if the store did not record it
	Held   bool      // the lease was not released
	Until  time.Time // the time at which the lease ends
	Holder Owner
	Status Status // the status of the last turn
}

// Change applies a write to the lease, the head and the status. It returns an error, and changes nothing, if the
// write must be refused. A write that acquires the lease replaces one that has ended or whose owner is not [Alive].
// nonce is a random number that the store creates for each write; it becomes the Nonce of a lease that the write
// acquires.
func (r *Row) Change(key Key, w *Write, nonce int64, now time.Time) error {
	switch {
	case w.Stop > 0 && w.Stop <= r.Head.Seq:
		r.Stop = max(r.Stop, w.Stop)
		return nil
	case w.Stop > 0:
		return &HeadError{key, Head{Seq: w.Stop}, r.Head}
	case w.Acquires() && r.Held && Leased(r.Until, now) && Alive(r.Holder):
		return r.busy(key)
	case !w.Acquires() && !r.holds(&w.Lease):
		return LeaseLost(key)
	case w.Stores() && !r.matchesHead(w):
		return &HeadError{key, w.Head, r.Head}
	}
	if w.Acquires() {
		r.Token, r.Nonce, r.Holder = max(r.Token+1, now.UnixNano()), nonce, w.Acquire
	}
	r.Held, r.Until = !w.Release, now.Add(LeaseTTL)
	if w.Abandon { // no process has this token, and the lease has ended by any clock
		r.Token, r.Nonce, r.Until = r.Token+1, 0, time.Unix(0, 0)
	}
	if len(w.Events) > 0 {
		r.Head, r.Status = w.End(), r.Status.After(w.Events...)
	}
	return nil
}

// busy returns the error for a writer that does not get the lease.
func (r *Row) busy(key Key) error {
	if r.Holder == (Owner{}) { // the holder is in this process
		return fmt.Errorf("session %s: %w", key, agent.ErrSessionBusy)
	}
	return fmt.Errorf("session %s: process %d on %s is answering (its lease lasts until %s): %w",
		key, r.Holder.PID, r.Holder.Host, r.Until.UTC().Format(time.RFC3339), agent.ErrSessionBusy)
}

func (r *Row) holds(l *Lease) bool {
	return r.Held && r.Token == l.Token && r.Nonce == l.Nonce
}

// matchesHead reports whether the log ends at the write's head. If the store did not record the id of the last event,
// only the holder of the lease may write: no other process has written since it acquired the lease.
func (r *Row) matchesHead(w *Write) bool {
	return r.Head == w.Head || r.Head == Head{Seq: w.Head.Seq} && !w.Acquires()
}
