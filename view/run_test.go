package view_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/view"
)

func runOf(t *testing.T, name string, l *story) view.Run {
	v := view.New(tree(t).Node(name), view.Full(), "")
	for _, e := range l.events {
		v.Apply(e)
	}
	return v.Run()
}

// What began a run counts until the agent has said or done something, and holds for
// all of the answer in which it does.
func TestRunTransfer(t *testing.T) {
	const args = `{"agent_name":"support"}`
	over := func() *story { return new(story).user("Hi").start("support").over("support", "billing", "c1") }
	committed := func() *story {
		return new(story).user("Hi").start("support").transfer("support", "billing", "c1", event.TransferCommitted).end("support", event.FinishReasonTransfer)
	}
	for name, c := range map[string]struct {
		log  *story
		from string
	}{
		"committed":              {committed(), "support"},
		"started":                {committed().start("billing"), "support"},
		"words":                  {over().text("billing", "Hm.").usage("billing"), ""},
		"blanks":                 {over().text("billing", " \n").usage("billing"), "support"},
		"words and a call":       {over().text("billing", "Hm.").call("billing", "c2", agent.TransferTool, args).usage("billing"), "support"},
		"all of that is settled": {over().text("billing", "Hm.").call("billing", "c2", agent.TransferTool, args).usage("billing").failed("billing", "c2", agent.TransferTool, `"no"`), ""},
		"a refused transfer":     {over().call("billing", "c2", agent.TransferTool, args).usage("billing").failed("billing", "c2", agent.TransferTool, `"no"`), "support"},
		"a tool":                 {over().call("billing", "c2", "look", "{}").usage("billing").result("billing", "c2", "look", "1"), ""},
		"a tool is under way":    {over().call("billing", "c2", "look", "{}").usage("billing"), "support"},
		"a pause":                {over().end("billing", event.FinishReasonInputRequired).start("billing"), "support"},
		"a fork":                 {over().start("billing"), "support"},
		"the end":                {over().end("billing", event.FinishReasonStop), ""},
		"the user went on":       {over().user("And?").start("billing"), ""},
		"another took its place": {committed().start("tech").start("billing"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			handed := runOf(t, "billing", c.log).Transfer
			if c.from == "" {
				require.Nil(t, handed)
				return
			}
			require.NotNil(t, handed)
			require.Equal(t, c.from, handed.From)
			require.Nil(t, runOf(t, "tech", c.log).Transfer)
		})
	}
}

// TestBounces: one wordless transfer up or sideways in a turn, whoever makes it, and an agent that has given
// the conversation back is not offered to the one that got it back.
func TestBounces(t *testing.T) {
	start := func() *story { return new(story).user("Hi").start("support") }
	for name, c := range map[string]struct {
		log      *story
		bounced  bool
		returned []string // to support
	}{
		"down":                    {start().over("support", "billing", "c1"), false, nil},
		"back":                    {start().over("support", "billing", "c1").over("billing", "support", "c2"), true, []string{"billing"}},
		"sideways":                {start().over("support", "billing", "c1").over("billing", "tech", "c2"), true, nil},
		"back by the other":       {start().over("support", "billing", "c1").over("billing", "tech", "c2").over("tech", "support", "c3"), true, nil},
		"after words":             {start().over("support", "billing", "c1").text("billing", "No.").over("billing", "support", "c2"), false, nil},
		"after blanks":            {start().over("support", "billing", "c1").text("billing", " ").over("billing", "support", "c2"), true, []string{"billing"}},
		"after a tool":            {start().over("support", "billing", "c1").call("billing", "c2", "look", "{}").usage("billing").result("billing", "c2", "look", "1").over("billing", "support", "c3"), false, nil},
		"of the user's own agent": {new(story).user("Hi").start("billing").over("billing", "support", "c1"), false, nil},
		"did not take it":         {start().over("support", "billing", "c1").refused("billing", "support", ""), false, []string{"billing"}},
		"in a turn before":        {start().over("support", "billing", "c1").over("billing", "support", "c2").user("And?").start("support"), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			run := runOf(t, "support", c.log)
			require.Equal(t, c.bounced, run.Bounced)
			require.Equal(t, c.returned, run.Returned)
			require.Equal(t, c.bounced, runOf(t, "tech", c.log).Bounced, "it is a matter of the turn")
		})
	}
}

