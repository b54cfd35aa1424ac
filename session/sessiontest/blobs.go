package sessiontest

import (
	"bytes"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

func (f *fixture) hasBlob(store session.Store, key session.Key, data []byte) {
	f.Helper()
	got, err := store.Blob(f.Context(), key, session.Digest(data))
	require.NoError(f, err)
	require.True(f, bytes.Equal(data, got), "%d bytes instead of %d", len(got), len(data))
}

func (f *fixture) hasNoBlob(store session.Store, key session.Key, digest string) {
	f.Helper()
	_, err := store.Blob(f.Context(), key, digest)
	require.ErrorIs(f, err, agent.ErrNoFile)
}

var blobTests = []test{
	{"side by side", func(f *fixture) {
		lease := f.acquire(f.key)
		var wg sync.WaitGroup
		errs := make([]error, 16)
		for i := range errs {
			wg.Go(func() { _, errs[i] = f.store.PutBlob(f.Context(), f.key, lease, []byte{byte(i / 2)}) })
		}
		seq := f.append(f.key, 0, lease, texts(4, "a")...)
		wg.Wait()
		f.append(f.key, seq, lease, text("b"))
		for i := range errs {
			require.NoError(f, errs[i])
			f.hasBlob(f.store, f.key, []byte{byte(i / 2)})
		}
	}},
}
