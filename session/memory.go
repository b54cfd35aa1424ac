package session

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
)

// Memory is a store in the process's memory. The zero value is not usable.
type Memory struct {
	now      func() time.Time
	mu       sync.RWMutex // guards the maps, not the logs
	sessions map[Key]*memorySession
	shared   map[string]any // by scope: see sharedKey
}

// MemoryOption configures a [Memory].
type MemoryOption func(*Memory)

// WithClock sets the store's clock, which leases expire by. The default is
// time.Now.
func WithClock(now func() time.Time) MemoryOption { return func(m *Memory) { m.now = now } }

// NewMemory makes an empty store.
func NewMemory(opts ...MemoryOption) *Memory {
	m := &Memory{now: time.Now, sessions: make(map[Key]*memorySession), shared: make(map[string]any)}
	for _, o := range opts {
		o(m)
	}
	return m
}

// memorySession holds a log as compact records: what a run's events share
// stands once, in its memoryRun. Records live in pages, so that a long log is
// never copied when it grows.
type memorySession struct {
	mu               sync.Mutex
	pages            [][]memoryRecord
	seq              int64
	run              *memoryRun // of the last record
	created, updated time.Time

	token   int64
	held    bool
	expires time.Time
}

type memoryRecord struct {
	id   string
	run  *memoryRun
	nano int64
	data agent.EventData
}

type memoryRun struct {
	turnID, runID, scope, parentID, agent, path string
	first                                       int64 // seq of the run's first event, which carries parentID
}

// A page's size doubles from firstPage to lastPage records, then stays.
const (
	firstPage = 8
	lastPage  = 32
)

