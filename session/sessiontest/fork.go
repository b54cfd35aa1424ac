package sessiontest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// another returns the key of a second session of the test's app.
func (f *fixture) another(id string) session.Key {
	return session.Key{App: f.app, User: "ann", ID: id}
}

// fork forks a session and returns the key of the fork.
func (f *fixture) fork(of session.Key, seq int64, id string) session.Key {
	f.Helper()
	to := f.another(id)
	require.NoError(f, f.store.Fork(f.Context(), of, seq, to))
	return to
}

func (f *fixture) info(key session.Key) session.Info {
	f.Helper()
	infos := f.list(key)
	require.Len(f, infos, 1)
	return infos[0]
}

var forkTests = []test{
	{"a fork shares the past", func(f *fixture) {
		f.write(f.key, texts(6, "a")...)
		fork := f.fork(f.key, 4, "fork")
		require.Equal(f, toJSON(f.T, f.load(f.key, 0)[:4]), toJSON(f.T, f.load(fork, 0)))
		require.Len(f, f.contents(f.key), 6)
		lease := f.acquire(fork)
		require.EqualValues(f, 4, lease.Head.Seq)
		f.append(fork, 4, lease, text("b"))
		f.release(fork, lease)
		require.EqualValues(f, 4, f.acquire(fork).Shared, "also when it has gone on")
		f.write(f.key, text("goes on"))
		require.Equal(f, []string{"a0", "a1", "a2", "a3", "b"}, f.contents(fork))
		require.Equal(f, []string{"a0", "a1", "a2", "a3", "a4", "a5", "goes on"}, f.contents(f.key))
	}},
	{"a fork is loaded from any position", func(f *fixture) {
		f.write(f.key, texts(40, "a")...)
		fork := f.fork(f.key, 35, "fork")
		f.write(fork, texts(40, "b")...)
		second := f.fork(fork, 70, "second")
		f.write(second, texts(3, "c")...)
		all := toJSON(f.T, f.load(second, 0))
		require.Len(f, all, 73)
		for after := range int64(75) {
			require.Equal(f, all[min(int(after), 73):], toJSON(f.T, f.load(second, after)), after)
		}
		n := 0
		for e, err := range f.store.Load(f.Context(), second, 0) { // and a loop may be left anywhere
			require.NoError(f, err)
			if n++; e.Seq == 36 {
				break
			}
		}
		require.Equal(f, 36, n)
	}},
	{"a fork at the end and one before the first event", func(f *fixture) {
		f.write(f.key, texts(3, "a")...)
		whole, empty := f.fork(f.key, 3, "whole"), f.fork(f.key, 0, "empty")
		require.Equal(f, []string{"a0", "a1", "a2"}, f.contents(whole))
		require.Empty(f, f.contents(empty))
		lease := f.acquire(empty)
		require.True(f, lease.Fork)
		require.Zero(f, lease.Shared)
		f.release(empty, lease)
		f.write(empty, text("b"))
		f.write(whole, text("c"))
		require.Equal(f, []string{"b"}, f.contents(empty))
		require.Equal(f, []string{"a0", "a1", "a2", "c"}, f.contents(whole))
		require.Len(f, f.contents(f.key), 3)
	}},
	{"the list tells the parent", func(f *fixture) {
		f.write(f.key, texts(3, "a")...)
		f.pass(time.Second)
		fork, empty := f.fork(f.key, 2, "fork"), f.fork(f.key, 0, "empty")
		info := f.info(fork)
		require.Equal(f, f.key, info.Parent)
		require.EqualValues(f, 2, info.ParentSeq)
		require.EqualValues(f, 2, info.Seq)
		require.Equal(f, info.Created, info.Updated)
		require.Equal(f, time.Second, info.Created.Sub(f.info(f.key).Created))
		of := f.info(empty)
		require.Equal(f, session.Info{Key: empty, Created: info.Created, Updated: info.Updated, Parent: f.key, Incarnation: of.Incarnation}, of)
		require.Zero(f, f.info(f.key).Parent)
		f.pass(time.Second)
		f.write(fork, text("b"))
		require.Equal(f, time.Second, f.info(fork).Updated.Sub(f.info(fork).Created))
		require.Equal(f, f.key, f.info(fork).Parent)
	}},
	{"the parent is who holds the position", func(f *fixture) {
		f.write(f.key, texts(4, "a")...)
		fork := f.fork(f.key, 3, "fork")
		f.write(fork, texts(2, "b")...)
		for seq, parent := range map[int64]session.Key{0: f.key, 2: f.key, 3: f.key, 4: fork, 5: fork} {
			info := f.info(f.fork(fork, seq, fmt.Sprint("at ", seq)))
			require.Equal(f, parent, info.Parent, seq)
			require.Equal(f, seq, info.ParentSeq)
			require.Equal(f, []string{"a0", "a1", "a2", "b0", "b1"}[:seq], f.contents(info.Key))
		}
	}},
	{"what there is not cannot be forked", func(f *fixture) {
		f.write(f.key, texts(2, "a")...)
		leased := f.another("leased")
		f.acquire(leased)
		for _, of := range []struct {
			key session.Key
			seq int64
		}{{f.key, 3}, {f.key, -1}, {f.another("never"), 0}, {f.another("never"), 1}, {leased, 0}} {
			err := f.store.Fork(f.Context(), of.key, of.seq, f.another("to"))
			require.ErrorIs(f, err, agent.ErrBadInput, "%v", of)
			require.ErrorContains(f, err, of.key.ID)
		}
		require.Empty(f, f.list(f.another("to")))
	}},
	{"a session that exists is not replaced", func(f *fixture) {
		f.write(f.key, texts(2, "a")...)
		full, leased, fork := f.another("full"), f.another("leased"), f.fork(f.key, 0, "fork")
		f.write(full, text("b"))
		lease := f.acquire(leased)
		for _, to := range []session.Key{full, leased, fork, f.key} {
			require.ErrorIs(f, f.store.Fork(f.Context(), f.key, 1, to), agent.ErrConflict, to.ID)
		}
		f.append(leased, 0, lease, text("c"))
		require.Equal(f, []string{"b"}, f.contents(full))
		require.Equal(f, []string{"a0", "a1"}, f.contents(f.key))
	}},
	{"a key that was leased once is free", func(f *fixture) {
		f.write(f.key, texts(2, "a")...)
		to := f.another("to")
		stale := f.acquire(to)
		f.release(to, stale)
		require.NoError(f, f.store.Fork(f.Context(), f.key, 2, to))
		require.ErrorIs(f, Append(f.Context(), f.store, to, 2, stale, events(2, text("b"))...), agent.ErrConflict)
		lease := f.acquire(to)
		require.NotEqual(f, stale.Nonce, lease.Nonce)
		f.append(to, 2, lease, text("c"))
	}},
	{"a fork has a lease and an incarnation of its own", func(f *fixture) {
		lease := f.acquire(f.key)
		f.append(f.key, 0, lease, texts(2, "a")...)
		fork := f.fork(f.key, 2, "fork") // in the middle of a turn
		other := f.acquire(fork)
		require.NotEqual(f, lease.Incarnation, other.Incarnation)
		require.False(f, lease.Fork)
		require.Zero(f, lease.Shared)
		require.True(f, other.Fork)
		require.EqualValues(f, 2, other.Shared)
		require.NotEqual(f, lease.Nonce, other.Nonce)
		require.ErrorIs(f, Append(f.Context(), f.store, fork, 2, lease, events(2, text("b"))...), agent.ErrConflict)
		require.ErrorIs(f, Append(f.Context(), f.store, fork, 1, other, events(1, text("b"))...), agent.ErrConflict)
		f.append(f.key, 2, lease, text("c"))
		f.append(fork, 2, other, text("d"))
	}},
	{"a parent that is deleted leaves its forks the past", func(f *fixture) {
		f.write(f.key, texts(5, "a")...)
		fork := f.fork(f.key, 3, "fork")
		f.write(fork, text("b"))
		second := f.fork(fork, 4, "second")
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		require.Empty(f, f.load(f.key, 0))
		require.Empty(f, f.list(f.key))
		require.Equal(f, []string{"a0", "a1", "a2", "b"}, f.contents(fork))
		require.NoError(f, f.store.Delete(f.Context(), fork))
		require.Empty(f, f.load(fork, 0))
		require.Equal(f, []string{"a0", "a1", "a2", "b"}, f.contents(second))
		info := f.info(second)
		require.Zero(f, info.Parent)
		require.EqualValues(f, 4, info.ParentSeq)
		lease := f.acquire(second)
		require.EqualValues(f, 4, lease.Shared)
		f.release(second, lease)

		f.write(f.key, text("anew")) // the key is free
		require.Equal(f, []string{"anew"}, f.contents(f.key))
		require.Zero(f, f.info(second).Parent)
		require.Equal(f, f.key, f.info(f.fork(f.key, 1, "of the new")).Parent)
		require.Equal(f, []string{"a0"}, f.contents(f.fork(second, 1, "below")))
		require.NoError(f, f.store.Delete(f.Context(), second))
		require.Equal(f, []string{"a0"}, f.contents(f.another("below")))
		require.Equal(f, []string{"anew"}, f.contents(f.key))
	}},
	{"a fork that is deleted leaves its parent alone", func(f *fixture) {
		f.write(f.key, texts(5, "a")...)
		fork := f.fork(f.key, 3, "fork")
		lease := f.acquire(fork)
		f.append(fork, 3, lease, text("b"))
		require.NoError(f, f.store.Delete(f.Context(), fork))
		require.ErrorIs(f, Append(f.Context(), f.store, fork, 4, lease, events(4, text("c"))...), agent.ErrConflict)
		require.Empty(f, f.load(fork, 0))
		require.Len(f, f.contents(f.key), 5)
		f.fork(f.key, 5, "fork") // and its key is free
		require.Len(f, f.contents(fork), 5)
	}},
	{"shared state is not forked", func(f *fixture) {
		f.write(f.key, state("user:a", 1, "app:b", 2))
		f.write(f.key, state("user:a", 3))
		fork := f.fork(f.key, 1, "fork")
		f.shared(fork, `{"user:a":3,"app:b":2}`)
		f.write(fork, state("app:b", 4))
		f.shared(f.key, `{"user:a":3,"app:b":4}`)
	}},
	{"a fork may belong to another user and app", func(f *fixture) {
		f.write(f.key, texts(2, "a")...)
		to := session.Key{App: "other-" + f.app, User: "bob", ID: f.key.ID}
		require.NoError(f, f.store.Fork(f.Context(), f.key, 1, to))
		require.Equal(f, []string{"a0"}, f.contents(to))
		require.Equal(f, f.key, f.info(to).Parent)
	}},
	{"a fork with events of its own", func(f *fixture) {
		f.write(f.key, texts(4, "a")...)
		f.pass(time.Second)
		to := f.another("to")
		own := append([]event.Data{state("user:a", 1)}, texts(3, "b")...)
		require.NoError(f, f.store.Fork(f.Context(), f.key, 2, to, events(2, own...)...))
		require.Equal(f, []string{"a0", "a1"}, f.contents(to)[:2])
		require.Equal(f, toJSON(f.T, events(2, own...)), toJSON(f.T, f.load(to, 2)))
		require.Len(f, f.contents(f.key), 4)
		f.shared(to, `{"user:a":1}`)
		info := f.info(to)
		require.EqualValues(f, 6, info.Seq)
		require.EqualValues(f, 2, info.ParentSeq)
		require.Equal(f, f.key, info.Parent)
		require.Equal(f, info.Created, info.Updated)
		lease := f.acquire(to)
		require.EqualValues(f, 6, lease.Head.Seq)
		require.EqualValues(f, 2, lease.Shared)
		f.append(to, 6, lease, text("c"))
		second := f.another("second")
		require.NoError(f, f.store.Fork(f.Context(), to, 5, second, events(5, text("d"))...))
		require.Equal(f, to, f.info(second).Parent)
		require.Equal(f, f.contents(to)[:5], f.contents(second)[:5])
		require.Equal(f, "d", f.contents(second)[5])
		empty := f.another("empty")
		require.NoError(f, f.store.Fork(f.Context(), f.key, 0, empty, events(0, text("e"))...))
		require.Equal(f, []string{"e"}, f.contents(empty))
	}},
	{"a fork is there with all of its events or not at all", func(f *fixture) {
		f.write(f.key, texts(2, "a")...)
		to := f.another("to")
		partial := events(2, text("b"), text("c"))
		partial[1].Partial = true
		for _, own := range [][]*event.Event{events(1, text("b")), events(3, text("b")), partial} {
			require.Error(f, f.store.Fork(f.Context(), f.key, 2, to, own...))
		}
		require.ErrorIs(f, f.store.Fork(f.Context(), f.key, 3, to, events(3, text("b"))...), agent.ErrBadInput)
		require.Empty(f, f.list(to))
		require.Empty(f, f.load(to, 0))
		require.NoError(f, f.store.Fork(f.Context(), f.key, 2, to, events(2, text("b"))...))
		require.ErrorIs(f, f.store.Fork(f.Context(), f.key, 2, to, events(2, state("user:a", 1))...), agent.ErrConflict)
		require.Equal(f, []string{"a0", "a1", "b"}, f.contents(to))
		f.shared(to, `{}`)
	}},
	{"a canceled context forks nothing", func(f *fixture) {
		f.write(f.key, texts(2, "a")...)
		require.ErrorIs(f, f.store.Fork(ended(f.T), f.key, 1, f.another("to")), context.Canceled)
		require.Empty(f, f.list(f.another("to")))
	}},
	{"forks of forks of forks", func(f *fixture) {
		r := rand.New(rand.NewPCG(1, 2))
		f.write(f.key, texts(10, "x")...)
		logs := map[session.Key][]string{f.key: f.contents(f.key)}
		keys := []session.Key{f.key}
		for i := range 30 {
			of := keys[r.IntN(len(keys))]
			seq := r.IntN(len(logs[of]) + 1)
			fork := f.fork(of, int64(seq), fmt.Sprint("fork", i))
			words := texts(1+r.IntN(5), fmt.Sprint("f", i, "-"))
			f.write(fork, words...)
			log := append([]string(nil), logs[of][:seq]...)
			for _, w := range words {
				log = append(log, w.(*event.Text).Content)
			}
			logs[fork], keys = log, append(keys, fork)
		}
		for _, i := range r.Perm(len(keys)) {
			for key, log := range logs {
				require.Equal(f, log, f.contents(key))
			}
			require.NoError(f, f.store.Delete(f.Context(), keys[i]))
			require.Empty(f, f.load(keys[i], 0))
			delete(logs, keys[i])
		}
		require.Empty(f, f.list(session.Key{App: f.app}))
	}},
	{"many forks at once", func(f *fixture) {
		f.write(f.key, texts(9, "a")...)
		var wg sync.WaitGroup
		won := make([]int, 4)
		for i := range won {
			wg.Go(func() {
				for n := range 10 {
					err := f.store.Fork(f.Context(), f.key, int64(n), f.another(fmt.Sprint("fork", n)))
					if err == nil {
						won[i]++
					} else if !isConflict(err) {
						f.Errorf("fork: %v", err)
					}
				}
			})
		}
		wg.Wait()
		require.Equal(f, 10, won[0]+won[1]+won[2]+won[3])
		for n := range 10 {
			require.Len(f, f.load(f.another(fmt.Sprint("fork", n)), 0), n)
		}
	}},
	{"forks last", durable(func(f *fixture) {
		f.write(f.key, texts(5, "a")...)
		fork := f.fork(f.key, 3, "fork")
		f.write(fork, text("b"))
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		info := f.info(fork)
		f.reopened()
		require.Equal(f, []string{"a0", "a1", "a2", "b"}, f.contents(fork))
		require.Equal(f, info, f.info(fork))
	})},
}
