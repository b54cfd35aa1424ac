//go:build unix

package cli_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm/scripted"
)

// What another process does in the session comes above the line that is being typed, which stays,
// and the next line is answered after it.
func TestChatHearsOthers(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	script := answers(scripted.Reply(scripted.Text("First.")), scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`)),
		scripted.Reply(scripted.Text("Second.")), scripted.Reply(scripted.Text("Third.")))
	in := invocation{home: home, env: append(serve(t, script), "NO_COLOR=1")}
	s := in.onScreen(t, "chat", desk, "--session", "s1")
	s.say("one")
	s.until("support: First.")
	s.until("you> ")
	s.enter("thr")
	s.until("thr")
	require.Equal(t, 0, in.run(t, "run", desk, "two", "--session", "s1").status)
	seen := s.until("billing: Second.")
	require.Contains(t, seen, "user: two")
	require.NotContains(t, seen, "user: one", "what was seen is not shown again")
	require.NotContains(t, seen, "First.")
	s.until("thr") // is drawn again
	s.enter("ee\r")
	seen = s.until("billing: Third.")
	require.NotContains(t, seen, "user: three", "what is said here is not heard")
	s.say("/quit")
	seen = s.until("")
	require.NotContains(t, seen, "Third.")
	require.Equal(t, 0, s.status())
	asked := script.Requests("model")
	require.Equal(t, "three", asked[3].Messages[len(asked[3].Messages)-1].Text)
	require.Contains(t, asked[3].System, "invoices")
}

// A call that waits is decided in another process than the one in which it was asked for; both
// say what becomes of it.
func TestChatsDecide(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "s.db")
	env := serve(t, answers(scripted.Reply(scripted.Call("refund", `{"order":"7"}`)), scripted.Reply(scripted.Text("Refunded."))))
	in := invocation{program: "careful", home: t.TempDir(), env: append(env, "NO_COLOR=1")}
	one := in.onScreen(t, "chat", "--session", "a", "--db", db)
	two := in.onScreen(t, "chat", "--session", "a", "--db", db)
	one.until("you> ")
	two.until("you> ")
	one.enter("refund it\r")
	one.until("the turn waits: /approve ")
	two.until("user: refund it")
	seen := two.until("the turn waits: /approve ")
	require.Contains(t, seen, "order")
	call := strings.Fields(two.until(" or /deny"))[0]
	two.enter("/approve " + call + "\r")
	two.until("Refunded.")
	one.until("refund → ")
	one.until("Refunded.")
	one.enter("/quit\r")
	two.enter("/quit\r")
	require.Equal(t, 0, one.status())
	require.Equal(t, 0, two.status())
}

// A chat that starts while another process runs a turn says so, and shows the end of that turn before the message
// that waited is answered: on the same database, and at a server.
func TestChatComesInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, remote := range []bool{false, true} {
		t.Run(fmt.Sprint(remote), func(t *testing.T) {
			t.Parallel()
			slowly, asked, release := slow("Your line is fine.")
			in, chat := invocation{home: t.TempDir(), env: append(serve(t, answers(slowly, scripted.Reply(scripted.Text("And you?")))), "NO_COLOR=1")}, []string{"chat", desk, "--session", "s1"}
			if remote {
				s := in.serve(t, desk, "--db", ":memory:")
				in, chat = atServer(t), []string{"chat", "--server", s.base, "--session", "s1"}
			}
			one := in.onScreen(t, chat...)
			one.say("hi")
			receive(t, asked)
			two := in.onScreen(t, chat...)
			two.until("a turn is running: its answer is shown here")
			two.say("hello?")
			two.until("another program is working on this session: your message is sent when it has finished")
			close(release)
			one.until("support: Your line is fine.")
			seen := two.until("support: Your line is fine.")
			seen += two.until("support: And you?")
			require.NotContains(t, seen, "user: hi", "that was said before")
			one.say("/quit")
			two.enter("/quit\r")
			require.Equal(t, 0, one.status())
			require.Equal(t, 0, two.status())
		})
	}
}
