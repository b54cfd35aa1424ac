package sessiontest

import (
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// snapshots skips the test if the store keeps no snapshots.
func (f *fixture) snapshots() {
	f.Helper()
	if !f.store.KeepsSnapshots() {
		f.Skip("the store keeps no snapshots")
	}
}

// keep stores parts at the end of the log.
func (f *fixture) keep(store session.Store, key session.Key, lease session.Lease, parts ...session.Snapshot) error {
	f.Helper()
	at := head(f.Context(), store, key, int64(len(load(f.T, store, key, 0))), lease)
	_, err := store.Write(f.Context(), key, session.Write{Lease: lease, Head: at, Snapshots: parts})
	return err
}

// parts are the parts of a name, each as its number and its data.
func (f *fixture) parts(key session.Key, name string) []session.Snapshot {
	f.Helper()
	found, err := f.store.Snapshots(f.Context(), key, name)
	require.NoError(f, err)
	return found
}

func part(name string, n, seq int64, data string) session.Snapshot {
	return session.Snapshot{Name: name, Part: n, Seq: seq, Data: data}
}

// snap stores parts in a separate turn.
func (f *fixture) snap(key session.Key, parts ...session.Snapshot) {
	f.Helper()
	f.snapshots()
	lease := f.acquire(key)
	require.NoError(f, f.keep(f.store, key, lease, parts...))
	f.release(key, lease)
}

var snapshotTests = []test{
	{"parts come back as they were", func(f *fixture) {
		f.snapshots()
		f.write(f.key, text("a"), text("b"))
		require.Empty(f, f.parts(f.key, "x"))
		bytes := make([]byte, 0, 256)
		for i := range 256 {
			bytes = append(bytes, byte(i))
		}
		data := string(bytes)
		f.snap(f.key, part("x", 0, 1, data), part("y \"q\"", 7, 2, ""))
		f.snap(f.key, part("x", 3, 2, strings.Repeat(data, 8<<10)))
		f.snap(f.key)
		require.Equal(f, []session.Snapshot{part("x", 0, 1, data), part("x", 3, 2, strings.Repeat(data, 8<<10))}, f.parts(f.key, "x"))
		require.Equal(f, []session.Snapshot{part("y \"q\"", 7, 2, "")}, f.parts(f.key, "y \"q\""))
		require.Empty(f, f.parts(f.key, "X"))
		require.Empty(f, f.parts(f.another("s2"), "x"))
		require.Equal(f, []string{"a", "b"}, f.contents(f.key), "the log is as it was")
	}},
	{"what is no snapshot", func(f *fixture) {
		f.snapshots()
		f.write(f.key, text("a"))
		lease := f.acquire(f.key)
		for _, parts := range [][]session.Snapshot{
			{part("", 0, 1, "x")}, {part("n\x00", 0, 1, "x")}, {part("ü", 0, 1, "x")}, {part(strings.Repeat("n", 256), 0, 1, "x")},
			{part("n", -1, 1, "x")}, {part("n", 0, -1, "x")}, {part("n", 0, 1, "x"), part("n", 1, 1, "x")}} {
			require.ErrorIs(f, f.keep(f.store, f.key, lease, parts...), agent.ErrBadInput)
		}
		require.ErrorIs(f, f.keep(f.store, f.key, lease, part("m", 0, 1, "x"), part("n", 0, 2, "x")), agent.ErrConflict, "later than the log")
		require.Empty(f, f.parts(f.key, "m"), "all or none")
		require.Empty(f, f.parts(f.key, "n"))
	}},
	{"readers and writers of snapshots at once", func(f *fixture) {
		f.snapshots()
		f.write(f.key, text("a"))
		lease := f.acquire(f.key)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					last := int64(-1)
					found, err := f.store.Snapshots(f.Context(), f.key, "x")
					if err != nil {
						f.Error(err)
					}
					for _, p := range found {
						if p.Part <= last || p.Data != strings.Repeat("x", int(p.Part)) {
							f.Errorf("part %d has %d bytes, after %d", p.Part, len(p.Data), last)
						}
						last = p.Part
					}
				}
			})
		}
		for n := range int64(60) {
			n = n * 7 % 20
			require.NoError(f, f.keep(f.store, f.key, lease, part("x", n, 1, strings.Repeat("x", int(n)))))
		}
		wg.Wait()
	}},
}
