// Package twin runs, in tests, a Node.js process that does in JavaScript what a package does in Go: it reads a line of
// JSON and writes a line of JSON.
package twin

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Process is such a process. It ends with the test.
type Process struct {
	in  *json.Encoder
	out *bufio.Reader
}

// Start starts a script. If Node.js or a file that the script needs is missing, the test is skipped with a line that
// says how to get it, and fails in CI.
func Start(t testing.TB, script, needs, how string) *Process {
	t.Helper()
	missing := ""
	if _, err := exec.LookPath("node"); err != nil {
		missing = "Node.js 20 or later is not installed; with it: " + how
	} else if _, err := os.Stat(needs); err != nil {
		missing = needs + " is missing: " + how
	}
	switch {
	case missing == "":
	case os.Getenv("CI") == "true":
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
	cmd := exec.CommandContext(t.Context(), "node", script)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { // the context has ended, and the process with it
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &Process{json.NewEncoder(in), bufio.NewReader(out)}
}

// Ask sends a value, and decodes the answer.
func (p *Process) Ask(t testing.TB, q, answer any) {
	t.Helper()
	require.NoError(t, p.in.Encode(q))
	line, err := p.out.ReadBytes('\n')
	require.NoError(t, err, "node ended")
	require.NoError(t, json.Unmarshal(line, answer))
}
