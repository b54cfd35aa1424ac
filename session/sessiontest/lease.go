package sessiontest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// releaser returns the store as one that can give a lease back while it stores, or skips the
// test.
func (f *fixture) releaser() session.Releaser {
	f.Helper()
	r := session.ReleaserOf(f.store)
	if r == nil {
		f.Skip("the store gives leases back by themselves")
	}
	return r
}

// acquirer returns the store as one that can take a lease while it stores, or skips the test.
func (f *fixture) acquirer() session.Acquirer {
	f.Helper()
	a := session.AcquirerOf(f.store)
	if a == nil {
		f.Skip("the store takes leases by themselves")
	}
	return a
}

var leaseTests = []test{
	{"one holder at a time", func(f *fixture) {
		lease := f.acquire(f.key)
		f.busy(f.key)
		f.append(f.key, 0, lease, text("a"))
		f.busy(f.key)
		f.release(f.key, lease)
		second := f.acquire(f.key)
		require.Greater(f, second.Token, lease.Token)
		require.EqualValues(f, 1, second.Seq)
		f.busy(f.key)
	}},
	{"sessions have leases of their own", func(f *fixture) {
		f.acquire(f.key)
		f.acquire(session.Key{App: f.app, User: f.key.User, ID: "s2"})
		f.acquire(session.Key{App: f.app, User: "bob", ID: f.key.ID})
		f.acquire(session.Key{App: "other-" + f.app, User: f.key.User, ID: f.key.ID})
		f.busy(f.key)
	}},
	{"a writer without the lease stores nothing", func(f *fixture) {
		f.refused(f.key, 0, session.Lease{})
		f.refused(f.key, 0, session.Lease{Token: 1})
		f.write(f.key, text("a"))
		f.refused(f.key, 1, session.Lease{})
		lease := f.acquire(f.key)
		for _, token := range []int64{0, -1, -lease.Token, lease.Token - 1, lease.Token + 1, lease.Token << 32} {
			f.refused(f.key, 1, session.Lease{Token: token, Seq: 1})
		}
		f.append(f.key, 1, lease, text("b"))
	}},
	{"a session made anew is another incarnation", func(f *fixture) {
		first := f.acquire(f.key)
		f.append(f.key, 0, first, text("a"))
		f.release(f.key, first)
		second := f.acquire(f.key)
		require.Equal(f, first.Incarnation, second.Incarnation)
		f.release(f.key, second)
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		third := f.acquire(f.key)
		require.NotEqual(f, first.Incarnation, third.Incarnation)
		require.Zero(f, third.Seq)
	}},
	{"another session's lease is worth nothing", func(f *fixture) {
		other := session.Key{App: f.app, User: f.key.User, ID: "s2"}
		lease, theirs := f.acquire(f.key), f.acquire(other)
		f.refused(f.key, 0, theirs)
		f.refused(other, 0, lease)
		require.ErrorIs(f, f.store.Renew(f.Context(), f.key, theirs), agent.ErrConflict)
		require.NoError(f, f.store.Release(f.Context(), f.key, theirs))
		f.busy(f.key)
		f.append(f.key, 0, lease, text("a"))
		f.append(other, 0, theirs, text("b"))
	}},
	{"a released lease is lost", func(f *fixture) {
		lease := f.acquire(f.key)
		seq := f.append(f.key, 0, lease, text("a"))
		f.release(f.key, lease)
		f.refused(f.key, seq, lease)
		require.ErrorIs(f, f.store.Renew(f.Context(), f.key, lease), agent.ErrConflict)
		next := f.acquire(f.key)
		f.refused(f.key, seq, lease)
		f.release(f.key, lease) // the old one again: nothing happens
		f.busy(f.key)
		f.append(f.key, seq, next, text("b"))
	}},
	{"releasing what is not held does nothing", func(f *fixture) {
		f.release(f.key, session.Lease{})
		f.release(f.key, session.Lease{Token: 7})
		lease := f.acquire(f.key)
		f.release(f.key, session.Lease{})
		f.release(f.key, session.Lease{Token: lease.Token + 1})
		f.busy(f.key)
		f.release(f.key, lease)
		f.release(f.key, lease)
		f.acquire(f.key)
	}},
	{"a lease is taken with the first events", func(f *fixture) {
		acquirer := f.acquirer()
		first := f.acquire(f.key)
		f.append(f.key, 0, first, text("a"))
		f.release(f.key, first)
		second, err := acquirer.AcquireAppend(f.Context(), f.key, session.Self(), session.Lease{Seq: 1, Incarnation: first.Incarnation},
			events(1, text("b"), &event.State{Delta: map[string]any{"user:tone": "warm"}})...)
		require.NoError(f, err)
		require.Equal(f, session.Lease{Token: second.Token, Seq: 1, Incarnation: first.Incarnation}, second)
		require.Greater(f, second.Token, first.Token)
		f.busy(f.key)
		f.refused(f.key, 3, first)
		require.NoError(f, f.store.Renew(f.Context(), f.key, second))
		f.append(f.key, 3, second, text("c"))
		f.release(f.key, second)
		third := f.acquire(f.key)
		require.Greater(f, third.Token, second.Token)
		require.EqualValues(f, 4, third.Seq)
		require.Len(f, f.load(f.key, 0), 4)
		state, err := f.store.SharedState(f.Context(), f.key)
		require.NoError(f, err)
		require.Equal(f, map[string]any{"user:tone": "warm"}, state)
	}},
	{"a lease that was taken with events and not given back makes an orphan", func(f *fixture) {
		acquirer := f.acquirer()
		first := f.acquire(f.key)
		f.append(f.key, 0, first, text("a"))
		f.release(f.key, first)
		lease, err := acquirer.AcquireAppend(f.Context(), f.key, session.Self(), session.Lease{Seq: 1, Incarnation: first.Incarnation}, events(1, text("b"))...)
		require.NoError(f, err)
		f.orphaned()
		f.abandon(f.key, lease)
		f.orphaned(f.key.ID)
		_, err = acquirer.AcquireAppend(f.Context(), f.key, session.Self(), session.Lease{Seq: 2, Incarnation: first.Incarnation}, events(2, text("c"))...)
		require.ErrorIs(f, err, agent.ErrConflict, "its last lease was not given back")
		f.orphaned(f.key.ID)
	}},
	{"a session that is not as expected gives no lease and stores nothing", func(f *fixture) {
		acquirer := f.acquirer()
		refused := func(key session.Key, expected session.Lease) {
			f.Helper()
			_, err := acquirer.AcquireAppend(f.Context(), key, session.Self(), expected, events(expected.Seq, text("x"))...)
			require.ErrorIs(f, err, agent.ErrConflict)
		}
		refused(f.key, session.Lease{})
		require.Empty(f, f.load(f.key, 0))
		first := f.acquire(f.key)
		f.append(f.key, 0, first, text("a"), text("b"))
		refused(f.key, session.Lease{Seq: 2, Incarnation: first.Incarnation}) // it is held
		f.release(f.key, first)
		other := session.Key{App: f.app, User: f.key.User, ID: "other"}
		refused(other, session.Lease{Seq: 2, Incarnation: first.Incarnation})
		for _, seq := range []int64{0, 1, 3} {
			refused(f.key, session.Lease{Seq: seq, Incarnation: first.Incarnation})
		}
		for _, incarnation := range []int64{0, -1, first.Incarnation + 1} {
			refused(f.key, session.Lease{Seq: 2, Incarnation: incarnation})
		}
		_, err := acquirer.AcquireAppend(f.Context(), f.key, session.Self(), session.Lease{Seq: 2, Incarnation: first.Incarnation})
		require.ErrorIs(f, err, agent.ErrConflict, "without events there is nothing to take it with")
		ended, cancel := context.WithCancel(f.Context())
		cancel()
		_, err = acquirer.AcquireAppend(ended, f.key, session.Self(), session.Lease{Seq: 2, Incarnation: first.Incarnation}, events(2, text("x"))...)
		require.ErrorIs(f, err, context.Canceled)
		require.NoError(f, f.store.Fork(f.Context(), f.key, 2, other))
		fork := f.acquire(other)
		f.release(other, fork)
		refused(other, session.Lease{Seq: 2, Incarnation: fork.Incarnation})
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		refused(f.key, session.Lease{Seq: 2, Incarnation: first.Incarnation})
		f.write(f.key, text("c"), text("d"))
		refused(f.key, session.Lease{Seq: 2, Incarnation: first.Incarnation})
		require.Len(f, f.load(f.key, 0), 2)
		require.EqualValues(f, 2, f.acquire(f.key).Seq, "nobody holds it")
	}},
	{"one of many who take a lease with events gets it", func(f *fixture) {
		acquirer := f.acquirer()
		first := f.acquire(f.key)
		f.append(f.key, 0, first, text("a"))
		f.release(f.key, first)
		var wg sync.WaitGroup
		var got atomic.Int64
		for range 8 {
			wg.Go(func() {
				if _, err := acquirer.AcquireAppend(f.Context(), f.key, session.Self(), session.Lease{Seq: 1, Incarnation: first.Incarnation}, events(1, text("b"))...); err == nil {
					got.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(f, 1, got.Load())
		require.Len(f, f.load(f.key, 0), 2)
	}},
	{"a lease is given back with the last events", func(f *fixture) {
		releaser := f.releaser()
		first := f.acquire(f.key)
		require.NoError(f, releaser.AppendRelease(f.Context(), f.key, 0, first, events(0, text("a"), text("b"))...))
		f.refused(f.key, 2, first)
		require.ErrorIs(f, f.store.Renew(f.Context(), f.key, first), agent.ErrConflict)
		second := f.acquire(f.key)
		require.Greater(f, second.Token, first.Token)
		require.EqualValues(f, 2, second.Seq)
		require.Equal(f, first.Incarnation, second.Incarnation)
		f.release(f.key, first) // the old one again: nothing happens
		f.busy(f.key)
		f.append(f.key, 2, second, text("c"))
		f.release(f.key, second)
		require.Len(f, f.load(f.key, 0), 3)
	}},
	{"what cannot be stored gives no lease back", func(f *fixture) {
		releaser := f.releaser()
		lease := f.acquire(f.key)
		f.append(f.key, 0, lease, text("a"))
		for _, seq := range []int64{0, 2} {
			require.ErrorIs(f, releaser.AppendRelease(f.Context(), f.key, seq, lease, events(seq, text("b"))...), agent.ErrConflict)
		}
		require.ErrorIs(f, releaser.AppendRelease(f.Context(), f.key, 1, session.Lease{Token: lease.Token + 1}, events(1, text("b"))...), agent.ErrConflict)
		require.NoError(f, releaser.AppendRelease(f.Context(), f.key, 1, session.Lease{Token: lease.Token + 1}))
		ended, cancel := context.WithCancel(f.Context())
		cancel()
		require.ErrorIs(f, releaser.AppendRelease(ended, f.key, 1, lease, events(1, text("b"))...), context.Canceled)
		f.busy(f.key)
		f.append(f.key, 1, lease, text("b"))
		require.NoError(f, releaser.AppendRelease(f.Context(), f.key, 2, lease), "without events it is Release alone")
		f.release(f.key, f.acquire(f.key))
		require.Len(f, f.load(f.key, 0), 2)
	}},
	{"the state that comes with the end of a lease is there", func(f *fixture) {
		releaser := f.releaser()
		lease := f.acquire(f.key)
		require.NoError(f, releaser.AppendRelease(f.Context(), f.key, 0, lease, events(0, &event.State{Delta: map[string]any{"user:tone": "warm"}})...))
		state, err := f.store.SharedState(f.Context(), f.key)
		require.NoError(f, err)
		require.Equal(f, map[string]any{"user:tone": "warm"}, state)
	}},
	{"renewing what is not held is a conflict", func(f *fixture) {
		require.ErrorIs(f, f.store.Renew(f.Context(), f.key, session.Lease{Token: 1}), agent.ErrConflict)
		lease := f.acquire(f.key)
		require.ErrorIs(f, f.store.Renew(f.Context(), f.key, session.Lease{Token: lease.Token + 1}), agent.ErrConflict)
		require.ErrorIs(f, f.store.Renew(f.Context(), f.key, session.Lease{}), agent.ErrConflict)
		require.NoError(f, f.store.Renew(f.Context(), f.key, lease))
	}},
	{"a lease ends by the store's clock", func(f *fixture) {
		f.pass(time.Second)
		lease := f.acquire(f.key)
		f.pass(session.LeaseTTL - time.Millisecond)
		f.busy(f.key)
		f.pass(time.Millisecond)
		require.Greater(f, f.acquire(f.key).Token, lease.Token)
	}},
	{"a clock that was set back keeps nobody out for longer than a lease lasts", func(f *fixture) {
		leased := f.another("leased")
		f.write(f.key, text("a"))
		ahead := f.acquire(f.key)
		f.acquire(leased)
		f.pass(-time.Hour)
		defer f.pass(time.Hour) // other tests share the clock
		lease := f.acquire(f.key)
		require.Greater(f, lease.Token, ahead.Token)
		f.refused(f.key, 1, ahead)
		require.ErrorIs(f, f.store.Renew(f.Context(), f.key, ahead), agent.ErrConflict)
		f.append(f.key, 1, lease, text("b"))
		f.busy(f.key)
		require.NoError(f, f.store.Fork(f.Context(), f.key, 1, leased), "nobody holds it any more")
	}},
	{"who renews after the clock was set back keeps the lease", func(f *fixture) {
		lease := f.acquire(f.key)
		f.pass(-time.Hour)
		defer f.pass(time.Hour)
		require.NoError(f, f.store.Renew(f.Context(), f.key, lease))
		f.busy(f.key)
		f.append(f.key, 0, lease, text("a"))
	}},
	{"renewing prolongs, appending does not", func(f *fixture) {
		lease := f.acquire(f.key)
		f.pass(session.LeaseTTL - time.Second)
		require.NoError(f, f.store.Renew(f.Context(), f.key, lease))
		f.pass(session.LeaseTTL - time.Second)
		f.busy(f.key)
		f.append(f.key, 0, lease, text("a"))
		f.pass(time.Second)
		f.acquire(f.key)
		f.refused(f.key, 1, lease)
	}},
	{"an expired lease that nobody took is still the current one", func(f *fixture) {
		lease := f.acquire(f.key)
		f.pass(10 * session.LeaseTTL)
		f.append(f.key, 0, lease, text("a"))
		require.NoError(f, f.store.Renew(f.Context(), f.key, lease))
		f.busy(f.key)
	}},
	{"a stale writer is fenced off", func(f *fixture) {
		stale := f.acquire(f.key)
		seq := f.append(f.key, 0, stale, text("a"), state("user:x", 1))
		f.pass(session.LeaseTTL)
		owner := f.acquire(f.key)
		require.Greater(f, owner.Token, stale.Token)
		require.Equal(f, seq, owner.Seq)

		f.refused(f.key, seq, stale)
		require.ErrorIs(f, f.store.Append(f.Context(), f.key, seq, stale, entry(seq+1, state("user:x", 2))), agent.ErrConflict)
		require.ErrorIs(f, f.store.Renew(f.Context(), f.key, stale), agent.ErrConflict)
		f.release(f.key, stale)
		f.busy(f.key)
		seq = f.append(f.key, seq, owner, text("b"))
		f.refused(f.key, seq, stale)

		f.release(f.key, owner)
		f.refused(f.key, seq, stale)
		f.pass(10 * session.LeaseTTL)
		f.refused(f.key, seq, stale)
		shared, err := f.store.SharedState(f.Context(), f.key)
		require.NoError(f, err)
		require.EqualValues(f, 1, shared["user:x"])
	}},
	{"a writer is fenced off from a session made anew", func(f *fixture) {
		stale := f.acquire(f.key)
		f.append(f.key, 0, stale, text("a"))
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		f.refused(f.key, 0, stale)
		f.refused(f.key, 1, stale)
		require.ErrorIs(f, f.store.Renew(f.Context(), f.key, stale), agent.ErrConflict)
		for range 3 { // as many leases as the stale writer had, and more
			lease := f.acquire(f.key)
			require.Zero(f, lease.Seq)
			require.Greater(f, lease.Token, stale.Token)
			f.refused(f.key, 0, stale)
			f.release(f.key, stale)
			f.busy(f.key)
			f.release(f.key, lease)
		}
	}},
	{"one of many acquires wins", func(f *fixture) {
		for range 5 {
			var wins, busy atomic.Int64
			var lease session.Lease
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					l, err := f.store.Acquire(f.Context(), f.key, session.Self())
					if err == nil {
						wins.Add(1)
						lease = l
					} else if isBusy(err) {
						busy.Add(1)
					} else {
						f.Error(err)
					}
				})
			}
			wg.Wait()
			require.EqualValues(f, 1, wins.Load())
			require.EqualValues(f, 15, busy.Load())
			f.release(f.key, lease)
		}
	}},
	{"a dead owner is replaced at once", func(f *fixture) {
		if !f.deadOwners {
			f.Skip("needs the option WithDeadOwners")
		}
		me := session.Self()
		dead := session.Owner{Host: me.Host, PID: 1 << 30, Started: 1} // above every system's highest PID
		if session.Alive(dead) {
			f.Skip("this system does not tell whether a process is alive")
		}
		var last session.Lease
		for range 3 {
			lease, err := f.store.Acquire(f.Context(), f.key, dead)
			require.NoError(f, err)
			require.Greater(f, lease.Token, last.Token)
			f.append(f.key, lease.Seq, lease, text("a"))
			if last.Token != 0 {
				f.refused(f.key, lease.Seq+1, last)
			}
			last = lease
		}
		f.acquire(f.key)
		f.busy(f.key)

		elsewhere := session.Key{App: f.app, User: "ann", ID: "elsewhere"}
		_, err := f.store.Acquire(f.Context(), elsewhere, session.Owner{Host: "not-" + me.Host, PID: dead.PID, Started: 1})
		require.NoError(f, err)
		f.busy(elsewhere)
		f.pass(session.LeaseTTL)
		f.acquire(elsewhere)
	}},
}
