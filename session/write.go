package session

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Write is a change of a session: of its lease, of its log, or of both. [Store.Write] makes all of it or nothing.
//
// A Write that holds nothing but a lease renews it.
type Write struct {
	// Acquire takes the session's lease for an owner. The zero value takes none: Lease is held already.
	Acquire Owner
	// Lease is the lease that the writer holds. It is not used with Acquire.
	Lease Lease
	// Head is where the log must end. It counts if there are events or snapshots.
	Head Head
	// Events follow Head. State events write through to the state of the user and the app.
	Events []*event.Event
	// Snapshots are kept in place of the parts of the same name from their Part on. A store that keeps no snapshots drops them.
	Snapshots []Snapshot
	// Release gives the lease back.
	Release bool
	// Abandon ends the lease without giving it back: the session is an orphan at once.
	Abandon bool
}

// Acquires reports whether the write takes the lease.
func (w *Write) Acquires() bool { return w.Acquire != (Owner{}) }

// Ends reports whether nobody holds the lease after the write.
func (w *Write) Ends() bool { return w.Release || w.Abandon }

// Stores reports whether the write stores something that follows Head.
func (w *Write) Stores() bool { return len(w.Events)+len(w.Snapshots) > 0 }

// End returns where the log ends after a write that stores events, or else Head.
func (w *Write) End() Head {
	if n := len(w.Events); n > 0 {
		return HeadOf(w.Events[n-1])
	}
	return w.Head
}

// Check returns an error if the write cannot be made, whatever the session is. Stores call it first.
func (w *Write) Check(key Key) error {
	if w.Release && w.Abandon {
		return fmt.Errorf("session %s: a lease is either given back or abandoned: %w", key, agent.ErrBadInput)
	}
	if err := CheckEvents(key, w.Head.Seq, w.Events); err != nil {
		return err
	}
	return checkSnapshots(key, w.End().Seq, w.Snapshots)
}

// Head is where a log ends. The zero value is the head of an empty log.
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
		id = string([]rune(id)) // as it is when it is read again
	}
	return Head{e.Seq, id}
}

// HeadError is the error of a write whose Head is not where the log ends: another process has written, or the database went
// back to an earlier state. It is [agent.ErrConflict].
type HeadError struct {
	Key       Key
	Want, Got Head
}

// Error describes the difference.
func (e *HeadError) Error() string {
	return fmt.Sprintf("session %s: the log ends at %d with event %q, and not at %d with event %q: another process has written, or the database was restored: %v",
		e.Key, e.Got.Seq, e.Got.ID, e.Want.Seq, e.Want.ID, agent.ErrConflict)
}

// Unwrap returns [agent.ErrConflict].
func (e *HeadError) Unwrap() error { return agent.ErrConflict }

// Row is what a store keeps of a session in addition to its events. Stores read it, and let a write change it by [Row.Change].
type Row struct {
	Lease       // the last one; Head is the log's end, whose ID is "" if the store has not noted it
	Held   bool // the lease was not given back
	Until  time.Time
	Holder Owner
	Status Status // of the last turn
}

// Change makes a write's changes to the lease, the head and the status, or says why the write is refused. The lease of an owner that is
// not [Alive] is replaced. A store sets nonce to a random number for each write, which is the one of the lease if the write takes it.
func (r *Row) Change(key Key, w *Write, nonce int64, now time.Time) error {
	switch {
	case w.Acquires() && r.Held && Leased(r.Until, now) && Alive(r.Holder):
		return r.busy(key)
	case !w.Acquires() && !r.holds(&w.Lease):
		return LeaseLost(key)
	case w.Stores() && !r.at(w):
		return &HeadError{key, w.Head, r.Head}
	}
	if w.Acquires() {
		r.Token, r.Nonce, r.Holder = max(r.Token+1, now.UnixNano()), nonce, w.Acquire
	}
	r.Held, r.Until = !w.Release, now.Add(LeaseTTL)
	if w.Abandon { // nobody has this lease, and its time is over by any clock
		r.Token, r.Nonce, r.Until = r.Token+1, 0, time.Unix(0, 0)
	}
	if len(w.Events) > 0 {
		r.Head, r.Status = w.End(), r.Status.After(w.Events...)
	}
	return nil
}

// busy returns the error of a writer that does not get the lease.
func (r *Row) busy(key Key) error {
	if r.Holder == (Owner{}) { // of this process
		return fmt.Errorf("session %s: %w", key, agent.ErrSessionBusy)
	}
	return fmt.Errorf("session %s: process %d on %s holds it, until %s if it does not renew: %w",
		key, r.Holder.PID, r.Holder.Host, r.Until.UTC().Format(time.RFC3339), agent.ErrSessionBusy)
}

func (r *Row) holds(l *Lease) bool {
	return r.Held && r.Token == l.Token && r.Nonce == l.Nonce
}

// at reports whether the log ends at the write's head. An id that was not noted is enough only for the holder of the lease: nobody
// else has written since it was taken.
func (r *Row) at(w *Write) bool {
	return r.Head == w.Head || r.Head == Head{Seq: w.Head.Seq} && !w.Acquires()
}
