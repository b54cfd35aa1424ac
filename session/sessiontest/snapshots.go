package sessiontest

import (
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/session"
)

// keep stores a snapshot at the end of the log. It skips the test if the store keeps none.
func (f *fixture) keep(lease session.Lease, s session.Snapshot) error {
	f.Helper()
	if !f.store.KeepsSnapshots() {
		f.Skip("the store keeps no snapshots")
	}
	at := head(f.Context(), f.store, f.key, int64(len(f.load(f.key, 0))), lease)
	_, err := f.store.Write(f.Context(), f.key, session.Write{Lease: lease, Head: at, Snapshot: s})
	return err
}

func (f *fixture) snapshotOf(key session.Key) session.Snapshot {
	f.Helper()
	found, err := f.store.Snapshot(f.Context(), key)
	require.NoError(f, err)
	return found
}

var snapshotTests = []test{
	{"readers and writers of snapshots at once", func(f *fixture) {
		f.write(f.key, texts(20, "a")...)
		lease := f.acquire(f.key)
		require.NoError(f, f.keep(lease, session.Snapshot{Seq: 1, Data: "x"}))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					found, err := f.store.Snapshot(f.Context(), f.key)
					if err != nil || found.Data != strings.Repeat("x", int(found.Seq)) {
						f.Errorf("the snapshot of %d has %d bytes: %v", found.Seq, len(found.Data), err)
					}
				}
			})
		}
		for n := range int64(60) {
			n = 1 + n*7%20
			require.NoError(f, f.keep(lease, session.Snapshot{Seq: n, Data: strings.Repeat("x", int(n))}))
		}
		wg.Wait()
	}},
}
