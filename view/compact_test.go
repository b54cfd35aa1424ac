package view_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

func (l *story) compact(who string, upTo int64, summary string) *story {
	return l.add(who, "", &event.Compaction{UpTo: upTo, Summary: summary})
}

// turn is one turn of support: a question, a call with its result, an answer.
// It takes eight events.
func (l *story) turn(n int) *story {
	id := fmt.Sprint("c", n)
	return l.user(fmt.Sprint("q", n)).start("support").call("support", id, "look", "{}").usage("support").result("support", id, "look", `"found"`).
		text("support", fmt.Sprint("a", n)).usage("support").end("support", event.FinishReasonStop)
}

func shownTurn(n int) []string {
	return []string{fmt.Sprint("user q", n), fmt.Sprintf("assistant #c%d look{}", n), fmt.Sprintf("tool #c%d found", n), fmt.Sprint("assistant a", n)}
}

func lines(parts ...any) (all []string) {
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			all = append(all, p)
		case []string:
			all = append(all, p...)
		}
	}
	return all
}

func TestCompaction(t *testing.T) {
	three := func() *story { return new(story).turn(1).turn(2).turn(3) }
	sum := func(s string) string { return "user " + view.SummaryHead + s }
	leftOut := "user " + view.LeftOut
	for name, c := range map[string]struct {
		log  *story
		want []string
	}{
		"a turn":                     {three().user("q4").compact("support", 8, "S"), lines(sum("S"), shownTurn(2), shownTurn(3), "user q4")},
		"without a summary":          {three().user("q4").compact("support", 16, ""), lines(leftOut, shownTurn(3), "user q4")},
		"nothing":                    {three().user("q4").compact("support", 0, "S"), lines(sum("S"), shownTurn(1), shownTurn(2), shownTurn(3), "user q4")},
		"a negative position":        {three().user("q4").compact("support", -5, "S"), lines(sum("S"), shownTurn(1), shownTurn(2), shownTurn(3), "user q4")},
		"a turn's question":          {three().user("q4").compact("support", 1, "S"), lines(sum("S"), shownTurn(1)[1:], shownTurn(2), shownTurn(3), "user q4")},
		"up to a call":               {three().user("q4").compact("support", 3, "S"), lines(sum("S"), shownTurn(1)[1:], shownTurn(2), shownTurn(3), "user q4")},
		"up to the usage of a call":  {three().user("q4").compact("support", 4, "S"), lines(sum("S"), shownTurn(1)[1:], shownTurn(2), shownTurn(3), "user q4")},
		"up to the call's result":    {three().user("q4").compact("support", 5, "S"), lines(sum("S"), shownTurn(1)[3:], shownTurn(2), shownTurn(3), "user q4")},
		"all, the question stays":    {three().user("q4").compact("support", 25, "S"), lines(sum("S"), "user q4")},
		"more than there is":         {three().user("q4").compact("support", 1<<40, "S").text("support", "a4").usage("support").user("q5"), lines(sum("S"), "user q4", "assistant a4", "user q5")},
		"inside of the current turn": {new(story).turn(1).turn(2).compact("support", 13, "S").user("q3"), lines(sum("S"), "user q2", "assistant a2", "user q3")},
		"twice":                      {three().compact("support", 8, "S").turn(4).compact("support", 16, "T").user("q5"), lines(sum("T"), shownTurn(3), shownTurn(4), "user q5")},
		"the question goes with its turn": {new(story).turn(1).compact("support", 5, "S").turn(2).compact("support", 8, "T").user("q3"),
			lines(sum("T"), shownTurn(2), "user q3")},
		"less than before": {three().compact("support", 16, "S").compact("support", 8, "T").user("q4"), lines(sum("T"), shownTurn(3), "user q4")},
		"then without":     {three().compact("support", 8, "S").compact("support", 16, "").user("q4"), lines(leftOut, shownTurn(3), "user q4")},
		"of somebody else": {new(story).turn(1).compact("billing", 8, "S").user("q2"), lines(shownTurn(1), "user q2")},
		"while a call is open": {new(story).turn(1).user("q2").start("support").call("support", "c2", "look", "{}").usage("support").compact("support", 12, "S").
			result("support", "c2", "look", `"found"`), lines(sum("S"), shownTurn(2)[:3])},
		"while a call is open that nobody answers": {new(story).turn(1).user("q2").start("support").call("support", "c2", "look", "{}").usage("support").compact("support", 12, "S").
			user("q3"), lines(sum("S"), "user q2", "user q3")},
		"less than before, while a call is open": {new(story).turn(1).user("q2").start("support").call("support", "c2", "look", "{}").usage("support").
			compact("support", 12, "S").compact("support", 1, "T").user("q3"), lines(sum("T"), "user q2", "user q3")},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, see(t, c.log, "support", view.Full()))
			v := view.New(tree(t).Node("support"), view.Full(), "")
			for i, e := range c.log.events {
				v.Apply(e)
				if i > 0 && len(v.Pending()) == 0 && e.Type() != event.TypeText && e.Type() != event.TypeToolCall {
					v.Messages() // asking in between changes nothing
				}
			}
			require.Equal(t, c.want, render(v.Messages()))
		})
	}
	inner := three()
	inner.compact("support", 8, "S").events[24].Scope = "s2"
	require.Equal(t, lines(shownTurn(1), shownTurn(2), shownTurn(3)), see(t, inner, "support", view.Full()))
}

