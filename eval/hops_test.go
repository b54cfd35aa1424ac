package eval

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLeaked holds what counts as a call that the user was shown against answers that are none.
func TestLeaked(t *testing.T) {
	names := []string{"support", "tech", "billing", "get_order"}
	for _, text := range []string{
		`{"name": "transfer_to_agent", "arguments": {"agent_name": "billing"`,
		"{\n  \"name\" : \"get_weather\"",
		"{'agent_name': 'tech'}",
		"```json\n{\"agent\": \"Billing\", \"reason\": \"money\"}\n```",
		`{"reason": "The user was charged twice."}`,
		"<tool_call>\nbilling",
		"<tools></tools>",
		"I will use transfer_to_billing now.",
		"transfer_to_tech",
		`{"function": "billing"}`,
		"billing", "**Billing**", "`tech`.", "Transfer to: tech", "tech()", `billing(reason="charged twice")`, `get_order({"id": 7})`,
	} {
		require.True(t, leaked(text, names), text)
	}
	for _, text := range []string{
		"", "Billing will call you.", "I transfer you to an agent with the name Kim.", "{no call}", "Transfer", "careers",
		`{"reason": "It is late.", "price": 7}`, "{}", "Get order 7 (tech).",
	} {
		require.False(t, leaked(text, names), text)
	}
}

func TestHops(t *testing.T) {
	turn := func(expected, answered string, path ...string) TurnOutcome {
		t := TurnOutcome{Expected: expected, Path: path, Answered: answered, Said: "Hm."}
		p, _ := ParsePath(expected)
		t.Decisions = p.decisions(path, false)
		return t
	}
	leaked := turn("support", "support", "support")
	leaked.Leaked = true
	failed := TurnOutcome{Expected: "support > tech|sales", Path: []string{"support"}, Error: "bad_request"}
	either := turn("support > billing|sales", "sales", "support", "sales")
	named := turn("", "tech", "tech")
	named.ExpectedAnswers = []string{"sales", "tech"}
	one := func(t TurnOutcome) Outcome { return Outcome{Turns: []TurnOutcome{t}} }
	r := &Results{Outcomes: []Outcome{
		one(turn("support", "support", "support")),
		one(turn("support > billing", "billing", "support", "tech", "billing")), // a wrong hop, put right
		one(turn("support > billing", "", "support", "billing")),                // nobody says anything
		one(leaked), one(failed), one(either), one(named),
		one(turn("", "support", "support")), // nothing is expected
		{Turns: []TurnOutcome{
			turn("… > billing", "billing", "support", "billing"),
			turn("… > billing|tech", "tech", "billing", "tech"), // no change: billing would be right as well
			turn("… > sales", "billing", "billing"),             // a change, and wrong
			turn("… > …", "billing", "billing"),
			turn("… > tech", "tech", "billing", "tech"), // what was right before is open
		}},
	}}
	h := r.Hops()
	require.Equal(t, Wilson(3, 6), h.First)
	require.Equal(t, map[string][2]int{"support": {1, 2}, "billing": {1, 2}, "billing|sales": {1, 1}, "sales|tech": {1, 1}, "tech|sales": {0, 1}}, h.ByRight)
	require.Equal(t, map[string]int{"support": 2, "tech": 1, "billing": 1, "sales": 1}, h.Chosen)
	require.Equal(t, Wilson(4, 7), h.Messages)
	require.Equal(t, Wilson(3, 4), h.Talks)
	require.Equal(t, Wilson(0, 1), h.Changed)
	require.Equal(t, Wilson(1, 13), h.Leaked)
}
