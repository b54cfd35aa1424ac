package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// logOf numbers events, and fills in what a test leaves out.
func logOf(events ...*event.Event) []*event.Event {
	for i, e := range events {
		e.Seq, e.Time = int64(i+1), time.Unix(int64(i), 0).UTC()
		if e.ID == "" {
			e.ID = fmt.Sprintf("e%d", e.Seq)
		}
	}
	return events
}

func foldOf(events ...*event.Event) *session.Fold {
	f := new(session.Fold)
	for _, e := range logOf(events...) {
		f.Apply(e)
	}
	return f
}

func user(turn string) *event.Event {
	return &event.Event{TurnID: turn, RunID: "u-" + turn, Agent: "user", Data: &event.User{Content: llm.Content{Text: "hi"}}}
}

// run makes the events of one run; in(scope) moves them.
type run struct{ turn, id, agent, scope string }

func (r run) event(data event.Data) *event.Event {
	return &event.Event{TurnID: r.turn, RunID: r.id, Scope: r.scope, Agent: r.agent, Path: "root/" + r.agent, Data: data}
}
func (r run) start() *event.Event { return r.event(&event.HarnessStart{AgentID: r.agent}) }
func (r run) text(s string) *event.Event {
	return r.event(&event.Text{Content: s})
}
func (r run) call(id, name string) *event.Event {
	e := r.event(&event.ToolCall{Name: name, Input: []byte("{}")})
	e.ID = id
	return e
}
func (r run) result(id, name string) *event.Event {
	e := r.event(&event.ToolResult{Name: name, Output: []byte(`"ok"`)})
	e.ID = id
	return e
}
func (r run) transfer(to string, outcome event.TransferOutcome) *event.Event {
	return r.event(&event.Transfer{From: r.agent, To: to, Outcome: outcome})
}
func (r run) usage() *event.Event { return r.event(&event.Usage{}) }
func (r run) state(k string, v any) *event.Event {
	return r.event(&event.State{Delta: map[string]any{k: v}})
}
func (r run) end(reason event.FinishReason, target string) *event.Event {
	return r.event(&event.HarnessEnd{AgentID: r.agent, FinishReason: reason, Target: target})
}

// hand is a committed transfer as the runner writes it, answer included.
func (r run) hand(to string) []*event.Event {
	id := "call-" + r.id
	return []*event.Event{r.call(id, agent.TransferTool), r.usage(), r.result(id, agent.TransferTool),
		r.transfer(to, event.TransferCommitted), r.end(event.FinishReasonTransfer, to)}
}

func join(parts ...any) (out []*event.Event) {
	for _, p := range parts {
		switch p := p.(type) {
		case *event.Event:
			out = append(out, p)
		case []*event.Event:
			out = append(out, p...)
		}
	}
	return out
}

var (
	support = run{turn: "t1", id: "r1", agent: "support"}
	billing = run{turn: "t1", id: "r2", agent: "billing"}
	inner   = run{turn: "t1", id: "r3", agent: "tech", scope: "c1"}
)

func TestFoldOfAnEmptyLog(t *testing.T) {
	var f session.Fold
	require.Zero(t, f.Seq)
	require.Zero(t, f.Turn)
	require.False(t, f.Unfinished())
	require.Empty(t, f.Open())
	require.Empty(t, f.Scope("").Active)
	require.Empty(t, f.Scope("c1").Run.ID)
	require.False(t, f.Scope("").Repeats("a", "b"))
	_, ok := f.State("x")
	require.False(t, ok)
}

// TestFoldStage: how far a turn is, and who has the conversation meanwhile.
func TestFoldStage(t *testing.T) {
	var events []*event.Event
	check := func(stage, active string, next ...*event.Event) {
		events = append(events, next...)
		f := foldOf(events...)
		require.Equal(t, stage, f.Stage())
		require.Equal(t, active, f.Active())
	}
	check("none", "")
	check("open", "", join(user("t1"))...)
	check("open", "support", support.start())
	check("waiting", "support", support.end(event.FinishReasonInputRequired, ""))
	check("open", "billing", join(support.start(), support.hand("billing"))...)
	check("over", "billing", billing.start(), billing.end(event.FinishReasonStop, ""))
}

