package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/option"
)

// Live is a [Tail] around any store, for the followers of one process. What the
// runners of this process do to a session, its followers see at once, partial events
// included; what other processes store in the same database they find when they look
// into the store, at an interval.
//
// Live holds no copy of a log: followers read stored events from the store. It holds
// the partial events of turns under way, and for a while those of turns that have
// just ended, so that a follower who was cut off gets exactly the rest. Their number
// and their size are bounded for each session; beyond the bound the oldest are
// dropped, and a follower who has not seen them yet gets the complete events alone,
// which stand for them anyway.
//
// A lease that is taken or given back while blocks are shown in part, because a turn
// was cut off, publishes a discard that names them. The zero value is not usable.
type Live struct {
	underlying
	poll, linger time.Duration
	maxParts     int
	maxBytes     int

	mu       sync.RWMutex // guards what follows; taken before the mutex of a session
	sessions map[Key]*liveSession
	ended    []endedTurn // oldest first
	closed   chan struct{}
	close    func() error
}

// underlying is how a store is embedded without showing in the documentation.
type underlying = Store

var _ Tail = (*Live)(nil)

// endedTurn is partial events that are to be dropped at a time.
type endedTurn struct {
	key   Key
	s     *liveSession
	until Position
	at    time.Time
}

// LiveOption configures a [Live].
type LiveOption func(*Live)

// WithPoll sets how often a follower looks into the store for what other processes
// have stored there. The default is 1 s.
func WithPoll(interval time.Duration) LiveOption { return func(l *Live) { l.poll = interval } }

// WithLinger sets how long the partial events of a turn can be had after its end. Who
// reconnects later gets the complete events alone. The default is 30 s; 0 keeps none.
func WithLinger(d time.Duration) LiveOption { return func(l *Live) { l.linger = d } }

// WithMaxPartial bounds the partial events that are held of one session, by number
// and by their size in memory, in bytes. The defaults are 8192 and 4 MiB.
func WithMaxPartial(number, bytes int) LiveOption {
	return func(l *Live) { l.maxParts, l.maxBytes = number, bytes }
}

// NewLive makes a Live around a store, which it owns from then on: Close closes it
// too.
func NewLive(store Store, opts ...LiveOption) (*Live, error) {
	if store == nil {
		return nil, errors.New("session: the store of a Live is nil")
	}
	l := &Live{underlying: store, poll: time.Second, linger: 30 * time.Second, maxParts: 8192, maxBytes: 4 << 20,
		sessions: make(map[Key]*liveSession), closed: make(chan struct{})}
	if err := option.Apply(l, opts); err != nil {
		return nil, fmt.Errorf("session: of a Live: %w", err)
	}
	if l.poll <= 0 || l.linger < 0 || l.maxParts < 0 || l.maxBytes < 0 {
		return nil, errors.New("session: an option of a Live is negative, or its interval is not positive")
	}
	l.close = sync.OnceValue(func() error {
		close(l.closed)
		return l.underlying.Close()
	})
	return l, nil
}

var errLiveClosed = errors.New("session: the store is closed")

// Close ends all followers with an error and closes the store. Closing twice does
// nothing.
func (l *Live) Close() error { return l.close() }

func (l *Live) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// find returns nil if nobody writes to the session here, or follows it.
func (l *Live) find(key Key) *liveSession {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.sessions[key]
}

// join returns the session, which stays until it is left as often.
func (l *Live) join(key Key) *liveSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep()
	s := l.sessions[key]
	if s == nil {
		s = &liveSession{seq: unknown}
		l.sessions[key] = s
	}
	s.users++
	return s
}

func (l *Live) leave(key Key, s *liveSession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.users--
	l.forget(key, s)
}

// forget drops a session that nothing is to be known of.
func (l *Live) forget(key Key, s *liveSession) {
	if s.users == 0 && l.sessions[key] == s && s.idle() {
		delete(l.sessions, key)
	}
}

