package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

const key = "sk-secret-0123456789abcdef"

// The key is sent where it belongs and stands nowhere else, whatever the
// endpoint does with it.
func TestKeyIsNeverShown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		echo   func(w http.ResponseWriter, auth string)
		status int
	}{
		"refused, with the key in the error": {func(w http.ResponseWriter, auth string) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s","type":"invalid_request_error"}}`, strings.TrimPrefix(auth, "Bearer "))
		}, cli.StatusFailed},
		"a page with all headers": {func(w http.ResponseWriter, auth string) {
			fmt.Fprintf(w, "<html><title>%s</title>%s</html>", auth, auth)
		}, cli.StatusFailed},
		"an error inside the stream": {func(w http.ResponseWriter, auth string) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"error\":{\"message\":\"bad key %s\"}}\n\n", auth)
		}, cli.StatusFailed},
		"in the model's words": {func(w http.ResponseWriter, auth string) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, words := range []string{"Your header is ", auth[:12], auth[12:], "."} {
				fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", words)
			}
			fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		}, cli.StatusAnswered},
		"a redirect": {func(w http.ResponseWriter, auth string) {
			w.Header().Set("Location", "http://127.0.0.1:1/"+strings.TrimPrefix(auth, "Bearer "))
			w.WriteHeader(http.StatusFound)
		}, cli.StatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen atomic.Value
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen.Store(r.Header.Get("Authorization"))
				tt.echo(w, r.Header.Get("Authorization"))
			}))
			t.Cleanup(server.Close)
			home := t.TempDir()
			in := invocation{home: home, env: []string{"OPENAI_BASE_URL=" + server.URL, "OPENAI_API_KEY=" + key, "OPENAI_MODEL=model"}}
			if tt.status != 0 {
				got := in.run(t, "run", desk, "hi", "--session", "s2", "--json")
				require.NotContains(t, got.out+got.err, key)
				require.Contains(t, got.out, `"type":"error"`)
			}
			for _, args := range [][]string{
				{"run", desk, "hi", "--session", "s1"}, {"resume", desk, "--session", "s1"},
				{"sessions", "show", "s1"}, {"sessions", "export", "s1"}, {"chat", desk},
			} {
				in.stdin = "hello\n/session\n"
				got := in.run(t, args...)
				require.NotContains(t, got.out+got.err, key, args)
				if args[0] == "run" {
					require.Equal(t, tt.status, got.status, got.err)
				}
				if args[0] == "run" && tt.status != 0 {
					require.Contains(t, got.err, "arbor: agent support: model call failed")
				}
			}
			require.Equal(t, "Bearer "+key, seen.Load())
			nothingHolds(t, home, key)
		})
	}
}

func nothingHolds(t *testing.T, dir, secret string) {
	t.Helper()
	files := 0
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.False(t, bytes.Contains(data, []byte(secret)), path)
		files++
		return err
	}))
	require.Positive(t, files)
}

// An endpoint without a key gets no Authorization header.
func TestNoKeyNoHeader(t *testing.T) {
	t.Parallel()
	var sent atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, there := r.Header["Authorization"]
		sent.Store(there)
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	got := invocation{env: []string{"OPENAI_BASE_URL=" + server.URL, "OPENAI_MODEL=m"}}.run(t, "run", desk, "hi")
	require.Equal(t, cli.StatusFailed, got.status)
	require.False(t, sent.Load())
}