func TestCompactionSparesRequestsUnderWay(t *testing.T) {
	l := new(story).turn(1).turn(2).user("q3")
	v := view.New(tree(t).Node("support"), view.Full(), "")
	for _, e := range l.events {
		v.Apply(e)
	}
	before := v.Messages()
	want := render(before)
	for _, e := range l.compact("support", 8, "S").text("support", "a3").usage("support").compact("support", 16, "T").user("q4").events[17:] {
		v.Apply(e)
		v.Messages()
	}
	require.Equal(t, want, render(before))
	require.Equal(t, "T", v.Summary())
}

func TestCompactionUnderOtherPolicies(t *testing.T) {
	l := shop() // billing sees support's words and deeds, unless its policy hides them
	events := int64(len(l.events))
	l.compact("billing", events-1, "two charges").text("billing", "Gladly.").usage("billing").user("Bye")
	for _, p := range []view.Policy{view.Full(), view.TextOnly(), view.Own()} {
		require.Equal(t, []string{"user " + view.SummaryHead + "two charges", "user Thanks", "assistant Gladly.", "user Bye"}, see(t, l, "billing", p))
	}
	require.Contains(t, see(t, l, "support", view.Full()), "user I was charged twice", "the views of others stay")

	// LastTurns trims when it would have trimmed anyway, and the summary with it if that is of earlier turns alone.
	l = new(story).turn(1).turn(2).turn(3).compact("support", 8, "S")
	sum := "user " + view.SummaryHead + "S"
	require.Equal(t, lines(sum, shownTurn(2), shownTurn(3)), see(t, l, "support", view.LastTurns(2)))
	l.turn(4)
	require.Equal(t, lines(sum, shownTurn(2), shownTurn(3), shownTurn(4)), see(t, l, "support", view.LastTurns(2)))
	l.user("q5")
	v := view.New(tree(t).Node("support"), view.LastTurns(2), "")
	for _, e := range l.events {
		v.Apply(e)
	}
	require.Equal(t, lines(shownTurn(3), shownTurn(4), "user q5"), render(v.Messages()))
	require.Empty(t, v.Summary())

	l = new(story).turn(1).turn(2).turn(3).turn(4)
	l.compact("support", int64(len(l.events))-1, "S").user("q5")
	require.Equal(t, []string{sum, "user q4", "user q5"}, see(t, l, "support", view.LastTurns(2)), "it is of what would be shown")
}

