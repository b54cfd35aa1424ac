package view_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/view"
)

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
