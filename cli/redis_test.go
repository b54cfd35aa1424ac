//go:build unix

package cli_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm/scripted"
)

// until makes a model wait.
func until(ch <-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ch:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// With Redis who follows reads an answer while it is written, and the words once.
func TestFollowThroughRedis(t *testing.T) {
	t.Parallel()
	s, r := tell(t), servers.NewRedis(t)
	s.others = true
	release := make(chan struct{})
	script := answers(scripted.Reply(scripted.Text("Which "), scripted.Wait(until(release)), scripted.Text("router?")))
	f := s.following(t, "sessions", "follow", "story", "--after", "27-0", "--json", "--until-end", "--redis", r.URL(), "--db", s.db)
	plain := s.start(t, "sessions", "follow", "story", "--after", "27-0", "--until-end", "--redis", r.URL(), "--db", s.db)
	run := invocation{env: serve(t, script), others: true}.start(t, "run", desk, "my line is slow", "--session", "story", "--redis", r.URL(), "--db", s.db)
	id, e := entry(t, f.until(t, `"partial":true`))
	require.Equal(t, "29-1", id)
	require.True(t, e.Partial)
	require.Equal(t, "Which ", e.Text())
	close(release)
	require.Equal(t, outcome{0, "billing: Which router?\n", ""}, run.wait(t))
	_, e = entry(t, f.until(t, `"seq":30`))
	require.Equal(t, "Which router?", e.Text())
	require.Equal(t, 0, f.wait(t).status, f.err.String())
	require.Equal(t, "user: my line is slow\nbilling: Which router?\n", plain.wait(t).out)

	got := s.sessions(t, "follow", "story", "--json", "--after", id, "--until-end", "--redis", r.URL())
	_, e = entry(t, got.out[strings.LastIndex(strings.TrimSpace(got.out), "\n")+1:])
	require.Equal(t, event.TypeHarnessEnd, e.Type())
	require.NotContains(t, got.out, `"seq":29,`)
}

// A turn goes on without Redis, and both sides say so.
func TestRedisIsLost(t *testing.T) {
	t.Parallel()
	s, r := tell(t), servers.NewRedis(t)
	s.others = true
	killed, said := make(chan struct{}), make(chan struct{})
	script := answers(scripted.Reply(scripted.Wait(until(killed)), scripted.Text("Which "), scripted.Wait(until(said)), scripted.Text("router?")))
	f := s.following(t, "sessions", "follow", "story", "--after", "27-0", "--until-end", "--redis", r.URL(), "--db", s.db)
	run := invocation{env: serve(t, script), others: true}.hearing(t, "run", desk, "my line is slow", "--session", "story", "--redis", r.URL(), "--db", s.db)
	f.until(t, "user: my line is slow")
	require.NoError(t, r.Kill())
	close(killed)
	require.True(t, strings.HasPrefix(run.until(t, "not published"), "arbor: redis: partial events are not published: "))
	close(said)
	f.until(t, "(")
	got := run.wait(t).exits(t, 0)
	require.Equal(t, "billing: Which router?\n", got.out)
	f.until(t, "billing: Which router?")
	require.Equal(t, 0, f.wait(t).status, f.err.String())
}

func TestRedisIsMissing(t *testing.T) {
	t.Parallel()
	s := tell(t)
	for address, say := range map[string]string{
		"redis://ann:" + password + "@127.0.0.1:1":       "127.0.0.1:1 cannot be reached",
		"redis://ann:" + password + "%zz@127.0.0.1:6379": "the URL cannot be read",
		"http://127.0.0.1/" + password:                   "the URL cannot be read",
	} {
		for _, args := range [][]string{{"run", desk, "hi"}, {"chat", desk}, {"resume", desk, "--session", "story"}, {"sessions", "follow", "story"}} {
			got := s.run(t, append(args, "--redis", address, "--db", s.db)...).exits(t, cli.StatusUsage)
			require.Contains(t, got.err, "arbor: --redis: redis: ")
			require.Contains(t, got.err, say)
			require.NotContains(t, got.err, password)
			require.Equal(t, 1, strings.Count(got.err, "\n"), got.err)
		}
	}
}

// The hints that tell how to go on name the server, without its password.
func TestRedisInHints(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, "--requirepass", password)
	u := must.Get(url.Parse(r.URL()))
	shown := u.String()
	u.User = url.UserPassword("", password)
	got := invocation{others: true}.run(t, "run", desk, "hi", "--redis", u.String()).exits(t, 0)
	require.NotContains(t, got.err, password)
	require.Contains(t, got.err, " --redis "+shown)
}