func TestFoldActive(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []*event.Event
		want   string
	}{
		{"nobody before the first transfer", join(user("t1"), support.start(), support.text("hi"), support.end("stop", "")), ""},
		{"the target of a committed transfer", join(user("t1"), support.start(), support.hand("billing")), "billing"},
		{"a refused attempt changes nothing", join(user("t1"), support.start(), support.transfer("tech", event.TransferRejected)), ""},
		{"nor does one that lost, or failed", join(user("t1"), support.start(), support.transfer("billing", event.TransferCommitted),
			support.transfer("tech", event.TransferConflict), support.transfer("tech", event.TransferFailed)), "billing"},
		{"the last of several", join(user("t1"), support.start(), support.hand("billing"), billing.start(), billing.hand("support")), "support"},
		{"it stays over turns", join(user("t1"), support.start(), support.hand("billing"), billing.start(), billing.end("stop", ""), user("t2"), user("t3")), "billing"},
		{"a transfer inside another scope is that scope's", join(user("t1"), support.start(), inner.start(), inner.hand("other")), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, foldOf(tt.events...).Scope("").Active)
		})
	}
	f := foldOf(join(user("t1"), support.start(), inner.start(), inner.hand("other"))...)
	require.Equal(t, "other", f.Scope("c1").Active)
	f.Apply(&event.Event{Seq: f.Seq + 1, TurnID: "t2", RunID: "u2", Data: &event.User{}})
	require.Empty(t, f.Scope("c1").Active, "inner scopes end with their turn")
}

func TestFoldRuns(t *testing.T) {
	f := foldOf(join(user("t1"), support.start(), support.text("a"), support.usage())...)
	require.Equal(t, session.Run{ID: "r1", Agent: "support", Path: "root/support", TurnID: "t1", AgentID: "support", Since: 1, Start: 2, Open: true, Answers: 1, Said: "a"}, f.Scope("").Run)
	require.Empty(t, f.Scope("").LastEnd)
	require.Equal(t, []string{""}, f.Open())
	require.True(t, f.Unfinished())

	f = foldOf(join(user("t1"), support.start(), support.hand("billing"))...)
	require.False(t, f.Scope("").Run.Open)
	require.Equal(t, event.FinishReasonTransfer, f.Scope("").Run.Finish)
	require.Equal(t, "billing", f.Scope("").Run.Target)
	require.Equal(t, "r1", f.Scope("").LastEnd)
	require.Empty(t, f.Open())
	require.True(t, f.Unfinished(), "the target has not started")

	f = foldOf(join(user("t1"), support.start(), support.hand("billing"), billing.start(), billing.usage(), billing.end("stop", ""))...)
	require.Equal(t, "r2", f.Scope("").LastEnd)
	require.Equal(t, 1, f.Scope("").Run.Answers, "answers are counted for each run")
	require.False(t, f.Unfinished())

	f = foldOf(join(user("t1"), support.start(), support.end("stop", ""), user("t2"))...)
	require.True(t, f.Unfinished(), "the turn has no run yet")
	require.Equal(t, "r1", f.Scope("").LastEnd)
	for _, reason := range []event.FinishReason{"stop", "input_required", "length", "content_filter", "limit", "error", "canceled"} {
		f = foldOf(join(user("t1"), support.start(), support.end(reason, ""))...)
		require.False(t, f.Unfinished(), reason)
	}
}

