package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestSnapshotsOfDeletedSessions: what a session's snapshots say goes with its name, also if forks keep
// its row, and if a program that knows nothing of snapshots deletes it.
func TestSnapshotsOfDeletedSessions(t *testing.T) {
	for _, old := range []bool{false, true} {
		path := newFile(t)
		s := open(t, path)
		key := session.ID("s")
		lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
		must.Get(s.Write(t.Context(), key, session.Write{Lease: lease, Events: storetest.Batch(0, 3), Snapshot: session.Snapshot{Seq: 3, Data: "secret"}}))
		require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
		require.NoError(t, s.Fork(t.Context(), key, 2, session.ID("fork")))
		require.Equal(t, "1", scalar(t, raw(t, path), "SELECT count(*) FROM snapshot"))
		if old {
			raw(t, path, `UPDATE session SET app = NULL, user = NULL, id = NULL, seq = 0, created = NULL, updated = NULL,
				lease_host = NULL, lease_pid = NULL, lease_started = NULL, lease_until = NULL WHERE id = 's'`, "DELETE FROM log WHERE seq > 2")
		} else {
			require.NoError(t, s.Delete(t.Context(), key))
		}
		require.Equal(t, "0", scalar(t, raw(t, path), "SELECT count(*) FROM snapshot"))
		sound(t, path)
		require.Len(t, storetest.Contents(t, s, session.ID("fork")), 2)
	}
}
