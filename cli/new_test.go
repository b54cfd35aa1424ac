package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
)

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// profileOf reports whether the leaves of a tree have the profile for small models.
func profileOf(t *testing.T, dir string) bool {
	t.Helper()
	tree := must.Get(agentfile.Load(dir, agentfile.WithModel(func(string) (llm.Model, error) { return offline.New(), nil })))
	return tree.Index().Node("billing").SmallModels()
}

// The tree that new makes is sound, and does what its own page says.
func TestNew(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "a", "my desk")
	got := invocation{}.run(t, "new", dir).exits(t, 0)
	require.Equal(t, dir+"/README.md\n"+dir+"/support/billing.md\n"+dir+"/support/tech.md\n"+dir+"/support.md\n"+dir+"/agent.schema.json\n", filepath.ToSlash(got.out))
	require.Equal(t, "arbor: to continue: arbor chat '"+dir+"'\n", got.err)

	page := must.Get(os.ReadFile(filepath.Join(dir, "README.md")))
	blocks := shellBlock.FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, blocks)
	out := ""
	for _, block := range blocks {
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", block[1])
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + base, "PATH=" + filepath.Dir(arbor) + string(os.PathListSeparator) + os.Getenv("PATH")}
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
		out += string(said)
	}
	require.Contains(t, out, "ok: 3 agents\n")
	require.NotContains(t, out, "problem")
	require.Contains(t, out, "support → billing")

	// Nothing of anybody's is written over.
	again := invocation{}.run(t, "new", dir).exits(t, cli.StatusUsage)
	require.Equal(t, "arbor: "+dir+" is not empty: it contains README.md; name an empty folder or a new one\n", again.err)
	require.Contains(t, invocation{}.run(t, "new", filepath.Join(dir, "support.md")).err, "the folder cannot be created")
	require.Contains(t, invocation{}.run(t, "new", "").err, "DIR is empty")
	require.Contains(t, invocation{}.run(t, "new").err, "DIR is missing")

	empty := filepath.Join(base, "empty")
	require.NoError(t, os.Mkdir(empty, 0o700))
	require.Equal(t, 0, invocation{}.run(t, "new", empty).status)
	data := must.Get(os.ReadFile(filepath.Join(empty, "support.md")))
	require.True(t, strings.HasPrefix(string(data), "---\n"))
	require.Contains(t, string(data), "\n# transfer: {profile: small}  # for small models")
	require.False(t, profileOf(t, empty))

	// With --small the profile is set, and nothing else differs.
	small := filepath.Join(base, "small")
	require.Equal(t, 0, invocation{}.run(t, "new", "--small", small).status)
	set := must.Get(os.ReadFile(filepath.Join(small, "support.md")))
	require.Equal(t, strings.Replace(string(data), "\n# transfer:", "\ntransfer:", 1), string(set))
	require.True(t, profileOf(t, small))
	readme := must.Get(os.ReadFile(filepath.Join(small, "README.md")))
	require.Equal(t, string(page), string(readme))

	// A program with a tree of its own makes none.
	require.Contains(t, invocation{program: "embedded"}.run(t, "new", dir).err, `unknown command "new"`)
}