// sweep drops the partial events whose time has come. It runs when a lease is taken
// or given back, or somebody begins to follow, which needs no goroutine and no timer.
func (l *Live) sweep() {
	now, n := time.Now(), 0
	for _, t := range l.ended {
		if t.at.After(now) {
			break
		}
		t.s.drop(t.until)
		l.forget(t.key, t.s)
		n++
	}
	if n > 0 {
		clear(l.ended[:n])
		l.ended = l.ended[n:]
	}
}

// Acquire implements [Store].
func (l *Live) Acquire(ctx context.Context, key Key, owner Owner) (Lease, error) {
	s := l.join(key)
	defer l.leave(key, s)
	lease, err := l.underlying.Acquire(ctx, key, owner)
	if err == nil {
		s.acquired(l, lease)
	}
	return lease, err
}

// Append implements [Store].
func (l *Live) Append(ctx context.Context, key Key, expectedSeq int64, lease Lease, events ...*event.Event) error {
	s := l.find(key)
	if s == nil {
		return l.underlying.Append(ctx, key, expectedSeq, lease, events...)
	}
	s.appends()
	err := l.underlying.Append(ctx, key, expectedSeq, lease, events...)
	if err != nil {
		events = nil
	}
	s.appended(events)
	return err
}

// Renew implements [Store].
func (l *Live) Renew(ctx context.Context, key Key, lease Lease) error {
	err := l.underlying.Renew(ctx, key, lease)
	if errors.Is(err, agent.ErrConflict) {
		l.end(key, lease)
	}
	return err
}

// Release implements [Store].
func (l *Live) Release(ctx context.Context, key Key, lease Lease) error {
	l.end(key, lease)
	return l.underlying.Release(ctx, key, lease)
}

// end takes note that a lease of this process is over.
func (l *Live) end(key Key, lease Lease) {
	s := l.find(key)
	if s == nil {
		return
	}
	until, was := s.released(l, lease)
	if !was {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = append(l.ended, endedTurn{key, s, until, time.Now().Add(l.linger)})
	l.sweep()
}

// Fork implements [Store].
func (l *Live) Fork(ctx context.Context, of Key, seq int64, to Key, events ...*event.Event) error {
	err := l.underlying.Fork(ctx, of, seq, to, events...)
	if s := l.find(to); err == nil && s != nil {
		s.found(seq + int64(len(events)))
	}
	return err
}

// Delete implements [Store].
func (l *Live) Delete(ctx context.Context, key Key) error {
	err := l.underlying.Delete(ctx, key)
	if s := l.find(key); err == nil && s != nil {
		s.deleted()
	}
	return err
}

// Publish implements [Tail]. Only the holder of the lease can publish: to a session
// whose lease was not taken through this Live, or is lost, it returns an error that
// is [agent.ErrConflict]. It waits for nobody.
func (l *Live) Publish(_ context.Context, key Key, events ...*event.Event) error {
	if err := CheckPartial(key, events); err != nil {
		return err
	}
	if l.isClosed() {
		return errLiveClosed
	}
	s := l.find(key)
	if s == nil || !s.publish(l, events) {
		return lost(key)
	}
	return nil
}

// Follow implements [Tail]. Each follower goes at its own pace, and slows nobody
// down. A follower ends with an error that is [agent.ErrConflict] when its session is
// deleted, and one that is [agent.ErrBadInput] when the log has no event of the
// position to go on from, as it is after the session was deleted and made anew.
func (l *Live) Follow(ctx context.Context, key Key, after string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		pos, err := ParsePosition(after)
		if err == nil && l.isClosed() {
			err = errLiveClosed
		}
		if err != nil {
			yield(Entry{}, err)
			return
		}
		s := l.join(key)
		defer l.leave(key, s)
		f := &liveFollower{Live: l, s: s, yield: yield, part: pos.Part, log: LogReader{Store: l.underlying, Key: key, Seq: pos.Seq}}
		if err := f.run(ctx); err != nil {
			if l.isClosed() {
				err = errLiveClosed
			}
			yield(Entry{}, fmt.Errorf("session %s: %w", key, err))
		}
	}
}
