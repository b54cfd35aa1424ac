package redis_test

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// The tests in this file cut one machine off, while Redis goes on.

// proxy is between a tail and Redis, and can be cut.
type proxy struct {
	listener net.Listener
	target   string
	held     sync.RWMutex // while it is locked, nothing gets to Redis
	mu       sync.Mutex
	cut      bool
	conns    []net.Conn
}

func newProxy(t testing.TB, target string) *proxy {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	p := &proxy{listener: l, target: target}
	t.Cleanup(func() { _ = l.Close(); p.set(true) })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.serve(conn)
		}
	}()
	return p
}

func (p *proxy) serve(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	server, err := net.Dial("tcp", p.target)
	if err != nil || p.cut {
		_ = conn.Close()
		return
	}
	p.conns = append(p.conns, conn, server)
	go func() { _, _ = io.Copy(conn, server); _ = conn.Close() }()
	go func() { _, _ = io.Copy(&gate{Writer: server, held: &p.held}, conn); _ = server.Close() }()
}

// gate lets nothing through while it is held.
type gate struct {
	io.Writer
	held *sync.RWMutex
}

func (g *gate) Write(b []byte) (int, error) {
	g.held.RLock()
	defer g.held.RUnlock()
	return g.Writer.Write(b)
}

func (p *proxy) url() string { return "redis://" + p.listener.Addr().String() }

func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if cut {
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.conns = nil
	}
}

// TestWriterIsCutOff: the writer's machine loses Redis, which goes on, and the
// followers of another machine still get what is stored.
func TestWriterIsCutOff(t *testing.T) {
	server := servers.NewRedis(t)
	p := newProxy(t, server.Address())
	store := shared{session.NewMemory()}
	here := newTail(t, p.url(), store, redis.WithPoll(20*time.Millisecond))
	there := newTail(t, server.URL(), store, redis.WithPoll(20*time.Millisecond), redis.WithGrace(time.Millisecond))
	key := session.ID("s")
	c := follow(t, there, key, "")
	w := begin(t, here, key)
	w.add("e1", "one")
	w.show("b", "half")
	c.sees("one.", "half")
	p.set(true)
	w.show("b", " lost")
	w.add("b", "half lost")
	w.add("e3", "three")
	c.sees("one.", "half", "half lost.", "three.")
	require.NoError(t, here.Delete(t.Context(), key)) // what Redis has of it stays for now
	<-c.end
	require.ErrorIs(t, c.err, agent.ErrConflict)

	r := raw(t, server.URL())
	n, err := r.Exists(t.Context(), "arbor:{app/local/s}").Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	p.set(false)
	must.Wait(t, func() bool {
		n, err := r.Exists(t.Context(), "arbor:{app/local/s}").Result()
		return err == nil && n == 0
	})

	anew := follow(t, there, key, "")
	w = begin(t, here, key)
	w.add("f1", "anew")
	w.show("c", "and live")
	anew.sees("anew.", "and live")
	w.end()
}

// TestLeaseAcquiredWhileCutOff: a machine that has lost Redis, and then its lease,
// publishes nothing more when Redis is back.
func TestLeaseAcquiredWhileCutOff(t *testing.T) {
	server := servers.NewRedis(t)
	p := newProxy(t, server.Address())
	clock := sessiontest.NewClock()
	store := shared{session.NewMemory(session.WithClock(clock.Now))}
	here := newTail(t, p.url(), store, redis.WithPoll(20*time.Millisecond))
	there := newTail(t, server.URL(), store, redis.WithPoll(20*time.Millisecond))
	key := session.ID("s")
	c := follow(t, there, key, "")
	stale := begin(t, here, key)
	stale.add("e1", "one")
	stale.show("b", "half")
	c.sees("one.", "half")
	p.set(true)
	stale.show("b", " lost")
	clock.Advance(session.LeaseTTL)
	w := begin(t, there, key)
	c.sees("one.", "half", "void b")
	back := follow(t, here, key, "")
	p.set(false)
	w.show("c", "new")
	must.Wait(t, func() bool { // while it finds its way back
		stale.show("b", " stale")
		return slices.ContainsFunc(back.entries(), func(e session.Entry) bool {
			d, ok := e.Event.Data.(*event.Text)
			return ok && d.Content == "new"
		})
	})
	w.add("c", "new")
	w.end()
	c.sees("one.", "half", "void b", "new", "new.")
	c.sound(store, key)
	require.ErrorIs(t, sessiontest.Renew(t.Context(), here, key, stale.lease), agent.ErrConflict)
	require.NoError(t, here.Publish(t.Context(), key))
	e := stale.event("b", "x")
	e.Partial = true
	require.ErrorIs(t, here.Publish(t.Context(), key, e), agent.ErrConflict)
}
