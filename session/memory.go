package session

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Memory is a [Store] in memory. It is safe for concurrent use. The zero value is not usable; see [NewMemory].
type Memory struct {
	now      func() time.Time
	mu       sync.RWMutex // guards sessions, not the logs; locked before the mutex of a session
	sessions map[Key]*memorySession
	order    memoryOrder
	stateMu  sync.RWMutex // guards shared
	shared   map[sharedKey]any
	keeps    bool // KeepSnapshots
	// tokens is the last token of any session. All sessions share it, so that a
	// session that is deleted and created again never repeats a token.
	tokens atomic.Int64
}

// sharedKey names a value that the sessions of a user or an app share.
type sharedKey struct {
	app, user string
	ofUser    bool
	name      string
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
	m := &Memory{now: time.Now, sessions: make(map[Key]*memorySession), shared: make(map[sharedKey]any)}
	for _, o := range opts {
		if o != nil {
			o(m)
		}
	}
	return m
}

// memorySession stores a log as compact records. The fields that all events of a run have in common are stored once,
// in a memoryRun. Records are stored in pages, so that a long log is not copied when it grows.
type memorySession struct {
	mu        sync.Mutex
	past      *memoryPast      // of a fork: the events that it shares
	pages     [][]memoryRecord // from the first event that is not shared
	run       *memoryRun       // the run of the last record
	places    []*memoryPlace
	listed    memoryListed
	blobs     map[string]memoryBlob // by digest
	snapshots map[string][]Snapshot // by name

	row Row
}

// memoryPast refers to the events that a fork shares. Logs only grow, so the parent session may get more events or be
// deleted.
type memoryPast struct {
	of  *memorySession
	key Key // the key of that session
	seq int64
}

// shared returns the number of events that belong to another session.
func (s *memorySession) shared() int64 {
	if s.past == nil {
		return 0
	}
	return s.past.seq
}

type memoryRecord struct {
	id   string
	run  *memoryRun
	nano int64
	data event.Data
}

type memoryRun struct {
	turnID, runID, parentID string
	attempt                 int
	first                   int64 // position of the run's first event, which has the parentID
	*memoryPlace
}

// memoryPlace is an agent in a scope. A session has few different ones.
type memoryPlace struct{ scope, agent, path string }

// maxPlaces bounds the places of a session that events can share.
const maxPlaces = 8

// The first pages are small, because most sessions are short.
const (
	smallPages = 4
	smallPage  = 8
	largePage  = 32
)

// noTime stands for the zero time in a record, because the zero time does not fit in nanoseconds.
const noTime = math.MinInt64

// session returns the session with a key, or nil.
func (m *Memory) session(key Key) *memorySession {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.sessions[key]
}

func (m *Memory) createSession(key Key) *memorySession {
	if s := m.session(key); s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[key]
	if s == nil {
		born := m.tokens.Add(1)
		s = &memorySession{row: Row{Lease: Lease{Incarnation: born}}, listed: memoryListed{key: key, incarnation: born}}
		m.sessions[key] = s
	}
	return s
}

// Load implements [Store]. It holds no lock while it yields.
func (m *Memory) Load(ctx context.Context, key Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		s := m.session(key)
		if s == nil {
			return
		}
		after, until := max(after, 0), s.length()
		var pasts []memoryPast // the segments after the first one, the last one first
		for s.past != nil && after < s.past.seq {
			pasts = append(pasts, memoryPast{of: s, seq: until})
			until, s = min(until, s.past.seq), s.past.of
		}
		if after < until && !s.yield(ctx, after, until, yield) {
			return
		}
		for _, part := range slices.Backward(pasts) {
			if after = part.of.past.seq; after < part.seq && !part.of.yield(ctx, after, part.seq, yield) {
				return
			}
		}
	}
}

func (s *memorySession) length() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row.Head.Seq
}

