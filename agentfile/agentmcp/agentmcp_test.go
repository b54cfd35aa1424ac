package agentmcp

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/tools/mcp"
)

// TestServersEndWithTheirTrees: agents of two trees share a server that their files describe in
// the same words, and it ends with the last tree; one that fails to load keeps nothing.
func TestServersEndWithTheirTrees(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	write("a.md", "---\nsubagents: [b]\nmcp: [{name: s, command: some-server}]\n---\nYou help.\n")
	write("b.md", "---\nmcp: [{name: s, command: some-server}]\n---\nYou help.\n")
	servers := New()
	load := func() (*agentfile.Tree, error) {
		return agentfile.Load(dir, agentfile.WithModel(func(string) (llm.Model, error) { return offline.New(), nil }), agentfile.WithMCP(servers.Open))
	}
	set := func() *mcp.Server {
		s := must.Get(servers.Open(agentfile.MCPServer{Name: "s", Command: "some-server"}))
		require.NoError(t, s.(interface{ Close() error }).Close())
		return s.(use).Server
	}
	first, err := load()
	require.NoError(t, err)
	shared := set()
	second, err := load()
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.Same(t, shared, set(), "the second tree uses it")

	write("b.md", "---\nmcp: [{name: s, command: some-server}, {name: t, command: x, prefix: \"a b\"}]\n---\nYou help.\n")
	_, err = load()
	require.Error(t, err)
	require.Same(t, shared, set())
	require.NoError(t, second.Close())
	require.NotSame(t, shared, set(), "it ended with the last tree")
	require.NoError(t, servers.Close())
}
