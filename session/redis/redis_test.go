package redis_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

func newTail(t testing.TB, url string, store session.Store, opts ...redis.Option) *redis.Tail {
	t.Helper()
	tail := must.Get(redis.New(t.Context(), url, store, opts...))
	t.Cleanup(func() { require.NoError(t, tail.Close()) })
	return tail
}

// shared is a store that several tails can be put around; it stays open.
type shared struct{ session.Store }

func (shared) Close() error { return nil }

func TestTail(t *testing.T) {
	url := servers.SharedRedis(t)
	t.Run("memory", func(t *testing.T) {
		clock := sessiontest.NewClock()
		below := make(map[session.Store]session.Store)
		around := func(t *testing.T, store session.Store) sessiontest.Followed {
			tail := newTail(t, url, shared{store}, redis.WithPoll(20*time.Millisecond))
			below[tail] = store
			return tail
		}
		sessiontest.RunTail(t, func(t *testing.T) sessiontest.Followed {
			return around(t, session.NewMemory(session.WithClock(clock.Now)))
		}, sessiontest.WithAdvance(clock.Advance),
			sessiontest.WithPeer(func(t *testing.T, of session.Store) session.Store { return around(t, below[of]) }),
			sessiontest.WithPlainStore(func(t *testing.T, of session.Store) session.Store { return shared{below[of]} }))
	})
	t.Run("sqlite", func(t *testing.T) {
		clock := sessiontest.NewClock()
		paths := make(map[session.Store]string)
		openAt := func(t *testing.T, path string) session.Store {
			return must.Get(sqlite.Open(path, sqlite.WithClock(clock.Now)))
		}
		around := func(t *testing.T, path string) sessiontest.Followed {
			tail := newTail(t, url, openAt(t, path), redis.WithPoll(20*time.Millisecond))
			paths[tail] = path
			return tail
		}
		sessiontest.RunTail(t, func(t *testing.T) sessiontest.Followed {
			return around(t, filepath.Join(t.TempDir(), "sessions.db"))
		}, sessiontest.WithAdvance(clock.Advance),
			sessiontest.WithPeer(func(t *testing.T, of session.Store) session.Store { return around(t, paths[of]) }),
			sessiontest.WithPlainStore(func(t *testing.T, of session.Store) session.Store { return openAt(t, paths[of]) }))
	})
}

// TestTailInBrief runs against an imitation of Redis, which is everywhere.
func TestTailInBrief(t *testing.T) {
	url := "redis://" + miniredis.RunT(t).Addr()
	sessiontest.RunTail(t, func(t *testing.T) sessiontest.Followed {
		return newTail(t, url, session.NewMemory(), redis.WithPoll(20*time.Millisecond))
	}, sessiontest.WithCuts(50))
}

func openPostgres(t *testing.T, url string) session.Store {
	return must.Get(postgres.Open(t.Context(), url))
}

func TestTailOnPostgres(t *testing.T) {
	url, database := servers.SharedRedis(t), servers.Database(t)
	around := func(t *testing.T) sessiontest.Followed {
		return newTail(t, url, openPostgres(t, database), redis.WithPoll(20*time.Millisecond))
	}
	sessiontest.RunTail(t, around, sessiontest.WithDeadOwners(),
		sessiontest.WithPeer(func(t *testing.T, _ session.Store) session.Store { return around(t) }),
		sessiontest.WithPlainStore(func(t *testing.T, _ session.Store) session.Store { return openPostgres(t, database) }))
}

func TestStoreOnPostgres(t *testing.T) {
	url, database := servers.SharedRedis(t), servers.Database(t)
	around := func(t *testing.T) session.Store { return newTail(t, url, openPostgres(t, database)) }
	sessiontest.Run(t, around,
		sessiontest.WithDeadOwners(),
		sessiontest.WithPeer(func(t *testing.T, _ session.Store) session.Store { return around(t) }),
		sessiontest.WithReopen(func(t *testing.T, old session.Store) session.Store {
			require.NoError(t, old.Close())
			return around(t)
		}))
}

func TestStore(t *testing.T) {
	url := servers.SharedRedis(t)
	clock := sessiontest.NewClock()
	sessiontest.Run(t, func(t *testing.T) session.Store {
		return newTail(t, url, session.NewMemory(session.WithClock(clock.Now)))
	}, sessiontest.WithAdvance(clock.Advance))
}