func TestFoldOpenScopes(t *testing.T) {
	second := run{turn: "t1", id: "r4", agent: "tech", scope: "c0"}
	f := foldOf(join(user("t1"), support.start(), inner.start(), second.start())...)
	require.Equal(t, []string{"", "c1", "c0"}, f.Open(), "as they were opened")
	require.Equal(t, "r4", f.Scope("c0").Run.ID)
	f = foldOf(join(user("t1"), support.start(), inner.start(), second.start(), inner.end("stop", ""))...)
	require.Equal(t, []string{"", "c0"}, f.Open())
	require.Zero(t, *f.Scope("c1"), "what has ended is forgotten")
	require.Empty(t, f.Scope("").LastEnd)
	f = foldOf(join(user("t1"), support.start(), inner.start(), support.end("canceled", ""))...)
	require.Equal(t, []string{"c1"}, f.Open())
}

func TestFoldPendingCalls(t *testing.T) {
	pending := func(events ...*event.Event) []session.Call {
		calls := foldOf(append(join(user("t1"), support.start()), events...)...).Scope("").Run.Pending
		if len(calls) == 0 {
			return nil
		}
		return calls
	}
	a, b, c := session.Call{ID: "a", Name: "x", RunID: "r1", Made: 3, Number: 1}, session.Call{ID: "b", Name: "y", RunID: "r1", Made: 4, Number: 2}, session.Call{ID: "c", Name: "x", RunID: "r1", Made: 5, Number: 3}
	calls := func() []*event.Event {
		return []*event.Event{support.call("a", "x"), support.call("b", "y"), support.call("c", "x"), support.usage()}
	}
	require.Equal(t, []session.Call{a, b, c}, pending(calls()...))
	require.Equal(t, []session.Call{a, c}, pending(append(calls(), support.result("b", "y"))...))
	require.Equal(t, []session.Call{a, b}, pending(append(calls(), support.result("c", "x"), support.result("never", "z"))...))
	require.Empty(t, pending(append(calls(), support.result("c", "x"), support.result("a", "x"), support.result("b", "y"))...))
	require.Equal(t, []session.Call{{ID: "d", Name: "z", RunID: "r1", Made: 10, Number: 4}}, pending(append(calls(), support.result("c", "x"), support.result("a", "x"), support.result("b", "y"), support.call("d", "z"))...))

	require.Empty(t, pending(append(calls(), support.end("error", ""), billing.start())...), "another run has calls of its own")
	resumed := run{turn: "t1", id: "r9", agent: "support"}
	require.Equal(t, []session.Call{a, c}, pending(append(calls(), support.result("b", "y"), support.end(event.FinishReasonInputRequired, ""), resumed.start())...),
		"what a paused run waits for, the run that resumes it waits for")
	require.Equal(t, []session.Call{c}, pending(append(calls(), support.result("b", "y"), support.end(event.FinishReasonInputRequired, ""), resumed.start(), support.result("a", "x"))...),
		"its results keep the paused run's id")
	next := run{turn: "t2", id: "r9", agent: "support"}
	require.Empty(t, pending(append(calls(), support.end(event.FinishReasonInputRequired, ""), user("t2"), next.start())...), "a new turn waits for nothing")

	f := foldOf(join(user("t1"), support.start(), support.call("a", "x"), inner.start(), inner.call("a2", "x"))...)
	require.Equal(t, []session.Call{a}, f.Scope("").Run.Pending)
	require.Equal(t, []session.Call{{ID: "a2", Name: "x", RunID: "r3", Made: 5, Number: 2}}, f.Scope("c1").Run.Pending)
}

