package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

var (
	plantMutants = flag.Bool("mutants", false, "plant every fault of testdata/mutants.txt in turn, and expect TestProperties to find it")
	mutantNamed  = flag.String("mutant", "", "of these only faults whose names have this in them")
)

// mutantChecks is how many cases TestProperties plays to find a fault, half of what CI plays. It finds most in a few
// hundred.
const mutantChecks = 20000

// mutantTime bounds the search for one fault. A fault by which a case never ends is found
// by that.
const mutantTime = 3 * time.Minute

// mutant is a fault that can be planted.
type mutant struct{ name, file, before, after string }

// readMutants reads testdata/mutants.txt, whose head describes it.
func readMutants(t *testing.T) (all []mutant) {
	data := must.Get(os.ReadFile("testdata/mutants.txt"))
	for _, entry := range strings.Split(string(data), "\n\n")[1:] {
		lines := strings.Split(strings.TrimRight(entry, "\n"), "\n")
		require.Greater(t, len(lines), 3, entry)
		name, found := strings.CutPrefix(lines[0], "# ")
		require.True(t, found, "the entry begins with no name: %s", entry)
		var parts [2][]string
		for _, line := range lines[2:] {
			i := strings.Index("-+", line[:1])
			require.True(t, i == 0 && len(parts[1]) == 0 || i == 1 && len(parts[0]) > 0, "%s: the line %q is neither old nor new", name, line)
			parts[i] = append(parts[i], line[1:])
		}
		all = append(all, mutant{name, lines[1], strings.Join(parts[0], "\n"), strings.Join(parts[1], "\n")})
	}
	return all
}

// TestMutants checks that the faults of testdata/mutants.txt can be planted. With -mutants
// it plants them, one at a time and two side by side: by an overlay, so that no file is
// changed. A fault is found if TestProperties fails by a case, does not come to its end,
// or takes the process down; a fault that does not compile is an error of the list.
func TestMutants(t *testing.T) {
	all := readMutants(t)
	counts, names := make(map[string]int), make(map[string]bool)
	for _, m := range all {
		counts[filepath.Dir(m.file)]++
		require.False(t, names[m.name], "two faults are called %q", m.name)
		names[m.name] = true
		data, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(m.file)))
		require.NoError(t, err, m.name)
		require.Equal(t, 1, strings.Count(string(data), m.before), "%s: the old text must stand once in %s:\n%s", m.name, m.file, m.before)
		require.NotEqual(t, m.before, m.after, m.name)
	}
	for dir, least := range map[string]int{"runner": 12, "session": 6, "view": 6, "agentgraph": 6} {
		require.GreaterOrEqual(t, counts[dir], least, "faults in %s", dir)
	}
	if !*plantMutants {
		return
	}
	slots := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for _, m := range all {
		if !strings.Contains(m.name, *mutantNamed) {
			continue
		}
		slots <- struct{}{}
		dir := t.TempDir()
		wg.Go(func() {
			defer func() { <-slots }()
			verdict, err := m.plant(t.Context(), dir)
			t.Logf("%-95s %s", m.name, verdict)
			if err != nil {
				t.Errorf("%s\n%v", m.name, err)
			}
			_ = os.RemoveAll(dir)
		})
	}
	wg.Wait()
}

var failedAfter = regexp.MustCompile(`(?:failed|panic) after (\d+) tests: (.*)`)

// plant builds the tests with the fault in them and lets TestProperties look for it. It
// says how that was found.
func (m mutant) plant(ctx context.Context, dir string) (verdict string, failed error) {
	overlay, err := m.overlay(dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "runner.test")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		return "does not compile", fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestProperties$", "-test.failfast", "-test.timeout", mutantTime.String(),
		"-rapid.checks", strconv.Itoa(mutantChecks), "-rapid.shrinktime", "0s")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir) // where it tells what was played
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := fmt.Sprintf("%5.1f s, %5.1f s of processors", time.Since(began).Seconds(), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	var exit *exec.ExitError
	switch found := failedAfter.FindSubmatch(out); {
	case err == nil:
		return took + ", NOT FOUND", errors.New("TestProperties does not find it")
	case !errors.As(err, &exit):
		return "", err
	case found != nil:
		return fmt.Sprintf("%s, case %s: %s", took, found[1], m.reason(out, found[2])), nil
	case bytes.Contains(out, []byte("flaky test, can not reproduce a failure")):
		return took + ", a case that fails sometimes", nil
	case bytes.Contains(out, []byte("panic: test timed out")):
		return took + ", it hangs", nil
	case bytes.Contains(out, []byte("panic: ")), bytes.Contains(out, []byte("fatal error: ")):
		return took + ", the process ends", nil
	}
	return took + ", failed otherwise", fmt.Errorf("TestProperties fails by no case: %w\n%.3000s", err, out)
}

var assertion = regexp.MustCompile(`(?s)Error:\s+(.*?)\s+Test:`)

// reason returns what the first failed case says, on one line.
func (m mutant) reason(out, said []byte) string {
	if bytes.Contains(said, []byte("FailNow")) {
		if found := assertion.FindSubmatch(out); found != nil {
			said = found[1]
		}
	}
	return fmt.Sprintf("%.150s", strings.Join(strings.Fields(strings.ToValidUTF8(string(said), "?")), " "))
}

// overlay writes the file with the fault, and what tells the go command to take it.
func (m mutant) overlay(dir string) (string, error) {
	original, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(m.file)))
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	planted := filepath.Join(dir, filepath.Base(original))
	if err := os.WriteFile(planted, []byte(strings.Replace(string(data), m.before, m.after, 1)), 0o600); err != nil {
		return "", err
	}
	table, err := json.Marshal(map[string]map[string]string{"Replace": {original: planted}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, table, 0o600)
}
