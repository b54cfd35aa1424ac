package a2aserver

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// heldLoads is a store that holds reading up, if it is to.
type heldLoads struct {
	session.Store
	hold  chan chan struct{} // takes what holds the next one up
	loads int
}

func (s *heldLoads) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	s.loads++
	select {
	case let := <-s.hold:
		<-let
	default:
	}
	return s.Store.Load(ctx, key, after)
}

// Nobody looks after a task on behalf of a follower who has gone just while that was
// done.
func TestNobodyLooksForWhoHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &heldLoads{Store: sessiontest.Memory(t), hold: make(chan chan struct{}, 1)}
		b, slow := newBlocked(t)
		one, err := New(slow, store)
		require.NoError(t, err)
		ctx := context.Background()
		task := sendAtOnce(t, one.RequestHandler(), ctx, userMessage("m1", "think"))
		<-b.begun
		two, err := New(slow, store)
		require.NoError(t, err)
		tree := two.trees[""]
		f, err := tree.find(ctx, task.ID, false)
		require.NoError(t, err)

		follower, leave := context.WithCancel(ctx)
		stop := tree.watch(follower, f)
		let := make(chan struct{})
		store.hold <- let
		time.Sleep(session.LeaseTTL + time.Second) // of the bubble
		synctest.Wait()
		stop() // while the watch reads
		close(let)
		synctest.Wait()
		leave()
		loads := store.loads
		time.Sleep(3 * session.LeaseTTL)
		synctest.Wait()
		require.Equal(t, loads, store.loads)
		require.NoError(t, one.Close(ctx))
		require.NoError(t, two.Close(ctx))
	})
}
