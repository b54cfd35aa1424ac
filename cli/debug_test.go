package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/observe/debugbundle"
)

// TestSessionsDebug: a session is explained by its log, and with the tree that it was of.
func TestSessionsDebug(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	run := func(status int, args ...string) outcome {
		t.Helper()
		return invocation{home: home}.run(t, args...).exits(t, status)
	}
	run(0, "run", desk, "my words are private", "--session", "s1")
	for _, args := range [][]string{nil, {"--tree", desk}} {
		var b debugbundle.Bundle
		got := run(0, append([]string{"sessions", "debug", "s1"}, args...)...)
		require.NoError(t, json.Unmarshal([]byte(got.out), &b))
		require.Equal(t, "s1", b.SessionID)
		require.Equal(t, "over", b.Turn)
		require.NotEmpty(t, b.Active)
		require.Equal(t, args != nil, b.AgentGraph.Topology != nil)
		require.NotContains(t, got.out, "private")
	}
	require.Contains(t, run(cli.StatusUsage, "sessions", "debug", "s1", "--decisions", "0").err, "give a whole number of at least 1")
	require.Contains(t, run(cli.StatusUsage, "sessions", "debug", "s2").err, "s2")
}

// TestWhy explains a transfer and an answer, from the log alone and with the tree.
func TestWhy(t *testing.T) {
	t.Parallel()
	env := serve(t, answers(
		scripted.Reply(scripted.Call("transfer_to_billing", `{"reason":"money \u001b[31m"}`)),
		scripted.Reply(scripted.Text("Two charges.")),
		scripted.Reply(scripted.Call("transfer_to_billing", `{}`)),
		scripted.Reply(scripted.Call("transfer_to_billing", `{}`)),
		scripted.Reply(scripted.Text("I do not know.")),
	))
	home := t.TempDir()
	why := func(env []string, args ...string) outcome {
		return invocation{home: home, env: env}.run(t, append([]string{"sessions", "why"}, args...)...)
	}
	got := invocation{home: home, env: env}.run(t, "run", desk, "I was charged twice", "--session", "s1").exits(t, 0)

	require.Equal(t, outcome{0, "s1, at 6 of 11: support → billing (transfer, committed)\n" +
		"  user      I was charged twice\n  reason    money ␛[31m\n  model     model\n",
		"arbor: give --tree PATH to see who could have been chosen, and what the model was asked\n"}, why(nil, "s1"))
	got = why(nil, "s1", "--tree", desk)
	require.Equal(t, 0, got.status, got.err)
	require.Contains(t, got.out, "\n  request   at position 2 the model is asked for an answer: 2 messages, ")
	require.Contains(t, got.out, "\nTARGET ")
	require.Regexp(t, `\nbilling +charged +Charges`, got.out)
	require.NotContains(t, got.out, "\x1b")
	require.Equal(t, "s1, at 11 of 11: billing answers itself", strings.SplitN(why(nil, "s1", "11").out, "\n", 2)[0])

	got = why(env, "s1", "--tree", desk, "--samples", "3")
	require.Equal(t, 0, got.status, got.err)
	require.Regexp(t, `^arbor: the model model is asked 3 times, of \d+ tokens each\n$`, got.err)
	require.Regexp(t, `\nSAMPLES  CHOOSE +BETWEEN +CONFIDENCE\n2 +billing +21 % and 94 % +-\n1 +support itself +6 % and 79 % +-\n$`, got.out)

	got = why(nil, "s1", "1", "--tree", desk, "--json")
	var all struct {
		Kind, Chosen, Agent string
		At                  int64
		Targets             []struct {
			Name   string
			Shares []string
		}
		Request struct {
			Messages []struct{ Role, Content string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &all))
	require.Equal(t, []string{"transfer", "support", "billing"}, []string{all.Kind, all.Agent, all.Chosen})
	require.Equal(t, "I was charged twice", all.Request.Messages[1].Content)

	require.Equal(t, 11, strings.Count(invocation{home: home}.run(t, "sessions", "show", "s1", "--json").out, "\n"), "nothing is stored")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"s1", "12"}, "SEQ 12: session s1 has the positions 1 to 11"},
		{[]string{"s1", "0"}, "SEQ 0: give a position in the log, a whole number of at least 1"},
		{[]string{"s1", "--samples", "3"}, "--samples needs --tree"},
		{[]string{"s1", "--samples", "101", "--tree", desk}, "--samples 101: give a whole number from 0 to 100"},
		{[]string{"s1", "--prices", "x.yaml"}, "--prices needs --samples"},
		{[]string{"none"}, "none"},
	} {
		got := why(nil, c.args...)
		require.Equal(t, 2, got.status, c.args)
		require.Contains(t, got.err, c.want)
	}
}

// TestWhyOfRouters explains what rules have decided.
func TestWhyOfRouters(t *testing.T) {
	front := frontFolder(t, "{model: small, labels: {parcels: where a parcel is, other: anything else}}", "{examples: {parcels: [where is my parcel], other: [thanks]}}")
	home := t.TempDir()
	require.Equal(t, 0, invocation{home: home}.run(t, "run", front, "where is my parcel", "--session", "s2").status)
	got := invocation{home: home}.run(t, "sessions", "why", "s2", "1", "--tree", front)
	require.Equal(t, "s2, at 3 of 13: front → shop (rule 2)", strings.SplitN(got.out, "\n", 2)[0])
	require.Contains(t, got.out, `  rule      intent("parcels", 0.6)`)
	require.Equal(t, "arbor: a router asks no model who answers\n", got.err)
	require.Contains(t, got.out, "\nbilling  ")
	got = invocation{home: home}.run(t, "sessions", "why", "s2", "--tree", front)
	require.Contains(t, got.out, "shop → hats (rule 2)")
	got = invocation{home: home}.run(t, "sessions", "why", "s2", "--tree", front, "--samples", "2").exits(t, 2)
	require.Contains(t, got.err, "--samples: there is no model to ask: a router asks no model who answers")

	invocation{home: home}.run(t, "run", front, "I want to talk to a person", "--session", "s1")
	require.Contains(t, invocation{home: home}.run(t, "sessions", "why", "s1", "--tree", front).out, "front → human (rule 0)")
}
