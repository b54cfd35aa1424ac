// Package tools holds the programs of CI, and the test of its script.
package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRun runs the script with steps of its own: what fails, hangs or is flaky is printed last, and nothing that a step
// leaves behind is waited for.
func TestRun(t *testing.T) {
	const steps = `
steps=("good 60" "bad 60" "linter 60" "hung 1")
named=("late 60" "never 60" "quick 60")
whole=${WHOLE:-3600}
good() { echo "ok  	x	0.1s"; echo "== failed packages"; echo "FLAKY: x (TestX)"; sleep 9 & }
bad() { echo "ok  	x	0.1s"; echo "== failed packages"; echo "FAILED: y (TestY)"; false; echo unreached; }
linter() { seq 100; echo "line 3 is wrong"; return 2; }
hung() { echo begun; sleep 60; }
late() { sleep 60; }
never() { echo unreached; }
quick() { echo "quick is done"; }
`
	script, err := os.ReadFile(filepath.Join("..", "run"))
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), ".ci")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run"), script, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "steps"), []byte(steps), 0o600))
	run := func(status int, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "bash", append([]string{filepath.Join(dir, "run")}, args...)...)
		out, err := cmd.CombinedOutput()
		require.Equal(t, status, cmd.ProcessState.ExitCode(), "%v: %s", err, out)
		return string(out)
	}
	out := run(1)
	require.NotContains(t, out, "unreached")
	_, summary, _ := strings.Cut(out, "== summary\n")
	require.Regexp(t, `^good .* ok
bad .* failed
linter .* failed
hung .* hung, ended at its limit
all together [0-9]+ s
== bad \(failed\):
== failed packages
FAILED: y \(TestY\)
== linter \(failed\):
62
(?s:.*)
line 3 is wrong
== hung \(hung, ended at its limit\):
begun
== result
FLAKY: x \(TestX\)
FAILED: y \(TestY\)
FAILED STEP: bad \(failed\)
FAILED STEP: linter \(failed\)
FAILED STEP: hung \(hung, ended at its limit\)
$`, summary)
	t.Setenv("WHOLE", "2")
	out = run(1, "late", "never")
	require.NotContains(t, out, "unreached")
	require.Contains(t, out, "FAILED STEP: late (hung, ended at its limit)\nFAILED STEP: never (not run, there was no time left)\n")
	require.Contains(t, run(0, "quick"), "quick is done\n")
	require.Contains(t, run(1, "good", "goood"), "no step is named goood\n")
}
