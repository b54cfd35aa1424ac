//go:build unix

package agentfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinksAndOddFiles(t *testing.T) {
	dir := write(t, map[string]string{"root.md": "---\n---\n", "elsewhere/x/hidden.txt": "", ".git/a.md": "---\n---\n"})
	outside := write(t, map[string]string{"linked.md": "---\nname: linked\nnonsense: secret words\n---\n", "g.yaml": "kind: AgentGraph\nsecret: words\n"})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "root"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".linked"), []byte("---\nname: linked\n---\n"), 0o600))
	require.NoError(t, os.Symlink("../.linked", filepath.Join(dir, "root", "file.md")))
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "root", "loop")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "root", "loop.md")))
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
		"broken.md:1: the file cannot be read: there is no such file or folder",
		"self.md:1: the file cannot be read: too many levels of symbolic links",
	}, problems(t, dir))

	// What is outside is neither read nor quoted, whoever names it.
	require.NoError(t, os.Remove(filepath.Join(dir, "self.md")))
	require.NoError(t, os.Remove(filepath.Join(dir, "broken.md")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "linked.md"), filepath.Join(dir, "root", "out.md")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "g.yaml"), filepath.Join(dir, "g.yaml")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "root", "graph.md"), []byte("---\nname: graph\ngraph: ../g.yaml\n---\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "root", "folder.md"), []byte("---\nname: folder\ngraph: ../other/g.yaml\n---\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "root", "pipes.md"), []byte("---\nname: pipes\ngraph: ../pipe.md\n---\n"), 0o600))
	found := strings.Join(problems(t, dir), "\n")
	const leads = "cannot be read: this is a link that escapes from the folder"
	for _, file := range []string{"root/out.md:1: the file ", "root/graph.md:3: ", "root/folder.md:3: "} {
		require.Regexp(t, "(?m)^"+file+".*"+leads, found)
	}
	require.Regexp(t, "(?m)^root/pipes.md:3: .* not a regular file", found)
	require.NotContains(t, found, "secret")

	// A graph that is named as the tree may be a link: its folder is where the file
	// really is.
	_, err = Load(filepath.Join(dir, "g.yaml"), WithModel(resolve))
	require.ErrorContains(t, err, filepath.Join(outside, "g.yaml"))
}
