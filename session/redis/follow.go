package redis

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"sync"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/tail"
)

// The codes of the notices that tell a follower about Redis. They are partial events,
// which are never stored, with the id of the entry before.
const (
	// NoticeDegraded: Redis cannot be reached. Stored events come when the store is
	// looked at, and no partial ones.
	NoticeDegraded = "tail_degraded"
	// NoticeRestored: Redis is back, and partial events come again.
	NoticeRestored = "tail_restored"
)

// grace is how long a follower who finds fresh events in the store waits for them to
// come through Redis, after the partial events that were published before them.
const (
	grace = 500 * time.Millisecond
	fresh = 5 * time.Second
)

// Follow implements [session.Tail]. Each follower has a connection to Redis of its own.
// A slow follower slows nobody down. Follow ends with an error that is
// [agent.ErrConflict] when the log no longer has the last event that it was shown, because the session was deleted or the
// database restored, and with the store's error when that fails. It ends with one that is [agent.ErrBadInput] when the log
// has no event at the position to continue from.
func (t *Tail) Follow(ctx context.Context, key session.Key, after string) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		pos, err := session.ParsePosition(after)
		if err != nil {
			yield(session.Entry{}, err)
			return
		}
		f := &follower{Tail: t, name: streamName(t.prefix, key), yield: yield,
			log: tail.LogReader{Store: t.underlying, Key: key, Position: pos}}
		if err := f.run(ctx); err != nil && !errors.Is(err, errStopped) {
			if t.isClosed() {
				err = errClosed
			}
			yield(session.Entry{}, fmt.Errorf("session %s: %w", key, err))
		}
	}
}

// errStopped says that the consumer has broken out of its loop.
var errStopped = errors.New("stopped")

// follower is one call of Follow. The stream gives the order: it says what comes
// when, and how many events the log has. The store has the stored events, and
// supplies what the stream does not have.
type follower struct {
	*Tail
	name  string
	log   tail.LogReader
	yield func(session.Entry, error) bool

	conn   connection
	cursor string // in the stream
	token  int64  // the newest lease that was seen
	showed entry  // the last part that was shown
	void   int64  // entries of this lease and of older ones are of a session that was deleted or restored
	heard  bool   // an entry that counts, since the last read
}

func (f *follower) run(ctx context.Context) error {
	// Requests to Redis get a context without a deadline, since one that passes a
	// moment before ours would look like a failure of Redis.
	f.conn.requests, f.conn.cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer f.conn.drop()
	defer f.conn.end()
	defer context.AfterFunc(ctx, f.conn.end)()
	defer context.AfterFunc(f.life, f.conn.end)()

	if _, _, err := f.log.Look(ctx); err != nil {
		return err
	}
	f.rewind()
	for {
		err := f.live(ctx)
		if over := f.over(ctx); over != nil {
			return over
		}
		if !errors.Is(err, errLost) {
			return err
		}
		if err := f.followStore(ctx); err != nil {
			return err
		}
	}
}

// over returns the error that ends the follower if the context or the Tail has ended.
func (f *follower) over(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case f.isClosed():
		return errClosed
	}
	return nil
}

// rewind makes the follower read the stream from the entry of his position on. What
// he has seen is left out, but it says whose lease is the newest.
func (f *follower) rewind() { f.cursor, f.token, f.void = before(f.log.Seq), 0, 0 }

const atOnce = -1 // instead of a time to wait

// live follows the stream until Redis is lost or the follower ends.
func (f *follower) live(ctx context.Context) error {
	seldom := 5 * f.poll
	var waited int64 // for events of the store up to this one to come through the stream
	for wait := time.Duration(atOnce); ; {
		list, err := f.read(wait)
		if err != nil {
			return errLost
		}
		f.heard = false
		for _, m := range list {
			f.cursor = m.ID
			e, ok := parseEntry(m)
			if !ok {
				continue
			}
			if err := f.take(ctx, e); err != nil {
				return err
			}
		}
		// A stream of a session that no longer exists comes again and again, and must not be waited for.
		if len(list) > 0 && (f.heard || waited == 0) {
			waited = 0
			continue
		}
		if f.void > 0 { // the stream of the session as it is now may have begun meanwhile
			f.rewind()
		}
		end, full, err := f.log.Look(ctx)
		if err != nil {
			return err
		}
		wait = seldom
		if end <= f.log.Seq {
			continue
		}
		if end > waited && f.underWay() {
			waited, wait = end, grace
			continue
		}
		if err := f.fill(ctx, end); err != nil {
			return err
		}
		if full {
			wait = atOnce
		}
	}
}

// underWay reports whether the events that the store has and the stream does not may
// be on their way through Redis.
func (f *follower) underWay() bool {
	f.mu.Lock()
	s := f.sessions[f.log.Key]
	f.mu.Unlock()
	if s != nil || time.Since(f.log.Newest()).Abs() < fresh {
		return true
	}
	client, err := f.client()
	if err != nil {
		return false
	}
	list, err := client.XRevRangeN(f.conn.requests, f.name, "+", "-", 1).Result()
	if err != nil || len(list) == 0 {
		return false
	}
	last, ok := parseEntry(list[0])
	unread := last.at.Seq > f.log.Seq || last.at.Seq == f.log.Seq && last.id != f.cursor // it came just now
	return ok && (unread || !last.release)
}

