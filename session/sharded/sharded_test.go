package sharded_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sharded"
	"github.com/agentarbor/arbor/session/sqlite"
)

// spread makes a store of so many shards, which are called a, b, c and so on.
func spread(t *testing.T, n int, open func(i int) session.Store, opts ...sharded.Option) *sharded.Store {
	t.Helper()
	var shards []sharded.Shard
	for i := range n {
		shards = append(shards, sharded.Shard{Name: string(rune('a' + i)), Store: open(i)})
	}
	s, err := sharded.New(shards, opts...)
	require.NoError(t, err)
	return s
}

// places are where the shards of the stores of a suite are.
type places struct {
	n     int
	of    map[session.Store][]string
	fresh func(t *testing.T) string
	open  func(t *testing.T, place string) session.Store
}

func (p *places) at(t *testing.T, where []string) session.Store {
	s := spread(t, p.n, func(i int) session.Store { return p.open(t, where[i]) })
	p.of[s] = where
	return s
}

func (p *places) suite(t *testing.T, opts ...sessiontest.Option) {
	p.of = make(map[session.Store][]string)
	open := func(t *testing.T) session.Store {
		var where []string
		for range p.n {
			where = append(where, p.fresh(t))
		}
		return p.at(t, where)
	}
	sessiontest.Run(t, open, append(opts, sessiontest.WithDeadOwners(),
		sessiontest.WithPeer(func(t *testing.T, of session.Store) session.Store { return p.at(t, p.of[of]) }),
		sessiontest.WithReopen(func(t *testing.T, old session.Store) session.Store {
			require.NoError(t, old.Close())
			return p.at(t, p.of[old])
		}))...)
}

func TestMemory(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		for _, opts := range [][]session.MemoryOption{nil, {session.KeepSnapshots()}} {
			t.Run(fmt.Sprint(n, len(opts)), func(t *testing.T) {
				clock := sessiontest.NewClock()
				sessiontest.Run(t, func(t *testing.T) session.Store {
					return spread(t, n, func(int) session.Store { return session.NewMemory(append(opts, session.WithClock(clock.Now))...) })
				}, sessiontest.WithAdvance(clock.Advance))
			})
		}
	}
}

func TestSQLite(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			clock := sessiontest.NewClock()
			p := &places{n: n,
				fresh: func(t *testing.T) string { return filepath.Join(t.TempDir(), "sessions.db") },
				open: func(t *testing.T, path string) session.Store {
					s, err := sqlite.Open(path, sqlite.WithClock(clock.Now))
					require.NoError(t, err)
					return s
				}}
			p.suite(t, sessiontest.WithAdvance(clock.Advance))
		})
	}
}

func TestPostgres(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			databases := make([]string, n) // for all tests of the suite, which need no database of their own
			for i := range databases {
				databases[i] = servers.Database(t)
			}
			next := 0
			p := &places{n: n,
				fresh: func(*testing.T) string { next++; return databases[next%n] },
				open: func(t *testing.T, url string) session.Store {
					s, err := postgres.Open(t.Context(), url+"&pool_max_conns=3")
					require.NoError(t, err)
					return s
				}}
			p.suite(t)
		})
	}
}
