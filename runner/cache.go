package runner

import (
	"context"
	"sync"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// holder is a turn that has a session out of the cache.
type holder interface {
	// glance gives a function the session's fold, and reports false if the turn does not know how the session is.
	glance(look func(*session.Fold) error) (ok bool, err error)
}

// cache keeps a bounded number of sessions, dropping the one that was used
// least recently.
type cache struct {
	config
	mu    sync.Mutex
	byKey map[session.Key]*cachedSession
	ends  cachedSession // ends.next is the most recent, ends.prev the least

	turns map[session.Key]holder        // that have a session
	busy  map[session.Key]chan struct{} // sessions that are being brought up to date; closed then, unless nil
}

func newCache(c config) *cache {
	k := &cache{config: c, byKey: make(map[session.Key]*cachedSession), turns: make(map[session.Key]holder), busy: make(map[session.Key]chan struct{})}
	k.ends.next, k.ends.prev = &k.ends, &k.ends
	return k
}

// checkOut removes the session from the cache and returns it, or nil.
func (c *cache) checkOut(key session.Key) *cachedSession {
	return c.checkOutIf(key, func(*cachedSession) bool { return true })
}

func (c *cache) checkOutIf(key session.Key, fits func(*cachedSession) bool) *cachedSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.byKey[key]
	if w == nil || !fits(w) {
		return nil
	}
	c.unlink(w)
	return w
}

// claim waits until no other goroutine updates the session, and then locks the session until
// leave.
func (c *cache) claim(ctx context.Context, key session.Key) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		left, busy := c.busy[key]
		if !busy {
			c.busy[key] = nil
			return nil
		}
		if left == nil {
			left = make(chan struct{})
			c.busy[key] = left
		}
		c.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (c *cache) unclaim(key session.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := c.busy[key]; left != nil {
		close(left)
	}
	delete(c.busy, key)
}

// holderOf returns the turn that has a session, nil if none has.
func (c *cache) holderOf(key session.Key) holder {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turns[key]
}

// setHolder notes which turn has a session, nil being none any more.
func (c *cache) setHolder(key session.Key, t holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t == nil {
		delete(c.turns, key)
	} else {
		c.turns[key] = t
	}
}

// checkIn gives a session back. If another one took its place meanwhile, the one
// that knows more of the log stays.
func (c *cache) checkIn(w *cachedSession) {
	if c.cached <= 0 {
		return
	}
	w.tail = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.byKey[w.key]; other != nil {
		if other.fold.Seq >= w.fold.Seq {
			return
		}
		c.unlink(other)
	}
	if len(c.byKey) >= c.cached {
		c.unlink(c.ends.prev)
	}
	c.byKey[w.key] = w
	w.prev, w.next = &c.ends, c.ends.next
	w.prev.next, w.next.prev = w, w
}

func (c *cache) unlink(w *cachedSession) {
	delete(c.byKey, w.key)
	w.prev.next, w.next.prev = w.next, w.prev
	w.prev, w.next = nil, nil
}

// upToDate returns the session, brought up to date with the store. A lease, if there is one, tells where its log ends, and whether it was
// deleted and begun anew. Otherwise the last known event is read once more: if another one is at its position now, because the
// database went back or the session was deleted, the log is read from its beginning.
func (c *cache) upToDate(ctx context.Context, key session.Key, lease *session.Lease) (*cachedSession, error) {
	w := c.checkOut(key)
	if w == nil || lease != nil && (w.fold.Seq > lease.Head.Seq || w.born != 0 && w.born != lease.Incarnation) {
		w = c.fromSnapshot(ctx, key, lease)
	}
	if lease != nil && w.head() == lease.Head {
		w.born, w.tail = lease.Incarnation, nil
		return w, c.readUser(ctx, w)
	}
	after := max(0, w.fold.Seq-1)
	same, err := w.loadEvents(c.store.Load(ctx, key, after), after)
	if err == nil && !same {
		w = &cachedSession{key: key}
		_, err = w.loadEvents(c.store.Load(ctx, key, 0), 0)
	}
	if err == nil {
		err = c.readUser(ctx, w)
	}
	if err != nil {
		return nil, err
	}
	if lease != nil {
		w.born = lease.Incarnation
	}
	return w, nil
}

// fromSnapshot returns a session as its snapshot has it, or as nothing is known of it. Whether it fits the log
// is still to be seen: its last event is checked as that of any session that is warm.
func (c *cache) fromSnapshot(ctx context.Context, key session.Key, lease *session.Lease) *cachedSession {
	w := &cachedSession{key: key}
	if !c.snapshots || lease != nil && lease.Head.Seq < int64(c.every) {
		return w
	}
	found, err := c.store.Snapshots(ctx, key, snapshotName)
	if err != nil && ctx.Err() == nil {
		c.logger.Warn("the snapshot could not be read", "session", key.String(), "error", err)
	}
	if len(found) == 0 {
		return w
	}
	s := found[0]
	switch {
	case len(found) > 1 || !w.readSnapshot(s.Data) || w.fold.Seq != s.Seq:
		c.logger.Warn("the snapshot is damaged, and the log is read in its place", "session", key.String())
	case lease == nil || s.Seq <= lease.Head.Seq:
		w.kept = keptAt{seq: s.Seq, size: len(s.Data)}
		return w
	}
	return &cachedSession{key: key}
}

// readUser reads what the user has said if a snapshot has left it out.
func (c *cache) readUser(ctx context.Context, w *cachedSession) error {
	turn := &w.fold.Turn
	if turn.User != nil || turn.First == 0 {
		return nil
	}
	turn.User = &event.User{} // of an event that is unreadable
	for e, err := range c.store.Load(ctx, w.key, turn.First-1) {
		if err != nil {
			return err
		}
		if user, ok := e.Data.(*event.User); ok {
			turn.User = user
		}
		break
	}
	return nil
}
