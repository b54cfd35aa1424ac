package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestSnapshotsOfDeletedSessions: what a session's snapshots say goes with its name, also if forks keep
// its row.
func TestSnapshotsOfDeletedSessions(t *testing.T) {
	url := servers.Database(t)
	s := open(t, url)
	key := session.ID("s")
	lease := acquire(t, s, key)
	must.Get(s.Write(t.Context(), key, session.Write{Lease: lease, Events: storetest.Batch(0, 3), Snapshot: session.Snapshot{Seq: 3, Data: "secret"}}))
	require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
	require.NoError(t, s.Fork(t.Context(), key, 2, session.ID("fork")))
	require.Equal(t, "1", run(t, url, "SELECT count(*) FROM arbor.snapshot"))
	require.Equal(t, "on", run(t, url, "SELECT current_setting('synchronous_commit')"))
	require.NoError(t, s.Delete(t.Context(), key))
	require.Equal(t, "0", run(t, url, "SELECT count(*) FROM arbor.snapshot"))
	require.Len(t, storetest.Load(t, s, session.ID("fork")), 2)
}
