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
	"github.com/agentarbor/arbor/session/internal/following"
)

// The codes of the notices about Redis that a follower receives. The notices are partial events,
// which are never stored, and have the id of the entry before them.
const (
	// NoticeDegraded: Redis cannot be reached. The follower reads stored events from the store
	// at an interval, and receives no partial events.
	NoticeDegraded = "tail_degraded"
	// NoticeRestored: Redis is available again, and partial events arrive again.
	NoticeRestored = "tail_restored"
)

// recent is the age up to which the newest event of a log counts as recent.
const recent = 5 * time.Second

// Follow implements [session.Tail]. Each follower has its own connection to Redis, and a slow follower does not delay
// others.
//
// Follow ends with an error that is [agent.ErrConflict] if the log no longer contains the last event that it yielded,
// because the session was deleted or the database was restored. It ends with one that is [agent.ErrBadInput] if the
// log has no event at the position after which it should continue, and with the store's error if the store fails.
func (t *Tail) Follow(ctx context.Context, key session.Key, after string) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		pos, err := session.ParsePosition(after)
		if err != nil {
			yield(session.Entry{}, err)
			return
		}
		f := &follower{Tail: t, name: streamName(t.prefix, key), yield: yield,
			log: following.LogReader{Store: t.underlying, Key: key, Position: pos}}
		if err := f.run(ctx); err != nil && !errors.Is(err, errStopped) {
			if t.isClosed() {
				err = errClosed
			}
			yield(session.Entry{}, fmt.Errorf("session %s: %w", key, err))
		}
	}
}

// errStopped reports that the caller has left its loop.
var errStopped = errors.New("stopped")

// follower is one call of Follow. The stream gives the order of entries and the length of the log. The follower reads
// stored events, and everything that the stream lacks, from the store.
type follower struct {
	*Tail
	name  string
	log   following.LogReader
	yield func(session.Entry, error) bool

	conn   connection
	cursor string // the id of the last entry that was read from the stream
	token  int64  // the token of the newest lease in the entries so far
	shown  entry  // the last partial event that was yielded
	void   int64  // entries of this lease and of older ones belong to a session that was deleted or restored
	valid  bool   // the last read returned an entry of the session as it is now
}