// yield yields the session's own events after a position, up to and including another one. It holds no lock while it
// yields.
func (s *memorySession) yield(ctx context.Context, after, until int64, yield func(*event.Event, error) bool) bool {
	s.mu.Lock()
	pages := s.pages
	// Other goroutines may append to the last page. This slice keeps its present length.
	last := pages[len(pages)-1]
	s.mu.Unlock()
	p, i := locate(after - s.shared())
	for n := after + 1; n <= until; n++ {
		page := last
		if p < len(pages)-1 {
			page = pages[p]
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return false
		}
		if !yield(page[i].event(n), nil) {
			return false
		}
		if i++; i == pageSize(p) {
			p, i = p+1, 0
		}
	}
	return true
}

func pageSize(p int) int {
	if p < smallPages {
		return smallPage
	}
	return largePage
}

// locate returns the page and the index of record n, counted from 0.
func locate(n int64) (page, index int) {
	if n < smallPages*smallPage {
		return int(n / smallPage), int(n % smallPage)
	}
	n -= smallPages * smallPage
	return smallPages + int(n/largePage), int(n % largePage)
}

func (r *memoryRecord) event(seq int64) *event.Event {
	e := &event.Event{Seq: seq, ID: r.id, TurnID: r.run.turnID, RunID: r.run.runID, Scope: r.run.scope,
		Agent: r.run.agent, Path: r.run.path, Attempt: r.run.attempt, Data: r.data}
	if r.nano != noTime {
		e.Time = time.Unix(0, r.nano).UTC()
	}
	if seq == r.run.first {
		e.ParentID = r.run.parentID
	}
	return e
}

