package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
)

// TestSecretsAreNotRepeated gives a secret wherever one could be given, rightly or not:
// nothing that is printed or made holds it.
func TestSecretsAreNotRepeated(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-topsecret"
	remote := files(t, map[string]string{
		"a.md":     "---\nname: a\nsubagents: [b]\n---\nYou are a.\n",
		"b.md":     "---\nname: b\na2a: https://me:" + secret + "@localhost:1/\n---\n",
		"cards.md": "---\nname: cards\na2a: {card: \"https://me:" + secret + "@localhost:1/%zz\"}\n---\n",
	})
	tree := filepath.Dir(remote["a.md"])
	var all [][]string
	for _, db := range []string{
		"host=db.example user=me password=" + secret, "password='" + secret + "' dbname=x", "dbname=x password = " + secret, " user=me\tpassword=" + secret,
		"postgres://me:" + secret + "@127.0.0.1:1/db", "postgres://me:" + secret + "@127.0.0.1:port/db", "postgres://me:" + secret + "@127.0.0.1:1/db?sslmode=nonsense",
		"postgres://127.0.0.1:1/db?password=" + secret, "postgres://me:" + secret + "@%zz/db", "postgres://me:" + secret + "x y@127.0.0.1:1/db",
		"POSTGRES://me:" + secret + "@127.0.0.1:1/db", "postgres:/me:" + secret + "@127.0.0.1:1/db", "postgres:me:" + secret + "@127.0.0.1:1/db",
		"mysql://me:" + secret + "@127.0.0.1:1/db", "me:" + secret + "@127.0.0.1:1/db", "//me:" + secret + "@127.0.0.1/db", "redis://:" + secret + "@127.0.0.1:1",
	} {
		all = append(all, []string{"run", desk, "hi", "--db", db}, []string{"sessions", "show", "s1", "--db", db})
	}
	all = append(all, []string{"sessions", "edit", "x", "--db", "user=me password=" + secret},
		[]string{"graph", "run", graphs + "support-router.yaml", "--text", "x", "--db", "user=me password=" + secret})
	for _, redis := range []string{
		"redis://:" + secret + "@127.0.0.1:1", "redis://" + secret + "@127.0.0.1:1", "redis://me:" + secret + "@127.0.0.1:port", "redis://me:" + secret + "@%zz", "redis://me:" + secret + "x y@127.0.0.1:1",
		"me:" + secret + "@127.0.0.1:1", "http://me:" + secret + "@127.0.0.1:1", "redis://127.0.0.1:1/?password=" + secret, "redis://127.0.0.1:1/?nonsense=" + secret, "redis:me:" + secret + "@127.0.0.1:1",
		"redis://:" + secret + "@127.0.0.1:1/nonsense", "password=" + secret,
	} {
		all = append(all, []string{"run", desk, "hi", "--session", "s1", "--redis", redis}, []string{"sessions", "follow", "s1", "--redis", redis})
	}
	all = append(all,
		[]string{"serve", desk, "--token", secret}, []string{"serve", desk, "--token=" + secret}, []string{"serve", desk, "-t" + secret}, []string{"serve", desk, "--no-token=" + secret},
		[]string{"run", desk, "--api-key=" + secret}, []string{"run", desk, "-p" + secret},
		[]string{"serve", desk, "--url", "https://me:" + secret + "@example.com"}, []string{"serve", desk, "--url", "https://me:" + secret + "@%zz"},
		[]string{"serve", desk, "--listen", "me:" + secret + "@127.0.0.1:0"}, []string{"serve", desk, "--no-token", "--listen", "127.0.0.1:0", "--url", "http://me:" + secret + "@example.com"},
		[]string{"lint", tree}, []string{"tree", tree}, []string{"run", tree, "hi"}, []string{"lint", remote["cards.md"]})
	check := func(status int, env []string, args ...string) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			got := invocation{env: env}.run(t, args...)
			require.False(t, strings.Contains(got.out+got.err, secret), "%q %q: %s%s", env, args, got.out, got.err)
			require.Equal(t, status, got.status, "%q %q: %s", env, args, got.err)
		})
	}
	model := []string{"OPENAI_BASE_URL=http://127.0.0.1:1", "OPENAI_MODEL=m"}
	for _, args := range all {
		check(cli.StatusUsage, model, args...)
	}
	for url, status := range map[string]int{"http://me:" + secret + "@127.0.0.1:1/v1": cli.StatusFailed, "http://me:" + secret + "@%zz": cli.StatusUsage,
		"me:" + secret + "@127.0.0.1": cli.StatusUsage, "http://127.0.0.1:1?key=" + secret: cli.StatusFailed} {
		check(status, []string{"OPENAI_MODEL=m", "OPENAI_BASE_URL=" + url}, "run", desk, "hi", "--db", ":memory:")
	}
	check(cli.StatusFailed, append(model, "OPENAI_API_KEY="+secret), "run", desk, "hi", "--db", ":memory:")
	check(cli.StatusUsage, append(model, "OPENAI_API_KEY="+secret+"\nx"), "run", desk, "hi", "--db", ":memory:")
	t.Cleanup(func() { // when all of them have ended
		entries, err := os.ReadDir(".") // their working folder
		require.NoError(t, err)
		for _, e := range entries {
			require.NotContains(t, e.Name(), secret)
		}
	})
}
