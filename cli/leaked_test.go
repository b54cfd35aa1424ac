package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
