package sqlite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
)

// TestForkCostsTheSame: forking a session of 2,000 events writes what forking
// one of ten writes, wherever it is forked.
func TestForkCostsTheSame(t *testing.T) {
	path := newFile(t)
	s := open(t, path)
	short, long := session.ID("short"), session.ID("long")
	appendAll(t, s, short, storetest.Batch(0, 10), 10)
	appendAll(t, s, long, storetest.Batch(0, 2000), 1000)
	db := raw(t, path)
	const forks = 40
	cost := func(of session.Key, seq int64, name string) (wal, pages int64) {
		must.Get(db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"))
		var before, after int64
		require.NoError(t, db.QueryRow("PRAGMA page_count").Scan(&before))
		for i := range forks {
			require.NoError(t, s.Fork(t.Context(), of, seq, session.ID(fmt.Sprintf("%s%04d", name, i))))
		}
		info := must.Get(os.Stat(path + "-wal"))
		require.NoError(t, db.QueryRow("PRAGMA page_count").Scan(&after))
		return info.Size(), after - before
	}
	_, _ = cost(short, 10, "warm") // the first need pages
	wal, pages := cost(short, 10, "a")
	for i, seq := range []int64{10, 1000, 2000} {
		longWAL, longPages := cost(long, seq, fmt.Sprint("b", i))
		require.InEpsilon(t, wal, longWAL, .15, "at %d", seq) // a page is split here or there
		require.InDelta(t, pages, longPages, 4, "at %d", seq)
		require.Less(t, longWAL/forks, int64(28<<10), "a fork writes a few pages")
	}
	require.Equal(t, "2010", scalar(t, db, "SELECT count(*) FROM event"))
	require.Len(t, storetest.Contents(t, s, session.ID("b20000")), 2000)
}

// TestDeleteWhileAForkIsLoaded: the load fails, and has no gap before.
func TestDeleteWhileAForkIsLoaded(t *testing.T) {
	for name, deleted := range map[string][]string{"the fork": {"fork"}, "the fork and its parent": {"fork", "s"}, "the parent and its fork": {"s", "fork"}} {
		t.Run(name, func(t *testing.T) {
			path := newFile(t)
			s := open(t, path)
			appendAll(t, s, session.ID("s"), storetest.Batch(0, 200), 200)
			fork := session.ID("fork")
			require.NoError(t, s.Fork(t.Context(), session.ID("s"), 150, fork))
			appendAll(t, s, fork, storetest.Batch(150, 100), 100)
			var last error
			count := int64(0)
			for e, err := range s.Load(t.Context(), fork, 0) {
				if last = err; err != nil {
					continue
				}
				count++
				require.Equal(t, count, e.Seq)
				if count == 10 {
					for _, id := range deleted {
						require.NoError(t, s.Delete(t.Context(), session.ID(id)))
					}
				}
			}
			require.ErrorIs(t, last, agent.ErrConflict)
			require.ErrorContains(t, last, "was deleted while it was loaded")
			require.Less(t, count, int64(250))
			sound(t, path)
		})
	}
	t.Run("the parent", func(t *testing.T) { // whose fork keeps what it needs
		s := open(t, newFile(t))
		appendAll(t, s, session.ID("s"), storetest.Batch(0, 200), 200)
		require.NoError(t, s.Fork(t.Context(), session.ID("s"), 150, session.ID("fork")))
		count := 0
		for _, err := range s.Load(t.Context(), session.ID("fork"), 0) {
			require.NoError(t, err)
			if count++; count == 10 {
				require.NoError(t, s.Delete(t.Context(), session.ID("s")))
			}
		}
		require.Equal(t, 150, count)
	})
}

// TestForksAtOnce: sessions are forked, written and deleted through two stores of
// one file at the same time. A fork has what its parent had, or there is none.
func TestForksAtOnce(t *testing.T) {
	path := newFile(t)
	stores := []session.Store{open(t, path), open(t, path)}
	root := session.ID("root")
	appendAll(t, stores[0], root, storetest.Batch(0, 20), 20)
	var wg sync.WaitGroup
	for i := range 6 {
		s, r := stores[i%2], rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for range 25 {
				of := root
				if n := r.IntN(8); n > 0 {
					of = session.ID(fmt.Sprint("fork", n))
				}
				to := session.ID(fmt.Sprint("fork", 1+r.IntN(8)))
				seq := r.Int64N(21)
				switch err := s.Fork(t.Context(), of, seq, to); {
				case errors.Is(err, agent.ErrConflict): // it is there
					if err := s.Delete(t.Context(), to); err != nil {
						t.Error(err)
					}
				case err != nil && !errors.Is(err, agent.ErrBadInput): // its parent is not
					t.Error(err)
				}
			}
		})
	}
	for seq := int64(20); seq < 80; seq += 2 { // who writes all the while is not disturbed
		appendAll(t, stores[0], root, storetest.Batch(seq, 2), 2)
	}
	wg.Wait()
	sound(t, path)
	infos, err := stores[1].List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	whole := storetest.Contents(t, stores[1], root)
	require.Len(t, whole, 80)
	for _, info := range infos {
		require.Equal(t, whole[:info.Seq], append([]string{}, storetest.Contents(t, stores[0], info.Key)...))
	}
}

// TestForkErrors: what goes wrong with the file names the file.
func TestForkErrors(t *testing.T) {
	path := newFile(t)
	s := open(t, path)
	appendAll(t, s, session.ID("s"), storetest.Batch(0, 2), 2)
	raw(t, path, "CREATE TRIGGER broken BEFORE INSERT ON session BEGIN SELECT RAISE(ABORT, 'as in a test'); END")
	err := s.Fork(t.Context(), session.ID("s"), 1, session.ID("to"))
	require.ErrorContains(t, err, "fork a session in "+path)
	require.ErrorContains(t, err, "as in a test")
	require.False(t, errors.Is(err, agent.ErrConflict) || errors.Is(err, agent.ErrBadInput))
	raw(t, path, "DROP TRIGGER broken")
	require.NoError(t, s.Fork(t.Context(), session.ID("s"), 1, session.ID("to")), "and nothing is left open")
}
