package sharded_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sharded"
)

// again is write for who knows a session: the lease is taken with the first event if the session is as it was known, and given back
// with the last ones. It reports whether it was so, and what is known then.
func again(ctx context.Context, s *sharded.Store, key session.Key, known session.Lease, data ...event.Data) (bool, session.Lease, error) {
	lease, err := s.AcquireAppend(ctx, key, session.Self(), known, batch(known.Seq, data[0])...)
	foreseen := err == nil
	if errors.Is(err, agent.ErrConflict) {
		if lease, err = s.Acquire(ctx, key, session.Self()); err == nil {
			err = s.Append(ctx, key, lease.Seq, lease, batch(lease.Seq, data[0])...)
		}
	}
	if err != nil {
		return foreseen, known, err
	}
	err = s.AppendRelease(ctx, key, lease.Seq+1, lease, batch(lease.Seq+1, data[1:]...)...)
	return foreseen, session.Lease{Seq: lease.Seq + int64(len(data)), Incarnation: lease.Incarnation}, err
}

// TestTheFirstWriteFindsTheShard: while sessions move, a lease is taken with the first events where the session is, and nowhere
// if it has moved since it was known.
func TestTheFirstWriteFindsTheShard(t *testing.T) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			const users = 12
			stores := open(t)
			growing := layout{now: "abc", former: "ab"}.over(t, stores)
			known := make([]session.Lease, users)
			for i := range users {
				require.NoError(t, write(t.Context(), layout{now: "ab"}.over(t, stores), user(i, "s1"), say("a"), set("app:last", "old")))
				_, lease, err := again(t.Context(), growing, user(i, "s1"), session.Lease{}, say("b"), say("c"))
				require.NoError(t, err)
				foreseen, lease, err := again(t.Context(), growing, user(i, "s1"), lease, say("d"), set("user:name", fmt.Sprint(i)))
				require.NoError(t, err)
				require.True(t, foreseen)
				require.EqualValues(t, 6, lease.Seq)
				known[i] = lease
			}
			before := where(t, stores)
			report, err := growing.Rebalance(t.Context())
			require.NoError(t, err)
			require.Zero(t, report.Left)
			after, moved := where(t, stores), 0
			for i := range users {
				key := user(i, "s1")
				if after[key] != before[key] {
					moved++
				}
				foreseen, lease, err := again(t.Context(), growing, key, known[i], say("e"), set("app:last", "new"))
				require.NoError(t, err)
				require.Equal(t, after[key] == before[key], foreseen)
				foreseen, _, err = again(t.Context(), growing, key, lease, say("f"), say("g"))
				require.NoError(t, err)
				require.True(t, foreseen)
				state, err := growing.SharedState(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, map[string]any{"user:name": fmt.Sprint(i), "app:last": "new"}, state)
			}
			require.NotZero(t, moved)
			require.Equal(t, after, where(t, stores))
		})
	}
}

// TestTheFirstWriteIsRefused where a lease by itself would be, and where the session could be on either of two shards.
func TestTheFirstWriteIsRefused(t *testing.T) {
	stores := kinds["memory"](t)
	s := layout{now: "ab", former: "c"}.over(t, stores)
	key := user(0, "s1")
	lease, err := s.Acquire(t.Context(), key, session.Self())
	require.NoError(t, err)
	require.NoError(t, s.Release(t.Context(), key, lease))
	refused := func(key session.Key, known session.Lease, want error) {
		t.Helper()
		_, err := s.AcquireAppend(t.Context(), key, session.Self(), known, batch(known.Seq, say("x"))...)
		require.ErrorIs(t, err, want)
	}
	refused(key, session.Lease{Incarnation: lease.Incarnation}, agent.ErrConflict)
	refused(session.Key{App: sharded.App, User: "notes", ID: "to "}, session.Lease{Seq: 1}, agent.ErrBadInput)
	require.NoError(t, write(t.Context(), s, key, say("a")))
	require.NoError(t, s.Fork(t.Context(), key, 1, user(1, "stray")))
	fork, err := s.Acquire(t.Context(), user(1, "stray"), session.Self())
	require.NoError(t, err)
	require.NoError(t, s.Release(t.Context(), user(1, "stray"), fork))
	refused(user(1, "stray"), session.Lease{Seq: 1, Incarnation: fork.Incarnation}, agent.ErrConflict)
}

// deaf is a store that makes no forks, and so no notes, if it is told so.
type deaf struct {
	session.Wrapped
	now *bool
}

func (d deaf) Fork(ctx context.Context, of session.Key, seq int64, to session.Key, events ...*event.Event) error {
	if *d.now {
		return errors.New("not now")
	}
	return d.Wrapped.Fork(ctx, of, seq, to, events...)
}

// TestTheFirstWriteWithoutItsState: if the state of an app cannot be written on its shard, the events are there, and the session is
// an orphan for whoever goes on with it.
func TestTheFirstWriteWithoutItsState(t *testing.T) {
	var now bool
	var stores []session.Store
	for range 3 {
		stores = append(stores, deaf{session.Wrapped{Store: session.NewMemory()}, &now})
	}
	s := layout{now: "abc"}.over(t, stores)
	elsewhere := 0
	for i := range 6 {
		key := user(i, "s1")
		_, known, err := again(t.Context(), s, key, session.Lease{}, say("a"), set("app:n", 1.0))
		require.NoError(t, err)
		now = true
		_, err = s.AcquireAppend(t.Context(), key, session.Self(), known, batch(2, set("app:n", 2.0))...)
		now = false
		if err == nil { // the user's shard is the app's, too
			continue
		}
		elsewhere++
		require.ErrorContains(t, err, "its events are stored, what they change in the state of shop is not: shard")
		orphans, err := s.Orphans(t.Context(), session.Page{})
		require.NoError(t, err)
		require.Len(t, orphans, 1)
		lease, err := s.Acquire(t.Context(), key, session.Self())
		require.NoError(t, err)
		require.EqualValues(t, 3, lease.Seq)
		require.NoError(t, s.Release(t.Context(), key, lease))
	}
	require.NotZero(t, elsewhere)
}
