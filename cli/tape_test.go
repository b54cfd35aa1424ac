package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
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
		"--record and --replay exclude each other":    {"--record", tape, "--replay", tape},
		"--record is given, but there is no endpoint": {"--record", tape},
		"there is no such file or folder":             {"--replay", tape + "x"},
		"recording 1":                                 {"--replay", filepath.Join(desk, "support.md")},
	} {
		o := invocation{}.run(t, append([]string{"run", desk, "Hello", "--db", ":memory:"}, args...)...).exits(t, 2)
		require.Contains(t, o.err, want)
	}
	kept := must.Get(os.ReadFile(tape))
	require.Equal(t, string(data), string(kept), "a command that cannot begin records nothing")
}

func TestUsageLedger(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	script := answers(
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech"}`), scripted.Usage(100, 7, 60)),
		scripted.Reply(scripted.Text("One."), scripted.Usage(40, 3, 0)),
		scripted.Reply(scripted.Text("Two."), scripted.Usage(50, 4, 40)))
	env := serve(t, script)
	for range 2 {
		invocation{env: env, home: home}.run(t, "run", desk, "hi", "--session", "s1").exits(t, 0)
	}
	got := invocation{home: home}.run(t, "sessions", "show", "s1", "--usage").exits(t, 0)
	require.Equal(t, "AGENT    ANSWERS  DISCARDED  INPUT  CACHED  OUTPUT\n"+
		"support  1        0          100    60      7\n"+
		"tech     2        0          90     40      7\n"+
		"total    3        0          190    100     14\n", got.out)
	got = invocation{home: home}.run(t, "sessions", "show", "s1", "--usage", "--json")
	require.Contains(t, got.out, `{"agent":"tech","answers":2,"discarded":0,"inputTokens":90,"cachedTokens":40,"outputTokens":7}`)
}

func TestLedgerOfCosts(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := serve(t, answers(
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech"}`), scripted.Usage(100, 10, 60)),
		scripted.Reply(scripted.Text("One."), scripted.Usage(40, 5, 0))))
	got := invocation{env: env, home: home}.run(t, "run", desk, "hi", "--session", "s1", "--json").exits(t, 0)
	model := regexp.MustCompile(`"model":"([^"]+)"`).FindStringSubmatch(got.out)[1]
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "prices.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	show := func(prices string, more ...string) outcome {
		return invocation{home: home}.run(t, append([]string{"sessions", "show", "s1", "--prices", prices}, more...)...)
	}
	priced := file(model + ": {input: 1000, cachedInput: 500, output: 2000}\n")
	got = show(priced, "--usage")
	require.Equal(t, 0, got.status, got.err)
	require.Equal(t, "AGENT    ANSWERS  DISCARDED  INPUT  CACHED  OUTPUT  COST\n"+
		"support  1        0          100    60      10      0.09\n"+
		"tech     1        0          40     0       5       0.05\n"+
		"total    2        0          140    60      15      0.14\n", got.out)
	got = show(priced, "--cost")
	require.Equal(t, 0, got.status, got.err)
	require.Equal(t, "TURN  AGENT    ANSWERS  DISCARDED  INPUT  CACHED  OUTPUT  READ ANEW  COST  READ ANEW COST\n"+
		"1     support  1        0          100    60      10      0          0.09  0\n"+
		"1     tech     1        0          40     0       5       40         0.05  0.04\n"+
		"      total    2        0          140    60      15      40         0.14  0.04\n", got.out)
	require.Contains(t, show(priced, "--cost", "--json").out, `"turn":1,"agent":"tech","answers":1,"discarded":0,"inputTokens":40,"cachedTokens":0,"outputTokens":5,"readAnew":40,"cost":0.05,"readAnewCost":0.04}`)
	require.Equal(t, 2, show(priced, "--cost", "--usage").status)
	require.Contains(t, show(priced, "--usage", "--json").out, `"outputTokens":5,"cost":0.05}`)

	got = show(file("other-model: {input: 1, output: 2}\n"), "--usage")
	require.Equal(t, 0, got.status, got.err)
	require.Contains(t, got.out, "unknown: no price for "+model)
	for text, want := range map[string]string{
		"a: {inptu: 1}":           "inptu",
		"a: {input: -1}":          "is -1",
		"[":                       "prices.yaml",
		"a: {input: 1, input: 2}": "input",
	} {
		got := show(file(text), "--usage")
		require.Equal(t, 2, got.status, text)
		require.Contains(t, got.err, want, text)
	}
	require.Equal(t, 2, show(priced).status, "prices without --usage")
	require.Equal(t, 2, show("nowhere.yaml", "--usage").status)
}