func TestUnpluggedEndpoint(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	address := l.Addr().String()
	require.NoError(t, l.Close())
	in := invocation{home: t.TempDir(), env: []string{"OPENAI_BASE_URL=http://" + address + "/v1", "OPENAI_MODEL=m"}}
	got := in.run(t, "run", desk, "hi", "--session", "s1").exits(t, cli.StatusFailed)
	require.Empty(t, got.out)
	require.Equal(t, 1, strings.Count(got.err, "\n"), got.err)
	require.Contains(t, got.err, "the connection was refused")
	require.Contains(t, got.err, "OPENAI_BASE_URL")

	in.env = nil
	require.Equal(t, 0, in.run(t, "run", desk, "hi", "--session", "s1").status, "the session stays usable")
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	nobody := scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"nobody"}`))
	got := invocation{env: serve(t, answers(nobody, nobody, nobody, nobody))}.run(t, "run", desk, "hi", "--db", ":memory:").exits(t, cli.StatusFailed)
	require.Contains(t, got.err, "transfer rejected")
	require.Equal(t, 4, strings.Count(got.out, "support → nobody rejected\n"), got.out)

	got = invocation{program: "endless"}.run(t, "run", "hi", "--db", ":memory:").exits(t, cli.StatusLimit)
	require.Contains(t, got.err, "limit reached")

	home := t.TempDir()
	got = invocation{program: "pause", home: home, unlawful: true}.run(t, "run", "hi", "--session", "s1")
	require.Equal(t, cli.StatusApproval, got.status, got.err)
	require.Contains(t, got.out, `refund(id=7) → waits for approval, call c1`)
	require.Contains(t, got.err, "waits for an approval")
	got = invocation{program: "pause", home: home, unlawful: true}.run(t, "resume", "--session", "s1")
	require.Equal(t, cli.StatusApproval, got.status, "nobody has approved yet")
}

// A first interrupt ends the turn cleanly; what was recorded stays, and resume
// goes on from there.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(fmt.Sprint(signal), func(t *testing.T) {
			t.Parallel()
			answer, asked, release := slow("never said")
			defer close(release)
			script := answers(
				scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech"}`)), answer,
				scripted.Reply(scripted.Text("resumed")), scripted.Reply(scripted.Text("next")))
			in := invocation{home: t.TempDir(), env: serve(t, script)}
			r := in.start(t, "run", desk, "hi", "--session", "s1")
			receive(t, asked)
			require.NoError(t, r.Process.Signal(signal))
			got := r.wait(t).exits(t, cli.StatusInterrupted)
			require.Equal(t, "support → tech\n", got.out)
			require.Contains(t, got.err, "arbor: interrupted; to resume: arbor resume testdata/desk --session s1\n")

			require.Contains(t, in.run(t, "sessions", "show", "s1").err, "arbor: the last turn was cut off; to continue: arbor resume PATH --session s1")
			in.stdin = "/quit\n"
			require.Contains(t, in.run(t, "chat", desk, "--session", "s1").err, "the last turn was interrupted: /resume resumes")
			in.stdin = ""
			require.Equal(t, outcome{0, "tech: resumed\n", ""}, in.run(t, "resume", desk, "--session", "s1"))
			got = in.run(t, "resume", desk, "--session", "s1")
			require.Equal(t, outcome{0, "", "arbor: the last turn of session s1 is complete: there is nothing to resume\n"}, got)
			require.Equal(t, outcome{0, "tech: next\n", ""}, in.run(t, "run", desk, "more", "--session", "s1"))
			require.NoError(t, script.Done())
		})
	}
}

// After an interrupt a new message leaves the cut turn as it is.
func TestInterruptThenRun(t *testing.T) {
	t.Parallel()
	answer, asked, release := slow("never said")
	defer close(release)
	in := invocation{home: t.TempDir(), env: serve(t, answers(answer, scripted.Reply(scripted.Text("fresh"))))}
	r := in.start(t, "run", desk, "hi", "--session", "s1", "--json")
	receive(t, asked)
	require.NoError(t, r.Process.Signal(syscall.SIGINT))
	require.Equal(t, cli.StatusInterrupted, r.wait(t).status)
	require.Equal(t, "support: fresh\n", in.run(t, "run", desk, "again", "--session", "s1").out)
	require.Equal(t, "user: hi\n(interrupted)\nuser: again\nsupport: fresh\n", in.run(t, "sessions", "show", "s1").out)
}

// A second interrupt ends the program even if the turn does not end.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	cmd := invocation{program: "stubborn"}.command(t, "run", "hi", "--json", "--db", ":memory:")
	out := must.Get(cmd.StdoutPipe())
	require.NoError(t, cmd.Start())
	buf := make([]byte, 4096)
	for seen := ""; !strings.Contains(seen, "working"); {
		n := must.Get(out.Read(buf))
		seen += string(buf[:n])
	}
	// Two signals of one kind that are pending at once would be one.
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	receive(t, ended)
	require.Equal(t, cli.StatusInterrupted, cmd.ProcessState.ExitCode())
}

// Of two processes on one session one answers, and the other one says that the
// session is busy; resume waits for it.
func TestBusySession(t *testing.T) {
	t.Parallel()
	answer, asked, release := slow("done")
	in := invocation{home: t.TempDir(), env: serve(t, answers(answer))}
	first := in.start(t, "run", desk, "hi", "--session", "s1")
	receive(t, asked)
	got := in.run(t, "run", desk, "me too", "--session", "s1").exits(t, cli.StatusBusy)
	require.Regexp(t, `^arbor: session app/local/s1: .*session is busy with another turn; to follow its turn: arbor sessions follow s1( --db .*)?\n$`, got.err)

	waiting := in.start(t, "resume", desk, "--session", "s1")
	close(release)
	require.Equal(t, outcome{0, "support: done\n", ""}, first.wait(t))
	got = waiting.wait(t).exits(t, 0)
	require.Contains(t, got.err, "there is nothing to resume")
	show := in.run(t, "sessions", "show", "s1")
	require.Equal(t, "user: hi\nsupport: done\n", show.out)
}

