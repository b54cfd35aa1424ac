package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/tail"
)

// Tail is a [session.Tail] around a store. It is safe for concurrent use. The zero
// value is not usable.
type Tail struct {
	underlying
	dialer *dialer
	prefix string
	logger *slog.Logger
	poll   time.Duration
	ttl    time.Duration
	linger time.Duration
	limit  int // of partial events in the queue
	bytes  int
	maxLen int64

	mu       sync.Mutex // guards what follows
	sessions map[session.Key]*stream
	queue    []op
	queued   struct{ partial, bytes int }
	lost     bool // partial events were dropped since Redis has kept up last
	closing  bool

	signal chan struct{}   // holds a token when the queue is to be looked at
	life   context.Context // ends when Close begins
	done   chan struct{}   // closed when the publisher has ended
	close  func() error
}

// underlying is how a store is embedded without showing in the documentation.
type underlying = session.Store

var _ interface {
	session.Store
	session.Tail
} = (*Tail)(nil)

// Option configures a [Tail].
type Option func(*Tail)

// WithLogger sets the logger, which is used when Redis is lost and when it is back.
// By default nothing is logged. The go-redis library itself writes messages about
// connections to standard error; its function SetLogger changes that.
func WithLogger(l *slog.Logger) Option { return func(t *Tail) { t.logger = l } }

// WithPrefix sets what the names of streams begin with, for installations that share
// a Redis. The default is "arbor".
func WithPrefix(prefix string) Option { return func(t *Tail) { t.prefix = prefix } }

// WithPoll sets how often a follower looks into the store while Redis cannot be
// reached. While it can, he does so five times less often, for what was stored by
// others who do not use a Tail, or have lost Redis. The default is 1 s.
func WithPoll(interval time.Duration) Option { return func(t *Tail) { t.poll = interval } }

// WithTTL sets how long a stream lives without activity. The default is 1 hour.
func WithTTL(d time.Duration) Option { return func(t *Tail) { t.ttl = d } }

// WithLinger sets how long the partial events of a turn are kept after its end. Who
// reconnects later gets only the complete events. The default is 1 minute.
func WithLinger(d time.Duration) Option { return func(t *Tail) { t.linger = d } }

// WithMaxQueue bounds the partial events that wait to be published, by number and by
// their size in memory, in bytes; beyond it they are dropped. The defaults are 16384
// and 16 MiB.
func WithMaxQueue(number, bytes int) Option {
	return func(t *Tail) { t.limit, t.bytes = number, bytes }
}

// WithMaxLen bounds the entries of one stream, roughly; beyond it the oldest are
// dropped. The default is 20,000.
func WithMaxLen(n int64) Option { return func(t *Tail) { t.maxLen = n } }

// New makes a Tail around a store, which it owns from then on: Close closes it too.
// The URL is one of redis://, rediss:// or unix://. Redis has to be there: an error
// says that it cannot be reached, refuses the user or the password, or is older than
// version 7. The store is not closed then. Once the Tail is made, Redis may come and
// go.
func New(ctx context.Context, url string, store session.Store, opts ...Option) (*Tail, error) {
	d, err := urlDialer(url)
	if err != nil {
		return nil, err
	}
	return open(ctx, d, store, opts)
}

// NewWithOptions is New for what a URL cannot say: a cluster, sentinels, own
// certificates. Pool sizes and retries are set by the Tail.
func NewWithOptions(ctx context.Context, redis driver.UniversalOptions, store session.Store, opts ...Option) (*Tail, error) {
	return open(ctx, optionsDialer(redis), store, opts)
}

