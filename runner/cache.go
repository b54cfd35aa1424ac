package runner

import (
	"context"
	"sync"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// holder is a turn that has checked a session out of the cache.
type holder interface {
	// readFold calls a function with the session's fold. It reports false if the turn does not know the state of the
	// session.
	readFold(read func(*session.Fold) error) (ok bool, err error)
}

// cache keeps a bounded number of sessions, and drops the one that was used least recently. It is safe for concurrent
// use.
type cache struct {
	config
	mu    sync.Mutex
	byKey map[session.Key]*cachedSession
	ends  cachedSession // of the list by last use: ends.next was used last

	turns map[session.Key]holder        // the turn that has checked a session out
	busy  map[session.Key]chan struct{} // claimed sessions; a channel that is not nil is closed by unclaim
}

func newCache(c config) *cache {
	k := &cache{config: c, byKey: make(map[session.Key]*cachedSession), turns: make(map[session.Key]holder), busy: make(map[session.Key]chan struct{})}
	k.ends.next, k.ends.prev = &k.ends, &k.ends
	return k
}

// checkOut removes the session from the cache and returns it. It returns nil if the cache does not have the session.
func (c *cache) checkOut(key session.Key) *cachedSession {
	return c.checkOutIf(key, func(*cachedSession) bool { return true })
}

// checkOutIf is checkOut for a session that fits; it returns nil, and leaves the session, if fits returns false.
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

// claim waits until no other goroutine has claimed the session, and claims it until unclaim. The error is the cause of
// the context.
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

// holderOf returns the turn that has checked a session out, nil if none has.
func (c *cache) holderOf(key session.Key) holder {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turns[key]
}

// setHolder records which turn has checked a session out, nil for none.
func (c *cache) setHolder(key session.Key, t holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t == nil {
		delete(c.turns, key)
	} else {
		c.turns[key] = t
	}
}

// checkIn returns a session to the cache. If the cache has another copy of it by now, the copy with more of the log
// stays.
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

// upToDate checks a session out, or loads it, and reads what the store has in addition. A lease, which may be nil, says
// where the log ends and to which incarnation of the session it belongs. If the log is shorter than the cached session
// or the incarnation is another one, upToDate loads the session again. If the session does not end where the lease
// says, upToDate also reads the last known event again. If that event has changed, because the database was restored or
// the session was deleted, it reads the whole log.
func (c *cache) upToDate(ctx context.Context, key session.Key, lease *session.Lease) (*cachedSession, error) {
	w := c.checkOut(key)
	if w == nil || lease != nil && (w.fold.Seq > lease.Head.Seq || w.incarnation != 0 && w.incarnation != lease.Incarnation) {
		w = c.fromSnapshot(ctx, key, lease)
	}
	if lease != nil && w.head() == lease.Head {
		w.incarnation, w.tail = lease.Incarnation, nil
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
		w.incarnation = lease.Incarnation
	}
	return w, nil
}

// fromSnapshot returns the session of the store's snapshot, or an empty one if there is no usable snapshot. The caller
// checks that its last event is the same in the log.
func (c *cache) fromSnapshot(ctx context.Context, key session.Key, lease *session.Lease) *cachedSession {
	w := &cachedSession{key: key}
	if !c.snapshots || lease != nil && lease.Head.Seq < int64(c.snapshotEvery) {
		return w
	}
	found, err := c.store.Snapshot(ctx, key)
	if err != nil && ctx.Err() == nil {
		c.logger.Warn("the snapshot could not be read", "session", key.String(), "error", err)
	}
	switch {
	case found.Data == "":
		return w
	case !w.readSnapshot(found.Data) || w.fold.Seq != found.Seq:
		c.logger.Warn("the snapshot is damaged: reading the whole log instead", "session", key.String())
	case lease == nil || found.Seq <= lease.Head.Seq:
		w.snapshot = snapshotMark{seq: found.Seq, size: len(found.Data)}
		return w
	}
	return &cachedSession{key: key}
}

// readUser loads the user's event of the last turn, which a snapshot leaves out.
func (c *cache) readUser(ctx context.Context, w *cachedSession) error {
	turn := &w.fold.Turn
	if turn.User != nil || turn.First == 0 {
		return nil
	}
	turn.User = &event.User{} // stays if the event is unreadable
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
