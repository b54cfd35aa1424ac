package crashtest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// variable is the environment variable with a process's order.
const variable = "ARBOR_CRASH"

// childTask is what a process must do.
type childTask struct {
	Way, Story string
	Place      Place
	Kill       killPoint
}

// Child is the process that a [Suite] kills: it continues a story at the end of the log, until the end of the story or
// its own. The test that calls it is skipped unless a suite runs it.
func Child(t *testing.T, ways ...Way) {
	text := os.Getenv(variable)
	if text == "" {
		t.Skip("run by the test that kills processes")
	}
	var o childTask
	require.NoError(t, json.Unmarshal([]byte(text), &o))
	for _, way := range ways {
		for _, s := range Stories() {
			if way.Name == o.Way && s.Name == o.Story {
				fmt.Println("begins")
				require.NoError(t, s.Play(way, o.Place, &Odometer{kill: o.Kill}))
			}
		}
	}
}

// child is a running process.
type child struct {
	cmd    *exec.Cmd
	out    io.Reader
	output bytes.Buffer
	at     Place
	kill   killPoint
	name   string
}

// begin starts a process and waits until it is ready. test is the name of the test that calls Child.
func begin(t *testing.T, test string, o childTask) *child {
	text, err := json.Marshal(o)
	require.NoError(t, err)
	c := &child{cmd: exec.Command(os.Args[0], "-test.run=^"+test+"$"), at: o.Place, kill: o.Kill, name: "crash " + rand.Text()}
	c.cmd.Env = append(os.Environ(), variable+"="+string(text), "PGAPPNAME="+c.name, "GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = &c.output
	c.out, err = c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() { _ = c.cmd.Process.Kill() }) // has no effect after its end
	_, err = io.ReadFull(c.out, make([]byte, len("begins\n")))
	require.NoError(t, err, &c.output)
	return c
}

// end waits for the process's end and reports whether it was killed. A process that was not killed must have reached
// the end of the story.
func (c *child) end(t *testing.T) (killed bool) {
	rest, err := io.ReadAll(c.out)
	require.NoError(t, err)
	err = c.cmd.Wait()
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	if status.Signaled() && status.Signal() == syscall.SIGKILL {
		return true
	}
	require.NoError(t, err, "%s\n%s", rest, &c.output)
	return false
}
