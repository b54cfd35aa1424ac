package cli_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

// What a command prints of a session at a server is what it prints of the same session in the
// server's database.
func TestLookingAtServer(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "s.db")
	env := serve(t, answers(
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"nobody"}`)),
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech","reason":"a slow line"}`)),
		scripted.Reply(scripted.Text("Which router?")), scripted.Reply(scripted.Text("Good.")), scripted.Reply(scripted.Text("Hello."))))
	s := invocation{env: env}.serve(t, desk, "--db", db)
	in := atServer(t)
	chat := in
	chat.stdin = "my line is slow\nthe white one\n"
	got := chat.run(t, "chat", "--server", s.base, "--session", "s1")
	require.Equal(t, 0, got.status, got.err)
	got = in.run(t, "sessions", "fork", "s1", "--at", "6", "--to", "s2", "--db", db)
	require.Equal(t, 0, got.status, got.err)
	for _, command := range []string{
		"show s1", "show s1 --json", "show s1 --at 4 --state", "show s1 --usage", "show s1 --view support --tree " + desk,
		"history s1", "history s1 --json", "replay s1", "replay s1 --with " + desk, "export s1", "export s1 --format case", "export s1 --format html",
		"file s1", "debug s1", "debug s1 --tree " + desk,
		"why s1", "why s1 2", "why s1 --json", "why s1 --tree " + desk, "why s1 3 --tree " + desk + " --json", "why s1 99",
		"show s2", "history s2", "history s2 --json", "export s2", "why s2",
	} {
		args := append([]string{"sessions"}, strings.Fields(command)...)
		here, there := in.run(t, append(args, "--db", db)...), in.run(t, append(args, "--server", s.base)...)
		require.Equal(t, here.status, there.status, "%s\n%s\n%s", command, here.err, there.err)
		require.Equal(t, here.out, there.out, command)
		require.Equal(t, strings.Replace(here.err, "--db "+db, "--server "+s.base, 1), there.err, command)
	}
	for args, says := range map[string]string{
		"sessions why nobody --server " + s.base:             `there is no session "nobody" in the server at ` + s.base,
		"sessions why s1 --server " + s.base + " --db " + db: "--db and --server exclude each other",
		"sessions export s1 --token-file x":                  "--token-file needs --server",
	} {
		got := in.run(t, strings.Fields(args)...)
		require.Equal(t, cli.StatusUsage, got.status, got.err)
		require.Contains(t, got.err, says)
	}
	// Models are asked from here.
	ours := in
	ours.env = append(ours.env, serve(t, answers(scripted.Reply(scripted.Call("transfer_to_tech", `{}`)), scripted.Reply(scripted.Text("Hm."))))...)
	got = ours.run(t, "sessions", "why", "s1", "--server", s.base, "--tree", desk, "--samples", "2")
	require.Equal(t, 0, got.status, got.err)
	require.Contains(t, got.err, "is asked 2 times")
}

// A session that is removed, or removed and begun anew, while its log is fetched is not taken for the one that was there.
func TestRemovedWhileFetched(t *testing.T) {
	t.Parallel()
	for name, anew := range map[string]bool{"removed": false, "begun anew": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := filepath.Join(t.TempDir(), "s.db")
			s := invocation{env: serve(t, answers(scripted.Reply(scripted.Text("Hello.")), scripted.Reply(scripted.Text("Again."))))}.serve(t, desk, "--db", db)
			in := atServer(t)
			chat := func() {
				c := in
				c.stdin = "hello\n"
				got := c.run(t, "chat", "--server", s.base, "--session", "s1")
				require.Equal(t, 0, got.status, got.err)
			}
			chat()
			to := must.Get(url.Parse(s.base))
			proxy := httputil.NewSingleHostReverseProxy(to)
			between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/events") {
					got := in.run(t, "sessions", "rm", "s1", "--db", db)
					require.Equal(t, 0, got.status, got.err)
					if anew {
						chat()
					}
				}
				proxy.ServeHTTP(w, r)
			}))
			defer between.Close()
			got := in.run(t, "sessions", "export", "s1", "--server", between.URL)
			require.Equal(t, cli.StatusBusy, got.status, got.err)
			require.Empty(t, got.out)
			require.Contains(t, got.err, "session s1 was removed from the server at "+between.URL+" while it was read")
		})
	}
}
