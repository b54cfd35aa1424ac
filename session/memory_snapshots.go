package session

import (
	"context"
	"slices"
)

var _ Snapshots = (*Memory)(nil)

// KeepsSnapshots implements what [SnapshotsOf] looks for.
func (m *Memory) KeepsSnapshots() bool { return m.keeps }

// PutSnapshots implements [Snapshots].
func (m *Memory) PutSnapshots(ctx context.Context, key Key, lease Lease, parts ...Snapshot) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := CheckSnapshots(key, parts); err != nil {
		return err
	}
	s := m.session(key)
	if s == nil {
		return LeaseLost(key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held || s.token != lease.Token {
		return LeaseLost(key)
	}
	for _, p := range parts {
		if p.Seq > s.seq {
			return SnapshotTooNew(key, s.seq)
		}
	}
	for _, p := range parts {
		if s.snapshots == nil {
			s.snapshots = make(map[string][]Snapshot)
		}
		kept := s.snapshots[p.Name]
		for len(kept) > 0 && kept[len(kept)-1].Part >= p.Part {
			kept = kept[:len(kept)-1]
		}
		s.snapshots[p.Name] = append(slices.Clip(kept), p) // others may be reading them
	}
	return nil
}

// Snapshots implements [Snapshots].
func (m *Memory) Snapshots(ctx context.Context, key Key, name string) ([]Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := m.session(key)
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.snapshots[name]), nil
}
