package session

import (
	"bytes"
	"context"
	"math"

	"github.com/agentarbor/arbor/event"
)

var _ Mover = (*Memory)(nil)

// Digests implements [Mover].
func (m *Memory) Digests(ctx context.Context, key Key) (map[string]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found, before := make(map[string]int64), int64(math.MaxInt64)
	for s := m.session(key); s != nil; s = s.past.of {
		s.mu.Lock()
		for digest, b := range s.blobs {
			if _, ok := found[digest]; !ok && b.seq < before {
				found[digest] = b.seq
			}
		}
		s.mu.Unlock()
		if s.past == nil {
			break
		}
		before = min(before, s.past.seq)
	}
	return found, nil
}

// Adopt implements [Mover].
func (m *Memory) Adopt(ctx context.Context, key Key, lease Lease, moved Moved) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := moved.Check(key); err != nil {
		return err
	}
	adopted := &memorySession{born: m.tokens.Add(1), listed: memoryListed{key: key}}
	past, own := moved.Split()
	if moved.Lease.Fork {
		adopted.past = m.pastOf(moved.Parent, past)
		if adopted.past == nil { // one that nobody finds but through its fork
			hidden := &memorySession{}
			hidden.fill(past, moved.Blobs, 0, moved.Lease.Shared)
			adopted.past = &memoryPast{of: hidden, seq: hidden.seq}
		}
		adopted.seq = adopted.past.seq
	}
	adopted.fill(own, moved.Blobs, moved.Lease.Shared, math.MaxInt64)
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.sessions[key]
	if old == nil {
		return LeaseLost(key)
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	if !old.held || old.token != lease.Token {
		return LeaseLost(key)
	}
	for token := m.tokens.Load(); token < moved.Lease.Token && !m.tokens.CompareAndSwap(token, moved.Lease.Token); {
		token = m.tokens.Load()
	}
	m.order.remove(old)
	m.sessions[key] = adopted
	m.order.move(adopted, moved.Updated, adopted.seq)
	m.order.mu.Lock()
	defer m.order.mu.Unlock()
	adopted.listed.created = moved.Created
	return nil
}

// fill gives a new session events, and the bytes that were put between two positions, the second excluded.
func (s *memorySession) fill(events []*event.Event, blobs []MovedBlob, from, before int64) {
	for _, e := range events {
		s.add(e)
	}
	for _, b := range blobs {
		if b.Seq >= from && b.Seq < before {
			if s.blobs == nil {
				s.blobs = make(map[string]memoryBlob)
			}
			s.blobs[Digest(b.Data)] = memoryBlob{b.Seq, bytes.Clone(b.Data)}
		}
	}
}

// pastOf returns the past of a fork that shares events with a parent, nil if no such
// session has them.
func (m *Memory) pastOf(of Key, events []*event.Event) *memoryPast {
	parent, seq := m.session(of), int64(len(events))
	if parent == nil || seq > parent.length() || !parent.exists() {
		return nil
	}
	key := of
	for parent.past != nil && seq <= parent.past.seq {
		parent, key = parent.past.of, parent.past.key
	}
	if seq > 0 {
		p, i := locate(seq - 1 - parent.shared())
		parent.mu.Lock()
		last := parent.pages[p][i].event(seq)
		parent.mu.Unlock()
		is, err := last.MarshalJSON()
		if was, e := events[seq-1].MarshalJSON(); err != nil || e != nil || !bytes.Equal(is, was) {
			return nil
		}
	}
	return &memoryPast{of: parent, key: key, seq: seq}
}

// Leave implements [Mover].
func (m *Memory) Leave(ctx context.Context, key Key, lease Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[key]
	if s == nil {
		return LeaseLost(key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held || s.token != lease.Token {
		return LeaseLost(key)
	}
	delete(m.sessions, key)
	m.order.remove(s)
	return nil
}
