package cli_test

import (
	"bufio"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

// following is a command that prints while it runs.
type following struct {
	*running
	lines chan string // closed at the end
}

func (i invocation) following(t *testing.T, args ...string) *following {
	t.Helper()
	return i.reading(t, func(f *following, w io.Writer) { f.Stdout, f.Stderr = w, &f.err }, args...)
}

// hearing is like following for what a command says to standard error.
func (i invocation) hearing(t *testing.T, args ...string) *following {
	t.Helper()
	return i.reading(t, func(f *following, w io.Writer) { f.Stdout, f.Stderr = &f.out, w }, args...)
}

func (i invocation) reading(t *testing.T, connect func(*following, io.Writer), args ...string) *following {
	t.Helper()
	f := &following{&running{Cmd: i.command(t, args...)}, make(chan string, 1000)}
	out, w := io.Pipe()
	connect(f, w)
	require.NoError(t, f.Start())
	go func() {
		defer close(f.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			f.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { _ = w.Close() })
	return f
}

// until waits for a line that holds a text.
func (f *following) until(t *testing.T, text string) string {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case line, ok := <-f.lines:
			require.True(t, ok, "it ended before %q", text)
			if strings.Contains(line, text) {
				return line
			}
		case <-late:
			require.FailNow(t, "it is not there", "%q", text)
		}
	}
}

func entry(t *testing.T, line string) (id string, e event.Event) {
	t.Helper()
	var got struct {
		ID    string
		Event *event.Event
	}
	got.Event = &e
	require.NoError(t, json.Unmarshal([]byte(line), &got), line)
	return got.ID, e
}

// What is stored comes first, and then what another process does, each event once.
func TestFollow(t *testing.T) {
	t.Parallel()
	s := tell(t)
	f := s.following(t, "sessions", "follow", "story", "--db", s.db)
	f.until(t, "user: I was charged twice")
	f.until(t, "billing failed")
	s.run(t, "run", desk, "thank you", "--session", "story", "--db", s.db).exits(t, 0)
	f.until(t, "user: thank you")
	f.until(t, "billing: I am the offline model")
	require.NoError(t, f.Process.Signal(syscall.SIGINT))
	require.Equal(t, cli.StatusInterrupted, f.wait(t).status)
	require.Empty(t, f.err.String())
}

func TestFollowEntries(t *testing.T) {
	t.Parallel()
	s := tell(t)
	got := s.sessions(t, "follow", "story", "--json", "--after", "25", "--until-end")
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	require.Len(t, lines, 2)
	id, e := entry(t, lines[1])
	require.Equal(t, "27-0", id)
	require.Equal(t, event.TypeHarnessEnd, e.Type())
	got = s.sessions(t, "follow", "story", "--json", "--until-end", "--after", "20-0")
	require.Equal(t, 7, strings.Count(got.out, "\n"), "not the end of the turn before")
	require.Equal(t, s.sessions(t, "show", "story").out, s.sessions(t, "follow", "story", "--until-end").out)

	got = s.try(t, "follow", "story", "--json", "--after", "28").exits(t, cli.StatusUsage)
	require.Contains(t, got.err, "28")
}

// At the end of a turn, the next one is waited for, until its end, whatever comes in between.
func TestFollowUntilTheEnd(t *testing.T) {
	t.Parallel()
	s := tell(t)
	f := s.following(t, "sessions", "follow", "story", "--after", "27-0", "--db", s.db, "--until-end", "--json")
	slowly, asked, release := slow("Done.")
	env := serve(t, answers(scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"support"}`)), slowly))
	run := invocation{env: env}.start(t, "run", desk, "hello", "--session", "story", "--db", s.db)
	f.until(t, `"target":"support"`)
	receive(t, asked)
	close(release)
	require.Equal(t, 0, run.wait(t).status)
	f.until(t, `"finishReason":"stop"`)
	require.Equal(t, 0, f.wait(t).status, f.err.String())
}

// A session that does not exist is refused with the id of a similar one.
func TestFollowAnUnknownSession(t *testing.T) {
	t.Parallel()
	got := tell(t).try(t, "follow", "sotry").exits(t, cli.StatusUsage)
	require.Regexp(t, `^arbor: there is no session "sotry" in .*; did you mean "story"\?\n$`, got.err)
}

// Nobody reads the output any more.
func TestFollowIntoAClosedPipe(t *testing.T) {
	t.Parallel()
	s := tell(t)
	cmd := s.command(t, "sessions", "follow", "story", "--db", filepath.Clean(s.db))
	out := must.Get(cmd.StdoutPipe())
	require.NoError(t, cmd.Start())
	must.Get(bufio.NewReader(out).ReadString('\n'))
	require.NoError(t, out.Close())
	require.Equal(t, 0, s.run(t, "run", desk, "again", "--session", "story", "--db", s.db).status)
	_ = cmd.Wait()
	require.Equal(t, cli.StatusInterrupted, cmd.ProcessState.ExitCode())
}
