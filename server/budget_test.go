package server_test

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// wire is a connection of a client that costs nothing itself.
type wire struct {
	net.Conn
	buf []byte
}

func (s *served) wire(t testing.TB) *wire {
	t.Helper()
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(s.url, "http://")))
	t.Cleanup(func() { c.Close() })
	return &wire{c, make([]byte, 64<<10)}
}

// request is the bytes of one.
func request(method, path, body string, headers ...string) []byte {
	out := fmt.Sprintf("%s /api/v1%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ann\r\n", method, path)
	for _, h := range headers {
		out += h + "\r\n"
	}
	if body != "" {
		out += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return []byte(out + "\r\n" + body)
}

// allocations counts those of all goroutines, for each of n times.
func allocations(n int, f func()) float64 {
	for range 20 {
		f()
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n)
}

// TestAllocationBudget holds what the API adds to a turn, and to each delta for each who follows
// it, to a number of allocations.
func TestAllocationBudget(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	s := serveOn(t, newDesk(t), session.NewMemory())
	bare := must.Get(runner.New(newDesk(t).root, session.NewMemory(), runner.WithStreaming()))
	alone := allocations(500, func() {
		for _, err := range bare.Run(t.Context(), session.ID("s"), llm.UserText("hello")) {
			require.NoError(t, err)
		}
	})
	s.say(t, "s", "hello")
	c, turn := s.wire(t), request("POST", "/sessions/s/turns", `{"content":"hello"}`, "Prefer: wait=60")
	served := allocations(500, func() {
		_, err := c.Write(turn)
		require.NoError(t, err)
		n := must.Get(c.Read(c.buf))
		require.True(t, bytes.HasPrefix(c.buf[:n], []byte("HTTP/1.1 200")) && bytes.Contains(c.buf[:n], []byte(`"done"`)))
	})
	t.Logf("a turn: %.1f allocations alone, %.1f over HTTP", alone, served)
	require.LessOrEqual(t, served-alone, 124.0)

	delta := func(followers int) float64 {
		key := key("ann", fmt.Sprint("f", followers))
		s.say(t, key.ID, "hello")
		frames := make(chan int, 1000)
		for range followers {
			c := s.wire(t)
			_, err := c.Write(request("GET", "/sessions/"+key.ID+"/events?after=5", "", "Accept: text/event-stream"))
			require.NoError(t, err)
			go func() {
				for {
					n, err := c.Read(c.buf)
					if err != nil {
						return
					}
					frames <- bytes.Count(c.buf[:n], []byte("id: "))
				}
			}()
		}
		lease := must.Get(sessiontest.Acquire(t.Context(), s.store, key, session.Self()))
		e := &event.Event{ID: "b", TurnID: "t", RunID: "r", Agent: "desk", Path: "desk", Partial: true, Attempt: 1, Time: time.Now().UTC(), Data: &event.Text{Content: " a word"}}
		n := allocations(500, func() {
			require.NoError(t, s.store.Publish(t.Context(), key, e))
			for left := followers; left > 0; left -= <-frames {
			}
		})
		require.NoError(t, sessiontest.Release(t.Context(), s.store, key, lease))
		return n
	}
	few, many := delta(1), delta(11)
	t.Logf("a delta: %.1f allocations with one follower, %.1f with eleven", few, many)
	require.LessOrEqual(t, (many-few)/10, 12.0)
}
