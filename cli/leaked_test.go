package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/llm/scripted"
)

// TestLeakedCall: nobody sees the words of a call that a model has written as
// words, in any kind of output; what comes out is the target's answer.
func TestLeakedCall(t *testing.T) {
	script := func() *scripted.Script {
		return answers(
			scripted.Reply(scripted.Text("One moment.\n", "```", "json\n{\"na", "me\": \"transfer_to_agent\", \"argu", "ments\": {\"agent_name\": \"billing\"}}\n`", "``")),
			scripted.Reply(scripted.Text("Which ", "charge?")),
		)
	}
	for name, args := range map[string][]string{"run": {"run", desk, "I was charged twice"}, "chat": {"chat", desk}} {
		s := script()
		got := invocation{env: serve(t, s), stdin: "I was charged twice\n"}.run(t, args...)
		require.Zero(t, got.status, "%s: %s", name, got.err)
		require.Contains(t, got.out, "Which charge?", name)
		for _, part := range []string{"{", "```", "agent_name"} {
			require.NotContains(t, got.out+got.err, part, name)
		}
		require.NoError(t, s.Done())
	}

	got := invocation{env: serve(t, script())}.run(t, "run", desk, "I was charged twice", "--json")
	require.Zero(t, got.status, got.err)
	var said []string
	calls := 0
	for line := range strings.Lines(got.out) {
		var e struct{ Type, Content, Name string }
		if json.Unmarshal([]byte(line), &e) != nil {
			continue // a message of the user has parts
		}
		if e.Type == "text" {
			said = append(said, e.Content)
		}
		if e.Type == "tool_call" {
			require.Equal(t, "transfer_to_agent", e.Name)
			calls++
		}
	}
	require.Contains(t, said, "One moment.\n")
	require.Contains(t, said, "Which charge?")
	require.NotContains(t, strings.Join(said, ""), "{")
	require.NotContains(t, strings.Join(said, ""), "`")
	require.Equal(t, 1, calls)
}

// TestHeldStream: nothing of a streamed text is printed before its guard has passed it, and nothing at all if the guard
// refuses it.
func TestHeldStream(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"run": {"run", "pay"}, "run json": {"run", "pay", "--json"}, "chat": {"chat"}} {
		s := invocation{program: "guarded", home: t.TempDir(), stdin: "pay\n/quit\n", env: serve(t, answers(
			scripted.Reply(scripted.Think("Sec", "ret."), scripted.Text("Your card ", "is 4111", " 1111.", " Anything else?")), scripted.Reply(scripted.Text("Your ", "order ", "is 4111."))))}
		args = append(args, "--session", "a", "--db", filepath.Join(s.home, "s.db"))
		got := s.run(t, args...)
		for _, piece := range []string{"Your card", "4111", "1111", "Anything"} {
			require.NotContains(t, got.out+got.err, piece, name)
		}
		require.Contains(t, got.out+got.err, "no-cards", name)
		if name != "chat" {
			require.Equal(t, cli.StatusFailed, got.status, "%s: %s", name, got.err)
		}
		got = s.run(t, args...)
		require.Zero(t, got.status, "%s: %s", name, got.err)
		require.Equal(t, 1, strings.Count(got.out, "Your order is 4111."), "%s: %s", name, got.out)
	}
}

// A model that has nothing to say is no success: the status and standard error say so.
func TestEmptyAnswerIsNoSuccess(t *testing.T) {
	t.Parallel()
	for _, events := range []bool{false, true} {
		home := t.TempDir()
		env := serve(t, answers(scripted.Reply(scripted.Think("Hm.")), scripted.Reply(scripted.Text(" ")), scripted.Reply(scripted.Text("Here I am."))))
		run := []string{"run", desk, "hi", "--session", "s"}
		if events {
			run = append(run, "--json")
		}
		got := invocation{home: home, env: env}.run(t, run...).exits(t, cli.StatusFailed)
		require.Contains(t, got.err, "agent support: empty answer: ")
		got = invocation{home: home, env: env}.run(t, run...).exits(t, cli.StatusAnswered)
		require.Contains(t, got.out, "Here I am.")
	}
}
