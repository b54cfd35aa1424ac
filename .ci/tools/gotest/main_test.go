package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asCommand makes this test binary the command.
const asCommand = "GOTEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bodies are what the test of a package does, by the name of the package.
var bodies = map[string]string{
	"good":   `t.Log("nobody reads this")`,
	"flaky":  `if _, err := os.Stat("ran"); err != nil { os.WriteFile("ran", nil, 0o600); t.Run("part", func(t *testing.T) { t.Error("bad luck") }) }`,
	"bad":    `t.Error("the reason")`,
	"broken": `undefined()`,
	"vetted": `fmt.Printf("%d", "x")`,
	"hangs":  `t.Run("part", func(t *testing.T) { select {} })`,
	"panics": `panic("oh")`,
	"exits":  `fmt.Println("gone"); os.Exit(3)`,
	"racy":   `fmt.Println("==================\nWARNING: DATA RACE\nRead at 0x1"); os.Exit(66)`,
	"calls":  `c, err := net.Dial("tcp", os.Getenv("CALLS")); if err != nil { t.Fatal(err) }; c.Close(); select {}`,
	"ports":  `if _, err := net.Listen("tcp", "127.0.0.1:8420"); err == nil { t.Error("the port is free") }`,
	"homely": `home, _ := os.UserHomeDir(); os.WriteFile(home+"/mine", nil, 0o600)`,
}

// gotest prepares the command, in a module with packages of these names, and one that has no tests.
func gotest(t *testing.T, names []string, env ...string) *exec.Cmd {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("go.mod", "module example.com/m\n\ngo 1.26\n")
	write("none/none.go", "package none\n")
	for _, name := range names {
		write(name+"/a_test.go", "package "+name+"\n\nimport (\"fmt\"; \"net\"; \"os\"; \"testing\")\n\nvar _, _, _ = fmt.Print, net.Dial, os.Exit\n\n"+
			"func TestIt(t *testing.T) { "+bodies[strings.TrimRight(name, "0123456789")]+" }\n")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "test", "./none")
	for _, name := range names {
		cmd.Args = append(cmd.Args, "./"+name)
	}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asCommand+"=yes", "CI_WITHIN=", "CI_LIMITS=default=5m hangs=1s")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// prints runs the command and returns what it prints, without times.
func prints(t *testing.T, cmd *exec.Cmd, status int) string {
	out, err := cmd.CombinedOutput()
	require.Equal(t, status, cmd.ProcessState.ExitCode(), "%v: %s", err, out)
	return regexp.MustCompile(`[0-9.]+s`).ReplaceAllString(string(out), "TIME")
}

func TestFlaky(t *testing.T) {
	t.Parallel()
	out := prints(t, gotest(t, []string{"good", "flaky"}), 0)
	require.Contains(t, out, "?   \texample.com/m/none\t[no test files]\n")
	require.Contains(t, out, "ok  \texample.com/m/good\tTIME\n")
	require.NotContains(t, out, "nobody reads this")
	require.Contains(t, out, "gotest: FAILED: example.com/m/flaky (TestIt/part)\ngotest: it runs once more, alone\nok  \texample.com/m/flaky\tTIME\n")
	_, report, _ := strings.Cut(out, "== failed packages\n")
	require.Regexp(t, `^-- FLAKY: example.com/m/flaky \(TestIt/part\)\n +a_test.go:7: bad luck\n(?s:.*)\nFLAKY: example.com/m/flaky \(TestIt/part\)\n$`, report)
}

func TestBroken(t *testing.T) {
	t.Parallel()
	out := prints(t, gotest(t, []string{"bad", "hangs", "broken", "vetted"}), 1)
	require.Equal(t, 2, strings.Count(out, "it runs once more, alone\n"), out)
	log, report, _ := strings.Cut(out, "== failed packages\n")
	require.Contains(t, log, "FAIL\texample.com/m/broken [build failed]\n")
	require.Contains(t, report, "undefined: undefined\n")
	require.Contains(t, report, "format %d has arg \"x\" of wrong type string\n")
	require.Contains(t, report, ": the reason\n")
	require.Regexp(t, `-- HUNG: example.com/m/hangs \(TestIt/part\)\npanic: test timed out after TIME\n\trunning tests:\n(?s:.*)\ngoroutine `, report)
	lines := strings.Split(strings.TrimSpace(report), "\n")
	require.ElementsMatch(t, []string{"FAILED: example.com/m/bad (TestIt)", "HUNG: example.com/m/hangs (TestIt/part)",
		"NOT BUILT: example.com/m/broken", "NOT BUILT: example.com/m/vetted", "gotest: tests failed; .ci/tools/gotest/machine.go says how their machine differs from yours"}, lines[len(lines)-5:])
}

