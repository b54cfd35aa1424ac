package sessiontest

import (
	"bytes"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// put stores bytes for a session and an event after them, in a separate turn.
func (f *fixture) put(key session.Key, data []byte) (digest string) {
	f.Helper()
	lease := f.acquire(key)
	digest, err := f.store.PutBlob(f.Context(), key, lease, data)
	require.NoError(f, err)
	f.append(key, lease.Head.Seq, lease, text("named"))
	f.release(key, lease)
	return digest
}

func (f *fixture) hasBlob(key session.Key, data []byte) {
	f.Helper()
	got, err := f.store.Blob(f.Context(), key, session.Digest(data))
	require.NoError(f, err)
	require.True(f, bytes.Equal(data, got), "%d bytes instead of %d", len(got), len(data))
}

func (f *fixture) hasNoBlob(key session.Key, digest string) {
	f.Helper()
	_, err := f.store.Blob(f.Context(), key, digest)
	require.ErrorIs(f, err, agent.ErrNoFile)
}

var blobTests = []test{
	{"bytes come back as they were", func(f *fixture) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		for _, data := range [][]byte{nil, {0}, all, bytes.Repeat(all, 1<<12)} {
			digest := f.put(f.key, data)
			require.Equal(f, session.Digest(data), digest)
			require.True(f, session.IsDigest(digest))
			f.hasBlob(f.key, data)
		}
		f.hasBlob(f.key, all)
	}},
	{"the store keeps nothing of the caller's slice", func(f *fixture) {
		data := []byte("before")
		f.put(f.key, data)
		copy(data, "after!")
		f.hasBlob(f.key, []byte("before"))
	}},
	{"what was not put is not there", func(f *fixture) {
		for _, digest := range []string{session.Digest([]byte("x")), "", "x", "sha256:", "\x00\xff", "../../x"} {
			f.hasNoBlob(f.key, digest)
		}
		digest := f.put(f.key, []byte("x"))
		f.hasNoBlob(f.another("s2"), digest)
		f.write(f.another("s2"), text("a"))
		f.hasNoBlob(f.another("s2"), digest)
	}},
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
			f.hasBlob(f.key, []byte{byte(i / 2)})
		}
	}},
}
