//go:build unix

package cli_test

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm/scripted"
)

// password stands in the address of a database, and nowhere else.
const password = "pg-secret-0123456789"

// database returns the address of a PostgreSQL database with a password in it.
func database(t *testing.T) string {
	t.Helper()
	u := must.Get(url.Parse(servers.Database(t)))
	if _, set := u.User.Password(); !set { // the server asks for none
		u.User = url.UserPassword(u.User.Username(), password)
	}
	return u.String()
}

// All commands work on a database that several processes share.
func TestPostgres(t *testing.T) {
	t.Parallel()
	db := database(t)
	in := invocation{home: t.TempDir(), others: true}
	var printed strings.Builder
	run := func(args ...string) outcome {
		t.Helper()
		got := in.run(t, append(args, "--db", db)...)
		printed.WriteString(got.out + got.err)
		require.Equal(t, 0, got.status, got.err)
		return got
	}
	require.Contains(t, run("run", desk, "an invoice shows two charges").err, "to continue: arbor run testdata/desk --session s-")
	require.Contains(t, run("run", desk, "an invoice shows two charges", "--session", "s1").out, "support → billing")
	require.True(t, strings.HasPrefix(run("run", desk, "hello again", "--session", "s1").out, "billing: "))
	require.Contains(t, run("sessions", "ls").out, "\ns1 ")
	require.Contains(t, run("sessions", "history", "s1").out, "support → billing")
	require.Contains(t, run("sessions", "show", "s1", "--at", "7").err, "active: billing")
	require.Contains(t, run("sessions", "show", "s1", "--at", "8", "--view", "billing", "--tree", desk).out, "user: an invoice shows two charges")
	require.Contains(t, run("sessions", "fork", "s1", "--at", "1", "--to", "s2").err, "arbor resume PATH --session s2 --db 'postgres")
	require.Contains(t, run("resume", desk, "--session", "s2").out, "support → billing")
	run("sessions", "edit", "s1", "my line is slow", "--at", "1", "--to", "s3")
	require.Contains(t, run("resume", desk, "--session", "s3").out, "support → tech")
	require.Contains(t, run("sessions", "diff", "s1", "s3").out, "Nothing is in common.")
	require.Contains(t, run("sessions", "replay", "s1").out, "user: hello again")
	in.stdin = run("sessions", "export", "s1", "--format", "openai").out
	run("sessions", "import", "-", "--agent", "support", "--to", "s4")
	require.Contains(t, run("sessions", "show", "s4").out, "user: hello again")
	in.stdin = "hello\n/session\n"
	require.Contains(t, run("chat", desk, "--session", "s1").out, "session s1 in postgres")
	require.NoFileExists(t, filepath.Join(in.home, ".local", "state", "arbor", "arbor.db"))

	for _, args := range [][]string{{"sessions", "show", "nobody"}, {"resume", desk, "--session", "nobody"}, {"sessions", "fork", "s1", "--at", "3"}, {"sessions", "fork", "s1", "--to", "s2"}} {
		got := in.run(t, append(args, "--db", db)...).exits(t, cli.StatusUsage)
		printed.WriteString(got.out + got.err)
	}
	require.NotContains(t, printed.String(), password)
}

// What was typed at a terminal is remembered in the state directory.
func TestPostgresOnTerminal(t *testing.T) {
	t.Parallel()
	db := database(t)
	in := invocation{home: t.TempDir(), env: []string{"NO_COLOR=1"}, others: true}
	s := in.onScreen(t, "chat", desk, "--session", "s1", "--db", db)
	s.say("/session")
	require.NotContains(t, s.until("to come back: arbor chat"), password)
	s.quit()
	require.FileExists(t, filepath.Join(in.home, ".local", "state", "arbor", "arbor.db.history"))
	nothingHolds(t, in.home, password)
}

// A turn in one process can be followed in another, and holds the session.
func TestPostgresAcrossProcesses(t *testing.T) {
	t.Parallel()
	db := database(t)
	slowly, asked, release := slow("Which router?")
	env := serve(t, answers(scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech"}`)), slowly))
	in, asking := invocation{others: true}, invocation{env: env, others: true}
	first := asking.start(t, "run", desk, "my line is slow", "--session", "s1", "--db", db)
	receive(t, asked)
	f := in.following(t, "sessions", "follow", "s1", "--db", db, "--until-end")
	f.until(t, "support → tech")
	busy := asking.run(t, "run", desk, "hello?", "--session", "s1", "--db", db).exits(t, cli.StatusBusy)
	fork := in.run(t, "sessions", "fork", "s1", "--at", "1", "--to", "s2", "--db", db).exits(t, 0)
	close(release)
	require.Equal(t, 0, first.wait(t).status)
	f.until(t, "tech: Which router?")
	require.Equal(t, 0, f.wait(t).status, f.err.String())
	require.NotContains(t, busy.err+fork.err+first.err.String()+f.err.String(), password)
}

// A server that is not there is told of by its address, without the password.
func TestPostgresIsMissing(t *testing.T) {
	t.Parallel()
	got := invocation{}.run(t, "sessions", "ls", "--db", "postgres://ann:"+password+"@127.0.0.1:1/sessions?sslpassword="+password).exits(t, cli.StatusUsage)
	require.Contains(t, got.err, "postgres://ann@127.0.0.1:1/sessions")
	require.NotContains(t, got.err, password)
}
