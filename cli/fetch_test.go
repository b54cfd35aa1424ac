package cli_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
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
	got := chat.run(t, "chat", "--server", s.base, "--session", "s1").exits(t, 0)
	got = in.run(t, "sessions", "fork", "s1", "--at", "6", "--to", "s2", "--db", db).exits(t, 0)
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
		got := in.run(t, strings.Fields(args)...).exits(t, cli.StatusUsage)
		require.Contains(t, got.err, says)
	}
	// Models are asked from here.
	ours := in
	ours.env = append(ours.env, serve(t, answers(scripted.Reply(scripted.Call("transfer_to_tech", `{}`)), scripted.Reply(scripted.Text("Hm."))))...)
	got = ours.run(t, "sessions", "why", "s1", "--server", s.base, "--tree", desk, "--samples", "2").exits(t, 0)
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
				c.run(t, "chat", "--server", s.base, "--session", "s1").exits(t, 0)
			}
			chat()
			to := must.Get(url.Parse(s.base))
			proxy := httputil.NewSingleHostReverseProxy(to)
			between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/events") {
					in.run(t, "sessions", "rm", "s1", "--db", db).exits(t, 0)
					if anew {
						chat()
					}
				}
				proxy.ServeHTTP(w, r)
			}))
			defer between.Close()
			got := in.run(t, "sessions", "export", "s1", "--server", between.URL).exits(t, cli.StatusBusy)
			require.Empty(t, got.out)
			require.Contains(t, got.err, "session s1 was removed from the server at "+between.URL+" while it was read")
		})
	}
}

// atServer is an invocation whose commands know the token of the tests' servers.
func atServer(t *testing.T) invocation {
	return invocation{home: t.TempDir(), env: []string{"ARBOR_TOKEN=" + token, "NO_COLOR=1"}}
}

// remoteDesk is a folder with a remote specialist that needs a variable.
func remoteDesk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "support"), 0o755))
	for name, text := range map[string]string{
		"support.md":         "---\ndescription: Finds the right specialist\n---\nYou route.\n",
		"support/billing.md": "---\ndescription: Money\na2a: https://billing.example.com/cards?key=7\nauth: {bearer: $BILLING_TOKEN}\n---\n",
		"support/shop.md":    "---\na2a: $SHOP_URL\n---\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o644))
	}
	return dir
}

// Drawings show where remote agents are, without what could be a secret, and need no
// variable.
func TestTreeWithRemoteAgents(t *testing.T) {
	t.Parallel()
	dir := remoteDesk(t)
	for format, want := range map[string]string{
		"text": `support  Finds the right specialist
├─ billing  Money
│      remote: https://billing.example.com/cards
└─ shop  shop
       remote: http://$SHOP_URL
`,
		"mermaid": `flowchart TD
    n0["support"]
    n1["billing<br>https#58;//billing.example.com/cards"]
    n2["shop<br>http#58;//#36;SHOP_URL"]
    n0 --> n1
    n0 --> n2
`,
		"dot": `digraph "agents" {
  compound=true;
  node [shape=box];
  n0 [label="support", tooltip="Finds the right specialist"];
  n1 [label="billing\nhttps://billing.example.com/cards", tooltip="Money"];
  n2 [label="shop\nhttp://$SHOP_URL", tooltip="shop"];
  n0 -> n1;
  n0 -> n2;
}
`,
		"json": `{"name":"support","path":"support","description":"Finds the right specialist","targets":["billing","shop"],"subAgents":[` +
			`{"name":"billing","path":"support/billing","description":"Money","remote":"https://billing.example.com/cards"},` +
			`{"name":"shop","path":"support/shop","description":"shop","remote":"http://$SHOP_URL"}]}
`,
	} {
		got := invocation{}.run(t, "tree", dir, "--format", format).exits(t, 0)
		require.Equal(t, want, got.out)
	}
	got := invocation{env: []string{"SHOP_URL=https://ann:s3cret@shop.example.com/?k=s3cret", "BILLING_TOKEN=s3cret"}}.run(t, "tree", dir)
	require.Contains(t, got.out, "remote: https://shop.example.com/\n")
	require.NotContains(t, got.out+got.err, "s3cret")
}

// A variable that is not set keeps a tree from running; lint mentions it.
func TestVariablesOfRemoteAgents(t *testing.T) {
	t.Parallel()
	dir := remoteDesk(t)
	wants := []string{
		filepath.Join(dir, "support", "billing.md") + ":4: the environment variable BILLING_TOKEN is not set, and auth.bearer needs it\n",
		filepath.Join(dir, "support", "shop.md") + ":2: the environment variable SHOP_URL is not set, and a2a needs it\n",
	}
	got := invocation{}.run(t, "lint", dir).exits(t, 0)
	require.Equal(t, "ok: 3 agents\n", got.out)
	require.Equal(t, "arbor: to run it: "+strings.Join(wants, "arbor: to run it: "), got.err)

	got = invocation{}.run(t, "run", dir, "hello", "--db", ":memory:").exits(t, cli.StatusUsage)
	require.Empty(t, got.out)
	require.Equal(t, "arbor: 2 problems in the files\n"+strings.Join(wants, ""), got.err)

	got = invocation{env: []string{"SHOP_URL=https://shop.example.com", "BILLING_TOKEN=s3cret"}}.run(t, "lint", dir)
	require.Equal(t, outcome{0, "ok: 3 agents\n", ""}, got)
}

// Commands that only show a tree ask no remote agent and no token endpoint.
func TestLookingFetchesNothing(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	front := "---\na2a: $FAR\nauth:\n  oauth2: {token_url: $FAR, client_id: arbor, client_secret: $FAR_SECRET}\n---\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "far.md"), []byte(front), 0o644))
	i := invocation{env: []string{"FAR=" + s.URL, "FAR_SECRET=s3cret"}}
	for _, args := range [][]string{{"lint", dir}, {"tree", dir}, {"tree", dir, "--format", "json"}} {
		require.Equal(t, 0, i.run(t, args...).status)
	}
	require.Zero(t, asked.Load())
	require.NotEqual(t, 0, i.run(t, "run", dir, "hello", "--db", ":memory:").status)
	require.NotZero(t, asked.Load(), "a turn does ask")
}

// TestCardsAreFetchedAtTheStart: a command asks remote agents for their cards before a message needs them. It waits for none.
func TestCardsAreFetchedAtTheStart(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", "DIR", "hello", "--db", ":memory:"}, {"chat", "DIR", "--db", ":memory:"}} {
		asked, gone := make(chan struct{}), make(chan struct{})
		var once sync.Once
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			once.Do(func() {
				close(asked)
				<-req.Context().Done()
				close(gone)
			})
		}))
		t.Cleanup(s.Close)
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "support"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "support.md"), []byte("---\n---\nYou help.\n"), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "support", "far.md"), []byte("---\na2a: $FAR\n---\n"), 0o644))
		env := serve(t, answers(scripted.Reply(scripted.WaitFor(asked), scripted.Text("Hello."))))
		args[1] = dir
		got := invocation{stdin: "hello\n", env: append(env, "FAR="+s.URL)}.run(t, args...).exits(t, 0)
		require.Contains(t, got.out, "Hello.")
		require.NotContains(t, got.err, "far")
		<-gone
	}
}
