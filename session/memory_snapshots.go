package session

import (
	"context"
	"slices"
)

// KeepsSnapshots implements [Store].
func (m *Memory) KeepsSnapshots() bool { return m.keeps }

// keep stores parts of snapshots. The caller holds the mutex.
func (s *memorySession) keep(parts []Snapshot) {
	for _, p := range parts {
		if s.snapshots == nil {
			s.snapshots = make(map[string][]Snapshot)
		}
		kept := s.snapshots[p.Name]
		for len(kept) > 0 && kept[len(kept)-1].Part >= p.Part {
			kept = kept[:len(kept)-1]
		}
		s.snapshots[p.Name] = append(slices.Clip(kept), p) // a copy, because callers of Snapshots may have the old slice
	}
}

// Snapshots implements [Store].
func (m *Memory) Snapshots(ctx context.Context, key Key, name string) ([]Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := m.sessions[key]
	if s == nil {
		return nil, nil
	}
	return slices.Clone(s.snapshots[name]), nil
}