func TestFoldApprovals(t *testing.T) {
	ask := func(id, call string) *event.Event {
		e := support.event(&event.Relay{Kind: "permission", ToolCallID: call, Tool: "x"})
		e.ID = id
		return e
	}
	resolve := func(id string) *event.Event { return support.event(&event.RelayResolved{RelayID: id, Approved: true}) }
	paused := func() []*event.Event {
		return join(user("t1"), support.start(), support.call("a", "x"), support.call("b", "y"), support.usage(), support.result("b", "y"),
			ask("p1", "a"), ask("p2", "never"), support.end(event.FinishReasonInputRequired, ""))
	}
	f := foldOf(paused()...)
	require.True(t, f.Paused())
	require.False(t, f.Unfinished())
	require.Len(t, f.Scope("").Run.Pending, 1)
	require.Equal(t, "p1", f.Scope("").Run.Call("a").Relay)
	require.Nil(t, f.Scope("").Run.Call("b"))

	require.False(t, foldOf(append(paused(), resolve("p2"), resolve(""))...).Scope("").Run.Call("a").Resolved)
	f = foldOf(append(paused(), resolve("p1"))...)
	require.True(t, f.Scope("").Run.Call("a").Resolved)
	require.True(t, f.Paused(), "until it is resumed")
	resumed := run{turn: "t1", id: "r9", agent: "support"}
	f = foldOf(append(paused(), resolve("p1"), resumed.start())...)
	require.False(t, f.Paused())
	require.Len(t, f.Scope("").Run.Pending, 1)
	require.True(t, f.Scope("").Run.Call("a").Resolved)
	require.Equal(t, "r1", f.Scope("").Run.Call("a").RunID)

	require.False(t, foldOf(append(paused(), user("t2"))...).Paused(), "the user went on")
	require.False(t, foldOf(append(paused(), support.result("a", "x"))...).Paused())
	require.False(t, foldOf(join(user("t1"), support.start(), support.call("a", "x"), ask("p1", "a"))...).Paused(), "the run is open")
	require.False(t, foldOf().Paused())
	f = foldOf(join(user("t1"), support.start(), support.call("a", "x"), resolve(""))...)
	require.False(t, f.Scope("").Run.Call("a").Resolved, "nobody asked")
}

func TestFoldCounts(t *testing.T) {
	limit := support.event(&event.Notice{Code: event.NoticeTransferLimit})
	f := foldOf(join(
		user("t1"), support.start(), support.usage(), support.transfer("x", event.TransferRejected), support.usage(), support.transfer("x", event.TransferRejected),
		support.transfer("y", event.TransferRejected), limit, support.transfer("y", event.TransferFailed),
		support.event(&event.Discard{}), support.event(&event.Notice{Code: "other"}),
		support.call("a", "x"), support.call("b", "x"), support.result("a", "x"), support.result("b", "x"),
		inner.start(), inner.usage(), inner.transfer("z", event.TransferCommitted), inner.call("c", "x"),
	)...)
	require.Equal(t, session.Turn{ID: "t1", UserRunID: "u-t1", First: 1, StopsFrom: 1, Started: time.Unix(0, 0).UTC(), Transfers: 1, ModelCalls: 4, ToolCalls: 3, User: &event.User{Content: llm.Content{Text: "hi"}}}, f.Turn)
	require.Equal(t, 2, f.Scope("").Run.Answers)
	require.Equal(t, 1, f.Scope("c1").Run.Answers)

	f = foldOf(join(user("t1"), support.start(), support.usage(), support.transfer("x", event.TransferRejected), support.hand("billing"), billing.start())...)
	require.Equal(t, 2, f.Turn.ModelCalls)

	f = foldOf(join(user("t1"), support.start(), support.usage(), limit, support.end("stop", ""), user("t2"))...)
	require.Equal(t, session.Turn{ID: "t2", UserRunID: "u-t2", First: 6, StopsFrom: 6, Started: time.Unix(5, 0).UTC(), User: &event.User{Content: llm.Content{Text: "hi"}}}, f.Turn)
}