// Write implements [Store]. All owners are in this process, so a lease that was not released becomes free only when
// [LeaseTTL] has passed without a renewal.
func (m *Memory) Write(ctx context.Context, key Key, w Write) (Lease, error) {
	if err := cmp.Or(ctx.Err(), w.Check(key)); err != nil {
		return Lease{}, err
	}
	s := m.session(key)
	if s == nil {
		if err := new(Row).Change(key, &w, 1, m.now()); err != nil {
			return Lease{}, err
		}
		s = m.createSession(key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row, now := s.row, m.now()
	if err := row.Change(key, &w, rand.Int64(), now); err != nil {
		return Lease{}, err
	}
	if w.Acquires() || w.Abandon {
		row.Token, row.Holder = m.tokens.Add(1), Owner{}
	}
	switch {
	case s.row.Held && !row.Held:
		m.order.release(s)
	case row.Held && !s.row.Held:
		m.order.hold(s)
	}
	for _, e := range w.Events {
		s.add(e)
		if st, ok := e.Data.(*event.State); ok {
			m.share(key, st.Delta)
		}
	}
	s.row = row
	if len(w.Events) > 0 {
		m.order.move(s, now.UTC(), &row)
	}
	if m.keeps {
		s.keep(w.Snapshots)
	}
	return row.Lease, nil
}

// place returns the event's agent and scope. It returns the value of an earlier event if there is an equal one.
func (s *memorySession) place(e *event.Event) *memoryPlace {
	p := memoryPlace{e.Scope, e.Agent, e.Path}
	for _, known := range s.places {
		if *known == p {
			return known
		}
	}
	fresh := &memoryPlace{e.Scope, e.Agent, e.Path}
	if s.places == nil {
		s.places = make([]*memoryPlace, 0, 4)
	}
	if len(s.places) < maxPlaces {
		s.places = append(s.places, fresh)
	}
	return fresh
}

func (s *memorySession) add(e *event.Event) {
	if r := s.run; r == nil || r.runID != e.RunID || r.turnID != e.TurnID || r.scope != e.Scope || r.agent != e.Agent || r.path != e.Path || r.attempt != e.Attempt || e.ParentID != "" {
		s.run = &memoryRun{turnID: e.TurnID, runID: e.RunID, parentID: e.ParentID, attempt: e.Attempt, first: e.Seq,
			memoryPlace: s.place(e)}
	}
	p, i := locate(e.Seq - 1 - s.shared())
	if s.pages == nil {
		s.pages = make([][]memoryRecord, 0, 2)
	}
	if i == 0 {
		s.pages = append(s.pages, make([]memoryRecord, 0, pageSize(p)))
	}
	nano := int64(noTime)
	if !e.Time.IsZero() {
		nano = e.Time.UnixNano()
	}
	s.pages[p] = append(s.pages[p], memoryRecord{id: e.ID, run: s.run, nano: nano, data: e.Data})
}

// share updates the state of the user and the app.
func (m *Memory) share(key Key, delta map[string]any) {
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	for name, value := range delta {
		k := sharedKey{app: key.App, name: name}
		switch {
		case strings.HasPrefix(name, "user:"):
			k.user, k.ofUser = key.User, true
		case !strings.HasPrefix(name, "app:"):
			continue
		}
		if value == nil {
			delete(m.shared, k)
		} else {
			m.shared[k] = value
		}
	}
}

// SharedState implements [Store].
func (m *Memory) SharedState(ctx context.Context, key Key) (map[string]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.stateMu.RLock()
	defer m.stateMu.RUnlock()
	out := make(map[string]any)
	for k, v := range m.shared {
		if k.app == key.App && (!k.ofUser || k.user == key.User) {
			out[k.name] = v
		}
	}
	return out, nil
}

// Fork implements [Store].
func (m *Memory) Fork(ctx context.Context, of Key, seq int64, to Key, events ...*event.Event) error {
	if err := cmp.Or(ctx.Err(), CheckEvents(to, seq, events)); err != nil {
		return err
	}
	parent := m.session(of)
	if parent == nil || seq < 0 || seq > parent.length() || !parent.exists() {
		return fmt.Errorf("session %s has no position %d to fork at: %w", of, seq, agent.ErrBadInput)
	}
	key := of
	for parent.past != nil && seq <= parent.past.seq {
		parent, key = parent.past.of, parent.past.key
	}
	now := m.now().UTC()
	row := Row{Lease: Lease{Incarnation: m.tokens.Add(1), Fork: true, Shared: seq, Head: parent.headAt(seq)}, Status: parent.statusAt(seq)}
	fork := &memorySession{past: &memoryPast{of: parent, key: key, seq: seq}, row: row, listed: memoryListed{key: to, incarnation: row.Incarnation}}
	for _, e := range events {
		fork.add(e)
		fork.row.Head, fork.row.Status = HeadOf(e), fork.row.Status.After(e)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.sessions[to]; old != nil && (old.exists() || old.leased(now)) {
		return fmt.Errorf("session %s exists already: %w", to, agent.ErrConflict)
	}
	for _, e := range events {
		if st, ok := e.Data.(*event.State); ok {
			m.share(to, st.Delta)
		}
	}
	if old := m.sessions[to]; old != nil {
		m.order.remove(old)
	}
	m.sessions[to] = fork
	m.order.move(fork, now, &fork.row)
	return nil
}

// headAt returns the head of the log up to one of the session's own events. It returns the zero value for a shared
// event.
func (s *memorySession) headAt(seq int64) Head {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq <= s.shared() {
		return Head{}
	}
	p, i := locate(seq - 1 - s.shared())
	return HeadOf(s.pages[p][i].event(seq))
}

// statusAt returns the status that the session had when its log ended at a position. If the log is longer now,
// statusAt reads back to the last event that sets the status.
func (s *memorySession) statusAt(seq int64) (status Status) {
	s.mu.Lock()
	if seq == s.row.Head.Seq {
		defer s.mu.Unlock()
		return s.row.Status
	}
	for n := seq; n > s.shared() && status == ""; n-- {
		p, i := locate(n - 1 - s.shared())
		r := &s.pages[p][i]
		status = status.after(r.run.scope, r.data)
	}
	s.mu.Unlock()
	if status == "" && s.past != nil {
		return s.past.of.statusAt(min(seq, s.past.seq))
	}
	return status
}

// exists reports whether the session has events or is a fork. Otherwise it only had a lease.
func (s *memorySession) exists() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row.Head.Seq > 0 || s.past != nil
}

func (s *memorySession) leased(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row.Held && Leased(s.row.Until, now)
}

// Delete implements [Store].
func (m *Memory) Delete(ctx context.Context, key Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions[key]; s != nil {
		delete(m.sessions, key)
		m.order.remove(s)
	}
	return nil
}

// Close implements [Store]. It does nothing.
func (m *Memory) Close() error { return nil }
