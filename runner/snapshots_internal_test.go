package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// FuzzSessionSnapshot: a snapshot that could be read is stored as it is, and the session can go on.
func FuzzSessionSnapshot(f *testing.F) {
	key := session.ID("s1")
	w := &cachedSession{key: key}
	for i, d := range sessiontest.Payloads() {
		w.apply(&event.Event{Seq: int64(i) + 1, ID: "i", Time: time.Unix(1_700_000_000, 1), TurnID: "t", RunID: "r", Agent: "a", Data: d})
		data, err := w.snapshotData()
		require.NoError(f, err)
		require.False(f, (&cachedSession{key: session.ID("s2")}).readSnapshot(data), "it is of another session")
		for n := range data {
			require.False(f, (&cachedSession{key: key}).readSnapshot(data[:n]))
		}
		f.Add(data[len(sum(key, "")):])
	}
	f.Fuzz(func(t *testing.T, document string) {
		w, again := &cachedSession{key: key}, &cachedSession{key: key}
		if !w.readSnapshot(sum(key, document) + document) {
			return
		}
		stored, err := w.snapshotData()
		require.NoError(t, err)
		require.True(t, again.readSnapshot(stored))
		same, err := again.snapshotData()
		require.NoError(t, err)
		require.Equal(t, stored, same)
		for i, d := range sessiontest.Payloads() {
			w.apply(&event.Event{Seq: w.fold.Seq + int64(i) + 1, TurnID: "t", RunID: "r", Agent: "a", Data: d})
		}
	})
}
