package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// memoryOrder keeps the sessions of each user in the order of their last updates, so that the cost of a page of a
// list depends only on the sessions in the page.
type memoryOrder struct {
	mu     sync.Mutex
	byUser map[memoryUser][]*memorySession // sorted in reverse: lists begin with the last element
	held   []*memorySession                // the sessions whose lease was not released
}

type memoryUser struct{ app, user string }

// memoryListed is what lists return of a session. The mutex of memoryOrder guards it, so that it always agrees with
// the session's place in the order.
type memoryListed struct {
	key              Key
	incarnation      int64
	head             Head
	status           Status
	created, updated time.Time // zero: lists do not contain the session yet
	deleted          bool
	held             int // 1 + the index in memoryOrder.held, or 0
}

func (l *memoryListed) place() Place { return Place{l.updated, l.key} }

// before returns the number of sessions of a user that lists return after a place.
func before(sessions []*memorySession, p Place) int {
	if n := len(sessions); n > 0 { // in most calls the place is that of the last element, or comes before it in lists
		switch c := p.Compare(sessions[n-1].listed.place()); {
		case c < 0:
			return n
		case c == 0:
			return n - 1
		}
	}
	n, _ := slices.BinarySearchFunc(sessions, p, func(s *memorySession, p Place) int { return p.Compare(s.listed.place()) })
	return n
}

// move updates what lists return of a session, and moves the session to its new place.
func (o *memoryOrder) move(s *memorySession, now time.Time, row *Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := &s.listed
	if l.deleted {
		return
	}
	user := memoryUser{l.key.App, l.key.User}
	sessions := o.byUser[user]
	if l.created.IsZero() {
		l.created = now
	} else {
		i := before(sessions, l.place())
		sessions = slices.Delete(sessions, i, i+1)
	}
	l.updated, l.head, l.status = now, row.Head, row.Status
	if o.byUser == nil {
		o.byUser = make(map[memoryUser][]*memorySession)
	}
	o.byUser[user] = slices.Insert(sessions, before(sessions, l.place()), s)
}

func (o *memoryOrder) remove(s *memorySession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := &s.listed
	l.deleted = true
	o.drop(s)
	if l.created.IsZero() {
		return
	}
	user := memoryUser{l.key.App, l.key.User}
	i := before(o.byUser[user], l.place())
	if o.byUser[user] = slices.Delete(o.byUser[user], i, i+1); len(o.byUser[user]) == 0 {
		delete(o.byUser, user)
	}
}

// hold records that the session's lease was acquired.
func (o *memoryOrder) hold(s *memorySession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := &s.listed; !l.deleted && l.held == 0 {
		o.held = append(o.held, s)
		l.held = len(o.held)
	}
}

// release records that the session's lease was released.
func (o *memoryOrder) release(s *memorySession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(s)
}

// drop removes a session from held. The caller holds the mutex.
func (o *memoryOrder) drop(s *memorySession) {
	if s.listed.held == 0 {
		return
	}
	end := len(o.held) - 1
	last := o.held[end]
	o.held[s.listed.held-1], last.listed.held = last, s.listed.held
	o.held[end], s.listed.held = nil, 0
	o.held = o.held[:end]
}

// ofHeld returns the listed sessions whose lease was not released.
func (o *memoryOrder) ofHeld() (infos []Info, found []*memorySession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.held {
		if !s.listed.created.IsZero() {
			infos, found = append(infos, s.listed.info(s)), append(found, s)
		}
	}
	return infos, found
}

// page returns the infos of a page, without the parents of forks, and the sessions. If the filter is a whole key, one
// is the session with this key, or nil.
func (o *memoryOrder) page(filter Key, one *memorySession, page Page) (infos []Info, found []*memorySession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	take := func(sessions []*memorySession) {
		if page.After != (Place{}) {
			sessions = sessions[:before(sessions, page.After)]
		}
		n := 0
		for _, s := range slices.Backward(sessions) {
			if filter.ID != "" && filter.ID != s.listed.key.ID || page.Status != "" && page.Status != s.listed.status {
				continue
			}
			found = append(found, s)
			if n++; n == page.Limit {
				return
			}
		}
	}
	switch {
	case filter.App != "" && filter.User != "" && filter.ID != "":
		if one != nil && !one.listed.created.IsZero() && !one.listed.deleted {
			take([]*memorySession{one})
		}
	case filter.App != "" && filter.User != "":
		take(o.byUser[memoryUser{filter.App, filter.User}])
	default:
		for user, sessions := range o.byUser {
			if (filter.App == "" || filter.App == user.app) && (filter.User == "" || filter.User == user.user) {
				take(sessions)
			}
		}
		slices.SortFunc(found, func(a, b *memorySession) int { return a.listed.place().Compare(b.listed.place()) })
		if page.Limit > 0 {
			found = found[:min(len(found), page.Limit)]
		}
	}
	for _, s := range found {
		infos = append(infos, s.listed.info(s))
	}
	return infos, found
}

func (l *memoryListed) info(s *memorySession) Info {
	return Info{Key: l.key, Seq: l.head.Seq, LastID: l.head.ID, Status: l.status, Created: l.created, Updated: l.updated, ParentSeq: s.shared(), Incarnation: l.incarnation}
}

// List implements [Store].
func (m *Memory) List(ctx context.Context, filter Key, page Page) ([]Info, error) {
	if err := errors.Join(ctx.Err(), page.Check()); err != nil {
		return nil, err
	}
	infos, sessions := m.order.page(filter, m.session(filter), page)
	for i, s := range sessions {
		infos[i].Leased = s.leased(m.now())
		infos[i].Parent = m.parent(s)
	}
	return infos, nil
}

// parent returns the key of the session that s was forked from, or the zero key if that session was deleted.
func (m *Memory) parent(s *memorySession) (key Key) {
	if s.past == nil {
		return key
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.sessions[s.past.key] == s.past.of {
		key = s.past.key
	}
	return key
}

// Orphans implements [Store].
func (m *Memory) Orphans(ctx context.Context, page Page) ([]Info, error) {
	if err := errors.Join(ctx.Err(), page.Check()); err != nil {
		return nil, err
	}
	infos, sessions := m.order.ofHeld()
	var out []Info
	for i, s := range sessions {
		if page.Has(infos[i]) && s.orphaned(m.now()) {
			infos[i].Parent = m.parent(s)
			out = append(out, infos[i])
		}
	}
	slices.SortFunc(out, CompareInfo)
	if page.Limit > 0 {
		out = out[:min(len(out), page.Limit)]
	}
	return out, nil
}

// orphaned reports whether the session still has a lease that was not released, and the lease has ended.
func (s *memorySession) orphaned(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row.Held && !Leased(s.row.Until, now)
}

// CompareInfo compares two sessions by the order in which [Store.List] returns them.
func CompareInfo(a, b Info) int { return a.Place().Compare(b.Place()) }
