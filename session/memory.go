package session

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Memory is a [Store] in memory. It is safe for concurrent use. The zero value is not usable; see [NewMemory].
type Memory struct {
	now   func() time.Time
	keeps bool // KeepSnapshots

	mu       sync.RWMutex // guards what follows, and all sessions; callers of methods that are not exported hold it
	sessions map[Key]*memorySession
	// lists contains the listed sessions of each user, whose key has no ID. Lists begin with the last element.
	lists  map[Key][]*memorySession
	held   map[*memorySession]struct{} // the sessions whose lease was not released
	shared map[Key]map[string]any      // the state of users and apps; see sharedKey
	// tokens is the last token of any session. All sessions share it, so that a
	// session that is deleted and created again never repeats a token.
	tokens int64
}

// MemoryOption configures a [Memory].
type MemoryOption func(*Memory)

// WithClock sets the clock by which leases expire and sessions are dated. Defaults to [time.Now].
func WithClock(now func() time.Time) MemoryOption { return func(m *Memory) { m.now = now } }

// KeepSnapshots makes the store keep snapshots. By default it drops them, because reading a log from memory costs
// less than the memory of its snapshots.
func KeepSnapshots() MemoryOption { return func(m *Memory) { m.keeps = true } }

// NewMemory creates an empty store. It ignores nil options.
func NewMemory(opts ...MemoryOption) *Memory {
	m := &Memory{now: time.Now, sessions: make(map[Key]*memorySession), lists: make(map[Key][]*memorySession),
		held: make(map[*memorySession]struct{}), shared: make(map[Key]map[string]any)}
	for _, o := range opts {
		if o != nil {
			o(m)
		}
	}
	return m
}

// memorySession is a session. A deleted one stays for the forks that share its events.
type memorySession struct {
	key              Key
	row              Row
	parent           *memorySession        // of a fork: the session whose own events contain the last shared one
	events           []event.Event         // the events that follow the shared ones
	created, updated time.Time             // zero: the session only has a lease, and lists do not contain it
	blobs            map[string]memoryBlob // by digest
	snapshot         Snapshot
}

// until returns the session's own events up to a position.
func (s *memorySession) until(seq int64) []event.Event { return s.events[:max(0, seq-s.row.Shared)] }

func (s *memorySession) listed() bool { return !s.created.IsZero() }

func (s *memorySession) leased(now time.Time) bool { return s.row.Held && Leased(s.row.Until, now) }

// nextToken returns a token that no session has had.
func (m *Memory) nextToken() int64 {
	m.tokens++
	return m.tokens
}

// Load implements [Store]. It holds no lock while it yields.
func (m *Memory) Load(ctx context.Context, key Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		for _, part := range m.parts(key, max(after, 0)) {
			for _, e := range part {
				if err := ctx.Err(); err != nil {
					yield(nil, err)
					return
				}
				if !yield(&e, nil) {
					return
				}
			}
		}
	}
}

// parts returns the events of a session after a position, oldest first: its own events, and before them those of the
// sessions that it was forked from. It locks the mutex itself.
func (m *Memory) parts(key Key, after int64) (parts [][]event.Event) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	end := int64(math.MaxInt64)
	for s := m.sessions[key]; s != nil && after < end; s = s.parent {
		own := s.until(min(end, s.row.Head.Seq))
		parts = append(parts, own[min(max(0, after-s.row.Shared), int64(len(own))):])
		end = s.row.Shared
	}
	slices.Reverse(parts)
	return parts
}