func open(ctx context.Context, d *dialer, store session.Store, opts []Option) (*Tail, error) {
	if store == nil {
		return nil, errors.New("redis: the store is nil")
	}
	t := &Tail{underlying: store, dialer: d, prefix: "arbor", logger: slog.New(slog.DiscardHandler),
		poll: time.Second, ttl: time.Hour, linger: time.Minute, limit: 16384, bytes: 16 << 20, maxLen: 20_000,
		sessions: make(map[session.Key]*stream), signal: make(chan struct{}, 1), done: make(chan struct{})}
	if err := option.Apply(t, opts); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	if t.logger == nil || t.poll <= 0 || t.ttl <= 0 || t.linger <= 0 || t.limit < 0 || t.bytes < 0 || t.maxLen <= 0 {
		return nil, errors.New("redis: an option is nil, negative or zero")
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

// Close publishes what is waiting, if Redis takes it within a second, ends all
// followers with an error and closes the store. Closing twice does nothing.
func (t *Tail) Close() error { return t.close() }

func (t *Tail) isClosed() bool { return t.life.Err() != nil }

// stream is what the writer knows of one session. It is kept while a lease is held
// or something waits to be published.
type stream struct {
	key  session.Key
	name string

	// Guarded by Tail.mu:
	lease   int64 // the token of the lease that was taken through this Tail, 0 if none
	start   int64 // the log's end when it was taken
	seq     int64 // the log's end
	mark    string
	blocks  tail.OpenBlocks
	pending int // ops in the queue, or being published

	// The publisher's own:
	at      session.Position // of the last entry
	greeted int64            // the token whose lease was announced
	before  int64            // where the turn before began
	fenced  int64            // a token that another lease has replaced
	broken  bool             // somebody else's value has the name
}

// op is something to be published.
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

// stream returns the session's stream, which is made if it is missing. The caller
// holds the mutex, as for put.
func (t *Tail) stream(key session.Key) *stream {
	s := t.sessions[key]
	if s == nil {
		s = &stream{key: key, name: streamName(t.prefix, key)}
		t.sessions[key] = s
	}
	return s
}

// put queues an op. It reports false for a partial event that found no room.
func (t *Tail) put(o op) bool {
	if t.closing {
		return true
	}
	if o.kind == opPartial {
		if t.queued.partial >= t.limit || t.queued.bytes+o.size > t.bytes {
			return false
		}
		t.queued.partial++
		t.queued.bytes += o.size
	}
	o.s.pending++
	t.queue = append(t.queue, o)
	return true
}

// wake has the publisher look at the queue.
func (t *Tail) wake() {
	select {
	case t.signal <- struct{}{}:
	default:
	}
}

// Write implements [session.Store].
func (t *Tail) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if w.Ends() && len(w.Events) == 0 { // while the lease is still held
		t.released(key, w.Lease)
	}
	lease, err := t.underlying.Write(ctx, key, w)
	defer t.wake()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if s := t.sessions[key]; errors.Is(err, agent.ErrConflict) && s != nil && !w.Stores() && s.lease == w.Lease.Token {
			s.lease = 0 // the next holder of the lease voids what we showed
			t.forget(s)
		}
		return lease, err
	}
	if w.Acquires() {
		s, seq := t.stream(key), lease.Head.Seq-int64(len(w.Events))
		s.lease, s.start, s.seq, s.mark, s.blocks = lease.Token, seq, seq, "", tail.OpenBlocks{}
		t.put(op{kind: opLease, s: s, token: lease.Token, seq: seq})
	}
	if len(w.Events) == 0 {
		return lease, nil
	}
	if s := t.stream(key); !w.Ends() || s.seq < lease.Head.Seq { // else the next holder of the lease has published as much
		t.stored(s, lease, w.Events)
		if w.Ends() {
			t.over(s, lease)
		}
	}
	return lease, nil
}

// stored publishes events that are stored. The caller holds the mutex.
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
		t.over(s, lease)
	}
}

// over publishes the end of a lease, unless it is not the session's. The caller holds the mutex.
func (t *Tail) over(s *stream, lease session.Lease) {
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

// Publish implements [session.Tail]. Only the holder of the lease can publish: to a
// session whose lease was not taken through this Tail, or is lost, it returns an error
// that is [agent.ErrConflict]. It does not wait for Redis, and does not return its
// errors.
func (t *Tail) Publish(_ context.Context, key session.Key, events ...*event.Event) error {
	if err := tail.CheckPartial(key, events); err != nil || len(events) == 0 {
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
		if !t.put(op{kind: opPartial, s: s, token: s.lease, seq: s.seq, event: e, size: tail.Size(e)}) && !t.lost {
			t.lost = true
			t.logger.Warn("redis: partial events are lost: Redis does not keep up, or the queue is too small", "address", t.dialer.address)
		}
	}
	return nil
}

// forget drops a stream that no longer has to be known. The caller holds the mutex.
func (t *Tail) forget(s *stream) {
	if s.lease == 0 && s.pending == 0 && t.sessions[s.key] == s {
		delete(t.sessions, s.key)
	}
}
