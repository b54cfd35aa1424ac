package sessiontest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// mover returns the store as one whose sessions can be moved, or skips the test.
func (f *fixture) mover() session.Mover {
	f.Helper()
	m, ok := f.store.(session.Mover)
	if !ok {
		f.Skip("the store's sessions cannot be moved")
	}
	return m
}

// moved returns a session as a store would adopt it, and leaves it leased.
func (f *fixture) moved(key session.Key) session.Moved {
	f.Helper()
	m := session.Moved{Info: f.info(key), Lease: f.acquire(key), Events: f.load(key, 0)}
	digests, err := f.mover().Digests(f.Context(), key)
	require.NoError(f, err)
	for digest, seq := range digests {
		data, err := f.store.Blob(f.Context(), key, digest)
		require.NoError(f, err)
		m.Blobs = append(m.Blobs, session.MovedBlob{Seq: seq, Data: data})
	}
	return m
}

func (f *fixture) adopt(id string, m session.Moved) session.Key {
	f.Helper()
	to := f.another(id)
	require.NoError(f, f.mover().Adopt(f.Context(), to, f.acquire(to), m))
	return to
}

var moveTests = []test{
	{"a session is adopted as it is", func(f *fixture) {
		f.mover()
		f.write(f.key, Payloads()...)
		f.put(f.key, []byte("x"))
		f.put(f.key, nil)
		f.write(f.key, state("user:a", 1, "app:b", 1))
		f.pass(time.Second)
		f.write(f.key, state("user:a", 2, "app:b", 2), text("last"))
		f.write(f.another("other"), state("user:a", 3, "app:b", 3))
		before, err := f.store.SharedState(f.Context(), f.key)
		require.NoError(f, err)
		f.pass(time.Hour)
		moved := f.moved(f.key)
		to := f.adopt("to", moved)
		require.Equal(f, toJSON(f.T, moved.Events), toJSON(f.T, f.load(to, 0)))
		was, is := moved.Info, f.info(to)
		require.NotEqual(f, was.Incarnation, is.Incarnation)
		was.Key, was.Incarnation = is.Key, is.Incarnation
		require.Equal(f, was, is)
		after, err := f.store.SharedState(f.Context(), f.key)
		require.NoError(f, err)
		require.Equal(f, before, after, "state events are not applied again")
		f.hasBlob(to, []byte("x"))
		f.hasBlob(to, nil)
		lease := f.acquire(to)
		require.Greater(f, lease.Token, moved.Lease.Token)
		require.Equal(f, moved.Seq, lease.Seq)
		require.False(f, lease.Fork)
		f.append(to, lease.Seq, lease, text("goes on"))
		f.release(to, lease)
		orphans, err := f.store.Orphans(f.Context(), session.Page{})
		require.NoError(f, err)
		require.False(f, slices.ContainsFunc(orphans, func(i session.Info) bool { return i.Key == to }))
	}},
	{"later tokens are larger than where the session was", func(f *fixture) {
		f.mover()
		f.write(f.key, text("a"))
		moved := f.moved(f.key)
		for _, further := range []int64{0, 1, 1 << 33, 7 << 32} {
			moved.Lease.Token = f.acquire(f.another("probe")).Token + further
			f.pass(session.LeaseTTL)
			to := f.adopt(fmt.Sprint("to", further), moved)
			require.Greater(f, f.acquire(to).Token, moved.Lease.Token)
			f.write(f.another(fmt.Sprint("other", further)), text("b"))
		}
	}},
	{"a fork is adopted with its parent", func(f *fixture) {
		f.mover()
		f.put(f.key, []byte("1"))
		f.put(f.key, []byte("2"))
		fork := f.fork(f.key, 1, "fork")
		f.put(fork, []byte("own"))
		moved := f.moved(fork)
		require.Len(f, moved.Blobs, 2)
		f.release(fork, moved.Lease)
		for name, parent := range map[string]session.Key{"linked": f.key, "alone": f.another("never"), "another": f.another("different")} {
			f.write(f.another("different"), text("another log"), text("of another session"))
			moved.Parent = parent
			to := f.adopt(name, moved)
			info := f.info(to)
			require.EqualValues(f, 1, info.ParentSeq)
			if name == "linked" {
				require.Equal(f, f.key, info.Parent)
			} else {
				require.Zero(f, info.Parent, name)
			}
			require.Equal(f, f.contents(fork), f.contents(to))
			f.hasBlob(to, []byte("1"))
			f.hasBlob(to, []byte("own"))
			f.hasNoBlob(to, session.Digest([]byte("2")))
			lease := f.acquire(to)
			require.True(f, lease.Fork)
			require.EqualValues(f, 1, lease.Shared)
			f.release(to, lease)
		}
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		for _, id := range []string{"linked", "alone", "another"} {
			require.Equal(f, f.contents(fork), f.contents(f.another(id)))
			f.hasBlob(f.another(id), []byte("1"))
			require.NoError(f, f.store.Delete(f.Context(), f.another(id)))
			require.Empty(f, f.load(f.another(id), 0))
		}
	}},
	{"a fork that shares nothing is adopted as one", func(f *fixture) {
		f.mover()
		f.write(f.key, text("a"))
		for _, parent := range []session.Key{f.key, {}} {
			moved := f.moved(f.fork(f.key, 0, "fork of "+parent.ID))
			moved.Parent = parent
			to := f.adopt("to"+parent.ID, moved)
			require.Equal(f, parent, f.info(to).Parent)
			lease := f.acquire(to)
			require.True(f, lease.Fork)
			require.Zero(f, lease.Shared)
			f.append(to, 0, lease, text("b"))
			require.Equal(f, []string{"b"}, f.contents(to))
		}
	}},
	{"what is adopted takes the place of what was there", func(f *fixture) {
		f.mover()
		f.write(f.key, texts(3, "a")...)
		to := f.another("to")
		f.write(to, texts(5, "old")...)
		f.put(to, []byte("old"))
		fork := f.fork(to, 2, "fork")
		f.adopt("to", f.moved(f.key))
		require.Equal(f, []string{"a0", "a1", "a2"}, f.contents(to))
		f.hasNoBlob(to, session.Digest([]byte("old")))
		require.Equal(f, []string{"old0", "old1"}, f.contents(fork))
		require.Zero(f, f.info(fork).Parent)
		require.Len(f, f.ids(to), 1)
	}},
	{"who adopts or leaves a session needs its lease", func(f *fixture) {
		m := f.mover()
		f.write(f.key, texts(2, "a")...)
		moved := f.moved(f.key)
		to := f.another("to")
		f.write(to, text("b"))
		stale := f.acquire(to)
		f.pass(session.LeaseTTL)
		lease := f.acquire(to)
		for _, lost := range []session.Lease{{}, {Token: 1}, stale, moved.Lease} {
			require.ErrorIs(f, m.Adopt(f.Context(), to, lost, moved), agent.ErrConflict)
			require.ErrorIs(f, m.Leave(f.Context(), to, lost), agent.ErrConflict)
			require.ErrorIs(f, m.Leave(f.Context(), f.another("never"), lost), agent.ErrConflict)
		}
		require.Equal(f, []string{"b"}, f.contents(to))
		f.append(to, 1, lease, text("c"))
		require.NoError(f, m.Leave(f.Context(), to, lease))
		require.Empty(f, f.load(to, 0))
		require.Empty(f, f.list(to))
		require.ErrorIs(f, m.Leave(f.Context(), to, lease), agent.ErrConflict)
		require.ErrorIs(f, f.store.Append(f.Context(), to, 2, lease, events(2, text("d"))...), agent.ErrConflict)
		f.acquire(to)
	}},
	{"a log with gaps is not adopted", func(f *fixture) {
		m := f.mover()
		f.write(f.key, texts(3, "a")...)
		moved, to := f.moved(f.key), f.another("to")
		lease := f.acquire(to)
		moved.Events = moved.Events[1:]
		require.ErrorIs(f, m.Adopt(f.Context(), to, lease, moved), agent.ErrBadInput)
		moved.Seq = 2
		require.Error(f, m.Adopt(f.Context(), to, lease, moved))
		require.Empty(f, f.load(to, 0))
		f.append(to, 0, lease, text("b"))
	}},
}
