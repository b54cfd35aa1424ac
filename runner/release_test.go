package runner_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// leases counts what is done with the leases of a store, and what is loaded.
type leases struct {
	session.Store
	acquired, released, abandoned, together, loads int
	fails                                          error // of the next AppendRelease
}

func (s *leases) Acquire(ctx context.Context, key session.Key, owner session.Owner) (session.Lease, error) {
	s.acquired++
	return s.Store.Acquire(ctx, key, owner)
}

func (s *leases) Release(ctx context.Context, key session.Key, lease session.Lease) error {
	s.released++
	return s.Store.Release(ctx, key, lease)
}

func (s *leases) Abandon(ctx context.Context, key session.Key, lease session.Lease) error {
	s.abandoned++
	return s.Store.Abandon(ctx, key, lease)
}

func (s *leases) AppendRelease(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	s.together++
	if err := s.fails; err != nil {
		s.fails = nil
		return err
	}
	return s.Store.(session.Releaser).AppendRelease(ctx, key, seq, lease, events...)
}

func (s *leases) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	s.loads++
	return s.Store.Load(ctx, key, after)
}

// TestTheLastWriteGivesTheLeaseBack: whoever sees the end of a turn can begin the next one at
// once, and finds the session warm.
func TestTheLastWriteGivesTheLeaseBack(t *testing.T) {
	store := &leases{Store: sessiontest.Memory(t)}
	r := newRunner(t, says(t, "a", "A."), store)
	_, err := collect(r.Run(t.Context(), s1, llm.UserText("One")))
	require.NoError(t, err)
	require.Equal(t, leases{Store: store.Store, acquired: 1, together: 1, loads: store.loads}, *store)
	loads := store.loads
	for e, err := range r.Run(t.Context(), s1, llm.UserText("Two")) {
		require.NoError(t, err)
		_, early := collect(r.Run(t.Context(), s1, llm.UserText("Three")))
		switch e.Type() {
		case event.TypeUser, event.TypeHarnessStart:
			require.ErrorIs(t, early, agent.ErrSessionBusy)
		default: // of the last write
			require.NoError(t, early)
		}
	}
	require.Equal(t, loads, store.loads)
	require.Zero(t, store.released)
	checkLog(t, r, load(t, r, s1))
}

// TestTheLastWriteFails: nothing is stored, and the lease ends by itself, for whoever can store more.
func TestTheLastWriteFails(t *testing.T) {
	store := &leases{Store: sessiontest.Memory(t), fails: errors.New("the disk is full")}
	r := newRunner(t, says(t, "a", "A."), store)
	events, err := collect(r.Run(t.Context(), s1, llm.UserText("One")))
	require.ErrorContains(t, err, "nothing was stored: the disk is full")
	require.Len(t, events, 2)
	require.Zero(t, store.released)
	require.Equal(t, 1, store.abandoned)
	events, err = collect(r.Resume(t.Context(), s1))
	require.NoError(t, err)
	require.Len(t, events, 3)
	checkLog(t, r, load(t, r, s1))
}
