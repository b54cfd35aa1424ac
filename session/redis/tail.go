package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/following"
)

// Tail is a [session.Tail] around a store. It is safe for concurrent use. The zero value is not usable; see [New].
type Tail struct {
	underlying
	dialer *dialer
	prefix string
	logger *slog.Logger
	poll   time.Duration
	linger time.Duration

	// The bounds. Tests set others.
	ttl       time.Duration // how long a stream lives without activity
	maxLen    int64         // the number of entries of a stream, approximately; beyond it the oldest are dropped
	grace     time.Duration // how long a follower waits for recent events of the store to arrive through Redis, after the partial events before them
	maxQueued int           // the number of partial events in the queue; beyond it they are dropped
	maxBytes  int           // their size in memory

	mu       sync.Mutex // guards what follows
	sessions map[session.Key]*stream
	queue    []op
	queued   struct{ partial, bytes int }
	lost     bool // partial events were dropped since the queue was empty last
	closing  bool

	signal chan struct{}   // contains a token when the queue has new ops
	life   context.Context // ends when Close begins
	done   chan struct{}   // closed when the publisher has ended
	close  func() error
}

// underlying embeds a store without a field that the documentation shows.
type underlying = session.Store

var _ interface {
	session.Store
	session.Tail
} = (*Tail)(nil)

// Option configures a [Tail].
type Option func(*Tail)

// WithLogger sets the logger for messages about Redis, such as that it cannot be reached or is available again. By
// default nothing is logged. The go-redis library itself writes messages about connections to standard error; its
// function SetLogger changes that.
func WithLogger(l *slog.Logger) Option { return func(t *Tail) { t.logger = l } }

// WithPrefix sets the prefix of the streams' names, for installations that share a Redis. Defaults to "arbor".
func WithPrefix(prefix string) Option { return func(t *Tail) { t.prefix = prefix } }

// WithPoll sets how often a follower reads the store while Redis cannot be reached. While it can, followers read the
// store five times less often, to find events of processes that use no Tail or cannot reach Redis. Defaults to 1 s.
func WithPoll(interval time.Duration) Option { return func(t *Tail) { t.poll = interval } }

// WithLinger sets how long the partial events of a turn are kept after its end. A client that reconnects later
// receives only the complete events. Defaults to 1 minute.
func WithLinger(d time.Duration) Option { return func(t *Tail) { t.linger = d } }

// New returns a Tail around a store. Close also closes the store. The URL starts with redis://, rediss:// or unix://.
// Redis must be available: the error says that it cannot be reached, refuses the user or the password, or is older
// than version 7. After an error, the store stays open. Once New has returned, Redis may become unavailable and
// available again.
func New(ctx context.Context, url string, store session.Store, opts ...Option) (*Tail, error) {
	d, err := newDialer(url)
	if err != nil {
		return nil, err
	}
	if store == nil {
		return nil, errors.New("redis: the store is nil")
	}
	t := &Tail{underlying: store, dialer: d, prefix: "arbor", logger: slog.New(slog.DiscardHandler),
		poll: time.Second, ttl: time.Hour, linger: time.Minute, maxQueued: 16384, maxBytes: 16 << 20, maxLen: 20_000, grace: 500 * time.Millisecond,
		sessions: make(map[session.Key]*stream), signal: make(chan struct{}, 1), done: make(chan struct{})}
	if err := option.Apply(t, opts); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	if t.logger == nil || t.poll <= 0 || t.linger <= 0 {
		return nil, errors.New("redis: an option is out of range: the logger must not be nil, and times must be positive")
	}
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	var end context.CancelFunc
	t.life, end = context.WithCancel(context.Background())
	t.close = sync.OnceValue(func() error {
		end()
		t.mu.Lock()
		t.closing = true
		t.mu.Unlock()
		t.wake()
		<-t.done
		return t.underlying.Close()
	})
	p := &publisher{Tail: t}
	go p.run()
	return t, nil
}

var errClosed = errors.New("redis: the tail is closed")

// Close publishes the rest of the queue if Redis accepts it within a second, ends all followers with an error, and
// closes the store. A second call does nothing.
func (t *Tail) Close() error { return t.close() }

func (t *Tail) isClosed() bool { return t.life.Err() != nil }

// stream is the publisher's state of a session. It is kept while a lease is held or an op is in the queue.
type stream struct {
	key  session.Key
	name string

	// Guarded by Tail.mu:
	lease   int64 // the token of the lease that was acquired through this Tail, 0 if none
	start   int64 // the length of the log when the lease was acquired
	seq     int64 // the length of the log
	mark    string
	blocks  following.OpenBlocks
	pending int // the number of ops in the queue or in the publisher

	// Only the publisher uses these fields:
	at        session.Position // the position of the last entry
	announced int64            // the token of the last lease that was announced
	before    int64            // the position at which the previous turn started
	fenced    int64            // the token of a lease that another one has replaced
	broken    bool             // the stream's key has a value that is not a stream
}

// op is an element of the queue.
type op struct {
	kind  opKind
	s     *stream
	token int64
	seq   int64
	mark  string
	start int64
	event *event.Event
	size  int
}

type opKind int

const (
	opLease opKind = iota
	opPartial
	opStored
	opReleased
	opDeleted
)

