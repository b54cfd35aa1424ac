package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// written returns how many bytes the server has written to its log so far.
func written(t testing.TB, url string) int64 {
	return must.Get(strconv.ParseInt(run(t, url, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"), 10, 64))
}

// TestForkCopiesNothing: a fork is one row, whatever it shares, and what is not
// shared by anybody goes.
func TestForkCopiesNothing(t *testing.T) {
	p := servers.NewPostgres(t, "autovacuum=off", "full_page_writes=off")
	url := p.Database(t)
	s := open(t, url)
	fill := func(id string, n int64) session.Key {
		key := session.ID(id)
		lease := acquire(t, s, key)
		for seq := int64(0); seq < n; seq += min(500, n) {
			require.NoError(t, sessiontest.Append(t.Context(), s, key, seq, lease, storetest.Batch(seq, int(min(500, n)))...))
		}
		require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
		return key
	}
	small, big := fill("small", 10), fill("big", 2000)
	costs := func(of session.Key, seq int64, id string) int64 {
		before := written(t, url)
		require.NoError(t, s.Fork(t.Context(), of, seq, session.ID(id)))
		return written(t, url) - before
	}
	costs(small, 10, "first") // which may write what others need not
	one, other := costs(small, 10, "of small"), costs(big, 2000, "of big")
	t.Logf("a fork of 10 events writes %d bytes, one of 2,000 events %d", one, other)
	require.Less(t, other, int64(4<<10))
	require.InDelta(t, one, other, 1<<10)
	require.Equal(t, "2010", run(t, url, "SELECT count(*) FROM arbor.event"))
	require.Len(t, storetest.Load(t, s, session.ID("of big")), 2000)

	require.NoError(t, s.Fork(t.Context(), big, 400, session.ID("early")))
	require.NoError(t, s.Delete(t.Context(), session.ID("of big")))
	require.Equal(t, "2010", run(t, url, "SELECT count(*) FROM arbor.event"))
	require.NoError(t, s.Delete(t.Context(), big))
	require.Equal(t, "410", run(t, url, "SELECT count(*) FROM arbor.event"))
	require.Len(t, storetest.Load(t, s, session.ID("early")), 400)
	require.NoError(t, s.Delete(t.Context(), session.ID("early")))
	require.Equal(t, "10", run(t, url, "SELECT count(*) FROM arbor.event"))
	require.Equal(t, "3", run(t, url, "SELECT count(*) FROM arbor.session"))
}

// TestForksAndDeletionsAtOnce: whatever is forked, written and deleted at the same
// time, no session that is left lacks an event, and when all are deleted nothing
// stays behind.
func TestForksAndDeletionsAtOnce(t *testing.T) {
	url := servers.Database(t)
	s := open(t, url)
	const keys, workers, rounds = 10, 6, 80
	key := func(r *rand.Rand) session.Key { return session.ID(fmt.Sprint(r.IntN(keys))) }
	forked, deleted := make([]int, workers), make([]int, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for range rounds {
				k := key(r)
				switch r.IntN(8) {
				case 0, 1, 2:
					lease, err := sessiontest.Acquire(t.Context(), s, k, session.Self())
					if err == nil {
						start := storetest.Text(lease.Head.Seq+1, "")
						start.Data, start.RunID = &event.HarnessStart{AgentID: "a"}, fmt.Sprint(w, lease.Token, lease.Head.Seq)
						err = errors.Join(sessiontest.Append(t.Context(), s, k, lease.Head.Seq, lease, start, storetest.Text(lease.Head.Seq+2, "x"), storetest.Text(lease.Head.Seq+3, "x")),
							sessiontest.Release(t.Context(), s, k, lease))
					}
					if err != nil && !errors.Is(err, agent.ErrSessionBusy) && !errors.Is(err, agent.ErrConflict) {
						t.Error("append", err)
					}
				case 3, 4, 5:
					err := s.Fork(t.Context(), k, r.Int64N(8), key(r))
					if err == nil {
						forked[w]++
					} else if !errors.Is(err, agent.ErrBadInput) && !errors.Is(err, agent.ErrConflict) {
						t.Error("fork", err)
					}
				case 6, 7:
					if err := s.Delete(t.Context(), k); err != nil {
						t.Error("delete", err)
					}
					deleted[w]++
				}
			}
		})
	}
	wg.Wait()
	t.Logf("forked %v, deleted %v", forked, deleted)
	for i := range keys {
		storetest.Load(t, s, session.ID(fmt.Sprint(i))) // refuses gaps
	}
	infos, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	for _, info := range infos {
		require.Len(t, storetest.Load(t, s, info.Key), int(info.Seq))
	}
	for i := range keys {
		require.NoError(t, s.Delete(t.Context(), session.ID(fmt.Sprint(i))))
	}
	for _, table := range []string{"session", "event", "block"} {
		require.Equal(t, "0", run(t, url, "SELECT count(*) FROM arbor."+table), table)
	}
}
