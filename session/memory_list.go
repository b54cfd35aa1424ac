package session

import (
	"context"
	"errors"
	"slices"
	"time"
)

// update dates a session that was changed now, and lists it from now on.
func (s *memorySession) update(now time.Time) {
	s.updated = now.UTC()
	if !s.listed() {
		s.created = s.updated
	}
}

// List implements [Store].
func (m *Memory) List(ctx context.Context, filter Key, page Page) ([]Info, error) {
	if err := errors.Join(ctx.Err(), page.Check()); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []Info
	add := func(s *memorySession) {
		if i := m.info(s); s.listed() && page.has(i) {
			out = append(out, i)
		}
	}
	if filter.App != "" && filter.User != "" && filter.ID != "" { // as Find does for each request
		if s := m.sessions[filter]; s != nil {
			add(s)
		}
		return page.first(out), nil
	}
	for key, s := range m.sessions {
		if (filter.App == "" || filter.App == key.App) && (filter.User == "" || filter.User == key.User) && (filter.ID == "" || filter.ID == key.ID) {
			add(s)
		}
	}
	return page.first(out), nil
}

// first sorts sessions, and returns as many as the page may have.
func (p Page) first(infos []Info) []Info {
	slices.SortFunc(infos, CompareInfo)
	if p.Limit > 0 {
		infos = infos[:min(len(infos), p.Limit)]
	}
	return infos
}

func (m *Memory) info(s *memorySession) Info {
	i := Info{Key: s.key, Seq: s.row.Head.Seq, LastID: s.row.Head.ID, Status: s.row.Status, Created: s.created, Updated: s.updated,
		ParentSeq: s.row.Shared, Incarnation: s.row.Incarnation, Leased: s.leased(m.now())}
	if s.parent != nil && m.sessions[s.parent.key] == s.parent {
		i.Parent = s.parent.key
	}
	return i
}

// Orphans implements [Store].
func (m *Memory) Orphans(ctx context.Context, page Page) ([]Info, error) {
	if err := errors.Join(ctx.Err(), page.Check()); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []Info
	for s := range m.held {
		if i := m.info(s); s.listed() && !i.Leased && page.has(i) {
			out = append(out, i)
		}
	}
	return page.first(out), nil
}

// CompareInfo compares two sessions by the order in which [Store.List] returns them.
func CompareInfo(a, b Info) int { return a.Place().Compare(b.Place()) }
