package live

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
)

// heldLoads is a store that holds reading up, if it is to.
type heldLoads struct {
	session.Store
	hold  chan chan struct{} // takes what holds the next one up
	loads atomic.Int32
}

func (s *heldLoads) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	s.loads.Add(1)
	select {
	case let := <-s.hold:
		<-let
	default:
	}
	return s.Store.Load(ctx, key, after)
}

// Nobody looks after a turn on behalf of a follower who has gone just while that was
// done.
func TestNobodyLooksForWhoHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &heldLoads{Store: sessiontest.Memory(t), hold: make(chan chan struct{}, 1)}
		d, a := newDesk(t)
		one, two := newTurns(t, a, store), newTurns(t, a, store)
		ctx := context.Background()
		must.Get(one.Begin(ctx, key, llm.UserText("think")))
		<-d.thinks

		follower, leave := context.WithCancel(ctx)
		timer := two.watch(follower, key)
		let := make(chan struct{})
		store.hold <- let
		time.Sleep(session.LeaseTTL + time.Second) // of the bubble
		synctest.Wait()
		leave() // while the watch reads
		timer.Stop()
		close(let)
		synctest.Wait()
		loads := store.loads.Load()
		time.Sleep(3 * session.LeaseTTL)
		synctest.Wait()
		require.Equal(t, loads, store.loads.Load())
		require.NoError(t, one.Close(ctx))
		require.NoError(t, two.Close(ctx))
	})
}

// noticed is a store whose followers are first told something that belongs to no turn, as by one that shows them words
// of other processes and cannot at the moment.
type noticed struct{ Store }

func (s noticed) Follow(ctx context.Context, key session.Key, after string) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		if yield(session.Entry{ID: after, Event: &event.Event{ID: "degraded", Partial: true, Data: &event.Notice{Code: "degraded"}}}, nil) {
			s.Store.Follow(ctx, key, after)(yield)
		}
	}
}

// Who watches a turn sees it to its end, whatever the store has to say besides.
func TestWatchGoesOnBehindANotice(t *testing.T) {
	_, a := newDesk(t)
	followed := must.Get(tail.New(sessiontest.Memory(t)))
	run := must.Get(runner.New(a, noticed{followed}))
	turns := must.Get(New(run, noticed{followed}))
	t.Cleanup(func() { require.NoError(t, turns.Close(context.Background())) })
	x := must.Get(turns.Begin(t.Context(), key, llm.UserText("hello")))
	require.NoError(t, x.Wait(t.Context()))
	var types []string
	for entry, err := range turns.Watch(t.Context(), key, x.First.Seq, "") {
		require.NoError(t, err)
		types = append(types, entry.Event.Type())
	}
	require.Equal(t, []string{"notice", "user", "harness_start", "text", "usage", "harness_end"}, types)
}

// A fork without events of its own stays as it is while a client follows it, and runs when a caller resumes it.
func TestFollowingAForkRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		store := clocked(t)
		turns := newTurns(t, a, store)
		turn := must.Get(turns.Begin(ctx, key, llm.UserText("think")))
		<-d.thinks
		d.free <- struct{}{}
		require.NoError(t, turn.Wait(ctx))
		fork := session.Key{App: key.App, User: key.User, ID: "fork"}
		require.NoError(t, store.Fork(ctx, key, 1, fork))

		follower, leave := context.WithCancel(ctx)
		timer := turns.watch(follower, fork)
		time.Sleep(3 * session.LeaseTTL) // of the bubble
		synctest.Wait()
		stateIs(t, turns, fork, CutOff)
		leave()
		timer.Stop()

		go func() { <-d.thinks; d.free <- struct{}{} }()
		turn, err := turns.Resume(ctx, fork)
		require.NoError(t, err)
		require.NoError(t, turn.Wait(ctx))
		stateIs(t, turns, fork, Done)
		require.NoError(t, turns.Close(ctx))
	})
}