// stream returns the state of a session, and creates it if it is missing. The caller holds the mutex, as for put.
func (t *Tail) stream(key session.Key) *stream {
	s := t.sessions[key]
	if s == nil {
		s = &stream{key: key, name: streamName(t.prefix, key)}
		t.sessions[key] = s
	}
	return s
}

// put queues an op. It returns false for a partial event that exceeds the bounds of the queue.
func (t *Tail) put(o op) bool {
	if t.closing {
		return true
	}
	if o.kind == opPartial {
		if t.queued.partial >= t.maxQueued || t.queued.bytes+o.size > t.maxBytes {
			return false
		}
		t.queued.partial++
		t.queued.bytes += o.size
	}
	o.s.pending++
	t.queue = append(t.queue, o)
	return true
}

// wake makes the publisher read the queue.
func (t *Tail) wake() {
	select {
	case t.signal <- struct{}{}:
	default:
	}
}

// Write implements [session.Store].
func (t *Tail) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if w.Ends() && len(w.Events) == 0 { // publish while the lease is still held
		t.released(key, w.Lease)
	}
	lease, err := t.underlying.Write(ctx, key, w)
	if w.Stop > 0 {
		return lease, err
	}
	defer t.wake()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if s := t.sessions[key]; errors.Is(err, agent.ErrConflict) && s != nil && !w.Stores() && s.lease == w.Lease.Token {
			s.lease = 0 // the next holder of the lease discards the open blocks
			t.forget(s)
		}
		return lease, err
	}
	if w.Acquires() {
		s, seq := t.stream(key), lease.Head.Seq-int64(len(w.Events))
		s.lease, s.start, s.seq, s.mark, s.blocks = lease.Token, seq, seq, "", following.OpenBlocks{}
		t.put(op{kind: opLease, s: s, token: lease.Token, seq: seq})
	}
	if len(w.Events) == 0 {
		return lease, nil
	}
	if s := t.stream(key); !w.Ends() || s.seq < lease.Head.Seq { // otherwise the next holder has published these events
		t.stored(s, lease, w.Events)
		if w.Ends() {
			t.leaseEnded(s, lease)
		}
	}
	return lease, nil
}

// stored publishes that events were stored. The caller holds the mutex.
func (t *Tail) stored(s *stream, lease session.Lease, events []*event.Event) {
	if len(events) == 0 {
		return
	}
	for _, e := range events {
		s.blocks.Settle(e)
	}
	last := events[len(events)-1]
	s.seq, s.mark = max(s.seq, last.Seq), last.ID
	t.put(op{kind: opStored, s: s, token: lease.Token, seq: s.seq, mark: s.mark})
}

// released publishes the end of a turn while the lease is still held.
func (t *Tail) released(key session.Key, lease session.Lease) {
	defer t.wake()
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[key]; s != nil {
		t.leaseEnded(s, lease)
	}
}

// leaseEnded publishes the end of a lease if it is the session's current one. The caller holds the mutex.
func (t *Tail) leaseEnded(s *stream, lease session.Lease) {
	if s.lease != lease.Token || s.lease == 0 {
		return
	}
	s.lease = 0
	for _, e := range s.blocks.Discard(time.Now()) {
		t.put(op{kind: opPartial, s: s, token: lease.Token, seq: s.seq, event: e})
	}
	t.put(op{kind: opReleased, s: s, token: lease.Token, seq: s.seq, start: s.start})
}

// Fork implements [session.Store].
func (t *Tail) Fork(ctx context.Context, of session.Key, seq int64, to session.Key, events ...*event.Event) error {
	err := t.underlying.Fork(ctx, of, seq, to, events...)
	if seq += int64(len(events)); err != nil || seq <= 0 {
		return err
	}
	defer t.wake()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(op{kind: opStored, s: t.stream(to), seq: seq})
	return nil
}

// Delete implements [session.Store].
func (t *Tail) Delete(ctx context.Context, key session.Key) error {
	if err := t.underlying.Delete(ctx, key); err != nil {
		return err
	}
	defer t.wake()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stream(key)
	s.lease = 0
	t.put(op{kind: opDeleted, s: s})
	return nil
}

// Publish implements [session.Tail]. Only the holder of the lease can publish: if the session's lease was not
// acquired through this Tail, or was lost, the error is [agent.ErrConflict]. Publish does not wait for Redis and does
// not return its errors.
func (t *Tail) Publish(_ context.Context, key session.Key, events ...*event.Event) error {
	if err := following.CheckPartial(key, events); err != nil || len(events) == 0 {
		return err
	}
	defer t.wake()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return errClosed
	}
	s := t.sessions[key]
	if s == nil || s.lease == 0 {
		return session.LeaseLost(key)
	}
	for _, e := range events {
		if !s.blocks.Show(e) {
			continue
		}
		if !t.put(op{kind: opPartial, s: s, token: s.lease, seq: s.seq, event: e, size: following.Size(e)}) && !t.lost {
			t.lost = true
			t.logger.Warn("redis: partial events are lost: Redis does not keep up, or the queue is too small", "address", t.dialer.options.Addr)
		}
	}
	return nil
}

// forget drops the state of a session that has no lease and no op. The caller holds the mutex.
func (t *Tail) forget(s *stream) {
	if s.lease == 0 && s.pending == 0 && t.sessions[s.key] == s {
		delete(t.sessions, s.key)
	}
}
