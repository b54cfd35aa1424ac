//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// TestFileThatIsNotInItsPlace: nothing is acknowledged that whoever opens the path next will not find.
func TestFileThatIsNotInItsPlace(t *testing.T) {
	away := func(path string) func(testing.TB) {
		return func(t testing.TB) { require.NoError(t, os.Rename(path, path+".away")) }
	}
	back := func(path string) func(testing.TB) {
		return func(t testing.TB) { require.NoError(t, os.Rename(path+".away", path)) }
	}
	replaced := func(path string) func(testing.TB) {
		return func(t testing.TB) {
			data := must.Get(os.ReadFile(path))
			away(path)(t)
			require.NoError(t, os.WriteFile(path, data, 0o600))
		}
	}
	for _, linked := range []bool{false, true} {
		dir := t.TempDir()
		path, real := filepath.Join(dir, "arbor.db"), filepath.Join(dir, "arbor.db")
		if linked {
			real = filepath.Join(dir, "disk", "real.db")
			require.NoError(t, os.Mkdir(filepath.Dir(real), 0o700))
			first := must.Get(sqlite.Open(real))
			require.NoError(t, first.Close())
			require.NoError(t, os.Symlink(real, path))
		}
		for name, does := range map[string][2]func(testing.TB){
			"file removed":  {away(real), back(real)},
			"file replaced": {replaced(real), back(real)},
			"path replaced": {replaced(path), back(path)},
			"log removed":   {away(real + "-wal"), back(real + "-wal")},
			"log replaced":  {replaced(real + "-wal"), back(real + "-wal")},
		} {
			store := must.Get(sqlite.Open(path))
			key := session.ID(name)
			lease := must.Get(sessiontest.Acquire(t.Context(), store, key, session.Self()))
			write := func() error {
				_, err := store.Write(t.Context(), key, session.Write{Lease: lease, Head: lease.Head, Events: []*event.Event{{
					Seq: lease.Head.Seq + 1, ID: "e", Data: &event.User{}}}})
				return err
			}
			does[0](t)
			err := write()
			require.ErrorIs(t, err, session.ErrUnavailable, name)
			require.ErrorContains(t, err, path+": the file, or the -wal file next to it, was removed or replaced", name)
			_, err = store.Write(t.Context(), key, session.Write{Lease: lease})
			require.ErrorIs(t, err, session.ErrUnavailable, "%s: a lease", name)
			does[1](t)
			_, err = store.Write(t.Context(), key, session.Write{Lease: lease})
			require.NoError(t, err, name)
			require.NoError(t, store.Close())
		}
	}
}
