package sqlite_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// cutPower cuts the write-ahead log of a store at every commit, and at the beginning and the end
// of what is between two of them, as a crash of the system can, and hands a copy of the file with each
// remainder to the test, the shortest first. This process must not use the store
// any more, whose locks reading the file drops.
func cutPower(t *testing.T, path string, check func(copied string)) {
	t.Helper()
	main := must.Get(os.ReadFile(path))
	wal := must.Get(os.ReadFile(path + "-wal"))
	pageSize := int(binary.BigEndian.Uint32(wal[8:]))
	const header, frameHeader = 32, 24
	frame := frameHeader + pageSize
	commits := func(at int) bool { // at the end of the log, or if the frame there is the last of a transaction
		return at < header || at >= len(wal) || binary.BigEndian.Uint32(wal[at+4:]) != 0
	}
	for cut := header; cut <= len(wal); cut += frame {
		if !commits(cut-2*frame) && !commits(cut-frame) && !commits(cut) && !commits(cut+frame) {
			continue
		}
		for _, torn := range []int{0, 700} { // at the frame's end, or within the next one
			copied := filepath.Join(t.TempDir(), fmt.Sprintf("%d+%d.db", cut, torn))
			require.NoError(t, os.WriteFile(copied, main, 0o600))
			require.NoError(t, os.WriteFile(copied+"-wal", wal[:min(cut+torn, len(wal))], 0o600))
			check(copied)
		}
	}
}

// TestLossOfPower: whatever of the write-ahead log is left, it is a state that the
// store was in: whole batches, and a lease for what is stored.
func TestLossOfPower(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine writes, and the race detector takes ten times as long")
	}
	path := newFile(t)
	s := open(t, path)
	key := session.ID("s")
	ends := map[int]bool{0: true}
	last := session.Lease{}
	for seq := int64(0); seq < 36; {
		lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
		for _, n := range []int{1, 4, 7} {
			require.NoError(t, sessiontest.Append(t.Context(), s, key, seq, lease, storetest.Batch(seq, n)...))
			seq += int64(n)
			ends[int(seq)] = true
		}
		require.NoError(t, sessiontest.Renew(t.Context(), s, key, lease))
		require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
		last = lease
	}

	seen := map[int]bool{}
	length, token := 0, int64(0)
	cutPower(t, path, func(copied string) {
		s := must.Get(sqlite.Open(copied))
		log := storetest.Contents(t, s, key)
		require.True(t, ends[len(log)], "%d events are no end of a batch", len(log))
		require.GreaterOrEqual(t, len(log), length)
		length, seen[len(log)] = len(log), true

		lease, err := sessiontest.Acquire(t.Context(), s, key, session.Owner{Host: "elsewhere", PID: 1})
		if err != nil {
			require.ErrorIs(t, err, agent.ErrSessionBusy) // this process is alive: its lease was held at the cut
		} else {
			require.GreaterOrEqual(t, lease.Token, token)
			require.EqualValues(t, len(log), lease.Head.Seq)
			token = lease.Token
		}
		require.NoError(t, s.Close())
	})
	require.Equal(t, ends, seen)
	require.Greater(t, token, last.Token)
}

// TestLossOfPowerWithForks: a fork or a deletion is there whole or not at all, and
// so is what it leaves behind; and what was done is lost from the end.
func TestLossOfPowerWithForks(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine writes, and the race detector takes ten times as long")
	}
	path := newFile(t)
	s := open(t, path)
	const everything = `SELECT s.key, s.id, s.seq, s.parent_key, s.parent_seq,
			(SELECT group_concat(seq || json, ' ' ORDER BY seq) FROM event WHERE session = s.key)
		FROM session s WHERE id IS NULL OR created IS NOT NULL ORDER BY key`
	states := []string{""}
	did := func() {
		if now := dump(t, path, everything); now != states[len(states)-1] {
			states = append(states, now)
		}
	}
	stories := odd()
	story := func(key session.Key, from, to int) {
		for _, n := range []int{from + (to-from)/2, to} {
			appendAll(t, s, key, stories[from:n], 100)
			did()
			from = n
		}
	}
	fork := func(of session.Key, seq int64, to session.Key) {
		require.NoError(t, s.Fork(t.Context(), of, seq, to))
		did()
	}
	remove := func(key session.Key) {
		require.NoError(t, s.Delete(t.Context(), key))
		did()
	}
	a, b, c, d := session.ID("a"), session.ID("b"), session.ID("c"), session.ID("d")
	story(a, 0, 20)
	fork(a, 12, b)
	story(b, 12, 18)
	fork(b, 16, c)
	fork(a, 7, d)
	remove(a) // leaves what b shares
	story(d, 7, 9)
	remove(b) // leaves what c shares, in a and b
	fork(c, 3, a)
	remove(c) // takes b with it, and shortens a
	remove(a)
	remove(d) // the last
	require.Empty(t, states[len(states)-1])

	at := 0
	seen := map[int]bool{}
	cutPower(t, path, func(copied string) {
		s := must.Get(sqlite.Open(copied))
		now := dump(t, copied, everything)
		for next := at; now != states[at]; at = next {
			next++
			require.Less(t, next, len(states), "the file was never like this, or was before:\n%s", now)
		}
		if !seen[at] {
			seen[at] = true
			sound(t, copied)
		}
		require.NoError(t, s.Close())
	})
	require.Len(t, seen, len(states))
}