func TestFoldRepeats(t *testing.T) {
	there, back := support.hand("billing"), billing.hand("support")
	again := func(events ...*event.Event) bool {
		return foldOf(append(join(user("t1"), support.start(), there, billing.start(), back), events...)...).Scope("").Repeats("support", "billing")
	}
	require.True(t, again())
	require.True(t, again(support.start(), support.text(" \n"), support.event(&event.Reasoning{Content: "hm"}), support.usage()), "blank text says nothing")
	require.False(t, again(support.start(), support.text("I see.")), "text resets the pairs")
	require.False(t, again(support.start(), support.call("x", "lookup"), support.result("x", "lookup")), "another tool's result does too")
	require.True(t, again(support.start(), support.call("x", "lookup")), "a call alone does not")
	require.True(t, again(support.start(), support.result("x", agent.TransferTool)))
	require.False(t, again(user("t2")), "a new turn does")
	require.True(t, again(inner.start(), inner.text("elsewhere"), inner.result("y", "lookup")), "another scope does not")

	f := foldOf(join(user("t1"), support.start(), there, billing.start(), back)...)
	require.True(t, f.Scope("").Repeats("billing", "support"))
	require.False(t, f.Scope("").Repeats("billing", "tech"))
	require.False(t, f.Scope("c1").Repeats("support", "billing"))
	f = foldOf(join(user("t1"), support.start(), support.transfer("billing", event.TransferRejected), support.transfer("billing", event.TransferFailed))...)
	require.False(t, f.Scope("").Repeats("support", "billing"), "only committed transfers count")
}

func TestFoldState(t *testing.T) {
	f := foldOf(join(user("t1"), support.start(), support.state("a", 1), support.state("turn:b", 2), support.state("user:c", 3), support.state("app:d", 4),
		inner.state("e", "from inside"), support.state("gone", 5), support.state("gone", nil), support.state("nil", nil))...)
	requireState := func(want map[string]any) {
		t.Helper()
		for _, key := range []string{"a", "turn:b", "user:c", "app:d", "e", "gone", "nil"} {
			v, ok := f.State(key)
			wanted, has := want[key]
			require.Equal(t, has, ok, key)
			require.Equal(t, wanted, v, key)
		}
	}
	requireState(map[string]any{"a": 1, "turn:b": 2, "e": "from inside"})
	f.Apply(&event.Event{Seq: f.Seq + 1, TurnID: "t2", Data: &event.User{}})
	requireState(map[string]any{"a": 1, "e": "from inside"})
}

func TestFoldIgnoresPartialEvents(t *testing.T) {
	f := foldOf(join(user("t1"), support.start())...)
	before := *f
	delta := support.usage()
	delta.Seq, delta.Partial = 99, true
	f.Apply(delta)
	require.Equal(t, before, *f)
}

// drawLog draws a log that is not always sensible, since a fold must not depend
// on a runner that makes no mistakes.
func drawLog(t *rapid.T) []*event.Event {
	n := rapid.IntRange(0, 60).Draw(t, "events")
	events := make([]*event.Event, n)
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	turn := "t0"
	for i := range events {
		r := run{turn: turn, id: pick("run", "r1", "r2", "r3"), agent: pick("agent", "a", "b", "c"), scope: pick("scope", "", "", "", "c1", "c2")}
		var e *event.Event
		switch rapid.IntRange(0, 14).Draw(t, "kind") {
		case 0:
			turn = fmt.Sprintf("t%d", i)
			e = user(turn)
		case 1:
			e = r.start()
		case 2:
			e = r.text(pick("text", "", " ", "words"))
		case 3:
			e = r.call(pick("id", "x", "y", "z"), pick("tool", "lookup", agent.TransferTool))
		case 4:
			e = r.result(pick("id", "x", "y", "z"), pick("tool", "lookup", agent.TransferTool))
		case 5:
			e = r.transfer(pick("to", "a", "b", "c"), event.TransferOutcome(pick("outcome", "committed", "rejected", "conflict", "failed")))
		case 6:
			e = r.usage()
		case 7:
			e = r.event(&event.Discard{Code: "retry"})
		case 8:
			e = r.event(&event.Notice{Code: pick("code", event.NoticeTransferLimit, "other")})
		case 9:
			var value any
			if v := rapid.IntRange(0, 3).Draw(t, "value"); v > 0 {
				value = float64(v)
			}
			e = r.state(pick("key", "k", "turn:k", "user:k", "app:k"), value)
		case 10:
			e = r.end(event.FinishReason(pick("reason", "stop", "transfer", "input_required", "error")), pick("target", "", "b"))
		case 11:
			e = r.event(&event.Relay{Kind: "permission", ToolCallID: pick("id", "x", "y", "z"), Tool: "lookup", Params: []byte(`{}`)})
			e.ID = pick("relay", "p", "q")
		case 12:
			e = r.event(&event.RelayResolved{RelayID: pick("relay", "p", "q")})
		case 13:
			e = r.event(&event.Unknown{Type: "new", Raw: []byte("{}")})
		default:
			e = r.event(&event.Reasoning{Content: "hm"})
		}
		events[i] = e
	}
	return logOf(events...)
}

