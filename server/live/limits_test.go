package live

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
)

// All users together have so many turns at work.
func TestMaxTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t), WithLimit(access.NewLimit(32, 2)))
		of := func(user string) session.Key { return session.Key{App: "app", User: user, ID: "1"} }
		for _, user := range []string{"ann", "bob"} {
			must.Get(turns.Begin(ctx, of(user), llm.UserText("think")))
			<-d.thinks
		}
		_, err := turns.Begin(ctx, of("eve"), llm.UserText("hello"))
		var limit *access.LimitError
		require.ErrorAs(t, err, &limit)
		require.Equal(t, access.LimitError{Max: 2, All: true}, *limit)
		require.NoError(t, turns.Stop(ctx, of("ann")))
		must.Get(turns.Begin(ctx, of("eve"), llm.UserText("hello")))
	})
	_, a := newDesk(t)
	turns := newTurns(t, a, sessiontest.Memory(t))
	for i := range 40 { // of one user, by default
		_, err := turns.Begin(t.Context(), session.ID(fmt.Sprint(i)), llm.UserText("think"))
		if i < 32 {
			require.NoError(t, err)
		} else {
			require.ErrorAs(t, err, new(*access.LimitError))
		}
	}
}

// Who drains begins nothing more, and waits for what is at work; it can be followed and canceled.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t))
		b, err := turns.BeginOnce(ctx, key, llm.UserText("think"), Request{})
		require.NoError(t, err)
		<-d.thinks
		require.NoError(t, must.Get(turns.Begin(ctx, session.ID("asks"), llm.UserText("ask"))).Wait(ctx))
		must.Get(turns.Begin(ctx, session.ID("other"), llm.UserText("think")))
		<-d.thinks
		require.False(t, turns.Stopping())
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = turns.Drain(soon)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "2 turns")
		require.True(t, turns.Stopping())

		_, err = turns.Begin(ctx, session.ID("new"), llm.UserText("hello"))
		require.ErrorIs(t, err, ErrClosed)
		_, err = turns.Resume(ctx, session.ID("asks"))
		require.ErrorIs(t, err, ErrClosed)
		done := make(chan watched, 1)
		go func() { done <- watch(turns, b.First, "", 0) }()
		drained := make(chan error)
		go func() { drained <- turns.Drain(ctx) }()
		synctest.Wait()
		_, err = turns.Cancel(ctx, session.ID("other"))
		require.NoError(t, err)
		d.free <- struct{}{}
		require.NoError(t, <-drained)
		w := <-done
		require.NoError(t, w.err)
		require.Equal(t, Done, w.State)
		require.NoError(t, turns.Drain(ctx))
	})
}

// A session of a part of the tree runs on that part, through all functions, and is read also when
// the part is gone.
func TestPartsOfTheTree(t *testing.T) {
	ctx := t.Context()
	made := func(name string, kids ...agent.Agent) agent.Agent {
		return must.Get(llmagent.New(name, "", scripted.Always(name, scripted.Reply(scripted.Text("I am "+name+"."))), llmagent.WithSubAgents(kids...)))
	}
	store := sessiontest.Memory(t)
	turns := newTurns(t, made("support", made("desk", made("billing"))), store)
	key := session.Key{App: "app:desk/billing", User: "ann", ID: "1"}
	b, err := turns.BeginOnce(ctx, key, llm.UserText("hello"), Request{ID: "r"})
	require.NoError(t, err)
	require.NoError(t, b.Wait(ctx))
	r, err := turns.Report(ctx, key, "")
	require.NoError(t, err)
	require.Equal(t, "I am billing.", r.Text)
	require.Equal(t, "billing", stateIs(t, turns, key, Done).Agent)
	run, err := turns.RunnerOf(key)
	require.NoError(t, err)
	again, err := turns.RunnerOf(session.Key{App: "app:desk/billing", User: "bob", ID: "2"})
	require.NoError(t, err)
	require.Same(t, run, again)
	_, err = turns.Begin(ctx, session.Key{App: "app:billing", User: "ann", ID: "1"}, llm.UserText("hello"))
	require.ErrorIs(t, err, runner.ErrNoAgent)
	must.Get(turns.Begin(ctx, session.Key{App: "apple", User: "ann", ID: "1"}, llm.UserText("hello")))

	next := must.Get(runner.New(made("support"), turns.Store()))
	require.NoError(t, turns.Swap(next, nil))
	require.Empty(t, stateIs(t, turns, key, Done).Agent, "nobody would answer")
	_, err = turns.Report(ctx, key, "")
	require.NoError(t, err)
	_, err = turns.Cancel(ctx, key)
	require.NoError(t, err)
	_, err = turns.Resume(ctx, key)
	require.ErrorIs(t, err, runner.ErrNoAgent)
}

