//go:build unix

package confined

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put := func(name string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte("words"), 0o600))
	}
	put(filepath.Join(dir, "below", "inside"))
	put(filepath.Join(outside, "secret"))
	link := func(to, name string) { require.NoError(t, os.Symlink(to, filepath.Join(dir, name))) }
	link("below/inside", "link")
	link("below", "folder")
	link(filepath.Join(outside, "secret"), "out")
	link("../"+filepath.Base(outside)+"/secret", "up")
	link(outside, "elsewhere")
	link("round", "round")
	link("/dev/zero", "device")
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))

	fsys := Folder(dir)
	for _, name := range []string{"below/inside", "link", "folder/inside"} {
		data, err := fs.ReadFile(fsys, name)
		require.NoError(t, err, name)
		require.Equal(t, "words", string(data))
	}
	for name, want := range map[string]error{"out": ErrOutside, "up": ErrOutside, "elsewhere/secret": ErrOutside, "device": ErrOutside, "pipe": ErrIrregular,
		"none": fs.ErrNotExist, "round": syscall.ELOOP, "../" + filepath.Base(outside): fs.ErrInvalid, "/etc/passwd": fs.ErrInvalid} {
		_, err := fs.ReadFile(fsys, name)
		require.ErrorIs(t, err, want, name)
		if name != "pipe" {
			_, err = fs.Stat(fsys, name)
			require.ErrorIs(t, err, want, name)
		}
	}
	_, err := fs.ReadDir(fsys, "elsewhere")
	require.ErrorIs(t, err, ErrOutside)
	entries, err := fs.ReadDir(fsys, ".")
	require.NoError(t, err)
	require.Len(t, entries, 9)

	data, err := Read(filepath.Join(dir, "out"), 3) // whoever names it may follow it
	require.NoError(t, err)
	require.Equal(t, "wor", string(data))
	for name, want := range map[string]error{"pipe": ErrIrregular, "device": ErrIrregular, "below": ErrFolder, "none": fs.ErrNotExist} {
		_, err := Read(filepath.Join(dir, name), 10)
		require.ErrorIs(t, err, want, name)
	}
}
