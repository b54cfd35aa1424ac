package cli_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

// A tree that one command serves over its standard input and output is a tool of another
// command's tree, by the key mcp: files, server and client of the real command.
func TestMCPOfOneTreeInAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "clerk.md")
	write := func(rules string) {
		require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(`---
mcp:
  - name: desk
    command: %s
    args: [mcp, %s, --db, ":memory:"]
    env: {HOME: $HOME}
    prefix: desk_
%s
---
You ask the desk.
`, arbor, mustAbs(t, desk), rules)), 0o644))
	}
	write("rules: [{tool: ask, args: {message: '^secret'}, decision: deny}]")
	env := serve(t, answers(
		scripted.Reply(scripted.Call("desk_ask", `{"message":"my invoice shows two charges"}`)),
		scripted.Reply(scripted.Text("The desk has answered.")),
	))
	i := invocation{env: env, home: t.TempDir()}
	got := i.run(t, "run", dir, "ask them", "--session", "s1").exits(t, 0)
	require.Contains(t, got.out, "The desk has answered.")
	got = i.run(t, "sessions", "show", "s1")
	require.Contains(t, got.out, "I am the offline model")

	got = i.run(t, "tree", dir)
	require.Contains(t, got.out, "mcp desk")
	lint := invocation{env: []string{"HOME=" + i.home}, home: i.home}
	require.Equal(t, outcome{0, "ok: 1 agent\n", ""}, lint.run(t, "lint", dir, "--connect"))
	write("rules: [{tool: ask, args: {mesage: '^secret'}, decision: deny}, {tool: desk_aks, decision: ask}]\napprove: [asks, ask, desk_ask]")
	require.Equal(t, outcome{0, "ok: 1 agent\n", ""}, lint.run(t, "lint", dir))
	got = lint.run(t, "lint", dir, "--connect").exits(t, 2)
	require.Equal(t, file+`:8: rules: the tool desk_ask has no argument "mesage"; did you mean "message"?
`+file+`:8: rules is about the tool "desk_aks", and the agent "clerk" has none of that name; did you mean "desk_ask"?
`+file+`:9: approve is about the tool "asks", and the agent "clerk" has none of that name; did you mean "ask"?
`, got.out)
}

// A server that is not there ends no turn, unless it is required: the user reads what is missing.
func TestMCPServerIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "clerk.md"), []byte("---\nmcp: [{name: gone, command: /no/such/program}]\n---\n"), 0o644))
	got := invocation{env: serve(t, answers(scripted.Reply(scripted.Text("Without tools."))))}.run(t, "run", dir, "hello").exits(t, 0)
	require.Contains(t, got.out, "Without tools.")
	require.Contains(t, got.out, "mcp server gone: it cannot be started")
	require.Contains(t, got.err, "mcp server gone: it cannot be started")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "clerk.md"), []byte("---\nmcp: [{name: gone, command: /no/such/program, required: true}]\n---\n"), 0o644))
	for _, command := range [][]string{{"run", dir, "hello"}, {"chat", dir}, {"serve", dir, "--addr", "127.0.0.1:0"}} {
		got := invocation{env: serve(t, answers())}.run(t, append(command, "--db", ":memory:")...).exits(t, 2)
		require.Contains(t, got.err, "mcp server gone: it cannot be started")
		require.Empty(t, got.out)
	}
	got = invocation{}.run(t, "lint", dir, "--connect", "--json").exits(t, 2)
	require.Contains(t, got.out, "mcp server gone: it cannot be started")
}

// With --mcp the protocol is served beside A2A, to those who have the token.
func TestServeMCP(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--mcp", "--db", ":memory:")
	connect := func(token string) (*sdk.ClientSession, error) {
		return sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.base + "/mcp", HTTPClient: &http.Client{Transport: bearing(token)}}, nil)
	}
	require.Error(t, must.Err(connect("wrong")))
	c := must.Get(connect(token))
	res := must.Get(c.CallTool(context.Background(), &sdk.CallToolParams{Name: "ask", Arguments: map[string]any{"message": "an invoice shows two charges"}}))
	require.False(t, res.IsError)
	require.Contains(t, res.Content[0].(*sdk.TextContent).Text, "I am the offline model")
	require.NoError(t, c.Close())
	require.Equal(t, 0, s.stop(os.Interrupt))
}

type bearing string

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func mustAbs(t *testing.T, path string) string {
	return must.Get(filepath.Abs(path))
}
