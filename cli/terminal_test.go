//go:build unix

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

// screen is a terminal with a command in it.
type screen struct {
	t   *testing.T
	cmd *exec.Cmd
	tty *os.File

	mu   sync.Mutex
	more *sync.Cond
	all  string
	end  bool
}

func (i invocation) onScreen(t *testing.T, args ...string) *screen {
	t.Helper()
	s := &screen{t: t, cmd: i.command(t, args...)}
	s.more = sync.NewCond(&s.mu)
	tty := must.Get(pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 24, Cols: 100}))
	s.tty = tty
	t.Cleanup(func() { _ = tty.Close() })
	go s.read()
	return s
}

func (s *screen) read() {
	buf := make([]byte, 4096)
	for {
		n, err := s.tty.Read(buf)
		s.mu.Lock()
		s.all += string(buf[:n])
		s.end = err != nil // the command has ended
		s.more.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// until waits for a text and returns what was written up to it; that is then
// forgotten. "" stands for the end.
func (s *screen) until(text string) string {
	s.t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.more.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.end && (text == "" || !strings.Contains(s.all, text)) {
		require.False(s.t, late, "%q is not in %q", text, s.all)
		s.more.Wait()
	}
	i := len(s.all)
	if text != "" {
		require.Contains(s.t, s.all, text)
		i = strings.Index(s.all, text) + len(text)
	}
	seen := s.all[:i]
	s.all = s.all[i:]
	return seen
}

func (s *screen) enter(text string) {
	s.t.Helper()
	must.Get(s.tty.WriteString(text))
}

// say waits for the prompt, and enters a line.
func (s *screen) say(line string) {
	s.t.Helper()
	s.until("you> ")
	s.enter(line + "\r")
}

// quit ends a chat at its prompt.
func (s *screen) quit() {
	s.t.Helper()
	s.say("/quit")
	require.Equal(s.t, 0, s.status())
}

func (s *screen) status() int {
	s.t.Helper()
	s.until("")
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// On a terminal names are coloured and a spinner turns. NO_COLOR removes the
// colours. TERM=dumb, or no TERM, removes all escape codes.
func TestTerminal(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{"colours": nil, "no colours": {"NO_COLOR=1"}, "dumb": {"TERM=dumb"}, "no TERM": {"TERM="}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, _, release := slow("Your line is fine.")
			script := answers(scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech","reason":"line"}`)), answer)
			s := invocation{env: append(serve(t, script), env...)}.onScreen(t, "run", desk, "hi", "--db", ":memory:")
			seen := s.until("(line)")
			if plain := name == "dumb" || name == "no TERM"; !plain {
				seen += s.until("⠋ ")
				seen += s.until("⠙ ")
			}
			close(release)
			seen += s.until("")
			require.Equal(t, 0, s.status())
			switch name {
			case "colours":
				require.Contains(t, seen, "\x1b[32msupport → tech\x1b[0m (line)")
				require.Contains(t, seen, "\x1b[1;36mtech\x1b[0m: Your line is fine.")
				require.Contains(t, seen, "\r\x1b[K", "the spinner is erased")
			case "no colours":
				require.NotRegexp(t, colour, seen)
				require.Contains(t, seen, "\r\x1b[Ktech: Your line is fine.")
			default:
				require.Equal(t, "support → tech (line)\r\ntech: Your line is fine.\r\n", seen)
			}
		})
	}
}

// On a terminal a replay takes its time, and can be interrupted.
func TestReplayOnTerminal(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.env = []string{"NO_COLOR=1", "TERM=dumb"}
	screen := s.onScreen(t, "sessions", "replay", "story", "--speed", "300", "--db", s.db)
	seen := strings.ReplaceAll(screen.until(""), "\r\n", "\n")
	require.Equal(t, 0, screen.status())
	require.Equal(t, s.sessions(t, "show", "story").out, seen)

	screen = s.onScreen(t, "sessions", "replay", "story", "--db", s.db)
	screen.until("user: I was charged twice")
	screen.enter("\x03")
	seen = screen.until("")
	require.Equal(t, cli.StatusInterrupted, screen.status())
	require.NotContains(t, seen, "billing failed")
}

func TestFollowOnTerminal(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.env = []string{"NO_COLOR=1"}
	screen := s.onScreen(t, "sessions", "follow", "story", "--db", s.db)
	screen.until("(billing failed")
	require.Equal(t, 0, s.run(t, "run", desk, "thank you", "--session", "story", "--db", s.db).status)
	screen.until("user: thank you")
	screen.until("billing: I am the offline model")
	screen.enter("\x03")
	screen.until("")
	require.Equal(t, cli.StatusInterrupted, screen.status())
}

// Without a message a terminal is not read from.
func TestTerminalNeedsMessage(t *testing.T) {
	t.Parallel()
	s := invocation{}.onScreen(t, "run", desk)
	s.until("the message is missing")
	require.Equal(t, cli.StatusUsage, s.status())
}

// What agents say cannot drive the terminal.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	want := "rude: ␛]0;owned␇␛[2Jfine\n\\u202eright-to-left\\u0085 שלום\n"
	in := invocation{program: "rude", home: t.TempDir(), env: []string{"NO_COLOR=1"}}
	require.Equal(t, outcome{0, want, ""}, in.run(t, "run", "hi", "--session", "s1"))
	require.Equal(t, "user: hi\n"+want, in.run(t, "sessions", "show", "s1").out)
	require.NotContains(t, in.run(t, "sessions", "export", "s1", "--format", "md").out, "\x1b")
	s := in.onScreen(t, "run", "hi", "--session", "s1")
	seen := strings.ReplaceAll(s.until(""), "\r\n", "\n")
	require.Contains(t, seen, want)
}

func TestChatOnTerminal(t *testing.T) {
	t.Parallel()
	slowly, asked, release := slow("never")
	defer close(release)
	script := answers(
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech"}`)),
		scripted.Reply(scripted.Text("Which router?")), slowly, scripted.Reply(scripted.Text("Resumed.")))
	home := t.TempDir()
	in := invocation{home: home, env: append(serve(t, script), "NO_COLOR=1")}
	s := in.onScreen(t, "chat", desk, "--session", "s1")
	s.until("session s1; /help lists the commands")
	s.say("my line is slow")
	s.until("support → tech")
	s.until("tech: Which router?")
	s.say("/agents")
	s.until("tech ← active")
	s.say("the blue one")
	receive(t, asked)
	s.enter("\x03") // Ctrl-C ends the turn, not the chat
	s.until("interrupted: /resume resumes this turn")
	s.say("/resume")
	s.until("tech: Resumed.")
	s.until("you> ")
	s.enter("\x03")
	s.until("Ctrl-C once more")
	s.enter("/quit\r")
	require.Equal(t, 0, s.status())

	history := filepath.Join(home, ".local", "state", "arbor", "arbor.db.history")
	data := must.Get(os.ReadFile(history))
	require.Equal(t, "my line is slow\n/agents\nthe blue one\n/resume\n/quit\n", string(data))
	info := must.Get(os.Stat(history))
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	s = in.onScreen(t, "chat", desk, "--session", "s1")
	s.until("you> ")
	s.enter("\x1b[A\x1b[A\x1b[A") // three lines up in the history
	s.until("the blue one")
	s.enter("\x03")
	s.until("Ctrl-C once more")
	s.enter("\x03")
	require.Equal(t, cli.StatusInterrupted, s.status())

	s = in.onScreen(t, "chat", desk, "--session", "s1")
	s.until("you> ")
	s.enter("\x04")
	require.Equal(t, 0, s.status())
}

// TestPaste: what is pasted is one message, sent by the key that the user presses then, and one line of the history.
func TestPaste(t *testing.T) {
	t.Parallel()
	script := answers(scripted.Reply(scripted.Text("Read.")), scripted.Reply(scripted.Text("Read again.")))
	home := t.TempDir()
	in := invocation{home: home, env: append(serve(t, script), "NO_COLOR=1")}
	s := in.onScreen(t, "chat", desk)
	require.Contains(t, s.until("you> "), "\x1b[?2004h")
	s.enter("\x1b[200~one\rtwo\r\n\tthree\x07\n")
	s.enter("four\x1b[2")
	s.enter("01~!\r")
	require.Contains(t, s.until("Read."), "\x1b[?2004l", "off while an agent answers")
	s.until("you> ")
	s.enter("\x1b[A\r") // the line before
	s.until("Read again.")
	s.until("you> ")
	s.enter("\x04")
	s.until("\x1b[?2004l")
	require.Equal(t, 0, s.status())
	for i, message := range []int{0, 2} {
		require.Equal(t, "one\ntwo\n three\nfour!", script.Requests("model")[i].Messages[message].Text)
	}
}

// Without a terminal chat reads lines and prints no prompt.
func TestChatOnPipes(t *testing.T) {
	t.Parallel()
	script := answers(scripted.Reply(scripted.Text("one")), scripted.Reply(scripted.Text("two")))
	lines := "/help\n\nfirst\n/agents\n/session\n/nonsense\n//slash\n"
	got := invocation{env: serve(t, script), stdin: lines}.run(t, "chat", desk, "--session", "s1").exits(t, 0)
	require.NotContains(t, got.out+got.err, "\x1b")
	require.Contains(t, got.out, "/quit               leave")
	require.Contains(t, got.out, "support: one\nsupport ← active  Finds the right specialist\n")
	require.Contains(t, got.out, "to come back: arbor chat testdata/desk --session s1\n")
	require.Contains(t, got.err, "unknown command /nonsense; /help lists the commands")
	require.True(t, strings.HasSuffix(got.out, "support: two\n"), got.out)
	require.Equal(t, "/slash", script.Requests("model")[1].Messages[2].Text)

	// The status is the last turn's.
	got = invocation{env: serve(t, answers()), stdin: "hi"}.run(t, "chat", desk).exits(t, cli.StatusFailed)
}

// A discarded answer is said to be discarded, on a terminal or not.
func TestDiscardedAnswer(t *testing.T) {
	t.Parallel()
	script := answers(scripted.Reply(scripted.Text("half an ans"), scripted.Cut()), scripted.Reply(scripted.Text("whole")))
	got := invocation{env: serve(t, script)}.run(t, "run", desk, "hi", "--db", ":memory:")
	require.Equal(t, outcome{0, "support: half an ans\n(answer discarded)\nsupport: whole\n", ""}, got)
}

// On a terminal an evaluation says how far it is, and in colours what failed.
func TestEvalOnScreen(t *testing.T) {
	t.Parallel()
	cases := casesIn(t, "cases:\n  - {name: first, say: Hi, path: support > tech}\n  - {name: second, say: Wait, path: support}\n")[0]
	answer, asked, _ := slow("never")
	s := invocation{env: serve(t, answers(scripted.Reply(scripted.Text("Hello.")), answer))}.onScreen(t, "eval", desk, cases, "--parallel", "1")
	receive(t, asked)
	s.until("1 of 2, 1 failed")
	s.enter("\x03")
	s.until("\x1b[31mFAIL\x1b[0m " + cases + ":2: first")
	s.until("cases passed")
	s.until("interrupted: 1 of 2 cases were played")
	require.Equal(t, cli.StatusInterrupted, s.status())
}

// TestApprovalPages: on a terminal long arguments come page by page, no row of them
// begins without its mark, and who stops reading is told how much is left.
func TestApprovalPages(t *testing.T) {
	t.Parallel()
	in := invocation{program: "careful", home: t.TempDir()}
	in.env = append(serve(t, answers(scripted.Reply(scripted.Call("refund", deceit)), scripted.Reply(scripted.Text("Refunded.")))), "NO_COLOR=1")
	s := in.onScreen(t, "chat", "--session", "a", "--db", filepath.Join(t.TempDir(), "s.db"))
	s.say("refund it")
	s.until("refund → waits for approval")
	seen := s.until("Enter shows more, q stops")
	require.NotContains(t, seen, "last-one")
	s.enter("q\r")
	s.until("rows are not shown: /show ")
	s.until("the turn waits: /approve ")
	s.say("/show")
	seen = ""
	for range 3 {
		seen += s.until("Enter shows more, q stops -- ")
		s.enter("\r")
	}
	seen += s.until("the turn waits: /approve ")
	require.Contains(t, seen, "last-one")
	for _, row := range strings.Split(strings.ReplaceAll(seen, "\r", "\n"), "\n") {
		if strings.Contains(row, "item") || strings.Contains(row, "and 9000") {
			require.Regexp(t, `^  [│┆] `, row)
		}
	}
	s.enter("/quit\r")
	require.Equal(t, 0, s.status())
}
