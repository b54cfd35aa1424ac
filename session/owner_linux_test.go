package session

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	fields := " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 453405 20 21"
	for _, tt := range []struct {
		stat    string
		started int64
		running bool
	}{
		{"42 (arbor) S" + fields, 453405, true},
		{"42 (a b) c) R 1) S" + fields, 453405, true}, // the name is "a b) c) R 1"
		{"42 () R" + fields, 453405, true},
		{"42 (arbor) Z" + fields, 0, false},
		{"42 (arbor) X" + fields, 0, false},
		{"42 (arbor) S 1 2", 0, true},
		{"42 (arbor)", 0, true},
		{"", 0, true},
		{"garbage", 0, true},
	} {
		started, running := parseStat([]byte(tt.stat))
		require.Equal(t, tt.started, started, tt.stat)
		require.Equal(t, tt.running, running, tt.stat)
	}
	started, running := processStart(os.Getpid())
	require.Positive(t, started)
	require.True(t, running)
}

// TestAliveOfAZombie: a process that was killed is dead even while its parent
// has not waited for it.
func TestAliveOfAZombie(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	started, running := processStart(cmd.Process.Pid)
	require.True(t, running)
	owner := Owner{Host: Self().Host, PID: cmd.Process.Pid, Started: started}
	require.True(t, Alive(owner))
	require.NoError(t, cmd.Process.Kill())
	require.NoError(t, unix.Waitid(unix.P_PID, owner.PID, nil, unix.WEXITED|unix.WNOWAIT, nil)) // leaves it a zombie
	require.False(t, Alive(owner))
	require.Error(t, cmd.Wait())
	require.False(t, Alive(owner))
}
