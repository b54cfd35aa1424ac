package cli_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
)

// TestDesk: one process hands a conversation over, others list and answer it.
func TestDesk(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	run := func(status int, args ...string) string {
		t.Helper()
		got := invocation{home: home}.run(t, args...).exits(t, status)
		return got.out + got.err
	}
	require.Contains(t, run(0, "desk", "ls"), "no conversation waits")
	run(0, "run", desk, "let me talk to a human person", "--session", "s0")
	require.Contains(t, run(0, "desk", "ls"), "no conversation waits", "without --desk nobody is asked")
	run(0, "run", desk, "let me talk to a human person", "--session", "s1", "--desk")
	h := must.JSON[struct{ ID, Session, Status, From, Since string }](strings.TrimSpace(run(0, "desk", "ls", "--json")))
	require.Equal(t, "s1", h.Session)
	require.Equal(t, "queued", h.Status)
	require.NotEmpty(t, h.Since)

	run(0, "desk", "say", "s1", "We are coming.")
	run(0, "desk", "set", h.ID[:14], "connected", "--name", "Ann")
	require.Contains(t, run(cli.StatusUsage, "desk", "set", "s1", "ringing"), `a handoff that is "connected" cannot become "ringing"`)
	require.Contains(t, run(cli.StatusUsage, "desk", "set", "s1", "happy"), "STATUS happy: choose connecting, ringing, connected, ")
	require.Contains(t, run(cli.StatusUsage, "desk", "say", "s2", "x"), "no handoff s2")
	require.Contains(t, run(cli.StatusUsage, "desk", "tkae"), `unknown command "tkae"`)
	require.Contains(t, run(cli.StatusUsage, "desk", "say", "s1", "x", "--db", ":memory:"), "no other process")
	run(0, "run", desk, "are you there?", "--session", "s1", "--desk")
	run(0, "desk", "set", "s1", "completed", "--to", "tech")
	require.Contains(t, run(cli.StatusUsage, "desk", "take"), "no conversation waits")
	require.Contains(t, run(0, "run", desk, "thanks", "--session", "s1", "--desk"), "tech: ", "the agent that the desk has named goes on")
	shown := run(0, "sessions", "show", "s1")
	require.Contains(t, shown, "human: We are coming.\n")
	require.Contains(t, shown, "(a person: connected, Ann)\n")
	require.Contains(t, run(0, "sessions", "check"), "nothing is wrong")
}

// TestDeskOfAProgram: the desk that a program gives is that of its tree, made of files or in Go, without --desk.
func TestDeskOfAProgram(t *testing.T) {
	t.Parallel()
	for _, tree := range []cli.Option{
		cli.WithFiles(os.DirFS("testdata"), "desk"),
		cli.WithTreeFunc(func(model llm.Model) (agent.Agent, error) { return llmagent.New("solo", "You help.", model) }),
	} {
		run := func(args ...string) string {
			var out, errs bytes.Buffer
			status := cli.Run(t.Context(), args, cli.Streams{Stdout: &out, Stderr: &errs}, tree, cli.WithDesk(human.Log{}))
			require.Zero(t, status, errs.String())
			return out.String()
		}
		require.Contains(t, run("tree"), "human")
		require.Contains(t, run("run", "let me talk to a human person", "--db", ":memory:"), "(a person: queued)")
	}
}

// TestDeskAndChat: two people at two terminals.
func TestDeskAndChat(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	start := func(args ...string) (say io.WriteCloser, hears func(string)) {
		cmd := invocation{home: home}.command(t, args...)
		in := must.Get(cmd.StdinPipe())
		out := must.Get(cmd.StdoutPipe())
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
		lines := bufio.NewScanner(out)
		return in, func(want string) {
			t.Helper()
			var heard []string
			for lines.Scan() {
				if heard = append(heard, lines.Text()); strings.Contains(lines.Text(), want) {
					return
				}
			}
			t.Fatalf("%q was never heard, but %q", want, heard)
		}
	}
	tell := func(w io.Writer, line string) {
		must.Get(io.WriteString(w, line+"\n"))
	}
	user, userHears := start("chat", desk, "--session", "s1", "--desk")
	tell(user, "let me talk to a human person")
	userHears("I have asked for a person")
	userHears("queued")
	person, personHears := start("desk", "take", "--name", "Ann")
	personHears("let me talk to a human person")
	userHears("connected, Ann")
	tell(person, "Hello, I am Ann.")
	userHears("human: Hello, I am Ann.")
	tell(user, "My router is slow.")
	personHears("user: My router is slow.")
	tell(person, "I have sent you another one.")
	userHears("human: I have sent you another one.")
	tell(person, "/done Bye.")
	userHears("human: Bye.")
	userHears("completed")
	tell(user, "Good bye")
	userHears("support: ")
}
