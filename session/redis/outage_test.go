package redis_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// The tests in this file take Redis away in all kinds of ways.

// log is what a logger was given.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *log) option() redis.Option { return redis.WithLogger(slog.New(slog.NewTextHandler(l, nil))) }

// hold calls f while nothing can be logged. Without Redis, the publisher hangs at its first warning meanwhile, and f
// must not wait for it.
func (l *log) hold(t testing.TB, f func()) {
	l.mu.Lock()
	release := sync.OnceFunc(l.mu.Unlock)
	defer release()
	late := time.AfterFunc(20*time.Second, release)
	f()
	require.True(t, late.Stop(), "a turn waits for Redis")
}

// writer is a turn's worth of writing to one session.
type writer struct {
	t     testing.TB
	tail  follows
	key   session.Key
	lease session.Lease
	seq   int64
}

func begin(t testing.TB, tail follows, key session.Key) *writer {
	t.Helper()
	lease := must.Get(sessiontest.Acquire(t.Context(), tail, key, session.Self()))
	return &writer{t, tail, key, lease, lease.Head.Seq}
}

func (w *writer) event(id, words string) *event.Event {
	return &event.Event{ID: id, TurnID: "t", RunID: "r", Agent: "a", Path: "a", Time: time.Now().UTC(), Data: &event.Text{Content: words}}
}

func (w *writer) add(id, words string) {
	w.t.Helper()
	e := w.event(id, words)
	e.Seq = w.seq + 1
	require.NoError(w.t, sessiontest.Append(w.t.Context(), w.tail, w.key, w.seq, w.lease, e))
	w.seq++
}

func (w *writer) show(id, words string) {
	w.t.Helper()
	e := w.event(id, words)
	e.Partial = true
	require.NoError(w.t, w.tail.Publish(w.t.Context(), w.key, e))
}

func (w *writer) end() {
	w.t.Helper()
	require.NoError(w.t, sessiontest.Release(w.t.Context(), w.tail, w.key, w.lease))
}

// client follows a session in the background.
type client struct {
	t   testing.TB
	mu  sync.Mutex
	got []session.Entry
	err error
	end chan struct{}
	cut context.CancelFunc
}

func follow(t testing.TB, tail session.Tail, key session.Key, after string) *client {
	ctx, cut := context.WithCancel(t.Context())
	c := &client{t: t, end: make(chan struct{}), cut: cut}
	go func() {
		defer close(c.end)
		for e, err := range tail.Follow(ctx, key, after) {
			c.mu.Lock()
			if err != nil {
				c.err = err
			} else {
				c.got = append(c.got, e)
			}
			c.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cut(); <-c.end })
	return c
}

func (c *client) entries() []session.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got[:len(c.got):len(c.got)]
}

// words is what the client has seen: deltas as they are, stored events with a dot,
// notices by their code.
func (c *client) words() []string {
	var out []string
	for _, e := range c.entries() {
		switch d := e.Event.Data.(type) {
		case *event.Notice:
			out = append(out, d.Code)
		case *event.Discard:
			out = append(out, "void "+strings.Join(d.IDs, " "))
		default:
			s := e.Event.Text()
			if !e.Event.Partial {
				s += "."
			}
			out = append(out, s)
		}
	}
	return out
}

func (c *client) sees(words ...string) {
	c.t.Helper()
	c.waits(words, func(has []string) bool { return slices.Equal(words, has) })
}

func (c *client) seesLast(word string) {
	c.t.Helper()
	c.waits(word, func(has []string) bool { return len(has) > 0 && has[len(has)-1] == word })
}

// waits waits until a client has seen what is wanted.
func (c *client) waits(want any, seen func(words []string) bool) {
	c.t.Helper()
	defer func() {
		if c.t.Failed() {
			c.t.Logf("want %q, has %q", want, c.words())
		}
	}()
	must.Wait(c.t, func() bool { return seen(c.words()) })
}

