package cli_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/access/usersfile"
)

func TestUsers(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	run := func(status int, args ...string) outcome {
		t.Helper()
		return invocation{home: home}.run(t, args...).exits(t, status)
	}
	got := run(0, "users", "ls")
	require.Empty(t, got.out)
	require.Contains(t, got.err, "no users besides the owner")
	file := filepath.Join(home, ".local", "state", "arbor", "users.yaml")
	got = run(0, "users", "add", "ann", "--may", "inspect,desk")
	token := strings.TrimSpace(got.out)
	require.Len(t, token, 26)
	require.Contains(t, got.err, "ann is in "+file)
	require.NotContains(t, got.err, token)
	info := must.Get(os.Stat(file))
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	all := must.Get(usersfile.Read(file))
	require.Equal(t, []access.Account{{Name: "ann", Token: access.HashToken(token), Rights: access.Inspect | access.Desk}}, all)

	run(0, "users", "add", "bob")
	require.Equal(t, "NAME  MAY\nann   inspect, desk\nbob   -\n", run(0, "users", "ls").out)
	require.Equal(t, `{"name":"ann","may":["inspect","desk"]}`+"\n"+`{"name":"bob","may":[]}`+"\n", run(0, "users", "ls", "--json").out)
	require.Contains(t, run(cli.StatusUsage, "users", "add", "ann").err, "the user exists already: ann")
	require.Contains(t, run(cli.StatusUsage, "users", "add", "cleo", "--may", "inspcet").err, `"inspcet" is not a right: use one of inspect, act, desk, approve, or a name of your own; did you mean "inspect"?`)
	require.Contains(t, run(cli.StatusUsage, "users", "add", "local").err, "owner of this machine")
	require.Contains(t, run(cli.StatusUsage, "users", "rm", "cleo").err, "the user does not exist")
	require.Contains(t, run(0, "users", "rm", "ann").err, "ann is no longer in")
	require.Equal(t, "NAME  MAY\nbob   -\n", run(0, "users", "ls").out)
	run(0, "users", "rm", "bob")
	require.Contains(t, run(0, "users", "ls").err, "no users besides the owner")

	own := filepath.Join(home, "own.yaml")
	require.Contains(t, run(cli.StatusUsage, "users", "ls", "--users", own).err, "no such file")
	run(0, "users", "add", "dan", "--users", own)
	require.NoError(t, os.WriteFile(own, []byte("- name: dan\n  token: hunter2\n- nam: x\n"), 0o600))
	for _, args := range [][]string{{"users", "ls"}, {"users", "add", "eve"}, {"users", "rm", "dan"}, {"serve", desk, "--addr", "127.0.0.1:0"}} {
		got = run(cli.StatusUsage, append(args, "--users", own)...)
		require.Contains(t, got.err, "4 problems in the files\n")
		require.Contains(t, got.err, own+":2: the hash of a token must be sha256:")
		require.NotContains(t, got.err, "hunter2")
	}
	require.Contains(t, run(cli.StatusUsage, "serve", desk, "--addr", "127.0.0.1:0", "--no-token", "--users", file).err, "exclude each other")
}

// A server takes the users of the file, from when they are in it until they are not.
func TestServeUsers(t *testing.T) {
	t.Parallel()
	i := invocation{home: t.TempDir()}
	s := i.serve(t, desk)
	status := func(token string) int {
		r := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.base+"/tasks/none", http.NoBody))
		r.Header.Set("Authorization", "Bearer "+token)
		got := must.Get(http.DefaultClient.Do(r))
		_, _ = io.Copy(io.Discard, got.Body)
		got.Body.Close()
		return got.StatusCode
	}
	require.Equal(t, 404, status(token))
	ann := strings.TrimSpace(i.run(t, "users", "add", "ann").out)
	require.NotEmpty(t, ann)
	s.said.until(t, "the users file has changed: the owner and 1 user from now on", 1)
	require.Equal(t, 404, status(ann))
	file := filepath.Join(i.home, ".local", "state", "arbor", "users.yaml")
	good := must.Get(os.ReadFile(file))
	require.NoError(t, os.WriteFile(file, append(good, "- name: hunter2\n"...), 0o600))
	s.said.until(t, file+":3: the token is missing", 1)
	require.Equal(t, 404, status(ann), "the users stay as they were")
	require.NoError(t, os.WriteFile(file, good, 0o600))
	s.said.until(t, "the owner and 1 user from now on", 2)
	r := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.base+"/api/v1/changes", http.NoBody))
	r.Header.Set("Authorization", "Bearer "+ann)
	r.Header.Set("Accept", "text/event-stream")
	stream := must.Get(http.DefaultClient.Do(r))
	defer stream.Body.Close()
	require.Equal(t, 200, stream.StatusCode)
	require.Equal(t, 0, i.run(t, "users", "rm", "ann").status)
	read := must.Get(io.ReadAll(stream.Body)) // which ends
	require.Contains(t, string(read), "event: end\ndata: {\"reason\":\"revoked\"}\n\n")
	s.said.until(t, "the owner and 0 users from now on", 1)
	require.Equal(t, 401, status(ann))
	for range 30 {
		require.Equal(t, 401, status(ann), "loopback is not bounded")
	}
	require.Equal(t, 404, status(token))
	require.NotContains(t, s.said.String(), ann)
}

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
		entries := must.Get(os.ReadDir(".")) // their working folder
		for _, e := range entries {
			require.NotContains(t, e.Name(), secret)
		}
	})
}
