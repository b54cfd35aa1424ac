//go:build unix

package cli_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
)

// TestOddFiles: what cannot be a graph, a tree or a file of cases is said at once, and
// nothing waits for somebody to write to a pipe.
func TestOddFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, syscall.Mkfifo(at("pipe.yaml"), 0o600))
	require.NoError(t, syscall.Mkfifo(at("pipe.md"), 0o600))
	require.NoError(t, os.Mkdir(at("folder.yaml"), 0o700))
	require.NoError(t, os.Symlink("/dev/zero", at("device.yaml")))
	huge, err := os.Create(at("huge.yaml"))
	require.NoError(t, err)
	require.NoError(t, huge.Truncate(8<<30))
	require.NoError(t, huge.Close())
	require.NoError(t, os.WriteFile(at("outer.yaml"), []byte("apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: outer, version: 1.0.0}\nspec:\n"+
		"  agents: [{id: a, graph: pipe.yaml}, {id: b, graph: device.yaml}, {id: c, graph: folder.yaml}]\n  entrypoint: a\n"), 0o600))
	for what, say := range map[string]string{"pipe.yaml": "not a regular file", "folder.yaml": "is a folder", "device.yaml": "not a regular file", "huge.yaml": "larger than 4 MiB", "none.yaml": "there is no such file"} {
		for _, args := range [][]string{{"graph", "validate"}, {"graph", "draw"}, {"graph", "run", "--text", "x"}, {"graph", "test"}, {"lint"}, {"tree"}} {
			if args[len(args)-1] == "lint" && what == "folder.yaml" || args[0] == "tree" && what == "folder.yaml" {
				continue // a folder may be called so
			}
			got := invocation{}.run(t, append(args, at(what))...)
			require.Equal(t, cli.StatusUsage, got.status, "%s %s: %s", args, what, got.err)
			if args[len(args)-1] != "test" || what == "none.yaml" {
				require.Regexp(t, say+"|device.yaml.*link that escapes", got.out+got.err, "%s %s", args, what)
			}
		}
	}
	got := invocation{}.run(t, "graph", "validate", at("outer.yaml"))
	require.Equal(t, cli.StatusUsage, got.status, got.err)
	require.Contains(t, got.out, `"pipe.yaml" cannot be read: it is not a regular file`)
	require.Contains(t, got.out, `"device.yaml" cannot be read: it is a link that escapes from the folder`)
	require.Contains(t, got.out, `"folder.yaml" cannot be read: it is a folder`)
}
