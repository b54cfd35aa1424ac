package postgres_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestMain lets the test's own program play the other processes of some tests.
func TestMain(m *testing.M) {
	if role := os.Getenv("ARBOR_TEST_ROLE"); role != "" {
		os.Exit(playRole(role))
	}
	os.Exit(m.Run())
}

func open(t testing.TB, url string, opts ...postgres.Option) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestStore(t *testing.T) {
	url := servers.Database(t) // the suite's tests need no database of their own
	clock := sessiontest.NewClock()
	openStore := func(t *testing.T) session.Store { return open(t, url, postgres.WithClock(clock.Now)) }
	sessiontest.Run(t, openStore,
		sessiontest.WithAdvance(clock.Advance),
		sessiontest.WithDeadOwners(),
		sessiontest.WithPeer(func(t *testing.T, _ session.Store) session.Store { return openStore(t) }),
		sessiontest.WithReopen(func(t *testing.T, old session.Store) session.Store {
			require.NoError(t, old.Close())
			return openStore(t)
		}))
}
