package cli_test

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

// A process that dies in mid-turn loses no task: its successor goes on with it.
func TestServeAfterKill(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]os.Signal{"killed": syscall.SIGKILL, "terminated": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			first, asked, release := slow("never heard")
			defer close(release)
			script := answers(scripted.Reply(scripted.Text("One moment. "), scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`)),
				first, scripted.Reply(scripted.Text("It is refunded.")))
			env := serve(t, script)
			s := invocation{home: home, env: env}.serve(t, desk)
			begun, _ := s.stream("I was charged twice")
			receive(t, asked)
			require.Equal(t, "TASK_STATE_WORKING", s.get(begun.ID).Status.State)
			want := 0
			if sig == syscall.SIGKILL {
				want = -1
			}
			require.Equal(t, want, s.stop(sig), "%s", s.said)

			s = invocation{home: home, env: env}.serve(t, desk)
			k := s.completes(begun.ID)
			require.Equal(t, "One moment. It is refunded.", k.words())
			require.Equal(t, begun.ContextID, k.ContextID)
			require.NoError(t, script.Done(), "what was recorded is not asked for again")
			require.Equal(t, 0, s.stop(os.Interrupt))
		})
	}
}

// A server goes on with the turn of another one that was killed, though nobody asks for it.
func TestServeTakesOver(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	first, asked, release := slow("never heard")
	defer close(release)
	second, again, goOn := slow("It is refunded.")
	env := serve(t, answers(first, second))
	a, b := invocation{home: home, env: env}.serve(t, desk, "--take-over", "0"), invocation{home: home, env: env}.serve(t, desk)
	status, body := a.call("POST", "/api/v1/sessions", `{"id": "s1", "content": "I was charged twice"}`)
	require.Less(t, status, 300, body)
	receive(t, asked)
	require.Equal(t, -1, a.stop(syscall.SIGKILL))
	receive(t, again)
	close(goOn)
	must.Wait(t, func() bool {
		return strings.Contains(invocation{home: home}.run(t, "sessions", "history", "s1").out, "It is refunded.")
	})
	require.Equal(t, 0, b.stop(os.Interrupt))

	o := invocation{home: home}.run(t, "serve", desk, "--take-over", "-1s").exits(t, cli.StatusUsage)
	require.Contains(t, o.err, "--take-over -1s: give a time that is not negative")
}

// One client's turn does not wait for another's.
func TestServeTwoClients(t *testing.T) {
	t.Parallel()
	blocked, asked, release := slow("late")
	script := answers(blocked, scripted.Reply(scripted.Text("quick")))
	s := invocation{env: serve(t, script)}.serve(t, desk, "--db", ":memory:")
	begun, lines := s.stream("first")
	receive(t, asked)
	require.Equal(t, "quick", s.send("second").words())
	close(release)
	rest := ""
	for lines.Scan() {
		rest += lines.Text()
	}
	require.Contains(t, rest, "TASK_STATE_COMPLETED")
	require.Equal(t, "late", s.get(begun.ID).words())
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// Two servers share a database: what one runs, clients of the other can follow.
func TestServeTwoServers(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	answer, asked, release := slow("It is refunded.")
	env := serve(t, answers(answer))
	a, b := invocation{home: home, env: env}.serve(t, desk), invocation{home: home, env: env}.serve(t, desk)
	begun, _ := a.stream("hello")
	receive(t, asked)
	require.Equal(t, "TASK_STATE_WORKING", b.get(begun.ID).Status.State)
	resp := b.open("GET", "/tasks/"+begun.ID+":subscribe", "", token)
	defer resp.Body.Close()
	require.Equal(t, 200, resp.StatusCode)
	close(release)
	all := must.Get(io.ReadAll(resp.Body))
	require.Contains(t, string(all), "It is refunded.")
	require.Contains(t, string(all), "TASK_STATE_COMPLETED")
	require.Equal(t, 0, a.stop(os.Interrupt))
	require.Equal(t, 0, b.stop(os.Interrupt))
}

// The second signal ends the program, whatever still runs.
func TestServeSecondSignal(t *testing.T) {
	t.Parallel()
	s := invocation{program: "stubborn"}.serve(t, "--db", ":memory:")
	_, lines := s.stream("hello")
	for !strings.Contains(lines.Text(), "working") {
		require.True(t, lines.Scan())
	}
	require.NoError(t, s.Process.Signal(os.Interrupt))
	for lines.Scan() { // the stream ends, and so the first signal has arrived
	}
	require.Equal(t, cli.StatusInterrupted, s.stop(os.Interrupt))
}
