package tail

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
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/following"
)

// Tail is a [session.Tail] around any store, for followers in the same process. Followers immediately receive what is
// written through the Tail, including partial events. They find events that other processes store in the same
// database when they poll the store.
//
// A Tail has no copy of a log: followers read stored events from the store. It keeps the partial events of turns in
// progress, and for a while those of turns that have ended, so that a follower whose connection broke receives
// exactly the rest. They are bounded for each session to 8,192 and 4 MiB. Beyond the bound the oldest are dropped, up
// to 257 at once, and a follower that has not received them receives only the complete events, which contain the same
// text.
//
// If a lease is acquired or released while blocks are shown in part, because a turn was interrupted, the Tail
// publishes a discard that names the blocks. A Tail is safe for concurrent use. The zero value is not usable; see
// [New].
type Tail struct {
	underlying
	poll, linger time.Duration
	maxParts     int // the maximal number of partial events that are kept of a session
	maxBytes     int // their maximal size in memory

	mu       sync.RWMutex // guards the fields below; locked before the mutex of a session
	sessions map[session.Key]*stream
	ended    []endedTurn // oldest first
	closed   chan struct{}
	close    func() error
}

// underlying embeds a store without a field that the documentation shows.
type underlying = session.Store

var _ session.Tail = (*Tail)(nil)

// endedTurn identifies partial events to drop, and the time for that.
type endedTurn struct {
	key   session.Key
	s     *stream
	until session.Position
	at    time.Time
}

// Option configures a [Tail].
type Option func(*Tail)

// WithPoll sets how often a follower polls the store for events of other processes. While this process holds the
// session's lease, followers do not poll, because no other process can store events. Defaults to 1 s.
func WithPoll(interval time.Duration) Option { return func(t *Tail) { t.poll = interval } }

// WithLinger sets how long the partial events of a turn are kept after its end. A client that reconnects later
// receives only the complete events. 0 keeps none. Defaults to 30 s.
func WithLinger(d time.Duration) Option { return func(t *Tail) { t.linger = d } }

// New returns a Tail around a store. Close also closes the store.
func New(store session.Store, opts ...Option) (*Tail, error) {
	if store == nil {
		return nil, errors.New("tail: the store is nil")
	}
	t := &Tail{underlying: store, poll: time.Second, linger: 30 * time.Second, maxParts: 8192, maxBytes: 4 << 20,
		sessions: make(map[session.Key]*stream), closed: make(chan struct{})}
	if err := option.Apply(t, opts); err != nil {
		return nil, fmt.Errorf("tail: %w", err)
	}
	if t.poll <= 0 || t.linger < 0 {
		return nil, errors.New("tail: an option is out of range: the interval of WithPoll must be positive, and the time of WithLinger not negative")
	}
	t.close = sync.OnceValue(func() error {
		close(t.closed)
		return t.underlying.Close()
	})
	return t, nil
}

var errClosed = errors.New("tail: the tail is closed")

// Close ends all followers with an error and closes the store. A second call does nothing.
func (t *Tail) Close() error { return t.close() }

func (t *Tail) isClosed() bool {
	select {
	case <-t.closed:
		return true
	default:
		return false
	}
}

// find returns the state of a session, or nil if the Tail has none.
func (t *Tail) find(key session.Key) *stream {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.sessions[key]
}

// join returns the state of a session, and creates it if necessary. The state stays until leave was called as often
// as join.
func (t *Tail) join(key session.Key) *stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep()
	s := t.sessions[key]
	if s == nil {
		s = &stream{seq: unknown}
		t.sessions[key] = s
	}
	s.users++
	return s
}

func (t *Tail) leave(key session.Key, s *stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.users--
	t.forget(key, s)
}

// forget drops the state of a session that is no longer used.
func (t *Tail) forget(key session.Key, s *stream) {
	if s.users == 0 && t.sessions[key] == s && s.idle() {
		delete(t.sessions, key)
	}
}

// sweep drops the partial events whose time has passed. It runs when a lease is acquired or released and when a
// follower starts, so it needs no goroutine and no timer.
func (t *Tail) sweep() {
	now, n := time.Now(), 0
	for _, over := range t.ended {
		if over.at.After(now) {
			break
		}
		over.s.drop(over.until)
		t.forget(over.key, over.s)
		n++
	}
	if n > 0 {
		clear(t.ended[:n])
		t.ended = t.ended[n:]
	}
}