// sound requires that a client has every stored event once and in order, that its ids
// never fall, and that what it sees reduces to the graph of the log.
func (c *client) sound(store session.Store, key session.Key) {
	c.t.Helper()
	var at session.Position
	next := int64(1)
	g := conversation.New()
	for _, e := range c.entries() {
		p := must.Get(session.ParsePosition(e.ID))
		require.False(c.t, p.Seq < at.Seq || p.Seq == at.Seq && p.Part < at.Part, "%s after %s", p, at)
		if _, notice := e.Event.Data.(*event.Notice); !notice {
			require.NotEqual(c.t, at, p)
		}
		at = p
		if !e.Event.Partial {
			require.Equal(c.t, next, e.Event.Seq)
			next++
		}
		g = g.Reduce(e.Event)
	}
	want := conversation.New()
	for e, err := range store.Load(c.t.Context(), key, 0) {
		require.NoError(c.t, err)
		want = want.Reduce(e)
	}
	require.Equal(c.t, nodes(c.t, want), nodes(c.t, g))
}

func nodes(t testing.TB, g *conversation.Graph) []string {
	var out []string
	for n := range g.Nodes() {
		out = append(out, fmt.Sprint(n.ID, " ", n.RunID, " ", n.Kind))
	}
	return out
}

func TestRestartInMidStream(t *testing.T) {
	server := servers.NewRedis(t)
	var heard log
	tail := newTail(t, server.URL(), session.NewMemory(), redis.WithPoll(20*time.Millisecond), heard.option())
	key := session.ID("s")
	c := follow(t, tail, key, "")
	w := begin(t, tail, key)
	w.add("e1", "one")
	w.show("b1", "half")
	c.sees("one.", "half")

	require.NoError(t, server.Kill())
	c.sees("one.", "half", "tail_degraded")
	require.Equal(t, c.entries()[1].ID, c.entries()[2].ID, "a client that is cut off now goes on from the entry before")
	heard.hold(t, func() {
		for range 50 {
			w.show("b1", " lost")
		}
		w.add("b1", "half lost")
		w.add("e3", "three")
	})
	c.sees("one.", "half", "tail_degraded", "half lost.", "three.")
	late := follow(t, tail, key, "1-0") // while Redis is down
	late.sees("tail_degraded", "half lost.", "three.")
	must.Wait(t, func() bool { return strings.Contains(heard.String(), "are not published") })

	require.NoError(t, server.Start())
	c.seesLast("tail_restored")
	late.seesLast("tail_restored")
	must.Wait(t, func() bool { // the writer finds out at its own pace
		w.show("b4", "x")
		return strings.HasSuffix(strings.Join(c.words(), ""), "x")
	})
	w.add("b4", "all of it")
	w.show("b5", "again")
	c.seesLast("again")
	late.seesLast("again")
	w.add("b5", "again")
	w.end()
	c.seesLast("again.")
	late.seesLast("again.")
	c.sound(tail, key)

	require.Equal(t, 1, strings.Count(heard.String(), "level=WARN"), heard.String())
	require.Equal(t, 1, strings.Count(heard.String(), "level=INFO"), heard.String())

	// A client that was cut off at any entry gets the complete events that follow.
	for _, e := range c.entries() {
		p := must.Get(session.ParsePosition(e.ID))
		again := follow(t, tail, key, e.ID)
		must.Wait(t, func() bool {
			n := int64(0)
			for _, e := range again.entries() {
				if !e.Event.Partial {
					n++
				}
			}
			return n == w.seq-p.Seq
		})
		again.cut()
	}
}

