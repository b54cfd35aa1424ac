package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
)

// arbor is the path of the real command, built once.
var arbor string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if program := os.Getenv("ARBOR_TEST_PROGRAM"); program != "" {
		programs[program]() // never returns
	}
	dir, err := os.MkdirTemp("", "arbor-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	arbor = filepath.Join(dir, "arbor")
	if out, err := exec.Command("go", "build", "-o", arbor, "../cmd/arbor").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the command: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// desk is a tree without tools and without model names.
const desk = "testdata/desk"

// invocation is one start of a command in an environment of its own.
type invocation struct {
	program  string   // of programs, "" for the real command
	env      []string // besides a home directory
	stdin    string
	home     string // "" for a new one
	server   string // the command that serves, "" for serve
	unlawful bool   // the test has written logs that no runner would
	others   bool   // the test needs programs of others, which CI only has where the race detector is on
}

type outcome struct {
	status   int
	out, err string
}

// exits requires the status with which the command ended. A failure prints what the command said, and what about says.
func (o outcome) exits(t *testing.T, status int, about ...any) outcome {
	t.Helper()
	require.Equal(t, status, o.status, "%v\n%s%s", about, o.out, o.err)
	return o
}

// command prepares the command; its standard streams are not set.
func (i invocation) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if i.program == "" && !i.others {
		race.SkipPrograms(t)
	}
	if i.home == "" {
		i.home = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // a server waits as long as the tests beside it take
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, arbor, args...)
	cmd.Env = append([]string{"HOME=" + i.home, "PATH=" + os.Getenv("PATH"), "TERM=xterm"}, i.env...)
	if i.program != "" {
		self := must.Get(os.Executable())
		cmd.Path = self
		cmd.Env = append(cmd.Env, "ARBOR_TEST_PROGRAM="+i.program)
	}
	return cmd
}

// run runs the command to its end.
func (i invocation) run(t *testing.T, args ...string) outcome {
	t.Helper()
	o := i.start(t, args...).wait(t)
	if !i.unlawful {
		i.lawful(t, args)
	}
	return o
}

// running is a command under way.
type running struct {
	*exec.Cmd
	out, err bytes.Buffer
}

func (i invocation) start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{Cmd: i.command(t, args...)}
	r.Stdin, r.Stdout, r.Stderr = bytes.NewReader([]byte(i.stdin)), &r.out, &r.err
	require.NoError(t, r.Start())
	return r
}

func (r *running) wait(t *testing.T) outcome {
	t.Helper()
	err := r.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return outcome{r.ProcessState.ExitCode(), r.out.String(), r.err.String()}
}

// serve answers all agents with the script of one agent named "model" and
// returns the environment that leads there.
func serve(t *testing.T, script *scripted.Script) []string {
	t.Helper()
	s := must.Get(endpoint.Start(script.Models()))
	t.Cleanup(func() { _ = s.Close() })
	return []string{"OPENAI_BASE_URL=" + s.URL(), "OPENAI_MODEL=model"}
}

// answers is a script of the model's answers.
func answers(items ...scripted.Answer) *scripted.Script {
	return scripted.New(scripted.WithRecording()).Add("model", items...)
}

// slow returns an answer that begins when release is closed, and a channel that
// is closed when the model was asked.
func slow(text string) (answer scripted.Answer, asked, release chan struct{}) {
	asked, release = make(chan struct{}), make(chan struct{})
	wait := func(ctx context.Context) error {
		close(asked)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return scripted.Reply(scripted.Wait(wait), scripted.Text(text)), asked, release
}

// patience is how long a test waits for what must happen, with the other tests of a busy machine beside it.
const patience = 2 * time.Minute

func receive(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		require.FailNow(t, "nothing happened")
	}
}