// TestFoldIsAFunctionOfTheLog: however the log arrives, in one go or bit by bit
// with parts of it delivered again, from memory or through JSON, and however the
// fold was queried in between, the fold is the same.
func TestFoldIsAFunctionOfTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := drawLog(t)
		var whole, again, read session.Fold
		for _, e := range log {
			whole.Apply(e)
		}
		for i, e := range log {
			again.Apply(e)
			for from := rapid.IntRange(0, i+1).Draw(t, "again from"); from <= i; from++ {
				again.Apply(log[from])
			}
			b := must.Get(e.MarshalJSON())
			var stored event.Event
			require.NoError(t, stored.UnmarshalJSON(b))
			read.Apply(&stored)
		}
		require.EqualValues(t, len(log), whole.Seq)
		require.Equal(t, whole, again)
		require.Equal(t, whole, read)

		for _, scope := range []string{"", "c1", "c2"} { // invariants, whatever the log says
			s := whole.Scope(scope)
			require.LessOrEqual(t, len(s.Run.Pending), len(log))
			seen := 0
			for _, name := range whole.Open() {
				if name == scope {
					seen++
				}
			}
			require.Equal(t, s.Run.Open, seen == 1)
		}
		require.LessOrEqual(t, whole.Turn.Transfers+whole.Turn.ModelCalls+whole.Turn.ToolCalls, len(log))
	})
}

// TestFoldDoesNotChangeItsInput: events are shared with other readers.
func TestFoldDoesNotChangeItsInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := drawLog(t)
		var before []string
		for _, e := range log {
			b := must.Get(e.MarshalJSON())
			before = append(before, string(b))
		}
		var f session.Fold
		for _, e := range log {
			f.Apply(e)
		}
		for i, e := range log {
			b := must.Get(e.MarshalJSON())
			require.Equal(t, before[i], string(b))
		}
	})
}

func TestFoldSpending(t *testing.T) {
	a, b := run{"t1", "r1", "a", ""}, run{"t1", "r2", "b", "inner"}
	use := func(r run, model string, in, out int) *event.Event {
		return r.event(&event.Usage{InputTokens: in, OutputTokens: out, CachedTokens: 1, Model: model})
	}
	first := []*event.Event{user("t1"), a.start(), use(a, "m", 10, 5), b.start(), use(b, "m", 20, 5), use(a, "n", 1, 1),
		a.event(&event.Discard{Code: "cut", Usage: &event.Usage{InputTokens: 7, Model: "m"}}), a.event(&event.Discard{Code: "cut"})}
	f := foldOf(first...)
	require.Equal(t, []session.Spent{
		{Agent: "a", Model: "m", Session: session.Use{Answers: 1, Reported: 1, Usage: llm.Usage{InputTokens: 17, OutputTokens: 5, CachedTokens: 1}}, Turn: session.Use{Answers: 1, Reported: 1, Usage: llm.Usage{InputTokens: 17, OutputTokens: 5, CachedTokens: 1}}},
		{Agent: "b", Model: "m", Session: session.Use{Answers: 1, Reported: 1, Usage: llm.Usage{InputTokens: 20, OutputTokens: 5, CachedTokens: 1}}, Turn: session.Use{Answers: 1, Reported: 1, Usage: llm.Usage{InputTokens: 20, OutputTokens: 5, CachedTokens: 1}}},
		{Agent: "a", Model: "n", Session: session.Use{Answers: 1, Reported: 1, Usage: llm.Usage{InputTokens: 1, OutputTokens: 1, CachedTokens: 1}}, Turn: session.Use{Answers: 1, Reported: 1, Usage: llm.Usage{InputTokens: 1, OutputTokens: 1, CachedTokens: 1}}},
	}, f.Spent)
	second := run{"t2", "r3", "a", ""}
	f = foldOf(append(first, user("t2"), second.start(), use(second, "m", 3, 2))...)
	require.Equal(t, session.Use{Answers: 2, Reported: 2, Usage: llm.Usage{InputTokens: 20, OutputTokens: 7, CachedTokens: 2}}, f.Spent[0].Session)
	require.Equal(t, session.Use{Answers: 1, Reported: 1, Usage: llm.Usage{InputTokens: 3, OutputTokens: 2, CachedTokens: 1}}, f.Spent[0].Turn)
	require.Zero(t, f.Spent[1].Turn)
}

