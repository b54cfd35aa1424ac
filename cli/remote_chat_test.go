//go:build unix

package cli_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm/scripted"
)

// A chat at a server is one as at home: words as they come, commands, an interrupt that stops the
// turn, and a way back.
func TestChatAtServer(t *testing.T) {
	t.Parallel()
	slowly, asked, release := slow("never")
	defer close(release)
	script := answers(
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech"}`)),
		scripted.Reply(scripted.Text("Which "), scripted.Text("router?")), slowly, scripted.Reply(scripted.Text("Resumed.")))
	s := invocation{env: serve(t, script)}.serve(t, desk, "--db", ":memory:")
	c := atServer(t).onScreen(t, "chat", "--server", s.base, "--session", "s1")
	c.until("session s1; /help lists the commands")
	c.say("my line is slow")
	c.until("support → tech")
	c.until("tech: Which router?")
	c.say("/agents")
	c.until("tech ← active")
	c.say("/session")
	c.until("session s1 at " + s.base + "; to come back: arbor chat --server " + s.base + " --session s1\r\n")
	c.enter("the blue one\r")
	receive(t, asked)
	c.enter("\x03") // Ctrl-C ends the turn, not the chat
	c.until("interrupted: /resume resumes this turn")
	c.say("/resume")
	c.until("tech: Resumed.")
	c.say("/resume")
	c.until("the last turn is complete: there is nothing to resume")
	c.enter("/quit\r")
	require.Equal(t, 0, c.status())

	c = atServer(t).onScreen(t, "chat", "--server", s.base+"/", "--session", "s1")
	c.say("/agents")
	c.until("tech ← active")
	c.until("you> ")
	c.enter("\x04")
	require.Equal(t, 0, c.status())
	require.Equal(t, 0, s.stop(os.Interrupt), "%s", s.said)
}