// Write implements [session.Store].
func (t *Tail) Write(ctx context.Context, key session.Key, w session.Write) (lease session.Lease, err error) {
	if err := w.Check(key); err != nil {
		return session.Lease{}, err
	}
	if w.Acquires() {
		s := t.join(key)
		defer t.leave(key, s)
	}
	s := t.find(key)
	if s == nil || w.Stop > 0 {
		return t.underlying.Write(ctx, key, w)
	}
	defer func(begun time.Time) {
		if err == nil {
			s.renewed(lease.Token, begun)
		}
	}(time.Now())
	if len(w.Events) == 0 {
		if w.Ends() {
			t.end(key, w.Lease)
		}
		lease, err = t.underlying.Write(ctx, key, w)
		switch {
		case err == nil && w.Acquires():
			s.acquired(t, lease, lease.Head)
		case errors.Is(err, agent.ErrConflict) && !w.Acquires() && !w.Stores(): // the lease was lost
			t.end(key, w.Lease)
		}
		return lease, err
	}
	var last *ending
	if w.Ends() && !w.Acquires() {
		last = &ending{token: w.Lease.Token, seq: w.End().Seq}
	}
	s.beginAppend(last)
	lease, err = t.underlying.Write(ctx, key, w)
	if err == nil && w.Acquires() {
		s.acquired(t, lease, w.Head)
	}
	s.endAppend(t, last, w.Events, err)
	if err == nil && w.Ends() {
		t.end(key, lease)
	}
	return lease, err
}

// end records the end of a lease of this process.
func (t *Tail) end(key session.Key, lease session.Lease) {
	s := t.find(key)
	if s == nil {
		return
	}
	until, was := s.released(t, lease)
	if !was {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = append(t.ended, endedTurn{key, s, until, time.Now().Add(t.linger)})
	t.sweep()
}

// Fork implements [session.Store].
func (t *Tail) Fork(ctx context.Context, of session.Key, seq int64, to session.Key, events ...*event.Event) error {
	err := t.underlying.Fork(ctx, of, seq, to, events...)
	if s := t.find(to); err == nil && s != nil {
		s.extended(session.Head{Seq: seq + int64(len(events))})
	}
	return err
}

// Delete implements [session.Store].
func (t *Tail) Delete(ctx context.Context, key session.Key) error {
	err := t.underlying.Delete(ctx, key)
	if s := t.find(key); err == nil && s != nil {
		s.deleted()
	}
	return err
}

// Publish implements [session.Tail]. Only the holder of the lease can publish: if the session's lease was not
// acquired through this Tail, or was lost, the error is [agent.ErrConflict]. Publish does not wait for followers.
func (t *Tail) Publish(_ context.Context, key session.Key, events ...*event.Event) error {
	if err := following.CheckPartial(key, events); err != nil {
		return err
	}
	if t.isClosed() {
		return errClosed
	}
	s := t.find(key)
	if s == nil || !s.publish(t, events) {
		return session.LeaseLost(key)
	}
	return nil
}

// Follow implements [session.Tail]. A slow follower does not delay others. Follow ends with an error that is
// [agent.ErrConflict] if the log no longer contains the last event that it yielded, because the session was deleted
// or the database was restored. It ends with one that is [agent.ErrBadInput] if the log has no event at the position
// after which it should continue.
func (t *Tail) Follow(ctx context.Context, key session.Key, after string) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		pos, err := session.ParsePosition(after)
		if err == nil && t.isClosed() {
			err = errClosed
		}
		if err != nil {
			yield(session.Entry{}, err)
			return
		}
		s := t.join(key)
		defer t.leave(key, s)
		f := &follower{Tail: t, s: s, yield: yield, log: following.LogReader{Store: t.underlying, Key: key, Position: pos}}
		if err := f.run(ctx); err != nil {
			if t.isClosed() {
				err = errClosed
			}
			yield(session.Entry{}, fmt.Errorf("session %s: %w", key, err))
		}
	}
}