// followStore follows the store until Redis is back.
func (f *follower) followStore(ctx context.Context) error {
	f.conn.drop()
	if err := f.notice(ctx, NoticeDegraded, "live words cannot be shown at the moment: complete answers still appear"); err != nil {
		return err
	}
	pause := f.poll
	look := time.Now().Add(pause)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			timer.Reset(f.poll)
		case <-ctx.Done():
			return ctx.Err()
		case <-f.life.Done():
			return errClosed
		}
		for full := true; full; {
			var end int64
			var err error
			if end, full, err = f.log.Look(ctx); err != nil {
				return err
			}
			if err := f.fill(ctx, end); err != nil {
				return err
			}
		}
		if time.Now().Before(look) {
			continue
		}
		if _, err := f.read(atOnce); err == nil {
			return f.notice(ctx, NoticeRestored, "live words are shown again")
		}
		f.conn.drop()
		pause = min(2*pause, max(longestWait, f.poll))
		look = time.Now().Add(pause)
	}
}

// take deals with one entry of the stream.
func (f *follower) take(ctx context.Context, e entry) error {
	if e.deleted {
		return f.deleted(ctx)
	}
	if e.token != 0 && e.token <= f.void || e.at.Seq < f.log.Seq {
		return nil
	}
	stale := e.token < f.token
	f.token = max(f.token, e.token)
	if e.at.Part > 0 && (e.event == "" || stale) {
		f.heard = f.heard || !stale
		if stale {
			return nil
		}
		return f.fill(ctx, e.at.Seq) // of the turn before perhaps, which may not have come to say so
	}
	if err := f.fill(ctx, e.at.Seq); err != nil {
		return err
	}
	if f.log.Seq < e.at.Seq || e.at.Part == 0 && e.mark != "" && f.log.LastID() != "" && e.mark != f.log.LastID() {
		// The stream has more than the store, or something else: it is that of a session
		// that was deleted, and created again perhaps, or of a database that was restored.
		if f.showed.at == f.log.Position && f.showed.token <= e.token {
			return tail.ErrGone
		}
		f.void = max(f.void, e.token)
		_, _, err := f.log.Look(ctx)
		return err
	}
	f.heard = true
	if e.at.Part <= f.log.Part {
		return nil
	}
	decoded, ok := f.decode(e)
	if !ok {
		return nil
	}
	f.log.Part = e.at.Part
	f.showed = e
	return f.show(ctx, session.Entry{ID: e.at.String(), Event: decoded})
}

// deleted deals with the news that a stream was removed, because the session was deleted or the database restored. Only
// those who wait at that moment get it; the others find out when they look into the store.
func (f *follower) deleted(ctx context.Context) error {
	if f.log.Part > 0 {
		return tail.ErrGone
	}
	if _, _, err := f.log.Look(ctx); err != nil {
		return err
	}
	f.rewind()
	return nil
}

// fill shows the stored events up to a position, as far as the store has them.
func (f *follower) fill(ctx context.Context, until int64) error {
	for f.log.Seq < until {
		if err := f.over(ctx); err != nil {
			return err
		}
		e, err := f.log.Next(ctx)
		if e.Event == nil || err != nil {
			return err
		}
		if err := f.show(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) notice(ctx context.Context, code, message string) error {
	at := f.log.Position.String()
	return f.show(ctx, session.Entry{ID: at, Event: &event.Event{ID: code + ":" + at, Time: time.Now().UTC(), Partial: true,
		Data: &event.Notice{Code: code, Message: message}}})
}

func (f *follower) show(ctx context.Context, e session.Entry) error {
	if err := f.over(ctx); err != nil {
		return err
	}
	if !f.yield(e, nil) {
		return errStopped
	}
	return nil
}

// decode returns the partial event of an entry.
func (t *Tail) decode(e entry) (*event.Event, bool) {
	decoded := new(event.Event)
	if err := decoded.UnmarshalJSON([]byte(e.event)); err != nil {
		t.logger.Debug("redis: an entry cannot be read", "id", e.id, "error", err)
		return nil, false
	}
	return decoded, decoded.Partial && decoded.Seq == 0
}

// errLost says that Redis cannot be reached.
var errLost = errors.New("redis is lost")

// read returns entries behind the cursor. If there are none it waits for some.
func (f *follower) read(wait time.Duration) ([]driver.XMessage, error) {
	client, err := f.client()
	if err != nil {
		return nil, err
	}
	streams, err := client.XRead(f.conn.requests, &driver.XReadArgs{Streams: []string{f.name, f.cursor}, Count: 256, Block: wait}).Result()
	if errors.Is(err, driver.Nil) || err == nil && len(streams) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return streams[0].Messages, nil
}

// connection is a follower's own. Waiting in Redis ends when it is closed.
type connection struct {
	requests context.Context
	cancel   context.CancelFunc
	client   driver.UniversalClient // nil if there is none

	mu    sync.Mutex
	open  []net.Conn
	ended bool
}

// client returns the follower's client, and connects if there is none.
func (f *follower) client() (driver.UniversalClient, error) {
	if f.conn.client == nil {
		var err error
		if f.conn.client, err = f.dialer.connect(f.conn.requests, f.conn.keep); err != nil {
			return nil, err
		}
	}
	return f.conn.client, nil
}

func (c *connection) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.open = append(c.open, conn)
	}
	return !c.ended
}

// drop closes the connection; the next request makes a new one.
func (c *connection) drop() {
	if c.client != nil {
		_ = c.client.Close()
		c.client = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeAll()
}

// end closes the connection, which is not opened again. It is safe for
// concurrent use.
func (c *connection) end() {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.closeAll()
}

func (c *connection) closeAll() {
	for _, conn := range c.open {
		_ = conn.Close() // it may be closed already
	}
	c.open = nil
}
