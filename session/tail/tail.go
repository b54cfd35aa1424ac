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
)

// Tail is a [session.Tail] around any store, for the followers of one process. What the
// runners of this process do to a session, its followers see at once, partial events
// included; what other processes store in the same database they find when they look
// into the store, at an interval.
//
// It holds no copy of a log: followers read stored events from the store. It keeps
// the partial events of turns under way, and for a while those of turns that have
// just ended, so that a follower who was cut off gets exactly the rest. Their number
// and their size are bounded for each session; beyond the bound the oldest are
// dropped, and a follower who has not seen them yet gets the complete events alone,
// which stand for them anyway.
//
// A lease that is taken or given back while blocks are shown in part, because a turn
// was cut off, publishes a discard that names them. The zero value is not usable.
type Tail struct {
	underlying
	poll, linger time.Duration
	maxParts     int
	maxBytes     int

	mu       sync.RWMutex // guards what follows; taken before the mutex of a session
	sessions map[session.Key]*stream
	ended    []endedTurn // oldest first
	closed   chan struct{}
	close    func() error
}

// underlying is how a store is embedded without showing in the documentation.
type underlying = session.Store

var _ session.Tail = (*Tail)(nil)

// endedTurn is partial events that are to be dropped at a time.
type endedTurn struct {
	key   session.Key
	s     *stream
	until session.Position
	at    time.Time
}

// Option configures a [Tail].
type Option func(*Tail)

// WithPoll sets how often a follower looks into the store for what other processes
// have stored there. The default is 1 s. While this process holds the session's lease, followers do not look: no other
// process can store anything.
func WithPoll(interval time.Duration) Option { return func(t *Tail) { t.poll = interval } }

// WithLinger sets how long the partial events of a turn can be had after its end. Who
// reconnects later gets the complete events alone. The default is 30 s; 0 keeps none.
func WithLinger(d time.Duration) Option { return func(t *Tail) { t.linger = d } }

// WithMaxPartial bounds the partial events that are held of one session, by number
// and by their size in memory, in bytes. The defaults are 8192 and 4 MiB.
func WithMaxPartial(number, bytes int) Option {
	return func(t *Tail) { t.maxParts, t.maxBytes = number, bytes }
}

// New makes a Tail around a store, which it owns from then on: Close closes it
// too.
func New(store session.Store, opts ...Option) (*Tail, error) {
	if store == nil {
		return nil, errors.New("tail: the store is nil")
	}
	t := &Tail{underlying: store, poll: time.Second, linger: 30 * time.Second, maxParts: 8192, maxBytes: 4 << 20,
		sessions: make(map[session.Key]*stream), closed: make(chan struct{})}
	if err := option.Apply(t, opts); err != nil {
		return nil, fmt.Errorf("tail: %w", err)
	}
	if t.poll <= 0 || t.linger < 0 || t.maxParts < 0 || t.maxBytes < 0 {
		return nil, errors.New("tail: an option is negative, or its interval is not positive")
	}
	t.close = sync.OnceValue(func() error {
		close(t.closed)
		return t.underlying.Close()
	})
	return t, nil
}

var errClosed = errors.New("tail: the tail is closed")

// Close ends all followers with an error and closes the store. Closing twice does
// nothing.
func (t *Tail) Close() error { return t.close() }

func (t *Tail) isClosed() bool {
	select {
	case <-t.closed:
		return true
	default:
		return false
	}
}

// find returns nil if nobody writes to the session here, or follows it.
func (t *Tail) find(key session.Key) *stream {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.sessions[key]
}

// join returns the session, which stays until it is left as often.
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

// forget drops a session that nothing is to be known of.
func (t *Tail) forget(key session.Key, s *stream) {
	if s.users == 0 && t.sessions[key] == s && s.idle() {
		delete(t.sessions, key)
	}
}

// sweep drops the partial events whose time has come. It runs when a lease is taken
// or given back, or somebody begins to follow, which needs no goroutine and no timer.
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
	if w.Acquires() {
		s := t.join(key)
		defer t.leave(key, s)
	}
	s := t.find(key)
	if s == nil {
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
	s.appends(last)
	lease, err = t.underlying.Write(ctx, key, w)
	if err == nil && w.Acquires() {
		s.acquired(t, lease, w.Head)
	}
	s.appended(t, last, w.Events, err)
	if err == nil && w.Ends() {
		t.end(key, lease)
	}
	return lease, err
}

// end takes note that a lease of this process is over.
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
		s.found(session.Head{Seq: seq + int64(len(events))})
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

// Publish implements [session.Tail]. Only the holder of the lease can publish: to a session
// whose lease was not taken through this Tail, or is lost, it returns an error that
// is [agent.ErrConflict]. It waits for nobody.
func (t *Tail) Publish(_ context.Context, key session.Key, events ...*event.Event) error {
	if err := CheckPartial(key, events); err != nil {
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

// Follow implements [session.Tail]. Each follower goes at its own pace, and slows nobody
// down. A follower ends with an error that is [agent.ErrConflict] when the log no longer has the last event that
// it was shown, because the session was deleted or the database restored, and one that is [agent.ErrBadInput] when
// the log has no event of the position to go on from.
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
		f := &follower{Tail: t, s: s, yield: yield, log: LogReader{Store: t.underlying, Key: key, Position: pos}}
		if err := f.run(ctx); err != nil {
			if t.isClosed() {
				err = errClosed
			}
			yield(session.Entry{}, fmt.Errorf("session %s: %w", key, err))
		}
	}
}
