package tail

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// stream is what a [Tail] holds of one session.
type stream struct {
	users int // that joined; guarded by Tail.mu

	mu          sync.Mutex
	lease       int64     // the token of the lease that was taken through this Tail, 0 if none
	until       time.Time // when the lease expires unless it is renewed
	incarnation int64     // of the last lease
	// seq is the last stored event that followers may be shown, and part counts the
	// partial events since. While somebody appends here, seq alone says how far the
	// log has come: what was published before the append has to be shown before it.
	seq, part int64
	id        string // of the event at seq, "" if it is not known
	parts     []partial
	bytes     int
	blocks    OpenBlocks

	appending int           // appends under way
	ending    *ending       // the one of them that ends the lease, nil if there is none
	version   uint64        // changes when an append begins or ends
	deletions int           // how often the session was deleted
	changed   chan struct{} // closed at the next change; nil if nobody waits
}

// unknown is a session's seq before anybody has looked.
const unknown = -1

type partial struct {
	at    session.Position
	event *event.Event
	size  int
}

// ending is an append that gives the lease back if it is done. The next lease may be taken before
// it is known here that it was done.
type ending struct {
	token int64
	seq   int64       // the log's end then
	open  *OpenBlocks // those of its lease, once the next one is taken
}

func (s *stream) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease == 0 && len(s.parts) == 0
}

// wake tells followers that something changed. The caller holds the mutex, as for
// all methods below whose comment says nothing else.
func (s *stream) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// advance notes that the log reaches as far as a head, whose id may be unknown.
func (s *stream) advance(head session.Head) {
	if head.Seq > s.seq {
		s.seq, s.id, s.part = head.Seq, head.ID, 0
		s.wake()
	}
}

// continues reports whether a log with a head at which a lease was taken is the one that is followed here. It is another one after
// the session was deleted and created again, or the database restored.
func (s *stream) continues(incarnation int64, head session.Head) bool {
	switch {
	case s.incarnation != 0 && s.incarnation != incarnation:
		return false
	case head.Seq == s.seq:
		return s.id == "" || head.ID == "" || s.id == head.ID
	}
	return head.Seq > s.seq
}

// add shows a partial event.
func (s *stream) add(t *Tail, e *event.Event) {
	s.part++
	p := partial{session.Position{Seq: s.seq, Part: s.part}, e, Size(e)}
	s.parts = append(s.parts, p)
	s.bytes += p.size
	for len(s.parts) > t.maxParts || s.bytes > t.maxBytes {
		s.dropFirst()
	}
}

func (s *stream) dropFirst() {
	s.bytes -= s.parts[0].size
	s.parts[0] = partial{} // else the memory behind it stays in use
	s.parts = s.parts[1:]
	if len(s.parts) == 0 {
		s.parts = nil
	}
}

// discard voids blocks that nobody will complete.
func (s *stream) discard(t *Tail, blocks *OpenBlocks) {
	for _, e := range blocks.Discard(time.Now()) {
		s.add(t, e)
	}
}

// drop forgets the partial events up to a position. It takes the mutex.
func (s *stream) drop(until session.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.parts) > 0 && s.parts[0].at.Compare(until) <= 0 {
		s.dropFirst()
	}
}

// acquired notes a lease, and where the log ended when it was taken. It takes the mutex, and so do all methods below.
func (s *stream) acquired(t *Tail, lease session.Lease, head session.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.continues(lease.Incarnation, head) {
		s.reset()
	}
	s.incarnation, s.lease = lease.Incarnation, lease.Token
	s.version++
	s.advance(head)
	if e := s.ending; e != nil && e.seq <= head.Seq { // it was done, and says so in a moment
		open := s.blocks
		e.open, s.blocks = &open, OpenBlocks{}
	}
	s.ending = nil
	s.discard(t, &s.blocks) // of a turn whose lease was taken over
	s.wake()
}

// renewed notes that a write with a lease, which began at a time, was made.
func (s *stream) renewed(lease int64, begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == lease {
		s.until = begun.Add(session.LeaseTTL)
	}
}

// ours reports whether only this process can store events.
func (s *stream) ours() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease != 0 && time.Now().Before(s.until)
}

// released reports whether the lease was the session's, and up to where partial
// events belong to it. An append that ends the lease has to be answered first: what is shown in part may be complete.
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

// appends begins an append; last is nil unless it ends the lease.
func (s *stream) appends(last *ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appending++
	s.version++
	if last != nil && last.token == s.lease {
		s.ending = last
	}
}

// appended ends what appends began. With an error the events are not stored. It may be unknown whether they are;
// but if the next lease was taken at their end and it is no conflict, they are.
func (s *stream) appended(t *Tail, last *ending, events []*event.Event, err error) {
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

// found notes that the log reaches as far as a head.
func (s *stream) found(head session.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.advance(head)
}

// saw does the same for what somebody found in the store who began to look when the
// session had the version. If it has another by now, what he saw may be an append of
// this process before which something else has to be shown; then nothing is done, as
// the append itself will tell.
func (s *stream) saw(seq int64, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == version {
		s.advance(session.Head{Seq: seq})
	}
}

// looks returns the version for saw; ok is false while an append is under way.
func (s *stream) looks() (version uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.appending == 0
}

// publish reports whether anybody of this process holds the lease.
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

// reset forgets a session that was deleted or restored: followers find out. The caller holds the mutex.
func (s *stream) reset() {
	s.seq, s.id, s.part, s.parts, s.bytes = unknown, "", 0, nil, 0
	s.blocks = OpenBlocks{}
	s.version++
	s.deletions++
	s.wake()
}

// snapshot is what a follower sees at a moment.
type snapshot struct {
	seq       int64
	deletions int
	parts     []partial       // those that follow the position asked for, a batch of them
	changed   <-chan struct{} // closed at the next change
}

// after returns the state for a follower who is at a position. The slice buf is used
// for the parts.
func (s *stream) after(at session.Position, buf []partial) snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	state := snapshot{seq: s.seq, deletions: s.deletions, changed: s.changed, parts: buf[:0]}
	i, found := slices.BinarySearchFunc(s.parts, at, func(p partial, at session.Position) int { return p.at.Compare(at) })
	if found {
		i++
	}
	for ; i < len(s.parts) && s.parts[i].at.Seq == at.Seq && len(state.parts) < cap(buf); i++ {
		state.parts = append(state.parts, s.parts[i])
	}
	return state
}