// TestFoldTimes: the events of logOf are a second apart.
func TestFoldTimes(t *testing.T) {
	a, b, inner := run{"t1", "r1", "a", ""}, run{"t2", "r2", "b", ""}, run{"t1", "r3", "c", "inner"}
	f := foldOf(user("t1"), a.start(), inner.start(), inner.text("x"), inner.end(event.FinishReasonStop, ""), a.end(event.FinishReasonStop, ""),
		user("t2"), b.start(), b.text("x"), b.event(&event.Notice{Code: event.NoticeResumed}), b.text("y"), b.text("z"), b.end(event.FinishReasonCanceled, ""))
	require.Equal(t, session.Times{Session: 7 * time.Second, Turn: 3 * time.Second, Agents: []session.AgentTime{
		{Agent: "c", Session: 2 * time.Second}, {Agent: "a", Session: 4 * time.Second}, {Agent: "b", Session: 3 * time.Second}}}, f.Times,
		"neither the second before the resumption counts, nor the one before a run is found cut off")

	resumed := run{"t1", "u-t1", "user", ""}.event(&event.Notice{Code: event.NoticeResumed})
	f = foldOf(user("t1"), a.start(), a.text("x"), a.end(event.FinishReasonTransfer, "b"), resumed)
	require.Equal(t, 2*time.Second, f.Times.Session, "the time of a run counts once, though the turn is resumed before the next run begins")
}