// A user's sessions are told about when they change, here at once and elsewhere within a second.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		store := clocked(t)
		one, two := newTurns(t, a, store), newTurns(t, a, store)
		of := func(user string, i int) session.Key { return session.Key{App: "app", User: user, ID: fmt.Sprint(i)} }
		for i := range 3 * pollPage {
			require.NoError(t, must.Get(one.Begin(ctx, of("ann", i), llm.UserText("hello"))).Wait(ctx))
		}
		time.Sleep(time.Minute)
		next, stop := iter.Pull2(one.Changes(ctx, "app", "ann"))
		defer stop()
		got := make(chan session.Info, 1000)
		var failed error
		go func() {
			for {
				info, err, ok := next()
				if err != nil {
					failed = err
				}
				if !ok || err != nil {
					close(got)
					return
				}
				got <- info
			}
		}()
		synctest.Wait()
		begun := time.Now()
		x := must.Get(one.Begin(ctx, of("ann", 7), llm.UserText("think")))
		<-d.thinks
		info := <-got
		require.Equal(t, of("ann", 7), info.Key)
		require.True(t, info.Leased)
		require.Zero(t, time.Since(begun))
		d.free <- struct{}{}
		require.NoError(t, x.Wait(ctx))
		for info.Leased { // it may be seen before the lease was given back
			info = <-got
		}
		require.EqualValues(t, 10, info.Seq)
		require.Zero(t, time.Since(begun))

		require.NoError(t, must.Get(two.Begin(ctx, of("bob", 1), llm.UserText("hello"))).Wait(ctx))
		require.NoError(t, must.Get(two.Begin(ctx, of("ann", 999), llm.UserText("hello"))).Wait(ctx))
		info = <-got
		require.Equal(t, of("ann", 999), info.Key)
		require.LessOrEqual(t, time.Since(begun), 2*time.Second)

		// Somebody goes without a word, after many others were used.
		dying := &crashes{Store: store}
		three := newTurns(t, a, dying)
		_, err := three.Begin(ctx, of("ann", 8), llm.UserText("think"))
		require.NoError(t, err)
		<-d.thinks
		require.True(t, (<-got).Leased)
		dying.dead.Store(true)
		for i := range 2 * pollPage {
			time.Sleep(140 * time.Millisecond)
			require.NoError(t, must.Get(two.Begin(ctx, of("ann", 20+i), llm.UserText("hello"))).Wait(ctx))
		}
		for info = <-got; info.Key != of("ann", 8); {
			info = <-got
		}
		require.False(t, info.Leased)
		require.NoError(t, one.Close(ctx))
		for range got {
		}
		require.True(t, errors.Is(failed, ErrClosed), failed)
	})
}

// slowToEnd is a store that is slow to return when it has stored the end of a turn, which others see meanwhile.
type slowToEnd struct{ session.Store }

func (s slowToEnd) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	lease, err := s.Store.Write(ctx, key, w)
	if w.Release {
		time.Sleep(100 * time.Millisecond)
	}
	return lease, err
}

// A client that has read the end of a turn can begin the next one at once, also at a limit.
func TestNextTurnAtALimit(t *testing.T) {
	for name, opt := range map[string]Option{"of a user": WithLimit(access.NewLimit(1, 0)), "of all": WithLimit(access.NewLimit(0, 1))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, a := newDesk(t)
				store := sessiontest.Memory(t)
				followed := must.Get(tail.New(store))
				run := must.Get(runner.New(a, slowTail{slowToEnd{followed}, followed}))
				turns := must.Get(New(run, followed, opt))
				for i := range 3 {
					other := session.ID(fmt.Sprint(i))
					b, err := turns.BeginOnce(t.Context(), other, llm.UserText("hello"), Request{})
					require.NoError(t, err)
					for _, err := range turns.Watch(t.Context(), other, b.First, "") {
						require.NoError(t, err)
					}
				}
				require.NoError(t, turns.Close(context.Background()))
			})
		})
	}
}

// slowTail is a store of a runner whose tail others have.
type slowTail struct {
	slowToEnd
	session.Tail
}
