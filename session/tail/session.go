package tail

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/following"
)

// stream is the state that a [Tail] keeps of one session.
type stream struct {
	users int // the number of calls that use it; guarded by Tail.mu

	mu          sync.Mutex
	lease       int64     // the token of the lease that was acquired through this Tail, 0 if none
	until       time.Time // the time at which the lease expires unless it is renewed
	incarnation int64     // the incarnation of the last lease
	// seq is the position of the last stored event that followers may yield, and part counts the
	// partial events after it. During an append through this Tail, only the append increases seq, because
	// followers must yield the partial events that were published before it first.
	seq, part int64
	id        string // the id of the event at seq, "" if it is unknown
	parts     []*series
	number    int // of the events in parts
	bytes     int // the size of parts
	blocks    following.OpenBlocks

	appending int           // the number of appends in progress
	ending    *ending       // the append in progress that ends the lease, nil if there is none
	version   uint64        // changes when an append starts or ends
	deletions int           // how often the session was deleted
	changed   chan struct{} // closed at the next change; nil if no follower waits
}

// unknown is the seq of a session before the first poll.
const unknown = -1

// ending is an append that releases the lease if it succeeds. The next lease may be acquired before this process
// knows that it has succeeded.
type ending struct {
	token int64
	seq   int64                 // the end of the log after the append
	open  *following.OpenBlocks // the open blocks of its lease, once the next lease was acquired
}

func (s *stream) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease == 0 && len(s.parts) == 0
}

// wake notifies followers of a change. The caller holds the mutex, as for the methods below unless their comment says
// otherwise.
func (s *stream) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// advance records that the log reaches a head, whose id may be unknown.
func (s *stream) advance(head session.Head) {
	if head.Seq > s.seq {
		s.seq, s.id, s.part = head.Seq, head.ID, 0
		s.wake()
	}
}

// continues reports whether the log in which a lease was acquired at a head is the log that is followed. It is
// another one if the session was deleted and created again, or the database was restored.
func (s *stream) continues(incarnation int64, head session.Head) bool {
	switch {
	case s.incarnation != 0 && s.incarnation != incarnation:
		return false
	case head.Seq == s.seq:
		return s.id == "" || head.ID == "" || s.id == head.ID
	}
	return head.Seq > s.seq
}

// add publishes a partial event.
func (s *stream) add(t *Tail, e *event.Event) {
	s.part++
	s.number++
	at, size := session.Position{Seq: s.seq, Part: s.part}, 0
	if n := len(s.parts); n > 0 {
		size = s.parts[n-1].add(at, e)
	}
	if size == 0 {
		size = following.Size(e)
		s.parts = append(s.parts, &series{at: at, first: e, size: size})
	}
	s.bytes += size
	for s.number > t.maxParts || s.bytes > t.maxBytes {
		s.dropFirst()
	}
}

func (s *stream) dropFirst() {
	s.number -= len(s.parts[0].rest) + 1
	s.bytes -= s.parts[0].size
	s.parts[0] = nil // so that the events can be freed
	s.parts = s.parts[1:]
	if len(s.parts) == 0 {
		s.parts = nil
	}
}

// discard makes void the blocks that will not be completed.
func (s *stream) discard(t *Tail, blocks *following.OpenBlocks) {
	for _, e := range blocks.Discard(time.Now()) {
		s.add(t, e)
	}
}

// drop drops the partial events up to a position. It locks the mutex.
func (s *stream) drop(until session.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.parts) > 0 && s.parts[0].last().Compare(until) <= 0 {
		s.dropFirst()
	}
}

// acquired records a new lease and the head of the log before the write that acquired it. It locks the mutex, as all
// methods below unless their comment says otherwise.
func (s *stream) acquired(t *Tail, lease session.Lease, head session.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.continues(lease.Incarnation, head) {
		s.reset()
	}
	s.incarnation, s.lease = lease.Incarnation, lease.Token
	s.version++
	s.advance(head)
	if e := s.ending; e != nil && e.seq <= head.Seq { // the append has succeeded, and endAppend is called soon
		open := s.blocks
		e.open, s.blocks = &open, following.OpenBlocks{}
	}
	s.ending = nil
	s.discard(t, &s.blocks) // the blocks of a turn that this lease adopts
	s.wake()
}

