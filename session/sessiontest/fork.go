package sessiontest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

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
	{"a fork whose events do not follow is not made", func(f *fixture) {
		f.write(f.key, texts(2, "a")...)
		to := f.another("to")
		partial := events(2, text("b"), text("c"))
		partial[1].Partial = true
		for _, own := range [][]*event.Event{events(1, text("b")), events(3, text("b")), partial} {
			require.Error(f, f.store.Fork(f.Context(), f.key, 2, to, own...))
		}
		require.Empty(f, f.list(to))
		require.Empty(f, f.load(to, 0))
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
					} else if !errors.Is(err, agent.ErrConflict) {
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
}
