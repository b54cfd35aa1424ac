package session_test

import (
	"bufio"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
)

// TestMain lets the test's own program be the other process.
func TestMain(m *testing.M) {
	if os.Getenv("ARBOR_TEST_WAIT") != "" {
		me := session.Self()
		_, _ = os.Stdout.WriteString("ready\n")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		if !session.Alive(me) {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestSelf(t *testing.T) {
	me := session.Self()
	require.Equal(t, os.Getpid(), me.PID)
	require.NotEmpty(t, me.Host)
	require.Equal(t, me, session.Self())
	require.True(t, session.Alive(me))
}

func TestAlive(t *testing.T) {
	me := session.Self()
	other := func(change func(*session.Owner)) session.Owner {
		o := me
		change(&o)
		return o
	}
	require.True(t, session.Alive(session.Owner{}), "nothing is known of nobody")
	require.True(t, session.Alive(other(func(o *session.Owner) { o.Host = "elsewhere"; o.PID = 1 << 30 })))
	require.True(t, session.Alive(other(func(o *session.Owner) { o.PID = 0 })))
	require.True(t, session.Alive(other(func(o *session.Owner) { o.PID = -1 })), "a process group is no process")
	require.True(t, session.Alive(other(func(o *session.Owner) { o.Started = 0 })), "a start time that was not known")

	gone := other(func(o *session.Owner) { o.PID = 1 << 30 })
	if session.Alive(gone) {
		t.Skip("this system does not tell whether a process is alive")
	}
	if me.Started != 0 {
		require.False(t, session.Alive(other(func(o *session.Owner) { o.Started++ })), "the PID is another process's now")
	}
}

func TestAliveOfAnotherProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ARBOR_TEST_WAIT=1")
	in := must.Get(cmd.StdinPipe())
	out := must.Get(cmd.StdoutPipe())
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)

	owner := session.Owner{Host: session.Self().Host, PID: cmd.Process.Pid}
	require.True(t, session.Alive(owner))
	_, err = in.Write([]byte("\n"))
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	if session.Alive(session.Owner{Host: owner.Host, PID: 1 << 30}) {
		t.Skip("this system does not tell whether a process is alive")
	}
	require.False(t, session.Alive(owner))
}