// renewed records a successful write with the lease. begun is the time at which the write started.
func (s *stream) renewed(lease int64, begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == lease {
		s.until = begun.Add(session.LeaseTTL)
	}
}

// holdsLease reports whether this process holds the lease, so that no other process can store events.
func (s *stream) holdsLease() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease != 0 && time.Now().Before(s.until)
}

// released records the end of a lease. was reports whether the lease was the session's current one, and until is the
// position up to which partial events belong to it. An append that ends the lease must be finished first, because it
// may complete open blocks.
func (s *stream) released(t *Tail, lease session.Lease) (until session.Position, was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == 0 || s.lease != lease.Token || s.ending != nil && s.ending.token == lease.Token {
		return session.Position{}, false
	}
	s.lease = 0
	s.discard(t, &s.blocks)
	s.wake()
	return session.Position{Seq: s.seq, Part: s.part}, true
}

// beginAppend records the start of an append. last is nil unless the append ends the lease.
func (s *stream) beginAppend(last *ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appending++
	s.version++
	if last != nil && last.token == s.lease {
		s.ending = last
	}
}

// endAppend records the end of an append. With an error, the events are not stored, or it is unknown whether they
// are. If the next lease was acquired at their end and the error is not a conflict, they are stored.
func (s *stream) endAppend(t *Tail, last *ending, events []*event.Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appending--
	s.version++
	blocks, over := &s.blocks, last != nil && last.open != nil
	if over {
		blocks = last.open
	}
	if err == nil || over && !errors.Is(err, agent.ErrConflict) {
		for _, e := range events {
			blocks.Settle(e)
			s.advance(session.HeadOf(e))
		}
	}
	if over {
		s.discard(t, blocks)
		s.wake()
	}
	if s.ending == last {
		s.ending = nil
	}
}

// extended records that the log reaches a head.
func (s *stream) extended(head session.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.advance(head)
}

// endPoll records the length of the log that a poll found in the store. version is the result of beginPoll. If the
// version has changed, the poll may have found an append of this process before which partial events must be yielded;
// endPoll then does nothing, because the append records its own end.
func (s *stream) endPoll(seq int64, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == version {
		s.advance(session.Head{Seq: seq})
	}
}

// beginPoll returns the version for endPoll. ok is false during an append.
func (s *stream) beginPoll() (version uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.appending == 0
}

// publish publishes partial events. It returns false if no caller of this process holds the lease.
func (s *stream) publish(t *Tail, events []*event.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == 0 {
		return false
	}
	for _, e := range events {
		if s.blocks.Show(e) {
			s.add(t, e)
		}
	}
	s.wake()
	return true
}

func (s *stream) deleted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reset()
	s.lease, s.incarnation = 0, 0
}

// reset forgets a session that was deleted or restored; followers then check what they have yielded. The caller holds
// the mutex.
func (s *stream) reset() {
	s.seq, s.id, s.part, s.parts, s.number, s.bytes = unknown, "", 0, nil, 0, 0
	s.blocks = following.OpenBlocks{}
	s.version++
	s.deletions++
	s.wake()
}

// snapshot is the state of a stream for a follower.
type snapshot struct {
	seq       int64
	deletions int
	next      session.Entry   // the partial event that follows the follower's position
	part      int64           // its Part, 0 if there is none
	changed   <-chan struct{} // closed at the next change; nil if there is a next event
}

// after returns the state for a follower at a position.
func (s *stream) after(at session.Position) snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := snapshot{seq: s.seq, deletions: s.deletions}
	at.Part++
	i, _ := slices.BinarySearchFunc(s.parts, at, func(p *series, at session.Position) int { return p.last().Compare(at) })
	if i < len(s.parts) && s.parts[i].at.Seq == at.Seq {
		at.Part = max(at.Part, s.parts[i].at.Part)
		state.next, state.part = s.parts[i].entry(at), at.Part
		return state
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	state.changed = s.changed
	return state
}
