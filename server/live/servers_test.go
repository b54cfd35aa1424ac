package live

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// slowStore calls a function once before the next write that acquires a lease, as if the network were slow there.
type slowStore struct {
	session.Store
	mu sync.Mutex
	do func()
}

func (s *slowStore) beforeNext(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = do
}

func (s *slowStore) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if w.Acquires() {
		s.mu.Lock()
		do := s.do
		s.do = nil
		s.mu.Unlock()
		if do != nil {
			do()
		}
	}
	return s.Store.Write(ctx, key, w)
}

// twoServers returns the Turns of two servers on one store. The second one's store is slow.
func twoServers(t *testing.T) (*desk, *Turns, *Turns, *slowStore) {
	d, a := newDesk(t)
	store := sessiontest.Memory(t)
	slow := &slowStore{Store: store}
	return d, newTurns(t, a, store), newTurns(t, a, slow), slow
}

// asked begins a turn that asks whether a call may run, and returns its id and that of the call.
func asked(t *testing.T, turns *Turns) (turn, call string) {
	x := must.Get(turns.Begin(t.Context(), key, llm.UserText("ask")))
	require.NoError(t, x.Wait(t.Context()))
	s := stateIs(t, turns, key, Waiting)
	return s.Turn, s.Pending[0].ToolCallID
}

// TestOppositeDecisionsAtOnce: of two servers that get opposite decisions about a call, one stores its decision and the
// other one refuses.
func TestOppositeDecisionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		_, a, b, slow := twoServers(t)
		turn, call := asked(t, a)
		slow.beforeNext(func() {
			yes := must.Get(a.DecideOnce(ctx, key, turn, Request{ID: "yes"}, runner.Approve(call)))
			require.NoError(t, yes.Wait(ctx))
		})
		_, err := b.DecideOnce(ctx, key, turn, Request{ID: "no"}, runner.Deny(call, "never"))
		require.ErrorIs(t, err, runner.ErrNoApproval)
	})
}

// TestTheSameRequestAtOnce: of two servers that get the same request, one runs it and the other one returns the same
// turn, although it finds the session busy or the log grown.
func TestTheSameRequestAtOnce(t *testing.T) {
	for name, r := range map[string]struct {
		words string
		at    *int64
	}{"busy": {"think", nil}, "created": {"hello", new(int64)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				d, a, b, slow := twoServers(t)
				var first *Begun
				slow.beforeNext(func() {
					first = must.Get(a.BeginOnce(ctx, key, llm.UserText(r.words), Request{ID: "k", At: r.at}))
					if r.at != nil {
						require.NoError(t, first.Wait(ctx))
					}
				})
				second, err := b.BeginOnce(ctx, key, llm.UserText(r.words), Request{ID: "k", At: r.at})
				d.free <- struct{}{}
				require.NoError(t, err)
				require.True(t, second.Repeated)
				require.Equal(t, first.ID, second.ID)
			})
		})
	}
	t.Run("decided", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			_, a, b, slow := twoServers(t)
			turn, call := asked(t, a)
			slow.beforeNext(func() { must.Get(a.DecideOnce(ctx, key, turn, Request{ID: "k"}, runner.Approve(call))) })
			_, err := b.DecideOnce(ctx, key, turn, Request{ID: "k"}, runner.Approve(call))
			require.NoError(t, err)
		})
	})
}

// TestAQueuedMessageGetsNoConflict: a message waits at one server for a turn of another one. However long it has waited,
// it starts when the turn ends between two writes.
func TestAQueuedMessageGetsNoConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		d, a, b, slow := twoServers(t)
		x := must.Get(a.Begin(ctx, key, llm.UserText("think")))
		<-d.thinks
		time.AfterFunc(5*time.Second, func() {
			slow.beforeNext(func() {
				d.free <- struct{}{}
				_ = x.Wait(ctx)
			})
		})
		_, err := b.BeginOnce(ctx, key, llm.UserText("hello"), Request{ID: "k", Wait: time.Minute})
		require.NoError(t, err)
	})
}

// TestAnOlderTreeAdoptsNothing: a server whose tree lacks the agent of a turn does not adopt it by itself: not in its
// search, not for a follower, and not for a client that repeats its request.
func TestAnOlderTreeAdoptsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		billing := must.Get(llmagent.New("billing", "", scripted.Always("m", scripted.Reply(scripted.WaitFor(make(chan struct{}))))))
		root := func(children ...agent.Agent) agent.Agent {
			model := scripted.Always("m", scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`)))
			return must.Get(llmagent.New("desk", "", model, llmagent.WithSubAgents(children...)))
		}
		store := sessiontest.Memory(t)
		newer, older := newTurns(t, root(billing), store), newTurns(t, root(), store, WithAdoption(time.Second))
		x := must.Get(newer.BeginOnce(ctx, key, llm.UserText("hello"), Request{ID: "k"}))
		synctest.Wait()
		require.NoError(t, newer.Close(ctx)) // a rolling restart replaces it
		before := stateIs(t, older, key, CutOff)
		go func() {
			for range older.Follow(ctx, key, "") {
			}
		}()
		again := must.Get(older.BeginOnce(ctx, key, llm.UserText("hello"), Request{ID: "k"}))
		require.Equal(t, x.ID, again.ID)
		time.Sleep(time.Minute)
		require.Equal(t, before, stateIs(t, older, key, CutOff))
	})
}

// TestAnOlderTreeKeepsADecision: a server whose tree lacks the tool of an approved call does not adopt the turn either:
// the call would fail, and the approval would be lost. A server with the tool runs the call once.
func TestAnOlderTreeKeepsADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		began, ran := make(chan struct{}), 0
		pay := func(run func(ctx context.Context) error) tools.Tool {
			return must.Get(tools.Func("pay", "Pays.", func(c tools.Context, _ struct{}) (string, error) { return "paid", run(c) }, tools.NeedsApproval(tools.ByUser()), tools.Idempotent()))
		}
		root := func(box ...tools.Tool) agent.Agent {
			model := scripted.Func("m", func(req *llm.Request) scripted.Answer {
				if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
					return scripted.Reply(scripted.Text("Done."))
				}
				return scripted.Reply(scripted.Call("pay", `{}`))
			})
			return must.Get(llmagent.New("desk", "", model, llmagent.WithTools(box...)))
		}
		store := sessiontest.Memory(t)
		newer := newTurns(t, root(pay(func(ctx context.Context) error { close(began); <-ctx.Done(); return ctx.Err() })), store)
		must.Get(newer.Begin(ctx, key, llm.UserText("hello")))
		synctest.Wait()
		call := stateIs(t, newer, key, Waiting).Pending[0].ToolCallID
		must.Get(newer.Resume(ctx, key, runner.Approve(call)))
		<-began
		require.NoError(t, newer.Close(ctx)) // a rolling restart replaces it

		older := newTurns(t, root(), store, WithAdoption(time.Second))
		before := stateIs(t, older, key, CutOff)
		time.Sleep(time.Minute)
		require.Equal(t, before, stateIs(t, older, key, CutOff))
		require.NoError(t, older.Close(ctx))

		newTurns(t, root(pay(func(context.Context) error { ran++; return nil })), store, WithAdoption(time.Second))
		time.Sleep(time.Minute)
		require.Equal(t, 1, ran)
	})
}
