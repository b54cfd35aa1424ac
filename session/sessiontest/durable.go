package sessiontest

import (
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

func durable(run func(*fixture)) func(*fixture) {
	return func(f *fixture) {
		if f.suite.reopen == nil {
			f.Skip("needs the option WithReopen")
		}
		run(f)
	}
}

// reopened closes the store and opens it again.
func (f *fixture) reopened() {
	f.Helper()
	f.store = f.mustOpen(f.suite.reopen(f.T, f.store))
}

var durableTests = []test{
	{"the log lasts", durable(func(f *fixture) {
		f.write(f.key, Payloads()...)
		want, info := toJSON(f.T, f.load(f.key, 0)), f.list(session.Key{App: f.app})
		f.reopened()
		require.Equal(f, want, toJSON(f.T, f.load(f.key, 0)))
		require.Equal(f, info, f.list(session.Key{App: f.app}))
		f.write(f.key, text("goes on"))
		f.reopened()
		require.Len(f, f.load(f.key, 0), len(want)+1)
	})},
	{"shared state lasts", durable(func(f *fixture) {
		f.write(f.key, state("user:a", 1, "app:b", []any{"x"}, "user:gone", 1))
		f.write(f.key, state("user:gone", nil))
		f.reopened()
		f.shared(f.key, `{"user:a":1,"app:b":["x"]}`)
	})},
	{"leases last, and their tokens never come again", durable(func(f *fixture) {
		lease := f.acquire(f.key)
		seq := f.append(f.key, 0, lease, text("a"))
		f.reopened()
		f.busy(f.key)
		seq = f.append(f.key, seq, lease, text("b"))
		f.release(f.key, lease)
		f.reopened()
		next := f.acquire(f.key)
		require.Greater(f, next.Token, lease.Token)
		f.refused(f.key, seq, lease)
	})},
	{"what is deleted stays away", durable(func(f *fixture) {
		stale := f.acquire(f.key)
		f.append(f.key, 0, stale, text("a"))
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		f.reopened()
		require.Empty(f, f.load(f.key, 0))
		require.Empty(f, f.list(session.Key{App: f.app}))
		require.NotEqual(f, f.acquire(f.key).Nonce, stale.Nonce)
		f.refused(f.key, 0, stale)
	})},
}

func withPeer(run func(f *fixture, peer session.Store)) func(*fixture) {
	return func(f *fixture) {
		if f.suite.peer == nil {
			f.Skip("needs the option WithPeer")
		}
		run(f, f.mustOpen(f.suite.peer(f.T, f.store)))
	}
}

var peerTests = []test{
	{"one sees what the other stored", withPeer(func(f *fixture, peer session.Store) {
		f.write(f.key, text("a"), state("user:x", 1))
		require.Equal(f, toJSON(f.T, f.load(f.key, 0)), toJSON(f.T, load(f.T, peer, f.key, 0)))
		infos, err := peer.List(f.Context(), session.Key{App: f.app}, session.Page{})
		require.NoError(f, err)
		require.Equal(f, f.list(session.Key{App: f.app}), infos)
		shared, err := peer.SharedState(f.Context(), f.key)
		require.NoError(f, err)
		require.Len(f, shared, 1)
		require.NoError(f, peer.Delete(f.Context(), f.key))
		require.Empty(f, f.load(f.key, 0))
	})},
	{"a lease holds in both", withPeer(func(f *fixture, peer session.Store) {
		lease := f.acquire(f.key)
		_, err := Acquire(f.Context(), peer, f.key, session.Self())
		require.ErrorIs(f, err, agent.ErrSessionBusy)
		require.NoError(f, Append(f.Context(), peer, f.key, 0, lease, entry(1, text("a"))))
		require.NoError(f, Renew(f.Context(), peer, f.key, lease))
		require.ErrorIs(f, Append(f.Context(), f.store, f.key, 0, lease, entry(1, text("b"))), agent.ErrConflict)
		require.NoError(f, Release(f.Context(), peer, f.key, lease))
		f.refused(f.key, 1, lease)
		next, err := Acquire(f.Context(), peer, f.key, session.Self())
		require.NoError(f, err)
		require.Greater(f, next.Token, lease.Token)
		require.EqualValues(f, 1, next.Head.Seq)
	})},
	{"a stale writer is fenced off from the other", withPeer(func(f *fixture, peer session.Store) {
		stale := f.acquire(f.key)
		f.append(f.key, 0, stale, text("a"))
		f.pass(session.LeaseTTL)
		_, err := Acquire(f.Context(), peer, f.key, session.Self())
		require.NoError(f, err)
		f.refused(f.key, 1, stale)
	})},
	{"one of two appends wins", withPeer(func(f *fixture, peer session.Store) { f.appendTwice(f.store, peer) })},
	{"writers of both take turns", withPeer(func(f *fixture, peer session.Store) {
		f.contend(f.store, peer)
	})},
}
