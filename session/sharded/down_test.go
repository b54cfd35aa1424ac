package sharded_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
)

// TestDown stops the server of one of three shards: sessions on the others do not notice, errors name the shard and
// hold no password, and all is well when it is there again.
func TestDown(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t)
	withPassword := func(raw string) string {
		u, err := url.Parse(raw)
		require.NoError(t, err)
		u.User = url.UserPassword(u.User.Username(), "secret-word")
		return u.String()
	}
	var stores []session.Store
	for _, raw := range []string{servers.Database(t), server.Database(t), servers.Database(t)} {
		s, err := postgres.Open(t.Context(), withPassword(raw)+"&pool_max_conns=3", postgres.WithRetryTime(100*time.Millisecond))
		require.NoError(t, err)
		stores = append(stores, s)
	}
	s := layout{now: "abc"}.over(t, stores)
	defer s.Close()
	const users = 24
	keys := func(i int) session.Key {
		return session.Key{App: fmt.Sprint("app", i%6), User: fmt.Sprint(i), ID: "s1"}
	} // whose state is on all shards
	for i := range users {
		require.NoError(t, write(t.Context(), s, keys(i), say("a"), set("user:n", float64(i)), set("app:n", "a")))
	}
	on := make(map[session.Key]bool) // the shard that will be down
	for i := range users {
		_, ok, err := session.Find(t.Context(), stores[1], keys(i))
		require.NoError(t, err)
		on[keys(i)] = ok
		_, err = s.SharedState(t.Context(), keys(i))
		require.NoError(t, err)
	}
	var orphans []session.Key // of the shards that stay
	for i := range users {
		if key := keys(i); !on[key] {
			key.ID = "left behind"
			require.NoError(t, write(t.Context(), s, key, say("a")))
			lost, err := s.Acquire(t.Context(), key, session.Self())
			require.NoError(t, err)
			require.NoError(t, s.Abandon(t.Context(), key, lost))
			orphans = append(orphans, key)
		}
	}

	require.NoError(t, server.StopImmediately())
	down := 0
	for i := range users {
		key := keys(i)
		err := write(t.Context(), s, key, say("b"), set("user:n", float64(i+1)))
		state, stateErr := s.SharedState(t.Context(), key)
		_, listErr := s.List(t.Context(), session.Key{App: key.App, User: key.User}, session.Page{Limit: 10})
		if !on[key] {
			require.NoError(t, err)
			require.NoError(t, stateErr)
			require.NoError(t, listErr)
			require.Equal(t, map[string]any{"user:n": float64(i + 1), "app:n": "a"}, state)
			continue
		}
		down++
		for _, err := range []error{err, stateErr, listErr} {
			require.ErrorContains(t, err, "shard b: ")
			require.NotContains(t, err.Error(), "secret-word")
		}
	}
	require.NotZero(t, down)
	require.Less(t, down, users)
	_, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.ErrorContains(t, err, "shard b: ")
	found, err := s.Orphans(t.Context(), session.Page{})
	require.NoError(t, err)
	require.Len(t, found, len(orphans))
	for _, i := range found {
		require.Contains(t, orphans, i.Key)
	}

	require.NoError(t, server.Start())
	for i := range users {
		require.NoError(t, write(t.Context(), s, keys(i), say("c"), set("app:n", "c")))
	}
	infos, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.Len(t, infos, users+len(orphans))
}
