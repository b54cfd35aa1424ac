package peersuite

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/view"
)

// mortal is the store of a process that dies at its n-th write, before or after it: from
// then on the process does nothing any more, and nobody hears from it. The zero n lets it
// live.
type mortal struct {
	session.Store
	n     int
	after bool

	mu   sync.Mutex
	seen int
	dead chan struct{} // closed at the process's end
	gone chan struct{} // closed by the test at its end, so that the goroutines of the process end
}

func newMortal(store session.Store, n int, after bool) *mortal {
	return &mortal{Store: store, n: n, after: after, dead: make(chan struct{}), gone: make(chan struct{})}
}

func (m *mortal) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 {
		return m.Store.Write(ctx, key, w)
	}
	m.mu.Lock()
	m.seen++
	now := m.seen == m.n
	m.mu.Unlock()
	if now && !m.after {
		return session.Lease{}, m.die()
	}
	lease, err := m.Store.Write(ctx, key, w)
	if now {
		return session.Lease{}, m.die()
	}
	return lease, err
}

func (m *mortal) die() error {
	close(m.dead)
	<-m.gone
	return fmt.Errorf("the process is dead")
}

func (m *mortal) writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// left returns a store with what a dead process has left.
func left(t testing.TB, store session.Store) session.Store {
	t.Helper()
	ctx := context.Background()
	events := log(store)
	next := sessiontest.Memory(t)
	lease := must.Get(sessiontest.Acquire(ctx, next, key, session.Owner{}))
	if len(events) > 0 {
		require.NoError(t, sessiontest.Append(ctx, next, key, 0, lease, events...))
	}
	require.NoError(t, sessiontest.Release(ctx, next, key, lease))
	return next
}

// told is a conversation whose models are functions of what they read, so that another
// process does what the first one would have done.
func told(t *testing.T, p place) (*scene, func(session.Store) *runner.Runner) {
	t.Helper()
	c := &scene{}
	billing := must.Get(llmagent.New("billing", "You refund.", c.model("billing", scripted.Func("billing", func(req *llm.Request) scripted.Answer {
		last := req.Messages[len(req.Messages)-1]
		return says("You said: ", last.PlainText())
	})), llmagent.WithDescription("Refunds"), llmagent.WithHistory(view.TextOnly())))
	c.billing = p.put(t, billing)
	root := must.Get(llmagent.New("support", "You route.", c.model("support", scripted.Func("support", func(*llm.Request) scripted.Answer {
		return handOver(scripted.Text("One moment."))
	})), llmagent.WithSubAgents(c.billing.Agent)))
	return c, func(store session.Store) *runner.Runner {
		return newRunner(t, root, store, runner.WithStreaming())
	}
}

// TestCrashes ends the process that has the conversation before and after each of its
// writes, between the commit of the transfer and the target's first event among them,
// and has another one resume it. The log becomes that of a conversation that nobody
// disturbed, and a specialist behind a server is asked each thing once.
func TestCrashes(t *testing.T) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			c, process := told(t, p)
			whole := newMortal(sessiontest.Memory(t), 0, false)
			r := process(whole)
			require.NoError(t, turn(t, r, "help", nil))
			require.NoError(t, turn(t, r, "more", nil))
			want := account(log(whole))
			writes := whole.writes()
			require.Equal(t, 2, c.count("billing"))
			for n := range writes {
				for _, after := range []bool{false, true} {
					t.Run(fmt.Sprintf("write %d after %v", n+1, after), func(t *testing.T) {
						c, process := told(t, p)
						m := newMortal(sessiontest.Memory(t), n+1, after)
						over := make(chan struct{})
						go func() {
							defer close(over)
							r := process(m)
							for _, text := range []string{"help", "more"} {
								for range r.Run(context.Background(), key, llm.UserText(text)) {
								}
							}
						}()
						select {
						case <-m.dead:
						case <-over: // what a peer says in the same moment is one write
							require.Equal(t, want, account(log(m.Store)))
							return
						}
						store := left(t, m.Store)
						t.Cleanup(func() {
							close(m.gone)
							<-over
						})
						r := process(store)
						require.NoError(t, drain(r.Resume(context.Background(), key), nil))
						for _, text := range []string{"help", "more"}[users(log(store)):] {
							require.NoError(t, turn(t, r, text, nil))
						}
						events := log(store)
						checkCalls(t, events)
						require.Equal(t, want, account(events))
						if p.remote {
							require.Equal(t, 2, c.count("billing"), "a message was sent twice")
						}
					})
				}
			}
		})
	}
}

func users(events []*event.Event) (n int) {
	for _, e := range events {
		if e.Type() == event.TypeUser {
			n++
		}
	}
	return n
}
