package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm/scripted"
)

func TestUsageLedger(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	script := answers(
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech"}`), scripted.Usage(100, 7, 60)),
		scripted.Reply(scripted.Text("One."), scripted.Usage(40, 3, 0)),
		scripted.Reply(scripted.Text("Two."), scripted.Usage(50, 4, 40)))
	env := serve(t, script)
	for range 2 {
		got := invocation{env: env, home: home}.run(t, "run", desk, "hi", "--session", "s1")
		require.Equal(t, 0, got.status, got.err)
	}
	got := invocation{home: home}.run(t, "sessions", "show", "s1", "--usage")
	require.Equal(t, 0, got.status, got.err)
	require.Equal(t, "AGENT    ANSWERS  DISCARDED  INPUT  CACHED  OUTPUT\n"+
		"support  1        0          100    60      7\n"+
		"tech     2        0          90     40      7\n"+
		"total    3        0          190    100     14\n", got.out)
	got = invocation{home: home}.run(t, "sessions", "show", "s1", "--usage", "--json")
	require.Contains(t, got.out, `{"agent":"tech","answers":2,"discarded":0,"inputTokens":90,"cachedTokens":40,"outputTokens":7}`)
}
