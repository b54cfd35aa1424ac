package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/llm/scripted"
)

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
		got := invocation{}.run(t, "tree", dir, "--format", format)
		require.Equal(t, 0, got.status, got.err)
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
	got := invocation{}.run(t, "lint", dir)
	require.Equal(t, 0, got.status)
	require.Equal(t, "ok: 3 agents\n", got.out)
	require.Equal(t, "arbor: to run it: "+strings.Join(wants, "arbor: to run it: "), got.err)

	got = invocation{}.run(t, "run", dir, "hello", "--db", ":memory:")
	require.Equal(t, cli.StatusUsage, got.status)
	require.Empty(t, got.out)
	require.Equal(t, "arbor: 2 problems in the agents' files\n"+strings.Join(wants, ""), got.err)

	got = invocation{env: []string{"SHOP_URL=https://shop.example.com", "BILLING_TOKEN=s3cret"}}.run(t, "lint", dir)
	require.Equal(t, outcome{0, "ok: 3 agents\n", ""}, got)
}

// Whoever looks at a tree asks no remote agent, and no token endpoint.
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
		got := invocation{stdin: "hello\n", env: append(env, "FAR="+s.URL)}.run(t, args...)
		require.Equal(t, 0, got.status, got.err)
		require.Contains(t, got.out, "Hello.")
		require.NotContains(t, got.err, "far")
		<-gone
	}
}
