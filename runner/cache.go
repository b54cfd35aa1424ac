package runner

import (
	"context"
	"encoding/json"
	"iter"
	"runtime/debug"
	"sync"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// warm is a session that was used lately: its fold, and what agents keep beside
// it. Nobody but the turn that took it from the cache uses it.
type warm struct {
	key    session.Key
	fold   session.Fold
	memos  memos
	stored map[string]json.RawMessage // what of them a snapshot has and nobody has asked for yet
	born   int64                      // the incarnation of the session, 0 if no lease was seen yet
	fork   bool                       // the last lease said that it is one
	files  files                      // that the log names
	last   string                     // the id of the log's last event
	kept   keptAt                     // when it was stored beside the log
	tail   []*event.Event             // the log's last events, if they were just read

	prev, next *warm // in the cache, by last use
}

// cache keeps a bounded number of warm sessions, dropping the one that was used
// least recently.
type cache struct {
	mu    sync.Mutex
	bound int
	byKey map[session.Key]*warm
	ends  warm // ends.next is the most recent, ends.prev the least

	turns map[session.Key]*turn         // that have a session
	busy  map[session.Key]chan struct{} // sessions that are being brought up to date; closed then, unless nil
}

// head returns where the log ended.
func (w *warm) head() session.Head { return session.Head{Seq: w.fold.Seq, ID: w.last} }

func newCache(bound int) *cache {
	c := &cache{bound: bound, byKey: make(map[session.Key]*warm), turns: make(map[session.Key]*turn), busy: make(map[session.Key]chan struct{})}
	c.ends.next, c.ends.prev = &c.ends, &c.ends
	return c
}

// take removes the session from the cache and returns it, or nil.
func (c *cache) take(key session.Key) *warm {
	return c.takeIf(key, func(*warm) bool { return true })
}

func (c *cache) takeIf(key session.Key, fits func(*warm) bool) *warm {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.byKey[key]
	if w == nil || !fits(w) {
		return nil
	}
	c.unlink(w)
	return w
}

// rests reports whether a new turn would find nothing that is open or waits, as far as is known, and the session is no fork.
func (w *warm) rests() bool {
	return w.born != 0 && !w.fork && !w.fold.Unfinished() && !w.fold.Held() && len(w.fold.Inner()) == 0
}

// enter waits until nobody else brings a session up to date, and keeps others from it until
// leave.
func (c *cache) enter(ctx context.Context, key session.Key) error {
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

func (c *cache) leave(key session.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := c.busy[key]; left != nil {
		close(left)
	}
	delete(c.busy, key)
}

// turn returns the turn that has a session, nil if none has.
func (c *cache) turn(key session.Key) *turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turns[key]
}

// has notes which turn has a session, nil being none any more.
func (c *cache) has(key session.Key, t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t == nil {
		delete(c.turns, key)
	} else {
		c.turns[key] = t
	}
}

// put gives a session back. If another one took its place meanwhile, the one
// that knows more of the log stays.
func (c *cache) put(w *warm) {
	if c.bound <= 0 {
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
	if len(c.byKey) >= c.bound {
		c.unlink(c.ends.prev)
	}
	c.byKey[w.key] = w
	w.prev, w.next = &c.ends, c.ends.next
	w.prev.next, w.next.prev = w, w
}

func (c *cache) unlink(w *warm) {
	delete(c.byKey, w.key)
	w.prev.next, w.next.prev = w.next, w.prev
	w.prev, w.next = nil, nil
}

// warm returns the session, brought up to date with the store. A lease, if there is one, tells where its log ends, and whether it was
// deleted and begun anew. Otherwise the last known event is read once more: if another one is at its position now, because the
// database went back or the session was deleted, the log is read from its beginning.
func (r *Runner) warm(ctx context.Context, key session.Key, lease *session.Lease) (*warm, error) {
	w := r.cache.take(key)
	if w == nil || lease != nil && (w.fold.Seq > lease.Head.Seq || w.born != 0 && w.born != lease.Incarnation) {
		w = r.recall(ctx, key, lease)
	}
	if lease != nil && w.head() == lease.Head {
		w.born, w.tail = lease.Incarnation, nil
		return w, r.recallUser(ctx, w)
	}
	after := max(0, w.fold.Seq-1)
	same, err := w.load(r.store.Load(ctx, key, after), after)
	if err == nil && !same {
		w = &warm{key: key}
		_, err = w.load(r.store.Load(ctx, key, 0), 0)
	}
	if err == nil {
		err = r.recallUser(ctx, w)
	}
	if err != nil {
		return nil, err
	}
	if lease != nil {
		w.born = lease.Incarnation
	}
	return w, nil
}

// longTail is how many events are kept in memory until the end of a turn because they were just read: agents' views
// want them, too.
const longTail = 1024

// load adds the events after a position. It reports false if the last known event
// is no longer the same; that event is checked if it comes after the position.
func (w *warm) load(events iter.Seq2[*event.Event, error], after int64) (same bool, err error) {
	same = after == w.fold.Seq
	w.tail = nil
	n := 0
	for e, err := range events {
		switch {
		case err != nil:
			return false, err
		case e.Seq > w.fold.Seq:
			w.apply(e)
		case session.HeadOf(e).ID != w.last || !e.Time.Equal(w.fold.Latest):
			return false, nil
		default:
			same = true
		}
		if n++; n <= longTail {
			w.tail = append(w.tail, e)
		}
	}
	if n > longTail {
		w.tail = nil
	}
	return same, nil
}

// memos are what agents keep beside a session: few, so that a list is smaller
// and no slower than a map.
type memos []memo

type memo struct {
	key, value any
	used       bool // since the active agent began, in the turn under way
}

func (m memos) get(key any) (value any, ok bool) {
	for i := range m {
		if m[i].key == key {
			m[i].used = true
			return m[i].value, true
		}
	}
	return nil, false
}

func (m *memos) put(one memo) {
	if *m == nil {
		*m = make(memos, 0, 2)
	}
	one.used = true
	*m = append(*m, one)
}

// rest notes that another agent is active now.
func (m memos) rest() {
	for i := range m {
		m[i].used = false
	}
}

// forget drops what agents keep beside the session: after a panic it may be half
// done.
func (t *turn) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.w.memos, t.w.stored = nil, nil
}

// warmViews gives the view of the active agent the turn's last events, which would
// have to be read from the store when the session goes on. Agents that have
// handed over may not be asked again for long: theirs wait until they are.
func (t *turn) warmViews() {
	defer func() {
		if p := recover(); p != nil { // of a policy's own function
			t.forget()
			t.r.logger.Error("a view panicked", "session", t.key.String(), "panic", p, "stack", string(debug.Stack()))
		}
	}()
	first := t.w.fold.Seq - int64(len(t.log))
	events := t.Events(t.ctx, first) // from memory: nothing can fail
	for i := range t.w.memos {
		m := t.w.memos[i]
		v, ok := m.value.(interface {
			Seq() int64
			CatchUp(iter.Seq2[*event.Event, error]) error
		})
		if ok && m.used && v.Seq() >= first {
			_ = v.CatchUp(events)
		}
	}
	t.w.memos.rest()
}
