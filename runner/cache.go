package runner

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// warm is a session that was used lately: its fold, and what agents keep beside
// it. Nobody but the turn that took it from the cache uses it.
type cachedSession struct {
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

	prev, next *cachedSession // in the cache, by last use
}

// holder is a turn that has a session out of the cache.
type holder interface {
	// glance gives a function the session's fold, and reports false if the turn does not know how the session is.
	glance(look func(*session.Fold) error) (ok bool, err error)
}

// cache keeps a bounded number of warm sessions, dropping the one that was used
// least recently.
type cache struct {
	config
	mu    sync.Mutex
	byKey map[session.Key]*cachedSession
	ends  cachedSession // ends.next is the most recent, ends.prev the least

	turns map[session.Key]holder        // that have a session
	busy  map[session.Key]chan struct{} // sessions that are being brought up to date; closed then, unless nil
}

// head returns where the log ended.
func (w *cachedSession) head() session.Head { return session.Head{Seq: w.fold.Seq, ID: w.last} }

func newCache(c config) *cache {
	k := &cache{config: c, byKey: make(map[session.Key]*cachedSession), turns: make(map[session.Key]holder), busy: make(map[session.Key]chan struct{})}
	k.ends.next, k.ends.prev = &k.ends, &k.ends
	return k
}

// take removes the session from the cache and returns it, or nil.
func (c *cache) take(key session.Key) *cachedSession {
	return c.takeIf(key, func(*cachedSession) bool { return true })
}

func (c *cache) takeIf(key session.Key, fits func(*cachedSession) bool) *cachedSession {
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
func (w *cachedSession) rests() bool {
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
func (c *cache) turn(key session.Key) holder {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turns[key]
}

// has notes which turn has a session, nil being none any more.
func (c *cache) has(key session.Key, t holder) {
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
func (c *cache) put(w *cachedSession) {
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

// open returns the session, brought up to date with the store. A lease, if there is one, tells where its log ends, and whether it was
// deleted and begun anew. Otherwise the last known event is read once more: if another one is at its position now, because the
// database went back or the session was deleted, the log is read from its beginning.
func (c *cache) open(ctx context.Context, key session.Key, lease *session.Lease) (*cachedSession, error) {
	w := c.take(key)
	if w == nil || lease != nil && (w.fold.Seq > lease.Head.Seq || w.born != 0 && w.born != lease.Incarnation) {
		w = c.fromSnapshot(ctx, key, lease)
	}
	if lease != nil && w.head() == lease.Head {
		w.born, w.tail = lease.Incarnation, nil
		return w, c.readUser(ctx, w)
	}
	after := max(0, w.fold.Seq-1)
	same, err := w.load(c.store.Load(ctx, key, after), after)
	if err == nil && !same {
		w = &cachedSession{key: key}
		_, err = w.load(c.store.Load(ctx, key, 0), 0)
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

// longTail is how many events are kept in memory until the end of a turn because they were just read: agents' views
// want them, too.
const longTail = 1024

// load adds the events after a position. It reports false if the last known event
// is no longer the same; that event is checked if it comes after the position.
func (w *cachedSession) load(events iter.Seq2[*event.Event, error], after int64) (same bool, err error) {
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

// The methods in this file make a turn the agent.Session of its agents. Tools
// that run in parallel, and agents inside them, may call them at once.

// apply takes a stored event into what is kept of the session.
func (w *cachedSession) apply(e *event.Event) {
	w.fold.Apply(e)
	w.last = session.HeadOf(e).ID
	switch d := e.Data.(type) {
	case *event.File:
		w.files.add(d, 0)
	case *event.User:
		w.files.sent(d, e.Seq)
	}
}

// files are those that a log names; of each name the last one.
type files []fileAt

type fileAt struct {
	*event.File       // without a digest if it is in a user's message
	Seq         int64 // of that message
}

func (f *files) add(d *event.File, seq int64) {
	*f = slices.DeleteFunc(*f, func(old fileAt) bool { return old.Name == d.Name })
	*f = append(*f, fileAt{d, seq})
}

// sent takes in the files of a user's message that have names.
func (f *files) sent(u *event.User, seq int64) {
	for _, p := range u.Content.Parts {
		if m, ok := p.(llm.Media); ok && m.Name != "" {
			f.add(&event.File{Name: m.Name, MediaType: m.MediaType, Size: int64(len(m.Data))}, seq)
		}
	}
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
	case len(found) > 1 || !w.read(s.Data) || w.fold.Seq != s.Seq:
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
