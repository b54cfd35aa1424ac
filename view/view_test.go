package view_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// story is a session's log under construction.
type story struct{ events []*event.Event }

func (l *story) add(who, id string, d event.Data) *story {
	l.events = append(l.events, &event.Event{Seq: int64(len(l.events) + 1), ID: id, Agent: who, Data: d})
	return l
}

func (l *story) user(s string) *story {
	return l.add("user", "", &event.User{Content: llm.Content{Text: s}})
}
func (l *story) start(who string) *story {
	return l.add(who, "", &event.HarnessStart{AgentID: who})
}
func (l *story) text(who, s string) *story  { return l.add(who, "", &event.Text{Content: s}) }
func (l *story) think(who, s string) *story { return l.add(who, "", &event.Reasoning{Content: s}) }
func (l *story) usage(who string) *story    { return l.add(who, "", &event.Usage{}) }
func (l *story) call(who, id, tool, in string) *story {
	return l.add(who, id, &event.ToolCall{Name: tool, Input: json.RawMessage(in)})
}
func (l *story) result(who, id, tool, out string) *story {
	return l.add(who, id, &event.ToolResult{Name: tool, Output: json.RawMessage(out)})
}
func (l *story) failed(who, id, tool, out string) *story {
	return l.add(who, id, &event.ToolResult{Name: tool, Output: json.RawMessage(out), IsError: true})
}
func (l *story) transfer(from, to, id string, outcome event.TransferOutcome) *story {
	return l.add(from, "", &event.Transfer{From: from, To: to, ToolCallID: id, Outcome: outcome, Reason: "they asked"})
}
func (l *story) end(who string, r event.FinishReason) *story {
	return l.add(who, "", &event.HarnessEnd{AgentID: who, FinishReason: r})
}

// over is a committed transfer by a call, with all that belongs to it.
func (l *story) over(from, to, id string) *story {
	return l.call(from, id, agent.TransferTool, `{"agent_name":"`+to+`"}`).usage(from).
		result(from, id, agent.TransferTool, `"Transferred to `+to+`."`).transfer(from, to, id, event.TransferCommitted).
		end(from, event.FinishReasonTransfer).start(to)
}

func tree(t testing.TB, opts ...agent.EdgeOption) *agent.Tree {
	silent := func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] { return nil }
	made := func(name string, kids ...agent.Agent) agent.Agent {
		return must.Get(agent.New(name, "", silent, agent.WithSubAgents(kids...)))
	}
	return must.Get(agent.NewTree(made("support", agent.Via(made("billing"), opts...), made("tech"))))
}

// see returns what an agent sees of a log, one message a line, and holds the
// view to what is true of every view.
func see(t testing.TB, l *story, name string, p view.Policy, opts ...agent.EdgeOption) []string {
	v := view.New(tree(t, opts...).Node(name), p, "")
	for _, e := range l.events {
		v.Apply(e)
	}
	return render(v.Messages())
}

