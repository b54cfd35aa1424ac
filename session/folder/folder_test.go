package folder_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/folder"
	"github.com/agentarbor/arbor/session/sessiontest"
)

type place struct {
	dir  string
	logs session.Store
}

func TestStore(t *testing.T) {
	clock := sessiontest.NewClock()
	places := make(map[session.Store]place)
	openAt := func(p place) session.Store {
		s := must.Get(folder.New(p.dir, p.logs))
		places[s] = p
		return s
	}
	open := func(t *testing.T) session.Store {
		return openAt(place{filepath.Join(t.TempDir(), "files"), session.NewMemory(session.WithClock(clock.Now))})
	}
	sessiontest.Run(t, open, sessiontest.Options{
		Advance: clock.Advance,
		Peer:    func(_ *testing.T, of session.Store) session.Store { return openAt(places[of]) },
		Reopen: func(t *testing.T, old session.Store) session.Store {
			require.NoError(t, old.Close())
			return openAt(places[old])
		},
	})
}

func open(t *testing.T, dir string) *folder.Store {
	return must.Get(folder.New(dir, session.NewMemory()))
}

func put(t *testing.T, s session.Store, key session.Key, data string) string {
	lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
	digest, err := s.PutBlob(t.Context(), key, lease, []byte(data))
	require.NoError(t, err)
	require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
	return digest
}

func files(t *testing.T, dir string) (all []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, path)
		}
		return err
	}))
	return all
}

// TestNothingIsLeft: the folder is empty again when all sessions are deleted, and a fork
// that fails leaves nothing.
func TestNothingIsLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]") // nothing in a folder's name is a pattern
	s := open(t, dir)
	key, to := session.Key{App: "..", User: "/", ID: "a\x00*[b"}, session.ID("fork")
	put(t, s, key, "x")
	put(t, s, key, "x")
	require.Len(t, files(t, dir), 1)
	require.ErrorIs(t, s.Fork(t.Context(), key, 1, to), agent.ErrBadInput)
	require.Len(t, files(t, dir), 1)
	require.NoError(t, s.Delete(t.Context(), key))
	left := must.Get(os.ReadDir(dir))
	require.Empty(t, left)
}

// TestDamagedBytes are an error, and are never handed out.
func TestDamagedBytes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	digest := put(t, s, session.ID("s"), "words")
	require.NoError(t, os.WriteFile(files(t, dir)[0], []byte("other"), 0o600))
	_, err := s.Blob(t.Context(), session.ID("s"), digest)
	require.ErrorContains(t, err, "damaged")
	require.NotErrorIs(t, err, agent.ErrNoFile)
}

func TestNew(t *testing.T) {
	_, err := folder.New(t.TempDir(), nil)
	require.ErrorContains(t, err, "the store is nil")
	_, err = folder.New("", session.NewMemory())
	require.ErrorContains(t, err, "is empty")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = folder.New(file, session.NewMemory())
	require.ErrorContains(t, err, "folder: ")
}
