package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

// A turn with a transfer is recorded at an endpoint and played without one: it says the same. A tree that asks
// something else is told where it differs.
func TestTape(t *testing.T) {
	t.Parallel()
	tape := filepath.Join(t.TempDir(), "tape.json")
	env := serve(t, answers(scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`)), scripted.Reply(scripted.Text("Refunded."))))
	env = append(env, "OPENAI_API_KEY=sk-a-secret-0123456789")
	first := invocation{env: env}.run(t, "run", desk, "I was charged twice", "--db", ":memory:", "--record", tape)
	require.Equal(t, 0, first.status, first.err)
	require.Contains(t, first.out, "Refunded.")
	data := must.Get(os.ReadFile(tape))
	require.NotContains(t, string(data), "sk-a-secret")

	again := invocation{}.run(t, "run", desk, "I was charged twice", "--db", ":memory:", "--replay", tape)
	require.Equal(t, first.out, again.out)
	require.Equal(t, 0, again.status, again.err)

	other := invocation{}.run(t, "run", desk, "Something else", "--db", ":memory:", "--replay", tape)
	require.NotEqual(t, 0, other.status)
	require.Contains(t, other.err, "was not recorded")
	require.Contains(t, other.err, `+ "content": "Something else"`)

	for want, args := range map[string][]string{
		"--record and --replay cannot be given together": {"--record", tape, "--replay", tape},
		"--record is given, but there is no endpoint":    {"--record", tape},
		"there is no such file or folder":                {"--replay", tape + "x"},
		"recording 1":                                    {"--replay", filepath.Join(desk, "support.md")},
	} {
		o := invocation{}.run(t, append([]string{"run", desk, "Hello", "--db", ":memory:"}, args...)...)
		require.Equal(t, 2, o.status, o.err)
		require.Contains(t, o.err, want)
	}
	kept := must.Get(os.ReadFile(tape))
	require.Equal(t, string(data), string(kept), "a command that cannot begin records nothing")
}
