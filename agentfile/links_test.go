//go:build unix

package agentfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinksAndOddFiles(t *testing.T) {
	dir := write(t, map[string]string{"root.md": "---\n---\n", "elsewhere/x/hidden.txt": "", ".git/a.md": "---\n---\n"})
	outside := write(t, map[string]string{"linked.md": "---\nname: linked\n---\n"})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "root"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(outside, "linked.md"), filepath.Join(dir, "root", "file.md")))
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "root", "loop")))
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "root", "loop.md")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "other")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.md"), 0o644))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder.md"), 0o755))
	tree, err := Load(dir, WithModel(resolve))
	require.NoError(t, err)
	require.Equal(t, 2, tree.Index().Len())
	require.Equal(t, "linked", tree.Root().SubAgents()[0].Name())

	require.NoError(t, os.Symlink("self.md", filepath.Join(dir, "self.md")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "broken.md")))
	require.Equal(t, []string{
		"broken.md:1: the file cannot be read: no such file or directory",
		"self.md:1: the file cannot be read: too many levels of symbolic links",
	}, problems(t, dir))
}