// TestRestartsUnderLoad kills the server again and again while many turns run: every
// follower gets each stored event once and in order.
func TestRestartsUnderLoad(t *testing.T) {
	server := servers.NewRedis(t)
	tail := newTail(t, server.URL(), session.NewMemory(), redis.WithPoll(10*time.Millisecond))
	const sessions, rounds, turns = 6, 5, 30 // the server is killed once in each round
	var halves [rounds]sync.WaitGroup        // half of a round's turns are over, in all sessions
	var restarts [rounds]chan struct{}
	for k := range rounds {
		halves[k].Add(sessions)
		restarts[k] = make(chan struct{})
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for k := range rounds {
			halves[k].Wait()
			if err := server.Kill(); err != nil {
				t.Error(err)
			}
			if err := server.Start(); err != nil {
				t.Error(err)
			}
			close(restarts[k])
		}
	})
	clients := make([]*client, sessions)
	for i := range sessions {
		key := session.ID(fmt.Sprint(i))
		clients[i] = follow(t, tail, key, "")
		wg.Go(func() {
			for n := range rounds * turns {
				w := begin(t, tail, key)
				for d := range 5 {
					w.show(fmt.Sprint("b", n), fmt.Sprint(d))
				}
				w.add(fmt.Sprint("b", n), "01234")
				w.show(fmt.Sprint("x", n), "cut off")
				w.end()
				switch k := n / turns; n % turns {
				case turns / 2:
					halves[k].Done()
				case turns - 1:
					<-restarts[k]
				}
			}
		})
	}
	wg.Wait()
	for i, c := range clients {
		key := session.ID(fmt.Sprint(i))
		must.Wait(t, func() bool {
			n := 0
			for _, e := range c.entries() {
				if !e.Event.Partial {
					n++
				}
			}
			return n == rounds*turns
		})
		c.order(key)
	}
}

// order requires that a client has every stored event once and in order.
func (c *client) order(key session.Key) {
	c.t.Helper()
	next := int64(1)
	for _, e := range c.entries() {
		if !e.Event.Partial {
			require.Equal(c.t, next, e.Event.Seq, key.String())
			next++
		}
	}
}

// A database that was put back to an older state has sessions of which Redis knows another end. Who
// follows one gets what the database has.
func TestOtherPast(t *testing.T) {
	url := servers.NewRedis(t).URL()
	key := session.ID("s")
	turn := func(store session.Store, name string, events int) {
		w := begin(t, newTail(t, url, shared{store}), key)
		for i := range events {
			w.show(fmt.Sprint(name, i), name)
			w.add(fmt.Sprint(name, i), fmt.Sprint(name, i))
		}
		w.end()
	}
	turn(session.NewMemory(), "before", 4)
	back := session.NewMemory()
	lease := must.Get(sessiontest.Acquire(t.Context(), back, key, session.Self()))
	for i := range int64(6) {
		e := (&writer{}).event(fmt.Sprint("back", i), fmt.Sprint("back", i))
		e.Seq = i + 1
		require.NoError(t, sessiontest.Append(t.Context(), back, key, i, lease, e))
	}
	require.NoError(t, sessiontest.Release(t.Context(), back, key, lease))
	tail := newTail(t, url, shared{back}, redis.WithPoll(20*time.Millisecond))
	c := follow(t, tail, key, "2-0")
	c.sees("back2.", "back3.", "back4.", "back5.")
	turn(back, "after", 1)
	c.seesLast("after0.")
}

func TestEmptiedInMidStream(t *testing.T) {
	server := servers.NewRedis(t)
	tail := newTail(t, server.URL(), session.NewMemory(), redis.WithPoll(20*time.Millisecond))
	key := session.ID("s")
	c := follow(t, tail, key, "")
	w := begin(t, tail, key)
	w.add("e1", "one")
	w.show("b1", "a")
	c.sees("one.", "a")
	require.NoError(t, raw(t, server.URL()).FlushAll(t.Context()).Err())
	w.show("b1", "b")
	w.add("b1", "ab")
	w.show("b2", "c")
	c.sees("one.", "a", "b", "ab.", "c")
	w.add("b2", "c")
	w.end()
	c.seesLast("c.")
	c.sound(tail, key)
}

