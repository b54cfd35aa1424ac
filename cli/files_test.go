package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
)

// TestFiles: the command says how to get what agents have made, and gives it.
func TestFiles(t *testing.T) {
	t.Parallel()
	i := invocation{program: "maker", home: t.TempDir(), unlawful: true}
	dir := filepath.Join(t.TempDir(), "to", "files")
	got := i.run(t, "run", "Go", "--session", "s1").exits(t, cli.StatusAnswered)
	require.Equal(t, "(file a.txt, text/plain, 6 bytes)\n(file a.txt, text/plain, 7 bytes)\nmaker: Made.\n", got.out)
	require.Equal(t, "maker: to get a.txt: maker sessions file s1 a.txt\nmaker: to get a.txt: maker sessions file s1 a.txt\n", got.err)

	first := session.Digest([]byte("first\n"))
	require.Equal(t, "3  maker  a.txt, text/plain, 6 bytes  "+first+"\n4  maker  a.txt, text/plain, 7 bytes  "+session.Digest([]byte("second\x00"))+"\n",
		i.run(t, "sessions", "file", "s1").out)
	require.Contains(t, i.run(t, "sessions", "file", "s1", "--json").out, `"type":"file","agent":"maker"`)
	require.Equal(t, "second\x00", i.run(t, "sessions", "file", "s1", "a.txt").out)
	require.Equal(t, "first\n", i.run(t, "sessions", "file", "s1", first).out)
	out := filepath.Join(t.TempDir(), "out")
	require.Equal(t, cli.StatusAnswered, i.run(t, "sessions", "file", "s1", first, "--output", out).status)
	got = i.run(t, "sessions", "file", "s1", "a.txt", "--output", out).exits(t, cli.StatusUsage)
	require.Equal(t, "maker: "+out+" exists already\n", got.err)
	require.Equal(t, "first\n", read(t, out))
	got = i.run(t, "sessions", "file", "s1", "b.txt").exits(t, cli.StatusUsage)
	require.Equal(t, "maker: session s1 has no file \"b.txt\"; maker sessions file s1 lists them\n", got.err)

	got = i.run(t, "run", "Go", "--session", "s2", "--files", dir)
	require.Equal(t, "maker: a.txt is in "+filepath.Join(dir, "a.txt")+"\nmaker: a.txt is in "+filepath.Join(dir, "a-2.txt")+"\n", got.err)
	require.Equal(t, "second\x00", read(t, filepath.Join(dir, "a-2.txt")))
	require.Contains(t, i.run(t, "sessions", "export", "s1", "--format", "md", "--files", dir).out, "file a.txt, text/plain, 6 bytes")
	entries := must.Get(os.ReadDir(dir))
	require.Len(t, entries, 2, "the same files are not written twice")
	require.Equal(t, cli.StatusAnswered, i.run(t, "sessions", "fork", "s1", "--at", "3", "--to", "fork").status)
	require.Equal(t, "first\n", i.run(t, "sessions", "file", "fork", "a.txt").out)
	require.Equal(t, cli.StatusAnswered, i.run(t, "sessions", "check").status)
}

func read(t *testing.T, path string) string {
	return string(must.Get(os.ReadFile(path)))
}