// Write implements [Store]. All owners are in this process, so a lease that was not released becomes free only when
// [LeaseTTL] has passed without a renewal.
func (m *Memory) Write(ctx context.Context, key Key, w Write) (Lease, error) {
	if err := cmp.Or(ctx.Err(), w.Check(key)); err != nil {
		return Lease{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, now := m.sessions[key], m.now()
	if s == nil {
		s = &memorySession{key: key, row: Row{Lease: Lease{Incarnation: m.nextToken()}}}
	}
	row := s.row
	if err := row.Change(key, &w, rand.Int64(), now); err != nil {
		return Lease{}, err
	}
	if w.Acquires() || w.Abandon {
		row.Token, row.Holder = m.nextToken(), Owner{}
	}
	m.sessions[key], s.row = s, row
	if row.Held {
		m.held[s] = struct{}{}
	} else {
		delete(m.held, s)
	}
	if len(w.Events) > 0 {
		m.add(s, w.Events)
		m.list(s, now)
	}
	if m.keeps && w.Snapshot.Data != "" {
		s.snapshot = w.Snapshot
	}
	return row.Lease, nil
}

// KeepsSnapshots implements [Store].
func (m *Memory) KeepsSnapshots() bool { return m.keeps }

// Snapshot implements [Store].
func (m *Memory) Snapshot(ctx context.Context, key Key) (Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return Snapshot{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if s := m.sessions[key]; s != nil {
		return s.snapshot, nil
	}
	return Snapshot{}, nil
}

// add appends events to a session's own.
func (m *Memory) add(s *memorySession, events []*event.Event) {
	for _, e := range events {
		stored := *e
		stored.Time, stored.More = e.Time.UTC().Round(0), false
		s.events = append(s.events, stored)
		if st, ok := e.Data.(*event.State); ok {
			m.share(s.key, st.Delta)
		}
	}
}

// sharedKey returns the key in m.shared of the state of a scope: "user" or "app".
func sharedKey(key Key, scope string) Key {
	if scope == "user" {
		return Key{App: key.App, User: key.User, ID: scope}
	}
	return Key{App: key.App, ID: scope}
}

// share updates the state of the user and the app.
func (m *Memory) share(key Key, delta map[string]any) {
	for name, value := range delta {
		scope, _, ok := strings.Cut(name, ":")
		if !ok || scope != "user" && scope != "app" {
			continue
		}
		of := sharedKey(key, scope)
		if m.shared[of] == nil {
			m.shared[of] = make(map[string]any)
		}
		if m.shared[of][name] = value; value == nil {
			delete(m.shared[of], name)
		}
	}
}

// SharedState implements [Store].
func (m *Memory) SharedState(ctx context.Context, key Key) (map[string]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make(map[string]any)
	maps.Copy(out, m.shared[sharedKey(key, "app")])
	maps.Copy(out, m.shared[sharedKey(key, "user")])
	return out, nil
}

// Fork implements [Store].
func (m *Memory) Fork(ctx context.Context, of Key, seq int64, to Key, events ...*event.Event) error {
	if err := cmp.Or(ctx.Err(), CheckEvents(to, seq, events)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, parent := m.now(), m.sessions[of]
	if parent == nil || !parent.listed() || seq < 0 || seq > parent.row.Head.Seq {
		return fmt.Errorf("session %s has no position %d to fork at: %w", of, seq, agent.ErrBadInput)
	}
	if old := m.sessions[to]; old != nil && (old.listed() || old.leased(now)) {
		return fmt.Errorf("session %s exists already: %w", to, agent.ErrConflict)
	}
	for parent.parent != nil && seq <= parent.row.Shared {
		parent = parent.parent
	}
	row := Row{Lease: Lease{Incarnation: m.nextToken(), Fork: true, Shared: seq}, Status: parent.statusAt(seq).After(events...)}
	if past := parent.until(seq); len(past) > 0 {
		row.Head = HeadOf(&past[len(past)-1])
	}
	row.Head = (&Write{Head: row.Head, Events: events}).End()
	m.remove(to)
	fork := &memorySession{key: to, row: row, parent: parent}
	m.sessions[to] = fork
	m.add(fork, events)
	m.list(fork, now)
	return nil
}

// statusAt returns the status that the session had when its log ended at a position. If the log is longer now,
// statusAt reads back to the last event that sets the status.
func (s *memorySession) statusAt(seq int64) (status Status) {
	if seq == s.row.Head.Seq {
		return s.row.Status
	}
	for ; s != nil && status == ""; s = s.parent {
		own := s.until(seq)
		for i := len(own) - 1; i >= 0 && status == ""; i-- {
			status = status.After(&own[i])
		}
		seq = min(seq, s.row.Shared)
	}
	return status
}

// Delete implements [Store].
func (m *Memory) Delete(ctx context.Context, key Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key)
	return nil
}

func (m *Memory) remove(key Key) {
	if s := m.sessions[key]; s != nil {
		m.unlist(s)
		delete(m.held, s)
		delete(m.sessions, key)
	}
}

// Close implements [Store]. It does nothing.
func (m *Memory) Close() error { return nil }
