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
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
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
		_, err := one.Begin(ctx, key, llm.UserText("think"))
		require.NoError(t, err)
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