func (m *Memory) session(key Key, create bool) *memorySession {
	m.mu.RLock()
	s := m.sessions[key]
	m.mu.RUnlock()
	if s != nil || !create {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s = m.sessions[key]; s == nil {
		s = &memorySession{}
		m.sessions[key] = s
	}
	return s
}

// Load implements [Store]. It holds no lock while it yields.
func (m *Memory) Load(ctx context.Context, key Key, after int64) iter.Seq2[*agent.Event, error] {
	return func(yield func(*agent.Event, error) bool) {
		s := m.session(key, false)
		if s == nil {
			return
		}
		s.mu.Lock()
		pages, seq := s.pages, s.seq
		// The last page may grow under our hands; its length here is the snapshot.
		var last []memoryRecord
		if len(pages) > 0 {
			last = pages[len(pages)-1]
		}
		s.mu.Unlock()
		if after >= seq {
			return
		}
		p, i := locate(after)
		for n := after + 1; n <= seq; n++ {
			page := last
			if p < len(pages)-1 {
				page = pages[p]
			}
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(page[i].event(n), nil) {
				return
			}
			if i++; i == pageSize(p) {
				p, i = p+1, 0
			}
		}
	}
}

func pageSize(p int) int {
	if p >= 2 {
		return lastPage
	}
	return firstPage << p
}

// locate returns the page and the index of record n, counted from 0.
func locate(n int64) (page, index int) {
	switch {
	case n < firstPage:
		return 0, int(n)
	case n < 3*firstPage:
		return 1, int(n - firstPage)
	}
	n -= 3 * firstPage
	return 2 + int(n/lastPage), int(n % lastPage)
}

func (r *memoryRecord) event(seq int64) *agent.Event {
	e := &agent.Event{Seq: seq, ID: r.id, TurnID: r.run.turnID, RunID: r.run.runID, Scope: r.run.scope,
		Agent: r.run.agent, Path: r.run.path, Time: time.Unix(0, r.nano).UTC(), Data: r.data}
	if seq == r.run.first {
		e.ParentID = r.run.parentID
	}
	return e
}

// Append implements [Store].
func (m *Memory) Append(ctx context.Context, key Key, expectedSeq int64, lease Lease, events ...*agent.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := m.session(key, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held || s.token != lease.Token {
		return fmt.Errorf("session %s: the lease was lost: %w", key, agent.ErrConflict)
	}
	if s.seq != expectedSeq {
		return fmt.Errorf("session %s: the log is at %d, not at %d: %w", key, s.seq, expectedSeq, agent.ErrConflict)
	}
	for i, e := range events {
		if e.Seq != expectedSeq+int64(i)+1 {
			return fmt.Errorf("session %s: event %s has seq %d instead of %d", key, e.ID, e.Seq, expectedSeq+int64(i)+1)
		}
	}
	for _, e := range events {
		s.add(e)
		if st, ok := e.Data.(*agent.State); ok {
			m.share(key, st.Delta)
		}
	}
	s.updated = m.now()
	if s.created.IsZero() {
		s.created = s.updated
	}
	return nil
}

func (s *memorySession) add(e *agent.Event) {
	if r := s.run; r == nil || r.runID != e.RunID || r.turnID != e.TurnID || r.scope != e.Scope || r.agent != e.Agent || r.path != e.Path || e.ParentID != "" {
		s.run = &memoryRun{turnID: e.TurnID, runID: e.RunID, scope: e.Scope, parentID: e.ParentID, agent: e.Agent, path: e.Path, first: e.Seq}
	}
	p, i := locate(s.seq)
	if i == 0 {
		s.pages = append(s.pages, make([]memoryRecord, 0, pageSize(p)))
	}
	s.pages[p] = append(s.pages[p], memoryRecord{id: e.ID, run: s.run, nano: e.Time.UnixNano(), data: e.Data})
	s.seq++
}

// sharedKey names a piece of state that sessions share, or returns "".
func sharedKey(key Key, name string) string {
	switch {
	case strings.HasPrefix(name, "user:"):
		return key.App + "\x00" + key.User + "\x00" + name
	case strings.HasPrefix(name, "app:"):
		return key.App + "\x00\x00" + name
	}
	return ""
}

func (m *Memory) share(key Key, delta map[string]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, value := range delta {
		k := sharedKey(key, name)
		switch {
		case k == "":
		case value == nil:
			delete(m.shared, k)
		default:
			m.shared[k] = value
		}
	}
}

// SharedState implements [Store].
func (m *Memory) SharedState(ctx context.Context, key Key) (map[string]any, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make(map[string]any)
	for k, v := range m.shared {
		parts := strings.SplitN(k, "\x00", 3)
		if parts[0] == key.App && (parts[1] == "" || parts[1] == key.User) {
			out[parts[2]] = v
		}
	}
	return out, ctx.Err()
}

// Acquire implements [Store]. All owners are of this process, so only the
// passing of LeaseTTL without renewal frees a lease that was not released.
func (m *Memory) Acquire(ctx context.Context, key Key, _ Owner) (Lease, error) {
	if err := ctx.Err(); err != nil {
		return Lease{}, err
	}
	s := m.session(key, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.now()
	if s.held && now.Before(s.expires) {
		return Lease{}, fmt.Errorf("session %s: %w", key, agent.ErrSessionBusy)
	}
	s.token++
	s.held, s.expires = true, now.Add(LeaseTTL)
	return Lease{Token: s.token, Seq: s.seq}, nil
}

// Renew implements [Store].
func (m *Memory) Renew(ctx context.Context, key Key, lease Lease) error {
	s := m.session(key, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held || s.token != lease.Token {
		return fmt.Errorf("session %s: the lease was lost: %w", key, agent.ErrConflict)
	}
	s.expires = m.now().Add(LeaseTTL)
	return ctx.Err()
}

// Release implements [Store].
func (m *Memory) Release(_ context.Context, key Key, lease Lease) error {
	if s := m.session(key, false); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.token == lease.Token {
			s.held = false
		}
	}
	return nil
}

// List implements [Store].
func (m *Memory) List(ctx context.Context, filter Key) ([]Info, error) {
	m.mu.RLock()
	sessions := maps.Clone(m.sessions)
	m.mu.RUnlock()
	var out []Info
	for key, s := range sessions {
		if filter.App != "" && filter.App != key.App || filter.User != "" && filter.User != key.User || filter.ID != "" && filter.ID != key.ID {
			continue
		}
		s.mu.Lock()
		if s.seq > 0 {
			out = append(out, Info{Key: key, Seq: s.seq, Created: s.created, Updated: s.updated})
		}
		s.mu.Unlock()
	}
	slices.SortFunc(out, CompareInfo)
	return out, ctx.Err()
}

// CompareInfo orders sessions as [Store.List] returns them: most recently
// updated first, ties by key.
func CompareInfo(a, b Info) int {
	if c := b.Updated.Compare(a.Updated); c != 0 {
		return c
	}
	return strings.Compare(a.Key.String(), b.Key.String())
}

// Delete implements [Store].
func (m *Memory) Delete(ctx context.Context, key Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, key)
	return ctx.Err()
}

// Close implements [Store]; it does nothing.
func (m *Memory) Close() error { return nil }