func raw(t testing.TB, url string) *driver.Client {
	t.Helper()
	opts, err := driver.ParseURL(url)
	require.NoError(t, err)
	r := driver.NewClient(opts)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestSlowRedis: a server that answers nobody for a while holds no turn up, and what
// the queue cannot take is dropped, partial events only.
func TestSlowRedis(t *testing.T) {
	server := servers.NewRedis(t)
	var heard log
	p := newProxy(t, server.Address())
	tail := newTail(t, p.url(), session.NewMemory(), redis.WithPoll(20*time.Millisecond), redis.WithMaxQueue(100, 1<<20), heard.option())
	key := session.ID("s")
	c := follow(t, tail, key, "")
	w := begin(t, tail, key)
	w.add("e1", "one")
	c.sees("one.")
	p.held.Lock()
	began := time.Now()
	for i := range 1000 {
		w.show("b", fmt.Sprint(" ", i))
		require.Less(t, time.Since(began), time.Minute, "a turn waits for Redis, which does not answer")
	}
	w.add("b", "all words")
	w.add("e3", "three")
	p.held.Unlock()
	c.seesLast("three.")
	require.Equal(t, 1, strings.Count(heard.String(), "level=WARN"), heard.String())
	require.Contains(t, heard.String(), "partial events are lost")
	w.show("d", "again")
	c.seesLast("again")
	w.add("d", "again")
	c.seesLast("again.")
	require.Less(t, len(c.entries()), 600)
	w.end()
	c.sound(tail, key)
}

// TestForeignValue: something else has the name of a stream.
func TestForeignValue(t *testing.T) {
	server := servers.NewRedis(t)
	var heard log
	tail := newTail(t, server.URL(), session.NewMemory(), redis.WithPoll(10*time.Millisecond), heard.option())
	require.NoError(t, raw(t, server.URL()).Set(t.Context(), "arbor:{app/local/s}", "x", 0).Err())
	c := follow(t, tail, session.ID("s"), "")
	other := follow(t, tail, session.ID("other"), "")
	for _, id := range []string{"s", "other"} {
		w := begin(t, tail, session.ID(id))
		w.add("e1", "one")
		w.show("b", "two")
		w.add("b", "two")
		w.end()
	}
	c.sees("tail_degraded", "one.", "two.")
	other.sees("one.", "two", "two.")
	require.Equal(t, 1, strings.Count(heard.String(), "level=WARN"), heard.String())
	require.Contains(t, heard.String(), "arbor:{app/local/s}")
}

// TestDeletedWhileRedisIsDown: nobody is shown what a deleted session has left in
// Redis.
func TestDeletedWhileRedisIsDown(t *testing.T) {
	server := servers.NewRedis(t)
	store := session.NewMemory()
	key := session.ID("s")
	r := raw(t, server.URL())
	name := "arbor:{app/local/s}"

	// What a tail that could not remove it has left: the lease's token was 1.
	for _, e := range []driver.XAddArgs{
		{Stream: name, ID: "1-0", Values: []any{"t", 1, "m", "old1"}},
		{Stream: name, ID: "1-1", Values: []any{"t", 1, "e", `{"id":"x","runId":"r","type":"text","partial":true,"content":"of the deleted"}`}},
		{Stream: name, ID: "2-0", Values: []any{"t", 1, "m", "old2"}},
		{Stream: name, ID: "2-1", Values: []any{"t", 1, "e", `{"id":"y","runId":"r","type":"text","partial":true,"content":"of the deleted"}`}},
	} {
		require.NoError(t, r.XAdd(t.Context(), &e).Err())
	}
	// The session was made anew past Redis.
	for range 3 { // so that tokens are newer
		lease := must.Get(sessiontest.Acquire(t.Context(), store, key, session.Self()))
		require.NoError(t, sessiontest.Release(t.Context(), store, key, lease))
	}
	lease := must.Get(sessiontest.Acquire(t.Context(), store, key, session.Self()))
	e := &event.Event{Seq: 1, ID: "new1", RunID: "r", Time: time.Now().UTC(), Data: &event.Text{Content: "new"}}
	require.NoError(t, sessiontest.Append(t.Context(), store, key, 0, lease, e))
	require.NoError(t, sessiontest.Release(t.Context(), store, key, lease))

	tail := newTail(t, server.URL(), store, redis.WithPoll(20*time.Millisecond))
	c, on := follow(t, tail, key, ""), follow(t, tail, key, "1-0")
	c.sees("new.")
	w := begin(t, tail, key)
	w.show("b", "fresh")
	c.sees("new.", "fresh")
	on.sees("fresh")
	w.add("b", "fresh")
	w.show("b2", "more")
	c.sees("new.", "fresh", "fresh.", "more")
	on.sees("fresh", "fresh.", "more")
}
