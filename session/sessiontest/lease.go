package sessiontest

import (
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

var leaseTests = []test{
	{"a log that went back takes no write of before", func(f *fixture) {
		if f.Restore == nil {
			f.Skip("needs the option Restore")
		}
		f.write(f.key, text("a"), text("b"))
		restore := f.Restore(f.T, f.store)
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
}