func (f *follower) run(ctx context.Context) error {
	// Requests to Redis have a context without a deadline. A deadline that passes just
	// before the caller's would look like a failure of Redis.
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
		if over := f.ended(ctx); over != nil {
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

// ended returns the error that ends the follower if the context has ended or the Tail was closed.
func (f *follower) ended(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case f.isClosed():
		return errClosed
	}
	return nil
}

// rewind makes the follower read the stream again from the entry of its position. It skips entries that it has
// yielded, but learns the newest lease from them.
func (f *follower) rewind() { f.cursor, f.token, f.void = before(f.log.Seq), 0, 0 }

const atOnce = -1 // as a waiting time: do not wait

// live follows the stream until Redis is lost or the follower ends.
func (f *follower) live(ctx context.Context) error {
	idle := 5 * f.poll
	var waited int64 // the follower has waited for the stored events up to this position to arrive through the stream
	for wait := time.Duration(atOnce); ; {
		list, err := f.read(wait)
		if err != nil {
			return errLost
		}
		f.valid = false
		for _, m := range list {
			f.cursor = m.ID
			e, ok := parseEntry(m)
			if !ok {
				continue
			}
			if err := f.handle(ctx, e); err != nil {
				return err
			}
		}
		// The entries of a session that no longer exists are read again and again; do not wait for more of them.
		if len(list) > 0 && (f.valid || waited == 0) {
			waited = 0
			continue
		}
		if f.void > 0 { // the stream of the new session may have started meanwhile
			f.rewind()
		}
		end, full, err := f.log.Look(ctx)
		if err != nil {
			return err
		}
		wait = idle
		if end <= f.log.Seq {
			continue
		}
		if end > waited && f.underWay() {
			waited, wait = end, f.grace
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

// underWay reports whether the events that the store has and the stream does not have may soon arrive through Redis.
func (f *follower) underWay() bool {
	f.mu.Lock()
	s := f.sessions[f.log.Key]
	f.mu.Unlock()
	if s != nil || time.Since(f.log.Newest()).Abs() < recent {
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
	unread := last.at.Seq > f.log.Seq || last.at.Seq == f.log.Seq && last.id != f.cursor // it arrived after the last read
	return ok && (unread || !last.release)
}

// followStore follows the store until Redis is available again.
func (f *follower) followStore(ctx context.Context) error {
	f.conn.drop()
	if err := f.notice(ctx, NoticeDegraded, "text cannot be streamed at the moment: complete answers still appear"); err != nil {
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
			return f.notice(ctx, NoticeRestored, "text is streamed again")
		}
		f.conn.drop()
		pause = min(2*pause, max(longestWait, f.poll))
		look = time.Now().Add(pause)
	}
}

// handle handles an entry of the stream.
func (f *follower) handle(ctx context.Context, e entry) error {
	if e.deleted {
		return f.deleted(ctx)
	}
	if e.token != 0 && e.token <= f.void || e.at.Seq < f.log.Seq {
		return nil
	}
	stale := e.token < f.token
	f.token = max(f.token, e.token)
	if e.at.Part > 0 && (e.event == "" || stale) {
		f.valid = f.valid || !stale
		if stale {
			return nil
		}
		return f.fill(ctx, e.at.Seq) // the turn before may have stored events that it did not publish
	}
	if err := f.fill(ctx, e.at.Seq); err != nil {
		return err
	}
	if f.log.Seq < e.at.Seq || e.at.Part == 0 && e.mark != "" && f.log.LastID() != "" && e.mark != f.log.LastID() {
		// The stream has more events than the store, or other ones: the session was deleted, and perhaps
		// created again, or the database was restored.
		if f.shown.at == f.log.Position && f.shown.token <= e.token {
			return following.ErrGone
		}
		f.void = max(f.void, e.token)
		_, _, err := f.log.Look(ctx)
		return err
	}
	f.valid = true
	if e.at.Part <= f.log.Part {
		return nil
	}
	decoded, ok := f.decode(e)
	if !ok {
		return nil
	}
	if f.shown.at == f.log.Position && f.shown.token < e.token { // a later lease continues at this position: check that the log is still the same
		if _, _, err := f.log.Look(ctx); err != nil {
			return err
		}
	}
	f.log.Part = e.at.Part
	f.shown = e
	return f.show(ctx, session.Entry{ID: e.at.String(), Event: decoded})
}

// deleted handles the entry that announces the removal of the stream, because the session was deleted or the database
// was restored. Only followers that wait at that moment receive it. Others find out when they read the store.
func (f *follower) deleted(ctx context.Context) error {
	if f.log.Part > 0 {
		return following.ErrGone
	}
	if _, _, err := f.log.Look(ctx); err != nil {
		return err
	}
	f.rewind()
	return nil
}

// fill yields the stored events up to a position, as far as the store has them.
func (f *follower) fill(ctx context.Context, until int64) error {
	for f.log.Seq < until {
		if err := f.ended(ctx); err != nil {
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
	if err := f.ended(ctx); err != nil {
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

// errLost reports that Redis cannot be reached.
var errLost = errors.New("redis is lost")

// read returns the entries after the cursor. If the stream has no such entries, it waits for them as long as wait says.
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

// connection is the follower's own connection to Redis. Closing it ends a request that waits.
type connection struct {
	requests context.Context
	cancel   context.CancelFunc
	client   *driver.Client // nil before the connection

	mu    sync.Mutex
	open  []net.Conn
	ended bool
}

// client returns the follower's client, and creates it if necessary.
func (f *follower) client() (*driver.Client, error) {
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

// drop closes the connection. The next request opens a new one.
func (c *connection) drop() {
	if c.client != nil {
		_ = c.client.Close()
		c.client = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeAll()
}

// end closes the connection for good. It is safe for concurrent use.
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