// When nobody reads standard output any more, the turn ends without noise, and
// the session stays usable. It does not run beside other tests: a process that
// they fork has all our files open until it executes, the pipe among them.
func TestBrokenPipe(t *testing.T) {
	answer, asked, release := slow("too late")
	in := invocation{home: t.TempDir(), env: serve(t, answers(answer, scripted.Reply(scripted.Text("next"))))}
	cmd := in.command(t, "run", desk, "hi", "--session", "s1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out := must.Get(cmd.StdoutPipe())
	require.NoError(t, cmd.Start())
	receive(t, asked)
	require.NoError(t, out.Close())
	close(release)
	require.Error(t, cmd.Wait())
	require.Equal(t, cli.StatusInterrupted, cmd.ProcessState.ExitCode())
	require.Empty(t, stderr.String())
	require.Equal(t, "support: next\n", in.run(t, "run", desk, "more", "--session", "s1").out)

	for _, args := range [][]string{{"sessions", "export", "s1"}, {"--version"}, {"run", "--help"}} {
		cmd = in.command(t, args...)
		r, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, r.Close())
		cmd.Stdout, cmd.Stderr = w, &stderr
		require.Error(t, cmd.Run())
		require.Equal(t, cli.StatusInterrupted, cmd.ProcessState.ExitCode(), args)
		require.Empty(t, stderr.String())
		require.NoError(t, w.Close())
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	in := invocation{home: t.TempDir()}
	got := in.run(t, "sessions", "ls")
	require.Equal(t, outcome{0, "", "arbor: there are no sessions yet\n"}, got)
	require.NoDirExists(t, filepath.Join(in.home, ".local"), "looking creates nothing")

	in.env = serve(t, answers(
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech","reason":"slow"}`)),
		scripted.Reply(scripted.Text("Which router?\nAnd `where`?")), scripted.Reply(scripted.Text("Bye."))))
	require.Equal(t, 0, in.run(t, "run", desk, "My *line* is slow", "--session", "s1").status)
	require.Equal(t, 0, in.run(t, "run", desk, "thanks", "--session", "s1").status)
	in.env = nil
	got = in.run(t, "sessions", "ls", "--limit=-1").exits(t, 2)
	require.Contains(t, got.err, "the limit of a page is -1")
	got = in.run(t, "sessions", "ls")
	require.Regexp(t, `^ID  EVENTS  CREATED \(UTC\)        UPDATED \(UTC\)\ns1  16      \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n$`, got.out)
	require.Regexp(t, `^\{"id":"s1","app":"app","user":"local","events":16,"created":"[^"]+Z","updated":"[^"]+Z"\}\n$`, in.run(t, "sessions", "ls", "--json").out)
	require.Equal(t, outcome{0, "user: My *line* is slow\nsupport → tech (slow)\ntech: Which router?\nAnd `where`?\nuser: thanks\ntech: Bye.\n", ""},
		in.run(t, "sessions", "show", "s1"))
	require.Equal(t, "# Session s1\n\n**user:** My *line* is slow\n\n> support → tech (slow)\n\n**tech:** Which router?\nAnd `where`?\n\n**user:** thanks\n\n**tech:** Bye.\n",
		in.run(t, "sessions", "export", "s1", "--format", "md").out)
	events := in.run(t, "sessions", "export", "s1").out
	require.Equal(t, 16, strings.Count(events, "\n"))
	require.Equal(t, events, in.run(t, "sessions", "show", "s1", "--json").out)

	require.Equal(t, 0, in.run(t, "sessions", "fork", "s1", "--at", "16", "--to", "s2").status)
	require.Regexp(t, `(?s)\ns2 .*\ns1 `, in.run(t, "sessions", "ls").out)
	require.Regexp(t, `^ID .*\ns2 .*\n$`, in.run(t, "sessions", "ls", "--limit", "1").out, "the one that changed last")
}

// Run is the command without a process.
func TestRunInProcess(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	streams := cli.Streams{Stdin: strings.NewReader("hello\n"), Stdout: &out, Stderr: &errs}
	status := cli.Run(t.Context(), []string{"run", "--db", ":memory:"}, streams, cli.WithTree(node("echo", text("I hear you."))))
	require.Equal(t, 0, status, errs.String())
	require.Equal(t, "echo: I hear you.\n", out.String())
	require.Empty(t, errs.String())
	status = cli.Run(t.Context(), nil, cli.Streams{Stdout: io.Discard, Stderr: &errs})
	require.Equal(t, cli.StatusUsage, status)
}
