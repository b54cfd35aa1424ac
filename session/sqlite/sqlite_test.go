package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

func open(t testing.TB, path string, opts ...sqlite.Option) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestStore(t *testing.T) {
	clock := sessiontest.NewClock()
	paths := make(map[session.Store]string)
	openAt := func(t *testing.T, path string) session.Store {
		s := open(t, path, sqlite.WithClock(clock.Now))
		paths[s] = path
		return s
	}
	sessiontest.Run(t,
		func(t *testing.T) session.Store { return openAt(t, filepath.Join(t.TempDir(), "sessions.db")) },
		sessiontest.WithAdvance(clock.Advance),
		sessiontest.WithDeadOwners(),
		sessiontest.WithPeer(func(t *testing.T, of session.Store) session.Store { return openAt(t, paths[of]) }),
		sessiontest.WithReopen(func(t *testing.T, old session.Store) session.Store {
			require.NoError(t, old.Close())
			return openAt(t, paths[old])
		}))
}