// A server that is killed in mid-turn, and comes back, is waited for: nothing is lost, and what
// was shown of the answer that nobody completes is taken back.
func TestChatOutlivesServer(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]os.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := servers.Address(t)
			db := filepath.Join(t.TempDir(), "s.db")
			asked, release := make(chan struct{}), make(chan struct{})
			defer close(release)
			half := scripted.Reply(scripted.Text("I look in"), scripted.Wait(func(ctx context.Context) error {
				close(asked)
				return until(release)(ctx)
			}), scripted.Text(" never heard"))
			script := answers(scripted.Reply(scripted.Text("One moment. "), scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`)),
				half, scripted.Reply(scripted.Text("It is refunded.")), scripted.Reply(scripted.Text("Good bye.")))
			env := serve(t, script)
			s := invocation{env: env}.serve(t, desk, "--db", db, "--addr", addr)
			c := atServer(t).onScreen(t, "chat", "--server", s.base, "--session", "s1")
			c.say("I was charged twice")
			c.until("One moment.")
			c.until("support → billing")
			c.until("billing: I look in")
			receive(t, asked)
			s.stop(sig)
			seen := c.until("the server cannot be reached: "+s.base) + c.until("; trying again")
			s = invocation{env: env}.serve(t, desk, "--db", db, "--addr", addr)
			seen += c.until("billing: It is refunded.") // a server that is stopped takes words back itself
			require.Contains(t, seen, "(answer discarded)")
			require.NotContains(t, seen, "One moment.")
			require.NotContains(t, seen, "support → billing")
			c.say("thanks")
			seen = c.until("billing: Good bye.")
			require.NotContains(t, seen, "refunded")
			c.enter("/quit\r")
			require.Equal(t, 0, c.status())
			require.NoError(t, script.Done(), "what was recorded is not asked for again")
			require.Equal(t, 0, s.stop(os.Interrupt))
		})
	}
}

// What comes in at another door is shown above the line that is being typed, and what waits is
// decided at any of them.
func TestChatsAtServer(t *testing.T) {
	t.Parallel()
	env := serve(t, answers(scripted.Reply(scripted.Call("refund", `{"order":"7"}`)), scripted.Reply(scripted.Text("Refunded."))))
	s := invocation{program: "careful", env: env}.serve(t, "--db", ":memory:")
	one := atServer(t).onScreen(t, "chat", "--server", s.base, "--session", "a")
	one.say("refund it")
	one.until("the turn waits: /approve ")
	two := atServer(t).following(t, "sessions", "follow", "a", "--server", s.base, "--until-end")
	two.until(t, "user: refund it")
	three := atServer(t).onScreen(t, "chat", "--server", s.base, "--session", "a")
	seen := three.until("the turn waits: /approve ")
	require.Contains(t, seen, "order")
	call := strings.Fields(three.until(" or /deny"))[0]
	three.until("you> ")
	one.enter("hm")
	three.enter("/approve " + call + "\r")
	three.until("Refunded.")
	seen = one.until("Refunded.")
	require.Contains(t, seen, "refund → ")
	one.until("hm") // is drawn again
	one.enter("\x03")
	one.enter("/quit\r")
	three.enter("/quit\r")
	require.Equal(t, 0, one.status())
	require.Equal(t, 0, three.status())
	require.Equal(t, 0, two.wait(t).status)
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// One clear line for each thing that can be wrong with a server.
func TestWrongServer(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--db", ":memory:")
	empty, wrong := file(t, "empty", ""), file(t, "wrong", "no-such-token\n")
	for _, c := range []struct {
		args   string
		env    string
		status int
		says   string
	}{
		{"--server http://127.0.0.1:1", token, cli.StatusFailed, "the server cannot be reached: http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"--server " + s.base, "", cli.StatusUsage, "the server at " + s.base + " refuses: it wants a token: set ARBOR_TOKEN, or give --token-file"},
		{"--server " + s.base, "no-such-token", cli.StatusUsage, "the server at " + s.base + " refuses: the token of ARBOR_TOKEN is not one of its tokens"},
		{"--server " + s.base + " --token-file " + wrong, token, cli.StatusUsage, "the server at " + s.base + " refuses: the token in " + wrong + " is not one of its tokens"},
		{"--server " + s.base + " --token-file " + empty, token, cli.StatusUsage, "--token-file " + empty + ": the file is empty"},
		{"--server " + s.base + "/rpc", token, cli.StatusUsage, s.base + "/rpc is not an Arbor server"},
		{"--server " + strings.TrimPrefix(s.base, "http://"), token, cli.StatusUsage, "--server: the address of a server must look like http://127.0.0.1:8420"},
		{"--server http://ann:" + token + "@127.0.0.1", token, cli.StatusUsage, "--server: the address of a server must look like"},
		{"--token-file " + wrong, token, cli.StatusUsage, "--token-file needs --server"},
	} {
		for _, command := range []string{"chat", "sessions follow s1", "sessions why s1"} {
			got := invocation{env: []string{"ARBOR_TOKEN=" + c.env}}.run(t, strings.Fields(command+" "+c.args)...)
			require.Equal(t, c.status, got.status, got.err)
			require.True(t, strings.HasPrefix(got.err, "arbor: "+c.says), got.err)
			require.Equal(t, 1, strings.Count(got.err, "\n"), got.err)
			require.NotContains(t, got.out+got.err, token)
			require.NotContains(t, got.out+got.err, "no-such-token")
		}
	}
	for args, says := range map[string]string{
		"chat " + desk + " --server " + s.base:             "leave out testdata/desk: with --server, the server has the tree",
		"chat --server " + s.base + " --db x":              "--db and --server exclude each other",
		"chat --server " + s.base + " --desk":              "--desk and --server exclude each other",
		"chat --server " + s.base + " --model x":           "--model and --server exclude each other",
		"sessions follow x --server " + s.base + " --db x": "--db and --server exclude each other",
	} {
		got := atServer(t).run(t, strings.Fields(args)...).exits(t, cli.StatusUsage)
		require.Contains(t, got.err, says)
	}
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// Two people at two terminals, and a server between them.
func TestDeskAtServer(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--db", ":memory:", "--desk")
	run := func(status int, args ...string) string {
		t.Helper()
		got := atServer(t).run(t, append(args, "--server", s.base)...).exits(t, status)
		return got.out + got.err
	}
	require.Contains(t, run(0, "desk", "ls"), "no conversation waits")
	user := atServer(t).onScreen(t, "chat", "--server", s.base, "--session", "s1")
	user.say("let me talk to a human person")
	user.until("queued")
	user.until("you> ")
	h := must.JSON[struct{ ID, Session, Status, From string }](strings.TrimSpace(run(0, "desk", "ls", "--json")))
	require.Equal(t, []string{"s1", "queued", "support"}, []string{h.Session, h.Status, h.From})

	person := atServer(t).onScreen(t, "desk", "take", "--server", s.base)
	person.until("user: let me talk to a human person")
	user.until("connected, local")
	person.enter("Hello, I am here.\r")
	user.until("human: Hello, I am here.")
	user.enter("My router is slow.\r")
	person.until("user: My router is slow.")
	person.enter("/hold\r")
	user.until("on hold")
	person.enter("/done I have sent you another one.\r")
	user.until("human: I have sent you another one.")
	user.until("completed")
	require.Equal(t, 0, person.status())
	user.enter("Good bye\r")
	user.until("support: ")
	user.quit()

	require.Contains(t, run(cli.StatusUsage, "desk", "say", h.ID, "x"), "no handoff "+h.ID+" is under way")
	require.Contains(t, run(cli.StatusUsage, "desk", "take", "--name", "Ann"), "--name and --server exclude each other")
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// An interrupt leaves a turn whose server is away; it goes on when that is back.
func TestInterruptWhileServerIsAway(t *testing.T) {
	t.Parallel()
	hangs := scripted.Wait(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	s := invocation{env: serve(t, answers(scripted.Reply(scripted.Text("One moment"), hangs)))}.serve(t, desk, "--db", ":memory:")
	c := atServer(t).onScreen(t, "chat", "--server", s.base)
	c.say("hi")
	c.until("support: One moment") // the turn is known here
	s.stop(syscall.SIGKILL)
	c.until("trying again")
	c.enter("\x03")
	c.until("the server has not said within 10s that the turn has stopped: it may still run there")
	c.until("interrupted: /resume resumes this turn")
	if !strings.Contains(c.until("you> "), "trying again") {
		c.until("trying again") // the prompt says it first, and then the turn
	}
	c.enter("and then?\r") // nobody answers
	c.until("and then?\r\n")
	c.until("trying again")
	c.enter("\x03")
	c.until("the server has not said whether it has begun the turn")
	c.until("interrupted: /resume resumes this turn")
	c.quit()
}

// What calls ask inside of others is answered at a server, and files that are made there come here.
func TestChatAnswersAtServer(t *testing.T) {
	t.Parallel()
	env := serve(t, answers(scripted.Reply(scripted.Call("clerk", `{"input":"Book"}`)), scripted.Reply(scripted.Call("book", `{}`)),
		scripted.Reply(scripted.Text("Booked.")), scripted.Reply(scripted.Text("It is booked."))))
	s := invocation{program: "asker", env: env}.serve(t, "--db", ":memory:")
	c := atServer(t).onScreen(t, "chat", "--server", s.base)
	c.say("book it")
	c.until("For whom?")
	call := strings.Fields(c.until(" TEXT or /deny"))
	id := call[len(call)-4]
	c.say("/approve " + id)
	c.until("asks for an answer")
	c.say("/answer nobody 4")
	c.until("has no open question for call nobody")
	c.say("/answer " + id + " Ann = Bob")
	c.until("How many?")
	c.say("/answer " + id + " 4")
	c.until("asker: It is booked.")
	c.quit()
	require.Equal(t, 0, s.stop(os.Interrupt))

	s = invocation{program: "maker"}.serve(t, "--db", ":memory:")
	dir, in := filepath.Join(t.TempDir(), "files"), atServer(t)
	in.stdin = "go\n"
	got := in.run(t, "chat", "--server", s.base, "--files", dir).exits(t, 0)
	require.Contains(t, got.out, "(file a.txt, text/plain, 6 bytes)\n")
	require.Equal(t, "first\n", read(t, filepath.Join(dir, "a.txt")))
	require.Equal(t, "second\x00", read(t, filepath.Join(dir, "a-2.txt")))
	got = in.run(t, "chat", "--server", s.base)
	require.Contains(t, got.err, "to get a.txt: begin the chat with --files DIR\n")
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// An interrupt stops a turn also if the server has begun it, but has not said so yet.
func TestInterruptBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	slowly, asked, release := slow("never")
	defer close(release)
	s := invocation{env: serve(t, answers(slowly, scripted.Reply(scripted.Text("Resumed."))))}.serve(t, desk, "--db", ":memory:")
	behind := must.Get(url.Parse(s.base))
	begun, let := make(chan struct{}), make(chan struct{})
	proxy := httputil.NewSingleHostReverseProxy(behind)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == http.MethodPost && r.StatusCode == http.StatusAccepted && strings.HasSuffix(r.Request.URL.Path, "/sessions") {
			close(begun)
			<-let
		}
		return nil
	}
	web := httptest.NewServer(proxy)
	defer web.Close()
	c := atServer(t).onScreen(t, "chat", "--server", web.URL, "--session", "s1")
	c.say("hi")
	receive(t, asked)
	receive(t, begun)
	c.enter("\x03")
	c.until("^C")
	close(let)
	c.until("interrupted: /resume resumes this turn")
	c.say("/resume")
	c.until("support: Resumed.")
	c.quit()
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// A command that follows a session at a server continues over a restart, and prints the news of it on lines of their
// own.
func TestFollowAtServer(t *testing.T) {
	t.Parallel()
	addr := servers.Address(t)
	db := filepath.Join(t.TempDir(), "s.db")
	asked, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	half := scripted.Reply(scripted.Text("I look in"), scripted.Wait(func(ctx context.Context) error {
		close(asked)
		return until(release)(ctx)
	}))
	env := serve(t, answers(half, scripted.Reply(scripted.Text("It is refunded."))))
	s := invocation{env: env}.serve(t, desk, "--db", db, "--addr", addr)
	c := atServer(t).onScreen(t, "chat", "--server", s.base, "--session", "s1")
	c.say("I was charged twice")
	receive(t, asked)
	got := atServer(t).run(t, "sessions", "follow", "s2", "--server", s.base).exits(t, cli.StatusUsage)
	require.Equal(t, "arbor: there is no session \"s2\" in the server at "+s.base+"; did you mean \"s1\"?\n", got.err)
	f := atServer(t).onScreen(t, "sessions", "follow", "s1", "--server", s.base, "--until-end")
	f.until("user: I was charged twice")
	f.until("support: I look in")
	s.stop(syscall.SIGKILL)
	f.until("\r\narbor: the server cannot be reached: ")
	s = invocation{env: env}.serve(t, desk, "--db", db, "--addr", addr)
	f.until("(answer discarded)")
	f.until("support: It is refunded.")
	require.Equal(t, 0, f.status())
	c.until("support: It is refunded.")
	c.quit()
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// A person at the desk of a server is who the token says, and is shown what the token allows.
func TestDeskRights(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "users.yaml")
	for rights, shown := range map[string]string{"desk": `what others do is not shown any more: sessions of others need the right "inspect"`, "desk,inspect": "user: a human person, please"} {
		got := invocation{}.run(t, "users", "add", "ann", "--may", rights, "--users", users).exits(t, 0)
		s := invocation{}.serve(t, desk, "--db", ":memory:", "--desk", "--users", users)
		user := atServer(t).onScreen(t, "chat", "--server", s.base, "--session", "s1")
		user.say("a human person, please")
		user.until("queued")
		user.until("you> ")
		person := invocation{env: []string{"ARBOR_TOKEN=" + strings.TrimSpace(got.out), "NO_COLOR=1"}}.onScreen(t, "desk", "take", "--server", s.base)
		person.until(shown)
		user.until("connected, ann")
		person.enter("/end\r")
		user.until("ended")
		require.Equal(t, 0, person.status())
		user.enter("/quit\r")
		require.Equal(t, 0, user.status())
		require.Equal(t, 0, s.stop(os.Interrupt))
		require.Equal(t, 0, invocation{}.run(t, "users", "rm", "ann", "--users", users).status)
	}
}
