package sessiontest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
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
