package replace

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	for _, content := range []string{"first", "", "second"} {
		require.NoError(t, File(path, []byte(content), 0o640))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(data))
	}
	if runtime.GOOS != "windows" { // which has no such permissions
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, 0o640, info.Mode().Perm())
	}
	require.Error(t, File(filepath.Join(dir, "none", "a.txt"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	var failed *fs.PathError
	require.ErrorAs(t, File(filepath.Join(dir, "folder"), nil, 0o600), &failed)
	require.Equal(t, filepath.Join(dir, "folder"), failed.Path, "not the temporary file")
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 2, "nothing is left behind")
	require.NoError(t, Sync(dir))
}

// An open file is replaced, on Windows once it is closed. Its reader gets the whole old content.
func TestFileThatIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	require.NoError(t, File(path, []byte("0"), 0o600))
	for i := range 20 {
		open, err := os.Open(path)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- File(path, []byte(strconv.Itoa(i+1)), 0o600) }()
		data, err := io.ReadAll(open)
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(i), string(data))
		require.NoError(t, open.Close())
		require.NoError(t, <-done)
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "20", string(data))
}
