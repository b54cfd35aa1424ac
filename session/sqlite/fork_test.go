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
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/storetest"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestChainOfForks: many forks, each of the one before, are one log, and
// whatever is deleted leaves the others all of theirs.
func TestChainOfForks(t *testing.T) {
	const forks = 60
	path := newFile(t)
	s := open(t, path)
	r := rand.New(rand.NewPCG(7, 7))
	key := func(i int) session.Key { return session.ID(fmt.Sprint(i)) }
	appendAll(t, s, key(0), storetest.Batch(0, 5), 5)
	logs := [][]string{storetest.Contents(t, s, key(0))}
	for i := 1; i <= forks; i++ {
		end := int64(len(logs[i-1]))
		seq := end - min(end, r.Int64N(3)) // at its end, or a bit before
		require.NoError(t, s.Fork(t.Context(), key(i-1), seq, key(i)))
		var own []*event.Event
		log := append([]string(nil), logs[i-1][:seq]...)
		for n := range 1 + r.Int64N(4) {
			own = append(own, storetest.Text(seq+n+1, fmt.Sprintf("%d of %d", n, i)))
			log = append(log, own[n].Text())
		}
		appendAll(t, s, key(i), own, 2)
		logs = append(logs, log)
	}
	last := key(forks)
	require.Equal(t, logs[forks], storetest.Contents(t, s, last))
	for _, after := range []int{0, 1, 5, 6, len(logs[forks]) / 2, len(logs[forks]) - 1, len(logs[forks])} {
		rest := []string{}
		for e, err := range s.Load(t.Context(), last, int64(after)) {
			require.NoError(t, err)
			rest = append(rest, e.Text())
		}
		require.Equal(t, logs[forks][after:], rest)
	}
	require.NoError(t, s.Fork(t.Context(), last, 3, session.ID("early")))
	infos, err := s.List(t.Context(), session.ID("early"), session.Page{})
	require.NoError(t, err)
	require.Equal(t, key(0), infos[0].Parent, "it hangs on the one that holds the position")

	order := r.Perm(forks + 1)
	for n, i := range order {
		require.NoError(t, s.Delete(t.Context(), key(i)))
		require.Empty(t, storetest.Contents(t, s, key(i)))
		if n%12 != 0 {
			continue
		}
		sound(t, path)
		for j := n + 1; j < len(order); j += 10 {
			require.Equal(t, logs[order[j]], storetest.Contents(t, s, key(order[j])))
		}
	}
	require.Equal(t, logs[0][:3], storetest.Contents(t, s, session.ID("early")))
	require.Equal(t, "2|3\n", dump(t, path, "SELECT (SELECT count(*) FROM session), count(*) FROM event"))
	require.NoError(t, s.Delete(t.Context(), session.ID("early")))
	require.Equal(t, "0|0\n", dump(t, path, "SELECT (SELECT count(*) FROM session), count(*) FROM event"))
}

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

// TestForkOverADeadLease: a process that died before it stored anything keeps
// nobody from the key.
func TestForkOverADeadLease(t *testing.T) {
	path := newFile(t)
	s := open(t, path)
	appendAll(t, s, session.ID("s"), storetest.Batch(0, 2), 2)
	to := session.ID("to")
	dead := session.Owner{Host: session.Self().Host, PID: 1 << 30, Started: 1}
	if session.Alive(dead) {
		t.Skip("this system does not tell whether a process is alive")
	}
	stale := must.Get(sessiontest.Acquire(t.Context(), s, to, dead))
	require.NoError(t, s.Fork(t.Context(), session.ID("s"), 2, to))
	require.ErrorIs(t, sessiontest.Append(t.Context(), s, to, 2, stale, storetest.Batch(2, 1)...), agent.ErrConflict)
	require.ErrorIs(t, sessiontest.Append(t.Context(), s, to, 0, stale, storetest.Batch(0, 1)...), agent.ErrConflict)
	lease := must.Get(sessiontest.Acquire(t.Context(), s, to, session.Self()))
	require.NotEqual(t, stale.Incarnation, lease.Incarnation)
	require.Len(t, storetest.Contents(t, s, to), 2)
	sound(t, path)
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
