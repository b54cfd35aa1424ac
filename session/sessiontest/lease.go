package sessiontest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

var leaseTests = []test{
	{"one holder at a time", func(f *fixture) {
		lease := f.acquire(f.key)
		f.busy(f.key)
		f.append(f.key, 0, lease, text("a"))
		f.busy(f.key)
		f.release(f.key, lease)
		second := f.acquire(f.key)
		require.Greater(f, second.Token, lease.Token)
		require.EqualValues(f, 1, second.Head.Seq)
		f.busy(f.key)
	}},
	{"sessions have leases of their own", func(f *fixture) {
		f.acquire(f.key)
		f.acquire(session.Key{App: f.app, User: f.key.User, ID: "s2"})
		f.acquire(session.Key{App: f.app, User: "bob", ID: f.key.ID})
		f.acquire(session.Key{App: "other-" + f.app, User: f.key.User, ID: f.key.ID})
		f.busy(f.key)
	}},
	{"a lease that is not the session's is worth nothing", func(f *fixture) {
		f.worthless(f.key, session.Lease{})
		f.worthless(f.key, session.Lease{Token: 1})
		f.write(f.key, text("a"))
		f.worthless(f.key, session.Lease{})
		other := f.another("s2")
		lease, theirs := f.acquire(f.key), f.acquire(other)
		f.worthless(f.key, theirs)
		f.worthless(other, lease)
		f.worthless(f.key, session.Lease{Token: lease.Token, Nonce: lease.Nonce + 1})
		for _, token := range []int64{0, -1, -lease.Token, lease.Token - 1, lease.Token + 1, lease.Token << 32} {
			f.worthless(f.key, session.Lease{Token: token, Nonce: lease.Nonce})
		}
		f.busy(f.key)
		f.append(f.key, 1, lease, text("b"))
		f.append(other, 0, theirs, text("c"))
	}},
	{"a lease that is over is worth nothing", func(f *fixture) {
		for name, end := range map[string]func(session.Key, session.Lease){
			"released":  f.release,
			"abandoned": f.abandon,
			"finished": func(key session.Key, lease session.Lease) {
				require.NoError(f, Finish(f.Context(), f.store, key, 2, lease, events(2, state("user:x", "finished"))...))
			},
			"deleted": func(key session.Key, _ session.Lease) { require.NoError(f, f.store.Delete(f.Context(), key)) },
			"expired": func(session.Key, session.Lease) { f.advance(session.LeaseTTL) },
		} {
			if name == "expired" && f.advance == nil {
				continue
			}
			key := f.another(name)
			stale := f.acquire(key)
			f.append(key, 0, stale, text("a"), state("user:x", "open"))
			end(key, stale)
			if name != "expired" { // a lease that expired is the current one until another is taken
				f.worthless(key, stale)
			}
			next := f.acquire(key)
			require.Equal(f, name == "deleted", next.Incarnation != stale.Incarnation)
			require.True(f, name == "deleted" || next.Token > stale.Token)
			require.NotEqual(f, stale.Nonce, next.Nonce)
			require.EqualValues(f, len(f.load(key, 0)), next.Head.Seq)
			f.worthless(key, stale)
			f.busy(key)
			f.append(key, next.Head.Seq, next, text("c"))
			f.worthless(key, stale)
			f.release(key, next)
			f.worthless(key, stale)
			f.shared(key, map[bool]string{true: `{"user:x":"finished"}`, false: `{"user:x":"open"}`}[name == "finished"])
		}
	}},
	{"a lease is taken with the first events", func(f *fixture) {
		first := f.acquire(f.key)
		f.append(f.key, 0, first, text("a"))
		f.release(f.key, first)
		second, err := Begin(f.Context(), f.store, f.key, 1, events(1, text("b"), &event.State{Delta: map[string]any{"user:tone": "warm"}})...)
		require.NoError(f, err)
		require.Equal(f, session.Lease{Token: second.Token, Nonce: second.Nonce, Head: session.HeadOf(f.load(f.key, 2)[0]), Incarnation: first.Incarnation}, second)
		require.Greater(f, second.Token, first.Token)
		f.busy(f.key)
		f.refused(f.key, 3, first)
		require.NoError(f, Renew(f.Context(), f.store, f.key, second))
		f.append(f.key, 3, second, text("c"))
		f.release(f.key, second)
		third := f.acquire(f.key)
		require.Greater(f, third.Token, second.Token)
		require.EqualValues(f, 4, third.Head.Seq)
		require.Len(f, f.load(f.key, 0), 4)
		f.shared(f.key, `{"user:tone":"warm"}`)
	}},
	{"a turn is one write if it can be", func(f *fixture) {
		_, err := f.store.Write(f.Context(), f.key, session.Write{Acquire: session.Self(), Events: events(0, text("a"), text("b")), Release: true})
		require.NoError(f, err)
		require.Equal(f, []string{"a", "b"}, f.contents(f.key))
		f.orphaned()
		_, err = Begin(f.Context(), f.store, f.key, 2, events(2, text("c"))...)
		require.NoError(f, err)
	}},
	{"a write returns where the log ends", func(f *fixture) {
		lease := f.acquire(f.key)
		require.Zero(f, lease.Head)
		for n := range int64(3) {
			next, err := f.store.Write(f.Context(), f.key, session.Write{Lease: lease, Head: lease.Head, Events: events(n, text("a"))})
			require.NoError(f, err)
			require.Equal(f, session.HeadOf(f.load(f.key, n)[0]), next.Head)
			require.Equal(f, lease.Token, next.Token)
			require.Equal(f, lease.Nonce, next.Nonce)
			lease = next
		}
		f.release(f.key, lease)
		require.Equal(f, lease.Head, f.acquire(f.key).Head)
	}},
	{"a lease that was taken with events and not given back makes an orphan", func(f *fixture) {
		f.write(f.key, text("a"))
		lease, err := Begin(f.Context(), f.store, f.key, 1, events(1, text("b"))...)
		require.NoError(f, err)
		f.orphaned()
		f.abandon(f.key, lease)
		f.orphaned(f.key.ID)
		_, err = Begin(f.Context(), f.store, f.key, 2, events(2, text("c"))...)
		require.NoError(f, err)
		f.orphaned()
		f.refused(f.key, 3, lease)
	}},
	{"a session that is not as expected gives no lease and stores nothing", func(f *fixture) {
		moved := func(key session.Key, want session.Head) {
			f.Helper()
			before := f.contents(key)
			_, err := f.store.Write(f.Context(), key, session.Write{Acquire: session.Self(), Head: want, Events: events(want.Seq, text("x"))})
			var e *session.HeadError
			require.ErrorAs(f, err, &e)
			require.Equal(f, want, e.Want)
			require.Equal(f, before, f.contents(key))
		}
		moved(f.key, session.Head{Seq: 2, ID: "x"})
		first := f.acquire(f.key)
		f.append(f.key, 0, first, text("a"), text("b"))
		_, err := Begin(f.Context(), f.store, f.key, 2, events(2, text("x"))...)
		require.ErrorIs(f, err, agent.ErrSessionBusy)
		f.release(f.key, first)
		end := session.HeadOf(f.load(f.key, 1)[0])
		other := session.Key{App: f.app, User: f.key.User, ID: "other"}
		moved(other, end)
		for _, seq := range []int64{0, 1, 3} {
			moved(f.key, session.Head{Seq: seq, ID: end.ID})
		}
		moved(f.key, session.Head{Seq: 2, ID: end.ID + "x"})
		moved(f.key, session.Head{Seq: 2})
		_, err = Begin(ended(f.T), f.store, f.key, 2, events(2, text("x"))...)
		require.ErrorIs(f, err, context.Canceled)
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		moved(f.key, end)
		others := events(0, text("c"), text("d"))
		others[1].ID = "another"
		_, err = f.store.Write(f.Context(), f.key, session.Write{Acquire: session.Self(), Events: others, Release: true})
		require.NoError(f, err)
		moved(f.key, end)
		require.Len(f, f.load(f.key, 0), 2)
		require.EqualValues(f, 2, f.acquire(f.key).Head.Seq, "nobody holds it")
	}},
	{"a log that went back takes no write of before", func(f *fixture) {
		if f.saves == nil {
			f.Skip("needs the option WithRestore")
		}
		f.write(f.key, text("a"), text("b"))
		restore := f.saves(f.T, f.store)
		stale := f.acquire(f.key)
		lost, err := f.store.Write(f.Context(), f.key, session.Write{Lease: stale, Head: stale.Head, Events: events(2, text("lost"))})
		require.NoError(f, err)
		before := f.info(f.key)
		require.Equal(f, session.LogState{Key: f.key, Incarnation: lost.Incarnation, Head: lost.Head}, before.State())
		restore()
		refused := func(w session.Write) {
			f.Helper()
			before := f.contents(f.key)
			_, err := f.store.Write(f.Context(), f.key, w)
			require.ErrorIs(f, err, agent.ErrConflict)
			require.Equal(f, before, f.contents(f.key))
		}
		every := func() {
			f.Helper()
			refused(session.Write{Lease: stale})
			refused(session.Write{Lease: lost, Head: lost.Head, Events: events(3, text("x"))})
			refused(session.Write{Lease: lost, Head: stale.Head, Events: events(2, text("x"))})
		}
		every() // fewer events
		_, err = f.store.Write(f.Context(), f.key, session.Write{Acquire: session.Self(), Head: lost.Head, Events: events(3, text("x"))})
		var e *session.HeadError
		require.ErrorAs(f, err, &e)
		require.Equal(f, stale.Head, e.Got)
		again := f.acquire(f.key)
		require.Equal(f, stale.Token, again.Token, "the number comes again while the clock stands")
		every()
		another := entry(3, text("another"))
		another.ID = "another"
		_, err = f.store.Write(f.Context(), f.key, session.Write{Lease: again, Head: again.Head, Events: []*event.Event{another}})
		require.NoError(f, err)
		every() // another event at the same position
		after := f.info(f.key)
		require.Equal(f, before.Seq, after.Seq)
		require.NotEqual(f, before.State(), after.State())
		f.release(f.key, again)
		every()
		refused(session.Write{Acquire: session.Self(), Head: lost.Head, Events: events(3, text("x"))})
		require.Equal(f, []string{"a", "b", "another"}, f.contents(f.key))
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
		require.ErrorIs(f, Renew(f.Context(), f.store, f.key, ahead), agent.ErrConflict)
		f.append(f.key, 1, lease, text("b"))
		f.busy(f.key)
		require.NoError(f, f.store.Fork(f.Context(), f.key, 1, leased), "nobody holds it any more")
	}},
	{"who renews after the clock was set back keeps the lease", func(f *fixture) {
		lease := f.acquire(f.key)
		f.pass(-time.Hour)
		defer f.pass(time.Hour)
		require.NoError(f, Renew(f.Context(), f.store, f.key, lease))
		f.busy(f.key)
		f.append(f.key, 0, lease, text("a"))
	}},
	{"every write prolongs the lease", func(f *fixture) {
		lease := f.acquire(f.key)
		f.pass(session.LeaseTTL - time.Second)
		require.NoError(f, Renew(f.Context(), f.store, f.key, lease))
		f.pass(session.LeaseTTL - time.Second)
		f.busy(f.key)
		f.append(f.key, 0, lease, text("a"))
		f.pass(session.LeaseTTL - time.Second)
		f.busy(f.key)
		f.pass(time.Second)
		f.acquire(f.key)
		f.refused(f.key, 1, lease)
	}},
	{"an expired lease that nobody took is still the current one", func(f *fixture) {
		lease := f.acquire(f.key)
		f.pass(10 * session.LeaseTTL)
		f.append(f.key, 0, lease, text("a"))
		require.NoError(f, Renew(f.Context(), f.store, f.key, lease))
		f.busy(f.key)
	}},
	{"a writer is fenced off from a session made anew", func(f *fixture) {
		stale := f.acquire(f.key)
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		for range 3 { // as many leases as the stale writer had, and more
			lease := f.acquire(f.key)
			require.NotEqual(f, lease.Nonce, stale.Nonce)
			f.worthless(f.key, stale)
			f.busy(f.key)
			f.release(f.key, lease)
		}
	}},
	{"one of many acquires wins", func(f *fixture) {
		for n := range int64(5) {
			leases := make([]session.Lease, 16)
			won := f.race(len(leases), agent.ErrSessionBusy, func(i int) (err error) {
				leases[i], err = Acquire(f.Context(), f.store, f.key, session.Self())
				return err
			})
			f.append(f.key, n, leases[won], text("a"))
			f.release(f.key, leases[won])
		}
		end := f.info(f.key).State().Head
		f.race(8, agent.ErrSessionBusy, func(int) error { // and of many who come with events
			_, err := f.store.Write(f.Context(), f.key, session.Write{Acquire: session.Self(), Head: end, Events: events(5, text("b"))})
			return err
		})
		require.Len(f, f.load(f.key, 0), 6)
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
			lease, err := Acquire(f.Context(), f.store, f.key, dead)
			require.NoError(f, err)
			require.Greater(f, lease.Token, last.Token)
			f.append(f.key, lease.Head.Seq, lease, text("a"))
			if last.Token != 0 {
				f.refused(f.key, lease.Head.Seq+1, last)
			}
			last = lease
		}
		f.acquire(f.key)
		f.busy(f.key)

		elsewhere := session.Key{App: f.app, User: "ann", ID: "elsewhere"}
		_, err := Acquire(f.Context(), f.store, elsewhere, session.Owner{Host: "not-" + me.Host, PID: dead.PID, Started: 1})
		require.NoError(f, err)
		f.busy(elsewhere)
		f.pass(session.LeaseTTL)
		f.acquire(elsewhere)
	}},
}