func TestOldest(t *testing.T) {
	size := func(s string) int { return len(s) }
	view4 := func(l *story) *view.View {
		v := view.New(tree(t).Node("support"), view.Full(), "")
		v.Count(size)
		for _, e := range l.events {
			v.Apply(e)
		}
		return v
	}
	four := func() *story { return new(story).turn(1).turn(2).turn(3).user("q4") }
	total, _ := view4(four()).Tokens()
	perTurn := (total - 6) / 3
	require.Equal(t, 3*perTurn+6, total)
	long := func() *story {
		l := new(story).turn(1).user("q2").start("support")
		for i := range 4 {
			id := fmt.Sprint("x", i)
			l.call("support", id, "look", "{}").usage("support").result("support", id, "look", `"found"`)
		}
		return l
	}
	deeds := 4 * (2*llm.MessageTokens + 8 + len("look{}found"))
	for name, c := range map[string]struct {
		log    *story
		keep   int
		within bool
		upTo   int64
		drops  []string
	}{
		"enough room":              {four(), total, false, 0, nil},
		"one turn too many":        {four(), total - 1, false, 6, shownTurn(1)},
		"exactly two turns":        {four(), 2*perTurn + 6, false, 6, shownTurn(1)},
		"just not two":             {four(), 2*perTurn + 5, false, 14, lines(shownTurn(1), shownTurn(2))},
		"the current turn stays":   {four(), 0, false, 22, lines(shownTurn(1), shownTurn(2), shownTurn(3))},
		"within, there is no more": {four(), 0, true, 22, lines(shownTurn(1), shownTurn(2), shownTurn(3))},
		"a summary goes with it":   {four().compact("support", 8, "S"), perTurn + 6, false, 14, lines("user "+view.SummaryHead+"S", shownTurn(2))},
		"a summary alone stays":    {four().compact("support", 8, "S"), 2*perTurn + 6, false, 0, nil},
		"no turn at all":           {new(story).text("support", "a").usage("support"), 0, true, 0, nil},
		"the current turn is long": {long(), 6 + deeds, false, 6, shownTurn(1)},
		"but it may be cut":        {long(), 6 + deeds - 1, true, 13, lines(shownTurn(1), "user q2", "assistant #x0 look{}", "tool #x0 found")},
		"cut in half":              {long(), 6 + deeds/2, true, 16, lines(shownTurn(1), "user q2", "assistant #x0 look{}", "tool #x0 found", "assistant #x1 look{}", "tool #x1 found")},
		"the newest results stay": {long(), 0, true, 19, lines(shownTurn(1), "user q2", "assistant #x0 look{}", "tool #x0 found", "assistant #x1 look{}", "tool #x1 found",
			"assistant #x2 look{}", "tool #x2 found")},
		"cut once more": {long().compact("support", 13, "S"), 6 + deeds/2, true, 16, lines("user "+view.SummaryHead+"S", "user q2", "assistant #x1 look{}", "tool #x1 found")},
		"nothing left":  {long().compact("support", 19, "S"), 0, true, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := view4(c.log)
			most := math.MaxInt
			if c.within {
				most = c.keep
			}
			upTo, messages := v.Oldest(c.keep, most)
			require.Equal(t, c.upTo, upTo)
			require.Equal(t, c.drops, render(messages))
			if upTo == 0 {
				return
			}
			// The compaction drops just these, the user's last message aside.
			before := render(v.Messages())
			tokens, _ := v.Tokens()
			v.Apply(&event.Event{Seq: v.Seq() + 1, Agent: "support", Data: &event.Compaction{UpTo: upTo}})
			got := render(v.Messages())
			require.Equal(t, "user "+view.LeftOut, got[0])
			kept := before[len(messages):]
			require.Equal(t, kept, got[len(got)-len(kept):])
			require.LessOrEqual(t, len(got), len(kept)+2)
			after, _ := v.Tokens()
			require.Less(t, after, tokens+len(view.LeftOut)+llm.MessageTokens)
			if again, _ := v.Oldest(c.keep, most); again != 0 {
				t.Errorf("a compaction up to %d leaves more to drop, up to %d", upTo, again)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	v := view.New(tree(t).Node("support"), view.Full(), "")
	v.Count(func(s string) int { return len(s) })
	l := new(story)
	step := func(f func()) (messages, request int) {
		from := len(l.events)
		f()
		for _, e := range l.events[from:] {
			v.Apply(e)
		}
		return v.Tokens()
	}
	usage := func(who string, input int) { l.add(who, "", &event.Usage{InputTokens: input}) }
	messages, request := step(func() { l.user("12345") })
	require.Equal(t, llm.MessageTokens+5, messages)
	require.Zero(t, request, "nothing is known yet")
	asked := messages
	messages, request = step(func() {
		l.start("support").call("support", "c1", "look", "{}")
		usage("support", 1000)
		l.result("support", "c1", "look", `"found"`)
	})
	require.Equal(t, 1000+messages-asked, request, "what was reported, and what came since")
	_, again := step(func() { l.text("support", "12"); usage("support", 0) })
	require.Equal(t, request+2+llm.MessageTokens, again, "an endpoint that says nothing leaves the last figure")
	request = again
	_, again = step(func() { l.start("billing").text("billing", "123"); usage("billing", 5) })
	require.Equal(t, request+len("[billing] 123")+llm.MessageTokens, again, "others' figures are not the agent's")
	messages, request = step(func() { l.compact("support", 2, "S"); usage("support", 7777) })
	require.Zero(t, request, "after a compaction nothing is known, and the summary's own usage says nothing")
	require.Equal(t, 1, v.Compactions())
	_, request = step(func() { usage("support", 400) })
	require.Equal(t, 400, request, "an answer without words")
	require.Zero(t, v.Compactions())
	after, _ := step(func() { l.user("1") })
	require.Equal(t, messages+1+llm.MessageTokens, after)

	trimmed := view.New(tree(t).Node("support"), view.LastTurns(1), "")
	for i := range 4 {
		trimmed.Apply(&event.Event{Seq: int64(2*i + 1), Data: &event.User{Content: llm.Content{Text: "q"}}})
		if _, request := trimmed.Tokens(); (request == 0) != (i != 1) {
			t.Errorf("turn %d: %d tokens; nothing is known of a request that was trimmed", i, request)
		}
		trimmed.Apply(&event.Event{Seq: int64(2*i + 2), Agent: "support", Data: &event.Usage{InputTokens: 50}})
	}

	plain := view.New(tree(t).Node("support"), view.Full(), "")
	plain.Apply(&event.Event{Seq: 1, Data: &event.User{Content: llm.Content{Text: strings.Repeat("x", 100)}}})
	messages, _ = plain.Tokens()
	require.Zero(t, messages, "it does not count unless it is told to")
	estimated := view.New(tree(t).Node("support"), view.Full(), "")
	estimated.Count(nil)
	estimated.Apply(&event.Event{Seq: 1, Data: &event.User{Content: llm.Content{Text: strings.Repeat("x", 100)}}})
	messages, _ = estimated.Tokens()
	require.Equal(t, 25+llm.MessageTokens, messages)
}