// TestWordless: transfers before which nothing was said or done are counted, whoever makes them.
func TestWordless(t *testing.T) {
	l := new(story).user("Hi").start("support").over("support", "billing", "c1").over("billing", "support", "c2").over("support", "tech", "c3")
	run := runOf(t, "tech", l)
	require.Equal(t, 3, run.Wordless)
	require.False(t, run.Spoken)
	run = runOf(t, "tech", l.text("tech", "Hm.").over("tech", "support", "c4"))
	require.Equal(t, 3, run.Wordless, "something was said before it")
	require.Zero(t, runOf(t, "support", l.user("And?").start("support")).Wordless)
}

func TestFailures(t *testing.T) {
	l := new(story).user("Hi").start("support").
		call("support", "c1", "look", `{"a":1,"b":[2.50]}`).usage("support").failed("support", "c1", "look", `"no"`).
		call("support", "c2", "look", `{ "b": [2.50], "a": 1 }`).call("support", "c3", "look", `{"a":1,"b":[2.50]}`).usage("support").
		failed("support", "c2", "look", `"no, and again"`).failed("support", "c3", "look", `"no"`).
		call("support", "c4", "look", `{"a":1,"b":[2.5]}`).usage("support").failed("support", "c4", "look", `"other"`)
	failures := runOf(t, "support", l).Failures
	require.Len(t, failures, 2)
	require.Equal(t, 2, failures[0].Answers, "an answer counts once")
	require.True(t, failures[0].Of("look", []byte(`{"b":[2.50],"a":1}`), "no"))
	require.False(t, failures[0].Of("look", []byte(`{"b":[2.50],"a":2}`), "no"))
	require.Equal(t, "other", failures[1].Error)
	require.Empty(t, runOf(t, "support", l.end("support", event.FinishReasonStop)).Failures, "a run begins with none")
}

// TestExchanges: what the user said last, and who had the last word before, as far as the
// agent may know it.
func TestExchanges(t *testing.T) {
	l := new(story).user(" Hi ").start("support").text("support", "Hello.").
		user("Refund it").start("support").text("support", "One moment.").over("support", "billing", "c1").text("billing", "Done.").
		user("And?").
		user("Please").start("billing").text("billing", "Hm.").
		user("Thanks")
	exchanges := func(p view.Policy) (string, []view.Exchange) {
		v := view.New(tree(t).Node("support"), p, "")
		for _, e := range l.events {
			v.Apply(e)
		}
		return v.Exchanges()
	}
	for name, c := range map[string]struct {
		policy view.Policy
		said   string
		before []view.Exchange
	}{
		"three at most":      {view.Full(), "Thanks", []view.Exchange{{"Refund it", "billing"}, {"And?", ""}, {"Please", "billing"}}},
		"not who is hidden":  {view.Own(), "Thanks", []view.Exchange{{"Refund it", "support"}, {"And?", ""}, {"Please", ""}}},
		"not what is hidden": {view.LastTurns(2), "Thanks", []view.Exchange{{"Please", "billing"}}},
		"one":                {view.LastTurns(1), "Thanks", []view.Exchange{}},
		"redacted":           {view.Full().Redact(func(s string) string { return strings.ReplaceAll(s, "it", "*") }), "Thanks", []view.Exchange{{"Refund *", "billing"}, {"And?", ""}, {"Please", "billing"}}},
	} {
		t.Run(name, func(t *testing.T) {
			said, before := exchanges(c.policy)
			require.Equal(t, c.said, said)
			require.Equal(t, c.before, before)
		})
	}
	said, before := view.New(tree(t).Node("support"), view.Full(), "").Exchanges()
	require.Equal(t, "", said)
	require.Empty(t, before)
}
