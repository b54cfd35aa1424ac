package redis_test

import (
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// newTail returns a tail whose followers wait for what Redis is to bring as long as a busy machine may need.
func newTail(t testing.TB, url string, store session.Store, opts ...redis.Option) *redis.Tail {
	t.Helper()
	tail := must.Get(redis.New(t.Context(), url, store, append([]redis.Option{redis.WithGrace(5 * time.Second)}, opts...)...))
	t.Cleanup(func() { require.NoError(t, tail.Close()) })
	return tail
}

// shared is a store that several tails can be put around; it stays open.
type shared struct{ session.Store }

func (shared) Close() error { return nil }

// TestTail: the suites of tails and of stores.
func TestTail(t *testing.T) {
	url := servers.SharedRedis(t)
	clock := sessiontest.NewClock()
	below := make(map[session.Store]session.Store)
	around := func(t *testing.T, store session.Store) sessiontest.Followed {
		tail := newTail(t, url, shared{store}, redis.WithPoll(20*time.Millisecond))
		below[tail] = store
		return tail
	}
	open := func(t *testing.T) sessiontest.Followed {
		return around(t, session.NewMemory(session.WithClock(clock.Now)))
	}
	o := sessiontest.Options{
		Advance:    clock.Advance,
		Peer:       func(t *testing.T, of session.Store) session.Store { return around(t, below[of]) },
		Cuts:       300,
		PlainStore: func(t *testing.T, of session.Store) session.Store { return shared{below[of]} },
	}
	sessiontest.RunTail(t, open, o)
	t.Run("store", func(t *testing.T) {
		sessiontest.Run(t, func(t *testing.T) session.Store { return open(t) }, o)
	})
}

// TestTailInBrief runs against an imitation of Redis, which is everywhere.
func TestTailInBrief(t *testing.T) {
	if os.Getenv("CI") == "true" {
		t.Skip("CI has a Redis")
	}
	url := "redis://" + miniredis.RunT(t).Addr()
	sessiontest.RunTail(t, func(t *testing.T) sessiontest.Followed {
		return newTail(t, url, session.NewMemory(), redis.WithPoll(20*time.Millisecond))
	}, sessiontest.Options{Cuts: 50})
}

func TestTailOnPostgres(t *testing.T) {
	url, database := servers.SharedRedis(t), servers.Database(t)
	open := func(t *testing.T) session.Store { return must.Get(postgres.Open(t.Context(), database)) }
	around := func(t *testing.T) sessiontest.Followed {
		return newTail(t, url, open(t), redis.WithPoll(20*time.Millisecond))
	}
	sessiontest.RunTail(t, around, sessiontest.Options{
		DeadOwners: true,
		Peer:       func(t *testing.T, _ session.Store) session.Store { return around(t) },
		Cuts:       100,
		PlainStore: func(t *testing.T, _ session.Store) session.Store { return open(t) },
	})
}
