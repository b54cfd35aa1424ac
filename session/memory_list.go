package session

import (
	"context"
	"errors"
	"slices"
	"time"
)

// The sessions of each user are kept in the order of their last updates, so that the cost of a page of a list depends
// only on the sessions in the page.

func (s *memorySession) place() Place { return Place{s.updated, s.key} }

// before returns the number of sessions in m.lists that lists return after a place.
func before(sessions []*memorySession, p Place) int {
	n, _ := slices.BinarySearchFunc(sessions, p, func(s *memorySession, p Place) int { return p.Compare(s.place()) })
	return n
}

// list puts a session that was updated now to its place in its user's list.
func (m *Memory) list(s *memorySession, now time.Time) {
	m.unlist(s)
	s.updated = now.UTC()
	if !s.listed() {
		s.created = s.updated
	}
	user := Key{App: s.key.App, User: s.key.User}
	m.lists[user] = slices.Insert(m.lists[user], before(m.lists[user], s.place()), s)
}

// unlist removes a session from its user's list, if it is there.
func (m *Memory) unlist(s *memorySession) {
	if !s.listed() {
		return
	}
	user := Key{App: s.key.App, User: s.key.User}
	i := before(m.lists[user], s.place())
	if m.lists[user] = slices.Delete(m.lists[user], i, i+1); len(m.lists[user]) == 0 {
		delete(m.lists, user)
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
	for _, sessions := range m.matching(filter) {
		if page.After != (Place{}) {
			sessions = sessions[:before(sessions, page.After)]
		}
		n := 0
		for _, s := range slices.Backward(sessions) {
			if i := m.info(s); page.has(i) && (filter.ID == "" || filter.ID == s.key.ID) {
				out = append(out, i)
				if n++; n == page.Limit {
					break
				}
			}
		}
	}
	return page.first(out), nil
}

// matching returns the lists that contain the sessions of a filter.
func (m *Memory) matching(filter Key) (lists [][]*memorySession) {
	switch {
	case filter.App == "" || filter.User == "":
		for user, sessions := range m.lists {
			if (filter.App == "" || filter.App == user.App) && (filter.User == "" || filter.User == user.User) {
				lists = append(lists, sessions)
			}
		}
	case filter.ID == "":
		lists = append(lists, m.lists[filter])
	default:
		if s := m.sessions[filter]; s != nil && s.listed() {
			lists = append(lists, []*memorySession{s})
		}
	}
	return lists
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
