package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

// planted makes a copy of the desk in which words of a file are others.
func planted(t *testing.T, file, old, new string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	require.NoError(t, os.CopyFS(dir, os.DirFS(desk)))
	if file != "" {
		data := must.Get(os.ReadFile(filepath.Join(dir, file)))
		require.Contains(t, string(data), old)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(strings.Replace(string(data), old, new, 1)), 0o600))
	}
	return dir
}

// said makes the session s1 of two turns, in which the conversation goes to billing, and returns the home that has it.
func said(t *testing.T) invocation {
	t.Helper()
	i := invocation{home: t.TempDir()}
	transfer := scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`))
	i.env = serve(t, answers(transfer, scripted.Reply(scripted.Text("Refunded.")), scripted.Reply(scripted.Text("You are welcome."))))
	for _, words := range []string{"I was charged twice", "Thank you"} {
		i.run(t, "run", desk, words, "--session", "s1").exits(t, 0)
	}
	i.env = nil // no endpoint is needed from here on
	return i
}

// A session is the same with the agents that made it, and what was changed is found where it matters first.
func TestReplayWith(t *testing.T) {
	t.Parallel()
	i := said(t)
	same := "same to the end: 2 turns, 3 requests, 0 tool calls\n"
	o := i.run(t, "sessions", "replay", "s1", "--with", desk)
	require.Equal(t, outcome{0, same, "arbor: what models were asked is not in a log: give --tree with the agents that made the session to compare it\n"}, o)
	require.Equal(t, outcome{0, same, ""}, i.run(t, "sessions", "replay", "s1", "--with", desk, "--tree", desk))

	gone := planted(t, "support.md", "billing, ", "")
	require.NoError(t, os.Remove(filepath.Join(gone, "billing.md")))
	for name, tt := range map[string]struct {
		with string
		old  bool
		at   string
		out  []string
	}{
		"description": {with: planted(t, "billing.md", "Charges, invoices", "Charges, fines"), old: true, out: []string{
			"turn 1, position 3: support is asked something else\nroute then: support → billing\nroute now:  support → …\n",
			"  - - billing: Charges, invoices and refunds\n  + - billing: Charges, fines and refunds\n", "\ntools\n", "played: 1 turn, 1 request"}},
		"instructions": {with: planted(t, "billing.md", "You handle", "You do"), old: true, out: []string{
			"turn 1, position 9: billing is asked something else\nroute then: support → billing\nroute now:  support → billing → …\n",
			"  - You handle charges, invoices and refunds.\n  + You do charges, invoices and refunds.\n", "played: 1 turn, 2 requests"}},
		"model": {with: planted(t, "billing.md", "name: billing", "name: billing\nmodel: other"), old: true, out: []string{"position 9", "model\n  -\n  + other\n"}},
		"gone":  {with: gone, out: []string{`position 5: the call of transfer_to_agent gives there is no agent "billing"`, "route now:  support → …"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"sessions", "replay", "s1", "--with", tt.with}
			if tt.old {
				i.run(t, args...).exits(t, 0, "what was asked is not in the log")
				args = append(args, "--tree", desk)
			}
			o := i.run(t, args...).exits(t, 1)
			for _, want := range tt.out {
				require.Contains(t, o.out, want)
			}
			o = i.run(t, append(args, "--at", "2")...).exits(t, 0, "the place is behind position 2")

			var r struct {
				Compared   bool
				Difference struct {
					Turn, Seq     int
					RecordedRoute []string
				}
			}
			require.NoError(t, json.Unmarshal([]byte(i.run(t, append(args, "--json")...).out), &r))
			require.Equal(t, tt.old, r.Compared)
			require.Equal(t, []string{"support", "billing"}, r.Difference.RecordedRoute)
		})
	}
}

// With --ask the models of the changed tree go on, so that the whole route of the turn is known; no tool runs.
func TestReplayAsk(t *testing.T) {
	t.Parallel()
	i := said(t)
	changed := planted(t, "tech.md", "Errors", "Double charges, errors")
	script := answers(scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech"}`)), scripted.Reply(scripted.Text("Have you tried to turn it off?")))
	i.env = serve(t, script)
	o := i.run(t, "sessions", "replay", "s1", "--with", changed, "--tree", desk, "--ask").exits(t, 1)
	require.Contains(t, o.out, "route then: support → billing\nroute now:  support → tech\n")
	require.Len(t, script.Requests("model"), 2)

	i.env = serve(t, answers())
	o = i.run(t, "sessions", "replay", "s1", "--with", desk, "--tree", desk, "--ask").exits(t, 0, "no difference, no question")
}

func TestReplayWithRefuses(t *testing.T) {
	t.Parallel()
	i := said(t)
	for want, args := range map[string][]string{
		"--tree needs --with":                       {"s1", "--tree", desk},
		"--ask needs --with":                        {"s1", "--ask"},
		"--speed and --with exclude each other":     {"s1", "--with", desk, "--speed", "2"},
		"--model, --record and --replay need --ask": {"s1", "--with", desk, "--model", "m"},
		"there is no such file or folder":           {"s1", "--with", desk + "x"},
		"--at 0: nothing is played":                 {"s1", "--with", desk, "--at", "0"},
		"--at 99: session s1 has the positions":     {"s1", "--with", desk, "--at", "99"},
		"there is no session":                       {"s2", "--with", desk},
		"problems in the files":                     {"s1", "--with", desk, "--tree", "testdata/broken"},
		"there is no endpoint: set OPENAI_API_KEY":  {"s1", "--with", desk, "--ask", "--model", "m"},
	} {
		o := i.run(t, append([]string{"sessions", "replay"}, args...)...).exits(t, 2, want)
		require.Contains(t, o.err, want)
		require.Empty(t, o.out)
	}
}
