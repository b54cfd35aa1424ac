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