// TestFoldForkOfWorkflow: a fork continues the scopes of a workflow that was at work,
// and of workflows in them, and no others.
func TestFoldForkOfWorkflow(t *testing.T) {
	at := time.Unix(100, 0)
	var f session.Fold
	apply := func(run, scope, name string, data event.Data) {
		if _, ok := data.(*event.Notice); !ok { // which is stored with the start before it
			at = at.Add(time.Second)
		}
		f.Apply(&event.Event{Seq: f.Seq + 1, TurnID: "t1", RunID: run, Scope: scope, Agent: name, Time: at, Data: data})
	}
	apply("u1", "", "user", &event.User{})
	apply("g1", "", "graph", &event.HarnessStart{AgentID: "graph"})
	apply("r1", "g1.1/a", "a", &event.HarnessStart{AgentID: "a", Input: []byte(`1`)})
	apply("r2", "g1.1/b", "b", &event.HarnessStart{AgentID: "b"})
	apply("r3", "r2.1/inner", "inner", &event.HarnessStart{AgentID: "inner"})
	apply("r1", "g1.1/a", "a", &event.ToolCall{Name: "tool"})
	apply("r4", "c1", "behind", &event.HarnessStart{AgentID: "behind"})
	require.Equal(t, []string{"", "g1.1/a", "g1.1/b", "r2.1/inner", "c1"}, f.Open())

	at = at.Add(time.Hour)
	apply("g2", "", "graph", &event.HarnessStart{AgentID: "graph"})
	apply("g2", "", "graph", &event.Notice{Code: event.NoticeForked})
	require.Equal(t, []string{"", "g1.1/a", "g1.1/b", "r2.1/inner"}, f.Open())
	require.Equal(t, []string{"g1"}, f.Scope("").Run.Before)
	require.EqualValues(t, 1, f.Scope("").Run.Since)

	apply("r5", "g1.1/a", "a", &event.HarnessStart{AgentID: "a"})
	apply("r5", "g1.1/a", "a", &event.Notice{Code: event.NoticeForked})
	require.Equal(t, []string{"", "g1.1/a", "g1.1/b", "r2.1/inner"}, f.Open(), "those beside it are there still")
	run := f.Scope("g1.1/a").Run
	require.Equal(t, []string{"r1"}, run.Before)
	require.EqualValues(t, 10, run.Start)
	require.EqualValues(t, 2, run.Since)
	require.Len(t, run.Pending, 1)
	require.Equal(t, "r5", run.Pending[0].RunID, "its result is the new run's")
	require.JSONEq(t, `1`, string(f.Scope("g1.1/a").Input))
	apply("r5", "g1.1/a", "a", &event.HarnessEnd{AgentID: "a", FinishReason: event.FinishReasonStop})
	for _, spent := range f.Times.Agents {
		require.Less(t, spent.Session, time.Minute, "the time until the fork is not counted")
	}
}

// TestInside: the fold knows what is open inside of a workflow's run and of a call.
func TestInside(t *testing.T) {
	var f session.Fold
	seq := int64(0)
	apply := func(run, scope, parent string, data event.Data) {
		seq++
		f.Apply(&event.Event{Seq: seq, ID: fmt.Sprint("e", seq), TurnID: "t", RunID: run, Scope: scope, ParentID: parent, Agent: "a", Data: data})
	}
	end := func(reason event.FinishReason) *event.HarnessEnd { return &event.HarnessEnd{FinishReason: reason} }
	apply("u", "", "", &event.User{})
	apply("g", "", "u:user", &event.HarnessStart{})
	apply("x", "g.1/x", "g:harness_start", &event.HarnessStart{})
	apply("y", "g.1/y", "x:harness_end", &event.HarnessStart{})
	apply("z", "s", "call", &event.HarnessStart{})
	require.Equal(t, []int{2, 1, 0}, []int{f.Scopes.Inside("g"), f.Scopes.Inside("call"), f.Scopes.Inside("x")})
	require.Equal(t, []string{"g", "call", ""}, []string{f.Scopes.Opener("g.1/y"), f.Scopes.Opener("s"), f.Scopes.Opener("")})
	require.True(t, f.Scopes.Runs("g.1/x", "x"))
	require.False(t, f.Scopes.Runs("g.1/x", "y"))
	apply("x", "g.1/x", "", end(event.FinishReasonTransfer))
	require.Equal(t, 2, f.Scopes.Inside("g"), "between two runs")
	apply("x2", "g.1/x", "x:harness_end", &event.HarnessStart{})
	require.Equal(t, 2, f.Scopes.Inside("g"))
	apply("x2", "g.1/x", "", end(event.FinishReasonStop))
	apply("x2", "g.1/x", "", end(event.FinishReasonCanceled)) // of a log that an earlier version wrote
	apply("z", "s", "", end(event.FinishReasonInputRequired))
	require.Equal(t, []int{1, 1}, []int{f.Scopes.Inside("g"), f.Scopes.Inside("call")})
	require.True(t, f.Scopes.Runs("s", "z"), "it waits")
	require.False(t, f.Scopes.Runs("g.1/x", "x2"))
	apply("u2", "", "", &event.User{})
	require.Zero(t, f.Scopes.Inside("g"))
}
