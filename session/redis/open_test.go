package redis_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/redis"
)

func TestOpen(t *testing.T) {
	ctx, store := t.Context(), session.NewMemory()
	fails := func(url string, words ...string) {
		t.Helper()
		tail, err := redis.New(ctx, url, store)
		require.Nil(t, tail)
		for _, w := range words {
			require.ErrorContains(t, err, w)
		}
		require.NotContains(t, err.Error(), "sec")
	}
	t.Run("a URL that cannot be read", func(t *testing.T) {
		for _, url := range []string{"", "localhost:6379", "http://:sec@localhost", "redis://:sec%ret@localhost", "redis://:sec/ret@localhost:x", "redis://u:sec@localhost/notanumber"} {
			fails(url, "the URL cannot be read", "redis://")
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
		address := l.Addr().String()
		require.NoError(t, l.Close())
		fails("redis://u:secret@"+address, address, "cannot be reached", "start Redis")
	})
	t.Run("nobody answers", func(t *testing.T) {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
		defer l.Close()
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := redis.New(ctx, "redis://"+l.Addr().String(), store)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("an old version", func(t *testing.T) { fails(imitate(t, "6.2.14"), "6.2.14", "version 7") })
	t.Run("a newer version", func(t *testing.T) {
		tail := must.Get(redis.New(ctx, imitate(t, "10.0.1"), shared{store}))
		require.NoError(t, tail.Close())
	})
	t.Run("a password", func(t *testing.T) {
		server := servers.NewRedis(t, "--requirepass", "secret word")
		fails(server.URL(), "refuses", server.Address())
		fails("redis://:secret%20sword@"+server.Address(), "refuses", server.Address())
		newTail(t, "redis://:secret%20word@"+server.Address(), shared{store})
	})
	t.Run("options", func(t *testing.T) {
		url := servers.SharedRedis(t)
		_, err := redis.New(ctx, url, nil)
		require.ErrorContains(t, err, "store is nil")
		for _, opt := range []redis.Option{redis.WithPoll(0), redis.WithLinger(0), redis.WithLogger(nil)} {
			_, err := redis.New(ctx, url, store, opt)
			require.ErrorContains(t, err, "option")
		}
	})
}

// imitate answers as a server of some version does when a client connects.
func imitate(t *testing.T, version string) (url string) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					switch strings.ToLower(lines.Text()) {
					case "hello":
						_, _ = fmt.Fprint(conn, "-ERR unknown command\r\n")
					case "client":
						_, _ = fmt.Fprint(conn, "+OK\r\n")
					case "info":
						s := "# Server\r\nredis_version:" + version + "\r\n"
						_, _ = fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(s), s)
					}
				}
			}()
		}
	}()
	return "redis://" + l.Addr().String()
}

// TestWhatStays looks at what is in Redis during turns and after them.
func TestWhatStays(t *testing.T) {
	server := servers.NewRedis(t)
	r := raw(t, server.URL())
	key := session.Key{App: "a/b", User: "{x}", ID: "é"}
	const name = "own:{a%2Fb/%7Bx%7D/%C3%A9}"
	tail := newTail(t, server.URL(), session.NewMemory(), redis.WithPrefix("own"), redis.WithTTL(2*time.Hour), redis.WithLinger(time.Hour), redis.WithMaxLen(500))
	c := follow(t, tail, key, "")
	w := begin(t, tail, key)
	w.add("e1", "one")
	w.show("b", "x")
	c.sees("one.", "x")
	ttl := r.PTTL(t.Context(), name).Val()
	require.True(t, ttl > time.Hour && ttl <= 2*time.Hour, "%s", ttl)
	w.add("b", "x")
	w.end()
	expires := func() bool { ttl := r.PTTL(t.Context(), name).Val(); return ttl > 0 && ttl <= time.Hour }
	must.Wait(t, expires)

	// The last two turns stay, and no more.
	for i := range 5 {
		w := begin(t, tail, key)
		w.show(fmt.Sprint("b", i), "x")
		w.add(fmt.Sprint("b", i), "x")
		w.end()
		must.Wait(t, expires)
	}
	must.Wait(t, func() bool {
		list := r.XRange(t.Context(), name, "-", "+").Val()
		if len(list) == 0 {
			return false
		}
		p, err := session.ParsePosition(list[0].ID)
		return err == nil && p.Seq == 5
	})
	for _, m := range r.XRange(t.Context(), name, "-", "+").Val() {
		require.NotContains(t, fmt.Sprint(m.Values), "one", "stored events stay in the store")
	}

	// A long turn is bounded, roughly.
	w = begin(t, tail, key)
	for i := range 2000 {
		w.show(fmt.Sprint("c", i), "x")
		if i%10 == 0 {
			w.add(fmt.Sprint("c", i), "x")
		}
	}
	w.add("end", "end")
	c.seesLast("end.")
	require.Less(t, r.XLen(t.Context(), name).Val(), int64(1000))
	c.order(key)
	w.end()
	require.NoError(t, tail.Delete(t.Context(), key))
	must.Wait(t, func() bool { return r.Exists(t.Context(), name).Val() == 0 })
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	server := servers.NewRedis(t)
	before := runtime.NumGoroutine()
	for _, down := range []bool{false, true} {
		tail := must.Get(redis.New(t.Context(), server.URL(), session.NewMemory(), redis.WithPoll(time.Millisecond)))
		key := session.ID("s")
		w := begin(t, tail, key)
		w.add("e1", "one")
		c := follow(t, tail, key, "")
		c.sees("one.")
		if down {
			require.NoError(t, server.Kill())
			c.sees("one.", "tail_degraded")
			w.show("b", "x")
		}
		require.NoError(t, tail.Close())
		<-c.end
		require.ErrorContains(t, c.err, "closed")
	}
	must.Wait(t, func() bool { return runtime.NumGoroutine() <= before })
}

// TestCloseTakesTheRestAlong: what was published just before is not lost.
func TestCloseTakesTheRestAlong(t *testing.T) {
	url, store, prefix := servers.SharedRedis(t), shared{session.NewMemory()}, rand.Text()
	reader := newTail(t, url, store, redis.WithPrefix(prefix))
	tail := must.Get(redis.New(t.Context(), url, store, redis.WithPrefix(prefix)))
	key := session.ID("s")
	c := follow(t, reader, key, "")
	w := begin(t, tail, key)
	w.add("e1", "one")
	for range 500 {
		w.show("b", "x")
	}
	require.NoError(t, tail.Close())
	must.Wait(t, func() bool { return len(c.entries()) == 501 })
	e := w.event("b", "x")
	e.Partial = true
	require.Error(t, tail.Publish(t.Context(), key, e))
}

func TestPublishAllocates(t *testing.T) {
	tail := newTail(t, servers.SharedRedis(t), session.NewMemory(), redis.WithPrefix(rand.Text()))
	key := session.ID("s")
	begin(t, tail, key)
	e := &event.Event{ID: "b", RunID: "r", Partial: true, Data: &event.Text{Content: "word "}}
	least := math.Inf(1)
	for range 20 { // on one processor, where the publisher does not run beside each of these
		least = min(least, race.Allocations(t, 250, func() {
			if err := tail.Publish(t.Context(), key, e); err != nil {
				t.Error(err)
			}
		}))
	}
	require.LessOrEqual(t, least, 3.0)
}
