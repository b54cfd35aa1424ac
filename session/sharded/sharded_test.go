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

// spread makes a store of so many shards.
func spread(t testing.TB, n int, open func(i int) session.Store, opts ...sharded.Option) *sharded.Store {
	t.Helper()
	var shards []sharded.Shard
	for i := range n {
		shards = append(shards, sharded.Shard{Name: fmt.Sprint("shard", i), Store: open(i)})
	}
	s, err := sharded.New(shards, opts...)
	require.NoError(t, err)
	return s
}

// suite runs the store suite on sharded stores of the same shards: its tests need none of their own.
func suite(t *testing.T, n int, open func(i int) session.Store, opts ...sessiontest.Option) {
	var stores []session.Store
	for i := range n {
		stores = append(stores, open(i))
	}
	again := func(t *testing.T, _ session.Store) session.Store {
		return spread(t, n, func(i int) session.Store { return stores[i] })
	}
	sessiontest.Run(t, func(t *testing.T) session.Store { return again(t, nil) },
		append(opts, sessiontest.WithDeadOwners(), sessiontest.WithPeer(again), sessiontest.WithReopen(again))...)
}

// These stay open when a sharded store is closed.
type keptFile struct{ *sqlite.Store }
type keptServer struct{ *postgres.Store }

func (keptFile) Close() error   { return nil }
func (keptServer) Close() error { return nil }

// numbers are those of the shards on disks and servers. The race detector sees the same code with any.
func numbers() []int {
	if raceEnabled {
		return []int{2}
	}
	return []int{1, 2, 5}
}

func TestMemory(t *testing.T) {
	for n, opts := range map[int][]session.MemoryOption{1: nil, 2: nil, 5: {session.KeepSnapshots()}} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			clock := sessiontest.NewClock()
			opts := append(opts, session.WithClock(clock.Now))
			sessiontest.Run(t, func(t *testing.T) session.Store {
				return spread(t, n, func(int) session.Store { return session.NewMemory(opts...) })
			}, sessiontest.WithAdvance(clock.Advance))
		})
	}
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	for _, n := range numbers() {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			clock := sessiontest.NewClock()
			suite(t, n, func(int) session.Store {
				s, err := sqlite.Open(filepath.Join(t.TempDir(), "sessions.db"), sqlite.WithClock(clock.Now))
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, s.Close()) })
				return keptFile{s}
			}, sessiontest.WithAdvance(clock.Advance))
		})
	}
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	for _, n := range numbers() {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			suite(t, n, func(int) session.Store {
				s, err := postgres.Open(t.Context(), servers.Database(t)+"&pool_max_conns=4")
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, s.Close()) })
				return keptServer{s}
			})
		})
	}
}
