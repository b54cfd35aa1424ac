package runner

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// FuzzSessionSnapshot: what is known of a session and could be read is stored as it is, and can go on.
func FuzzSessionSnapshot(f *testing.F) {
	w := &warm{key: session.ID("s1")}
	for i, d := range sessiontest.Payloads() {
		w.apply(&event.Event{Seq: int64(i) + 1, ID: "i", Time: time.Unix(1_700_000_000, 1), TurnID: "t", RunID: "r", Agent: "a", Data: d})
		data, err := w.bytes()
		require.NoError(f, err)
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, data string) {
		w, again := &warm{}, &warm{}
		if !w.read(data) {
			return
		}
		stored, err := w.bytes()
		require.NoError(t, err)
		require.True(t, again.read(string(stored)))
		same, err := again.bytes()
		require.NoError(t, err)
		require.Equal(t, stored, same)
		for i, d := range sessiontest.Payloads() {
			w.apply(&event.Event{Seq: w.fold.Seq + int64(i) + 1, TurnID: "t", RunID: "r", Agent: "a", Data: d})
		}
	})
}

// FuzzUnseal: what is around a snapshot is read back as it is.
func FuzzUnseal(f *testing.F) {
	key := session.ID("s1")
	f.Add(seal(key, "n", 3, place{7, "i", time.Unix(1_700_000_000, 1).UTC()}, []byte("data")).Data, int64(7))
	f.Fuzz(func(t *testing.T, data string, seq int64) {
		right := string(binary.BigEndian.AppendUint32([]byte(data), sum(key, "n", 3, data)))
		for _, data := range []string{data, right} {
			s := session.Snapshot{Name: "n", Part: 3, Seq: seq, Data: data}
			p, inside, ok := unseal(key, s)
			if !ok {
				continue
			}
			require.Equal(t, seq, p.seq)
			again, same, ok := unseal(key, seal(key, "n", 3, p, []byte(inside)))
			require.True(t, ok)
			require.Equal(t, p, again)
			require.Equal(t, inside, same)
			_, _, ok = unseal(key, session.Snapshot{Name: "n", Part: 4, Seq: seq, Data: s.Data})
			require.False(t, ok, "it is of another part")
		}
	})
}
