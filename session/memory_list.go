package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// memoryOrder keeps the sessions of each user in the order in which they were updated,
// so that a page of a list costs what its sessions cost.
type memoryOrder struct {
	mu     sync.Mutex
	byUser map[memoryUser][]*memorySession // the place of the last one comes first
}

type memoryUser struct{ app, user string }

// memoryListed is what lists show of a session. The order's lock guards it, so that it
// never differs from the session's place in the order.
type memoryListed struct {
	key              Key
	seq              int64
	created, updated time.Time // zero: it is in no list yet
	gone             bool      // it was deleted
}

func (l *memoryListed) place() Place { return Place{l.updated, l.key} }

// before returns how many sessions of a user come after a place in lists.
func before(sessions []*memorySession, p Place) int {
	n, _ := slices.BinarySearchFunc(sessions, p, func(s *memorySession, p Place) int { return p.Compare(s.listed.place()) })
	return n
}

// move puts a session where it belongs after an update.
func (o *memoryOrder) move(s *memorySession, now time.Time, seq int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := &s.listed
	if l.gone {
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
	l.updated, l.seq = now, seq
	if o.byUser == nil {
		o.byUser = make(map[memoryUser][]*memorySession)
	}
	o.byUser[user] = slices.Insert(sessions, before(sessions, l.place()), s)
}

func (o *memoryOrder) remove(s *memorySession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := &s.listed
	l.gone = true
	if l.created.IsZero() {
		return
	}
	user := memoryUser{l.key.App, l.key.User}
	i := before(o.byUser[user], l.place())
	if o.byUser[user] = slices.Delete(o.byUser[user], i, i+1); len(o.byUser[user]) == 0 {
		delete(o.byUser, user)
	}
}

// page returns the infos of a page, without the parents of forks, and their sessions.
// One is the session that the filter names, if it names a whole key and there is one.
func (o *memoryOrder) page(filter Key, one *memorySession, page Page) (infos []Info, found []*memorySession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	take := func(sessions []*memorySession) {
		if page.After != (Place{}) {
			sessions = sessions[:before(sessions, page.After)]
		}
		n := 0
		for _, s := range slices.Backward(sessions) {
			if filter.ID != "" && filter.ID != s.listed.key.ID {
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
		if one != nil && !one.listed.created.IsZero() && !one.listed.gone {
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
	return Info{Key: l.key, Seq: l.seq, Created: l.created, Updated: l.updated, ParentSeq: s.shared(), Incarnation: s.born}
}

// List implements [Store].
func (m *Memory) List(ctx context.Context, filter Key, page Page) ([]Info, error) {
	if err := errors.Join(ctx.Err(), page.Check()); err != nil {
		return nil, err
	}
	infos, sessions := m.order.page(filter, m.session(filter), page)
	for i, s := range sessions {
		infos[i].Leased = s.leased(m.now())
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i, s := range sessions {
		if s.past != nil && m.sessions[s.past.key] == s.past.of {
			infos[i].Parent = s.past.key
		}
	}
	return infos, nil
}

// CompareInfo orders sessions as [Store.List] returns them.
func CompareInfo(a, b Info) int { return a.Place().Compare(b.Place()) }
