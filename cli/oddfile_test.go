//go:build unix

package cli_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
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
	huge := must.Get(os.Create(at("huge.yaml")))
	require.NoError(t, huge.Truncate(8<<30))
	require.NoError(t, huge.Close())
	require.NoError(t, os.WriteFile(at("outer.yaml"), []byte("apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: outer, version: 1.0.0}\nspec:\n"+
		"  agents: [{id: a, graph: pipe.yaml}, {id: b, graph: device.yaml}, {id: c, graph: folder.yaml}]\n  entrypoint: a\n"), 0o600))
	for what, say := range map[string]string{"pipe.yaml": "not a regular file", "folder.yaml": "is a folder", "device.yaml": "not a regular file", "huge.yaml": "larger than 4 MiB", "none.yaml": "there is no such file"} {
		for _, args := range [][]string{{"graph", "validate"}, {"graph", "draw"}, {"graph", "run", "--text", "x"}, {"graph", "test"}, {"lint"}, {"tree"}} {
			if args[len(args)-1] == "lint" && what == "folder.yaml" || args[0] == "tree" && what == "folder.yaml" {
				continue // a folder may be called so
			}
			got := invocation{}.run(t, append(args, at(what))...).exits(t, cli.StatusUsage, args, what)
			if args[len(args)-1] != "test" || what == "none.yaml" {
				require.Regexp(t, say+"|device.yaml.*link that escapes", got.out+got.err, "%s %s", args, what)
			}
		}
	}
	got := invocation{}.run(t, "graph", "validate", at("outer.yaml")).exits(t, cli.StatusUsage)
	require.Contains(t, got.out, `"pipe.yaml" cannot be read: this is not a regular file`)
	require.Contains(t, got.out, `"device.yaml" cannot be read: this is a link that escapes from the folder`)
	require.Contains(t, got.out, `"folder.yaml" cannot be read: this is a folder`)
}

// TestReadOnlySessions: every command that only looks at sessions works with a file and a folder that its user cannot
// write, and those that change something say why they cannot.
func TestReadOnlySessions(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir), filepath.Dir(arbor)} { // another user must get here
		require.NoError(t, os.Chmod(d, 0o755))
	}
	db := filepath.Join(dir, "x.db")
	i := invocation{home: home, unlawful: true} // the laws are read from the state directory
	made := i.run(t, "run", "--db", db, "--session", "s1", filepath.Join("..", "examples", "helpdesk"), "I was charged twice")
	require.Zero(t, made.status, made.err)
	require.NoError(t, os.Chmod(db, 0o444))
	require.NoError(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	nobody := func(args ...string) outcome {
		cmd := &running{Cmd: invocation{}.command(t, append(args, "--db", db)...)}
		cmd.Dir, cmd.Stdout, cmd.Stderr = "/", &cmd.out, &cmd.err
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		require.NoError(t, cmd.Start())
		return cmd.wait(t)
	}
	for _, args := range [][]string{
		{"sessions", "ls"}, {"sessions", "show", "s1"}, {"sessions", "history", "s1"}, {"sessions", "export", "s1"}, {"sessions", "check", "s1"},
		{"sessions", "why", "s1"}, {"sessions", "follow", "s1", "--until-end"}, {"sessions", "replay", "s1"},
	} {
		got := nobody(args...)
		require.Zero(t, got.status, "%s: %s", args, got.err)
		require.NotEmpty(t, got.out+got.err, "%s", args)
	}
	got := nobody("sessions", "rm", "s1")
	require.NotZero(t, got.status)
	require.Contains(t, got.err, "opened read-only")
	require.Equal(t, cli.StatusUsage, nobody("run", ".", "hello").status)
}