func render(messages []llm.Message) []string {
	var lines []string
	for _, m := range messages {
		line := string(m.Role)
		if m.Text != "" {
			line += " " + m.Text
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.ToolCall:
				line += fmt.Sprintf(" #%s %s%s", p.ID, p.Name, p.Arguments)
			case llm.ToolResult:
				line += fmt.Sprintf(" #%s %s", p.CallID, p.Output)
				if p.IsError {
					line += " (error)"
				}
			case llm.Reasoning:
				line += " (" + p.Text + ")"
			case llm.TextPart:
				line += " +" + p.Text
			case llm.Media:
				line += fmt.Sprintf(" +%s %s %x%s", p.Kind, p.MediaType, p.Data, p.URL)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// shop is a conversation in which support and billing both talk and act.
func shop() *story {
	return new(story).user("I was charged twice").
		start("support").think("support", "hm").text("support", "Let me look.").call("support", "c1", "charges", `{"of":"ann"}`).usage("support").
		result("support", "c1", "charges", `"two of 19"`).
		text("support", "I hand you over.").over("support", "billing", "c2").
		think("billing", "refund it").text("billing", "I see two.").call("billing", "c3", "refund", `{"n":1}`).call("billing", "c4", "mail", `{}`).usage("billing").
		failed("billing", "c4", "mail", `"no server"`).result("billing", "c3", "refund", `{"ok":true}`).
		text("billing", "Refunded.").usage("billing").end("billing", event.FinishReasonStop).
		user("Thanks")
}

func TestPolicies(t *testing.T) {
	onlyTools := view.Func(func(e *event.Event) bool { return e.Type() == event.TypeToolCall })
	for name, c := range map[string]struct {
		agent  string
		policy view.Policy
		want   []string
	}{
		"full, source": {"support", view.Full(), []string{
			"user I was charged twice",
			`assistant Let me look. (hm) #c1 charges{"of":"ann"}`, "tool #c1 two of 19",
			"assistant I hand you over.",
			"user [billing] I see two.", `user [billing] called refund({"n":1}): {"ok":true}`, "user [billing] called mail({}) failed: no server",
			"user [billing] Refunded.", "user Thanks"}},
		"full, target": {"billing", view.Full(), []string{
			"user I was charged twice",
			"user [support] Let me look.", `user [support] called charges({"of":"ann"}): two of 19`, "user [support] I hand you over.",
			`assistant I see two. (refund it) #c3 refund{"n":1} #c4 mail{}`, `tool #c3 {"ok":true}`, "tool #c4 no server (error)",
			"assistant Refunded.", "user Thanks"}},
		"full, somebody else": {"tech", view.Policy{}, []string{
			"user I was charged twice",
			"user [support] Let me look.", `user [support] called charges({"of":"ann"}): two of 19`, "user [support] I hand you over.",
			"user [billing] I see two.", `user [billing] called refund({"n":1}): {"ok":true}`, "user [billing] called mail({}) failed: no server",
			"user [billing] Refunded.", "user Thanks"}},
		"text only": {"billing", view.TextOnly(), []string{
			"user I was charged twice", "user [support] Let me look.", "user [support] I hand you over.",
			`assistant I see two. (refund it) #c3 refund{"n":1} #c4 mail{}`, `tool #c3 {"ok":true}`, "tool #c4 no server (error)",
			"assistant Refunded.", "user Thanks"}},
		"own": {"billing", view.Own(), []string{
			"user I was charged twice",
			`assistant I see two. (refund it) #c3 refund{"n":1} #c4 mail{}`, `tool #c3 {"ok":true}`, "tool #c4 no server (error)",
			"assistant Refunded.", "user Thanks"}},
		"own, somebody else": {"tech", view.Own(), []string{"user I was charged twice", "user Thanks"}},
		"last turn":          {"support", view.LastTurns(1), []string{"user I was charged twice", `assistant Let me look. (hm) #c1 charges{"of":"ann"}`, "tool #c1 two of 19", "assistant I hand you over.", "user [billing] I see two.", `user [billing] called refund({"n":1}): {"ok":true}`, "user [billing] called mail({}) failed: no server", "user [billing] Refunded.", "user Thanks"}},
		"a function": {"tech", onlyTools, []string{"user I was charged twice",
			`user [support] called charges({"of":"ann"}): two of 19`,
			`user [billing] called refund({"n":1}): {"ok":true}`, "user [billing] called mail({}) failed: no server", "user Thanks"}},
		"a function does not touch one's own": {"billing", view.Func(func(*event.Event) bool { return false }), []string{
			"user I was charged twice",
			`assistant I see two. (refund it) #c3 refund{"n":1} #c4 mail{}`, `tool #c3 {"ok":true}`, "tool #c4 no server (error)",
			"assistant Refunded.", "user Thanks"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, see(t, shop(), c.agent, c.policy)) })
	}
}

func TestTheEdgesPolicyWins(t *testing.T) {
	require.Equal(t, []string{"user I was charged twice", "user Thanks"}, see(t, shop(), "tech", view.Own()))
	got := see(t, shop(), "billing", view.Full(), view.Own())
	require.NotContains(t, strings.Join(got, "\n"), "[support] Let me look.")
	got = see(t, shop(), "billing", view.Own(), view.Full())
	require.Contains(t, strings.Join(got, "\n"), "[support] Let me look.")
	require.Equal(t, view.LastTurns(2), view.For(tree(t, view.LastTurns(2)).Node("billing"), view.Own()))
	require.Equal(t, view.Own(), view.For(tree(t).Node("billing"), view.Own()))
}

func TestParse(t *testing.T) {
	for s, want := range map[string]view.Policy{"full": view.Full(), "text_only": view.TextOnly(), "own": view.Own(), "last_turns:6": view.LastTurns(6), "last_turns: 1": view.LastTurns(1)} {
		got, err := view.Parse(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
		require.Equal(t, strings.ReplaceAll(s, " ", ""), got.String())
		more := got.WithFacts(7).WithFiles().WithoutMedia()
		again, err := view.Parse(more.String())
		require.NoError(t, err, more)
		require.Equal(t, more, again)
	}
	require.Equal(t, "own (redacted)", view.Own().Redact(strings.ToUpper).String())
	for _, s := range []string{"", "Full", "all", "full:1", "own:", "last_turns", "last_turns:", "last_turns:0", "last_turns:-1", "last_turns:x", "last_turns:1:2", "last_turns:99999999999999999999"} {
		_, err := view.Parse(s)
		require.Error(t, err, s)
	}
	require.Equal(t, view.LastTurns(1), view.LastTurns(0))
}

func TestLastTurnsTrimsInSteps(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		v := view.New(tree(t).Node("support"), view.LastTurns(n), "")
		l := new(story)
		trims := 0
		var before []llm.Message
		for turn := 1; turn <= 20; turn++ {
			from := len(l.events)
			l.user(fmt.Sprint("u", turn)).start("support").call("support", fmt.Sprint("c", turn), "t", "{}").usage("support").result("support", fmt.Sprint("c", turn), "t", "1").
				text("support", "a").usage("support").end("support", event.FinishReasonStop)
			for _, e := range l.events[from:] {
				v.Apply(e)
				if e.Type() != event.TypeUser {
					continue
				}
				got := v.Messages()
				shown := 0
				for _, m := range got {
					if strings.HasPrefix(m.Text, "u") {
						shown++
					}
				}
				require.Equal(t, fmt.Sprint("u", turn), got[len(got)-1].Text)
				require.LessOrEqual(t, shown, 2*n)
				require.GreaterOrEqual(t, shown, min(turn, n))
				require.Equal(t, llm.RoleUser, got[0].Role, "a turn is cut off as a whole")
				require.NoError(t, view.Check(&llm.Request{Messages: got}))
				if len(before) > 0 && got[0].Text != before[0].Text {
					trims++
				}
				before = got
			}
		}
		require.Equal(t, (20-n-1)/n, trims, "the beginning of the request stays for %d turns", n)
	}
}

// TestArrival: an agent reads who transferred the conversation to it, why, and what its work is.
func TestArrival(t *testing.T) {
	l := new(story).user("Hi").start("support").over("support", "billing", "c1")
	require.Equal(t, []string{"user Hi"}, see(t, l, "billing", view.Full()), "the rest is in the system text")
	run := runOf(t, "billing", l)
	require.Equal(t, "support they asked", run.From+" "+run.Reason)
	require.True(t, run.Arrived)
	since := view.Run{From: "support", Reason: "they asked"}
	require.Equal(t, since, runOf(t, "billing", l.user("And?").start("billing")))
	require.Equal(t, since, runOf(t, "billing", l.text("billing", "So.").end("billing", event.FinishReasonStop).user("And then?").start("billing")))
	require.Equal(t, view.Run{}, runOf(t, "support", l), "the root chooses anew in each turn")
	require.Equal(t, view.Run{Wordless: 1}, runOf(t, "billing", l.over("billing", "support", "c3").start("support")))
	require.Equal(t, view.Run{}, runOf(t, "billing", l.text("support", "Here I am.").end("support", event.FinishReasonStop).user("And now?")))
	l = new(story).user("Hi").start("support")
	l.add("support", "", &event.Transfer{From: "support", To: "billing", Outcome: event.TransferCommitted, RouteDecision: json.RawMessage(`"billing"`)})
	require.Equal(t, view.Run{}, runOf(t, "billing", l.end("support", event.FinishReasonTransfer).start("billing").user("And?").start("billing")), "a rule chose it")
	l = new(story).user("Hi").start("support").over("support", "billing", "c1")
	l.text("billing", "Not mine.").over("billing", "support", "c2")
	require.Equal(t, []string{"user Hi", "user [billing] Not mine."},
		see(t, l, "support", view.Full()))

	payload := `{"order":"` + strings.Repeat("é", 300) + `"}`
	l = new(story).user("Hi").start("support")
	l.add("support", "", &event.Transfer{From: "support", To: "billing", Outcome: event.TransferCommitted, Payload: json.RawMessage(payload)})
	require.Equal(t, "user [support] transferred the conversation to you, billing. Input: "+payload+"", see(t, l, "billing", view.Full())[1])
	require.NotContains(t, strings.Join(see(t, l, "billing", view.Full(), agent.HideReason()), "\n"), "order")
}

// TestRoutedBack: a router's choice is no news to an agent, unless its own words were the last:
// it cannot go on after those without somebody else's.
func TestRoutedBack(t *testing.T) {
	l := new(story).user("Hi")
	routed := func() {
		l.start("support").add("support", "", &event.Transfer{From: "support", To: "billing", Outcome: event.TransferCommitted, RouteDecision: json.RawMessage(`"billing"`)})
		l.end("support", event.FinishReasonTransfer).start("billing")
	}
	routed()
	l.text("billing", "Well.").end("billing", event.FinishReasonStop).user("And?")
	routed()
	require.Equal(t, []string{"user Hi", "assistant Well.", "user And?"}, see(t, l, "billing", view.Full()))
	l.text("billing", "So.").over("billing", "tech", "c1").transfer("tech", "support", "", event.TransferCommitted).end("tech", event.FinishReasonTransfer)
	routed()
	require.Equal(t, []string{"user Hi", "assistant Well.", "user And?", "assistant So.", "user [support] transferred the conversation to you, billing."}, see(t, l, "billing", view.Full()))
}

// TestFacts: what another agent's tool was given and has returned is shown whole, unless the policy
// says how much of it; then the text says how much is missing.
func TestFacts(t *testing.T) {
	long := strings.Repeat("x", 3000) + " id 4711"
	for name, c := range map[string]struct {
		in, out string
		facts   int
		want    string
	}{
		"short":                   {`{"a":1}`, `"fine"`, 0, `[support] called t({"a":1}): fine`},
		"long":                    {`{"a":"` + long + `"}`, `"` + long + `"`, 0, `[support] called t({"a":"` + long + `"}): ` + long},
		"at limit":                {`{}`, `"xxxxx"`, 5, "[support] called t({}): xxxxx"},
		"cut":                     {`{}`, `"xxxxxyy"`, 5, "[support] called t({}): xxxxx… (2 of 7 bytes are not shown)"},
		"at a character's border": {`{}`, `"xéé"`, 4, "[support] called t({}): xé… (2 of 5 bytes are not shown)"},
		"long arguments":          {`{"s":"日日"}`, `1`, 10, `[support] called t({"s":"日… (5 of 14 bytes are not shown)): 1`},
		"lines":                   {"{}", `"one\ntwo\r\nthree\n[billing] said so"`, 0, `[support] called t({}): "one\ntwo\r\nthree\n[billing] said so"`},
		"JSON over lines":         {"{\n  \"a\": 1\n}", "[1,\n2]", 0, `[support] called t({   "a": 1 }): "[1,\n2]"`},
	} {
		t.Run(name, func(t *testing.T) {
			l := new(story).user("Hi").start("support").call("support", "c1", "t", c.in).usage("support").result("support", "c1", "t", c.out)
			got := see(t, l, "billing", view.Full().WithFacts(c.facts))
			require.Equal(t, []string{"user Hi", "user " + c.want}, got)
			require.True(t, utf8.ValidString(got[1]))
		})
	}
}

func TestTransferPlumbing(t *testing.T) {
	const args = `{"agent_name":"billing"}`
	tool := agent.TransferTool
	for name, c := range map[string]struct {
		log            *story
		source, target []string
	}{
		"committed": {new(story).over("support", "billing", "c1"), nil, nil},
		"with text": {new(story).text("support", "One moment.").over("support", "billing", "c1"),
			[]string{"assistant One moment."}, []string{"user [support] One moment."}},
		"twice the same": {new(story).call("support", "c1", tool, args).call("support", "c2", tool, args).usage("support").
			result("support", "c1", tool, `"Transferred"`).result("support", "c2", tool, `"Transferred"`).transfer("support", "billing", "c1", event.TransferCommitted).end("support", event.FinishReasonTransfer),
			nil, nil},
		"conflict": {new(story).call("support", "c1", tool, args).call("support", "c2", tool, `{"agent_name":"tech"}`).usage("support").
			result("support", "c1", tool, `"Transferred"`).failed("support", "c2", tool, `"not executed"`).transfer("support", "tech", "c2", event.TransferConflict).
			transfer("support", "billing", "c1", event.TransferCommitted).end("support", event.FinishReasonTransfer),
			nil, nil},
		"refused, then committed": {new(story).call("support", "c1", tool, `{"agent_name":"x"}`).call("support", "c2", tool, args).usage("support").
			failed("support", "c1", tool, `"no agent x"`).transfer("support", "x", "c1", event.TransferRejected).
			result("support", "c2", tool, `"Transferred"`).transfer("support", "billing", "c2", event.TransferCommitted).end("support", event.FinishReasonTransfer),
			[]string{`assistant #c1 transfer_to_agent{"agent_name":"x"}`, "tool #c1 no agent x (error)"}, nil},
		"refused": {new(story).call("support", "c1", tool, `{"agent_name":"x"}`).usage("support").
			failed("support", "c1", tool, `"no agent x"`).transfer("support", "x", "c1", event.TransferRejected),
			[]string{`assistant #c1 transfer_to_agent{"agent_name":"x"}`, "tool #c1 no agent x (error)"}, nil},
		"failed": {new(story).call("support", "c1", tool, args).usage("support").
			failed("support", "c1", tool, `"not ready"`).transfer("support", "billing", "c1", event.TransferFailed),
			[]string{"assistant #c1 transfer_to_agent" + args, "tool #c1 not ready (error)"}, nil},
		"beside a tool": {new(story).call("support", "c1", "look", "{}").call("support", "c2", tool, args).usage("support").
			result("support", "c1", "look", `"found"`).result("support", "c2", tool, `"Transferred"`).transfer("support", "billing", "c2", event.TransferCommitted).end("support", event.FinishReasonTransfer),
			[]string{"assistant #c1 look{}", "tool #c1 found"}, []string{"user [support] called look({}): found"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := new(story).user("Hi").start("support")
			for _, e := range c.log.events {
				l.add(e.Agent, e.ID, e.Data)
			}
			require.Equal(t, append([]string{"user Hi"}, c.source...), see(t, l, "support", view.Full()))
			require.Equal(t, append([]string{"user Hi"}, c.target...), see(t, l, "billing", view.Full()))
			require.Equal(t, []string{"user Hi"}, see(t, l, "tech", view.Own()))
		})
	}
}

func TestRefusedTransfers(t *testing.T) {
	v := view.New(tree(t).Node("support"), view.Full(), "")
	l := new(story).user("Hi").start("support").
		transfer("support", "x", "c1", event.TransferRejected).transfer("support", "y", "c2", event.TransferRejected).transfer("support", "z", "c3", event.TransferFailed).
		transfer("support", "z", "c4", event.TransferConflict).
		transfer("support", "billing", "c5", event.TransferRejected).add("support", "", &event.Notice{Code: event.NoticeTransferLimit}).
		add("support", "", &event.Notice{Code: "other"})
	for _, e := range l.events {
		v.Apply(e)
	}
	require.Equal(t, 2, v.Run().Refused, "neither failures nor limits are the model's mistakes")
	v.Apply(&event.Event{Seq: 100, Agent: "billing", Data: &event.Transfer{Outcome: event.TransferRejected}})
	require.Equal(t, 2, v.Run().Refused, "those of others do not count")
	v.Apply(&event.Event{Seq: 101, Agent: "support", Data: &event.HarnessEnd{FinishReason: event.FinishReasonInputRequired}})
	v.Apply(&event.Event{Seq: 102, Agent: "support", Data: &event.HarnessStart{}})
	require.Equal(t, 2, v.Run().Refused, "a run goes on with what the one had that waited for an approval")
	v.Apply(&event.Event{Seq: 103, Agent: "support", Data: &event.HarnessEnd{}})
	v.Apply(&event.Event{Seq: 104, Agent: "support", Data: &event.HarnessStart{}})
	require.Zero(t, v.Run().Refused, "a new run begins anew")
}

func TestResultsStandInRequestOrder(t *testing.T) {
	l := new(story).user("Hi").start("support").call("support", "c1", "a", "{}").call("support", "c2", "b", "{}").call("support", "c3", "c", "{}").usage("support").
		result("support", "c3", "c", "3").add("support", "", &event.ToolProgress{ToolCallID: "c1"}).result("support", "c1", "a", "1")
	v := view.New(tree(t).Node("support"), view.Full(), "")
	for _, e := range l.events {
		v.Apply(e)
	}
	require.Equal(t, []view.Call{{ID: "c2", Name: "b", Seq: 4, Input: json.RawMessage("{}")}}, v.Pending())
	require.Equal(t, []string{"user Hi"}, render(v.Messages()), "an answer is shown when it is settled")
	other := view.New(tree(t).Node("billing"), view.Full(), "")
	for _, e := range l.events {
		other.Apply(e)
	}
	require.Empty(t, other.Pending(), "the calls of others are nobody's to run")
	l.result("support", "c2", "b", "2").result("support", "c2", "b", `"twice"`)
	for _, e := range l.events {
		v.Apply(e)
	}
	require.Empty(t, v.Pending())
	require.Equal(t, []string{"user Hi", "assistant #c1 a{} #c2 b{} #c3 c{}", "tool #c1 1", "tool #c2 2", "tool #c3 3"}, render(v.Messages()))
}

func TestInterruptedCalls(t *testing.T) {
	// As the runner closes them, and as a log of somebody else may leave them.
	for _, closed := range []bool{true, false} {
		l := new(story).user("Hi").start("support").call("support", "c1", "a", "{}").call("support", "c2", "b", "{}").usage("support").result("support", "c2", "b", "2")
		out := ""
		if closed {
			l.failed("support", "c1", "a", `"interrupted; outcome unknown"`).end("support", event.FinishReasonCanceled)
			out = " interrupted; outcome unknown (error)"
		}
		l.user("And?")
		v := view.New(tree(t).Node("support"), view.Full(), "")
		for _, e := range l.events {
			v.Apply(e)
		}
		got := v.Messages()
		require.Empty(t, v.Pending())
		require.NoError(t, view.Check(&llm.Request{Messages: got}))
		require.Equal(t, "tool #c1"+strings.TrimRight(out, " "), strings.TrimRight(render(got)[2], " "))
		require.Equal(t, "user And?", render(got)[4])
	}
}

func TestPartsAreCarried(t *testing.T) {
	content := llm.Content{Parts: []llm.Part{llm.TextPart{Text: "See"}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{1, 2}}, llm.Media{Kind: llm.MediaFile, URL: "https://example.com/a"}}}
	l := new(story).add("user", "", &event.User{Content: content})
	for _, p := range []view.Policy{view.Full(), view.TextOnly(), view.Own(), view.LastTurns(1)} {
		require.Equal(t, []string{"user +See +image image/png 0102 +file  https://example.com/a"}, see(t, l, "billing", p))
	}
}

func TestWhatAViewIgnores(t *testing.T) {
	l := shop()
	want := see(t, l, "billing", view.Full())
	noisy := new(story)
	for _, e := range l.events {
		for _, d := range []event.Data{&event.Notice{Code: "x"}, &event.State{}, &event.Failure{}, &event.Discard{}, &event.ToolProgress{}, &event.RemoteTask{}, &event.Unknown{Type: "new"}} {
			noisy.add(e.Agent, "", d)
		}
		noisy.add(e.Agent, e.ID, e.Data)
		// Other scopes and deltas.
		for _, d := range []event.Data{&event.Text{Content: "inner"}, &event.ToolCall{Name: "t"}, &event.HarnessEnd{}, &event.Transfer{Outcome: event.TransferCommitted, To: "billing"}} {
			noisy.add("billing", "x", d).events[len(noisy.events)-1].Scope = "s2"
		}
		noisy.events = append(noisy.events, &event.Event{Agent: "billing", Partial: true, Data: &event.Text{Content: "delta"}})
	}
	require.Equal(t, want, see(t, noisy, "billing", view.Full()))

	v := view.New(tree(t).Node("billing"), view.Full(), "")
	for i, e := range l.events {
		v.Apply(e)
		for _, again := range l.events[:i+1] { // delivered once more
			v.Apply(again)
		}
	}
	require.Equal(t, want, render(v.Messages()))
	require.EqualValues(t, len(l.events), v.Seq())
}

func TestAnInnerScope(t *testing.T) {
	v := view.New(tree(t).Node("billing"), view.Full(), "s2")
	l := new(story).user("Outside").start("support")
	inner := func(who, id string, d event.Data) { l.add(who, id, d).events[len(l.events)-1].Scope = "s2" }
	inner("support", "", &event.HarnessStart{AgentID: "support", Input: json.RawMessage(`"The \"task\""`)})
	inner("support", "", &event.Text{Content: "I pass it on."})
	inner("support", "", &event.Transfer{From: "support", To: "billing", Outcome: event.TransferCommitted})
	inner("support", "", &event.HarnessEnd{AgentID: "support"})
	inner("billing", "", &event.HarnessStart{AgentID: "billing"})
	for _, e := range l.events {
		v.Apply(e)
	}
	require.Equal(t, []string{`user The "task"`, "user [support] I pass it on."}, render(v.Messages()))
}

func TestEmptyWordsMakeNoMessage(t *testing.T) {
	l := new(story).user("Hi").start("support").text("support", " \n").usage("support").end("support", event.FinishReasonStop).
		user("Hello?").start("support").think("support", "hm").usage("support").end("support", event.FinishReasonStop).user("Well?")
	for _, name := range []string{"support", "billing"} {
		require.Equal(t, []string{"user Hi", "user Hello?", "user Well?"}, see(t, l, name, view.Full()))
	}
}

func TestCatchUp(t *testing.T) {
	l := shop()
	broken := fmt.Errorf("the disk is gone")
	events := func(stop int) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			for i, e := range l.events {
				if i == stop {
					yield(nil, broken)
					return
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	v := view.New(tree(t).Node("billing"), view.Full(), "")
	require.ErrorIs(t, v.CatchUp(events(5)), broken)
	require.EqualValues(t, 5, v.Seq())
	require.NoError(t, v.CatchUp(events(-1)), "it goes on from where it stood")
	require.Equal(t, see(t, l, "billing", view.Full()), render(v.Messages()))
}

// TestWordsDoNotWaitForACall: another agent's words are shown whether or not the view was
// looked at between them and the call that follows.
func TestWordsDoNotWaitForACall(t *testing.T) {
	l := new(story).user("Hi").start("support").text("support", "One moment.").call("support", "c1", "look", "{}")
	cold, warm := view.New(tree(t).Node("billing"), view.Full(), ""), view.New(tree(t).Node("billing"), view.Full(), "")
	for _, e := range l.events {
		cold.Apply(e)
		warm.Apply(e)
		_ = warm.Messages()
	}
	require.Equal(t, warm.Messages(), cold.Messages())
	require.Len(t, cold.Messages(), 2)
	require.Equal(t, "[support] One moment.", cold.Messages()[1].PlainText())
}