func TestCrashes(t *testing.T) {
	t.Parallel()
	out := prints(t, gotest(t, []string{"panics", "exits", "racy", "bad1", "bad2", "bad3"}), 1)
	require.NotContains(t, out, "it runs once more", "so many failures are no bad luck")
	for _, line := range []string{"FAILED: example.com/m/panics (TestIt, panic)", "FAILED: example.com/m/exits (TestIt)", "FAILED: example.com/m/racy (TestIt, data race)"} {
		require.Contains(t, out, "\n"+line+"\n")
	}
	require.Contains(t, out, "\ngone\n")
}

func TestLeftOut(t *testing.T) {
	t.Parallel()
	out := prints(t, gotest(t, []string{"hangs"}, "CI_WITHIN=1s", "CI_LIMITS="), 0)
	require.Contains(t, out, "LEFT OUT: go test ./hangs (there was no time)\n")
	require.NotContains(t, out, "FAILED")
}

// A step that is ended at its limit says what was running.
func TestStopped(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	cmd := gotest(t, []string{"calls"}, fmt.Sprint("CALLS=", l.Addr()))
	go func() {
		if c, err := l.Accept(); err == nil {
			_ = c.Close()
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}()
	out := prints(t, cmd, 1)
	require.Contains(t, out, "\nHUNG: example.com/m/calls (TestIt)\n")
	require.NotContains(t, out, "it runs once more")
}

func TestMachine(t *testing.T) {
	t.Parallel()
	out := prints(t, gotest(t, []string{"ports", "homely"}), 1)
	require.Contains(t, out, "ok  \texample.com/m/ports\tTIME\n")
	require.Contains(t, out, "a test wrote ~/mine")
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"build", "./x"}, {"test"}, {"test", "-race", "x"}} {
		_, err := parse(args)
		require.ErrorContains(t, err, `those of "go test"`, args)
	}
	t.Setenv("CI_LIMITS", "cli=3")
	_, err := parse([]string{"test", "./x"})
	require.ErrorContains(t, err, "CI_LIMITS: cli=3")
	c, err := parse([]string{"-C", "a", "test", "-race", "./x", "./...", "-timeout", "3m", "-kills", "3"})
	require.NoError(t, err)
	require.Equal(t, []string{"-C", "a", "test", "-json", "-race"}, c.before)
	require.Equal(t, []string{"./x", "./..."}, c.patterns)
	require.Equal(t, []string{"-timeout", "3m", "-kills", "3"}, c.after)
}

func TestEnd(t *testing.T) {
	for _, c := range []struct {
		stopped error
		lines   []string // of what has not failed, and of what has
	}{
		{context.DeadlineExceeded, []string{": a (TestA)", "FAILED: b (TestB)"}},
		{context.Canceled, []string{"HUNG: a (TestA)", "HUNG: b (TestB)"}},
		{nil, []string{"FAILED: a (TestA, go test: signal: killed)", "FAILED: b (TestB, go test: signal: killed)"}},
	} {
		s := &suite{command: &command{}, packages: map[string]*result{}}
		for _, e := range []event{{Action: "run", Package: "a", Test: "TestA"}, {Action: "run", Package: "b", Test: "TestB"}, {Action: "fail", Package: "b", Test: "TestB"}} {
			s.take(e)
		}
		s.end(c.stopped, errors.New("signal: killed"))
		require.Equal(t, c.lines, []string{s.packages["a"].String(), s.packages["b"].String()})
	}
}

func TestExcerpt(t *testing.T) {
	r := &result{tests: map[string]string{"TestPassed": "pass", "TestFailed": "fail"}}
	for i := range 100 {
		r.print("TestPassed", "of no interest\n")
		r.print("TestFailed", fmt.Sprintf("line %d\n", i))
	}
	require.Equal(t, "line 0\nline 1\nline 2\nline 3\nline 4\nline 5\n... 93 more lines\nline 99\n", r.excerpt(8))
}
