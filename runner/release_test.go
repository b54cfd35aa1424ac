package runner_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// leases counts what is done with the leases of a store, and what is loaded.
type leases struct {
	session.Store
	acquired, released, abandoned, together, loads int
	begun                                          int   // leases that were taken with events
	fails                                          error // of the next write that stores events and gives the lease back
	refuses                                        error // of the next write that takes a lease with events
}

func (s *leases) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	var fails *error
	switch stores := len(w.Events) > 0; {
	case w.Acquires() && stores:
		fails = &s.refuses
	case w.Acquires():
		s.acquired++
	case w.Release && stores:
		s.together++
		fails = &s.fails
	case w.Release:
		s.released++
	case w.Abandon:
		s.abandoned++
	}
	if fails != nil && *fails != nil {
		err := *fails
		*fails = nil
		return session.Lease{}, err
	}
	lease, err := s.Store.Write(ctx, key, w)
	if fails == &s.refuses && err == nil {
		s.begun++
	}
	return lease, err
}

func (s *leases) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	s.loads++
	return s.Store.Load(ctx, key, after)
}

// TestTheLastWriteGivesTheLeaseBack: a client that sees the end of a turn, even of one that failed, can begin the next one at
// once, and finds the session warm.
func TestTheLastWriteGivesTheLeaseBack(t *testing.T) {
	broken := errors.New("broken")
	for fails, root := range map[error]agent.Agent{
		nil:    says(t, "a", "A."),
		broken: must.Get(llmagent.New("a", "", scripted.Always("a", scripted.Reply(scripted.Fail(broken))))),
	} {
		store := &leases{Store: sessiontest.Memory(t)}
		r := newRunner(t, root, store)
		_, err := collect(r.Run(t.Context(), s1, llm.UserText("One")))
		require.ErrorIs(t, err, fails)
		require.Equal(t, leases{Store: store.Store, acquired: 1, together: 1, loads: store.loads}, *store)
		loads := store.loads
		for e, err := range r.Run(t.Context(), s1, llm.UserText("Two")) {
			if err != nil {
				require.ErrorIs(t, err, fails)
				break
			}
			_, early := collect(r.Run(t.Context(), s1, llm.UserText("Three")))
			switch e.Type() {
			case event.TypeUser, event.TypeHarnessStart:
				require.ErrorIs(t, early, agent.ErrSessionBusy)
			default: // of the last write
				require.ErrorIs(t, early, fails)
			}
		}
		require.Equal(t, loads, store.loads)
		require.Zero(t, store.released)
	}
}

// renewals counts how often leases are renewed.
type renewals struct {
	session.Store
	n atomic.Int64
}

func (s *renewals) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if !w.Acquires() && !w.Ends() && !w.Stores() {
		s.n.Add(1)
	}
	return s.Store.Write(ctx, key, w)
}

// TestALeaseThatIsBackIsNotRenewed, however long the consumer looks at the last events of the turn.
func TestALeaseThatIsBackIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &renewals{Store: sessiontest.Memory(t)}
		r := newRunner(t, says(t, "a", "A."), store)
		for e, err := range r.Run(t.Context(), s1, llm.UserText("Hi")) {
			require.NoError(t, err)
			if e.Type() == event.TypeUser {
				time.Sleep(session.LeaseTTL)
				synctest.Wait()
				require.NotZero(t, store.n.Load())
				continue
			}
			if e.Type() == event.TypeHarnessStart {
				store.n.Store(0)
				continue
			}
			time.Sleep(session.LeaseTTL)
			synctest.Wait()
			require.Zero(t, store.n.Load())
		}
	})
}

// TestTheFirstWriteTakesTheLease: a turn of a session that is known begins with one write, and if the
// session is not as it was known, as if nothing had been tried.
func TestTheFirstWriteTakesTheLease(t *testing.T) {
	shared := sessiontest.Memory(t)
	store := &leases{Store: shared}
	r := newRunner(t, says(t, "a", "A."), store)
	elsewhere := newRunner(t, says(t, "a", "B."), shared)
	say := func(r *runner.Runner, key session.Key, opts ...runner.TurnOption) []*event.Event {
		t.Helper()
		events := finish(t, r.Run(t.Context(), key, llm.UserText("Hi"), opts...))
		return events
	}
	counts := func(acquired, begun int) {
		t.Helper()
		require.Equal(t, []int{acquired, begun}, []int{store.acquired, store.begun})
	}
	say(r, s1)
	counts(1, 0)
	last := say(r, s1)
	counts(1, 1)
	at := last[len(last)-1].Seq

	require.NotEmpty(t, say(r, s1, runner.At(at), runner.WithTurnID("t3", 1), runner.WithState(map[string]any{"user:tone": "warm"})))
	counts(1, 2)
	require.Empty(t, say(r, s1, runner.WithTurnID("t3", 2)), "it is over")
	counts(2, 2)
	_, err := collect(r.Run(t.Context(), s1, llm.UserText("Hi"), runner.At(at)))
	require.ErrorIs(t, err, agent.ErrConflict)
	require.Equal(t, "t3", load(t, r, s1)[len(load(t, r, s1))-1].TurnID)
	_, err = collect(r.Run(t.Context(), s1, llm.UserText("Hi"), runner.CallHuman("")))
	require.ErrorIs(t, err, agent.ErrBadInput, "there is no desk")
	counts(4, 2)
	require.Equal(t, 0, store.abandoned)

	last = say(elsewhere, s1)
	say(r, s1, runner.At(last[len(last)-1].Seq))
	counts(5, 2)
	say(r, s1)
	counts(5, 3)
	require.NoError(t, shared.Delete(t.Context(), s1))
	for range 6 { // as long as before
		say(elsewhere, s1)
	}
	require.Len(t, say(r, s1), 5)
	counts(6, 3)

	store.refuses = errors.New("the disk is full")
	_, err = collect(r.Run(t.Context(), s1, llm.UserText("Hi")))
	require.EqualError(t, err, "nothing was stored: the disk is full")
	counts(6, 3)
	say(r, s1)
	counts(6, 4)

	lease := must.Get(sessiontest.Acquire(t.Context(), shared, s1, session.Self()))
	_, err = collect(r.Run(t.Context(), s1, llm.UserText("Hi")))
	require.ErrorIs(t, err, agent.ErrSessionBusy)
	require.NoError(t, sessiontest.Release(t.Context(), shared, s1, lease))
	say(r, s1)
	counts(7, 5)

	fork := session.ID("fork")
	require.NoError(t, shared.Fork(t.Context(), s1, 4, fork))
	say(r, fork)
	say(r, fork)
	counts(9, 5)
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
	events = finish(t, r.Resume(t.Context(), s1))
	require.Len(t, events, 3)
}
