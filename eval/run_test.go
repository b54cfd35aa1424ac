package eval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// models answer as a script says.
func models(t testing.TB, script string) func(name string) llm.Model {
	s, err := scripted.Parse([]byte(script))
	require.NoError(t, err)
	return func(name string) llm.Model { return s.Model(name) }
}

// desk is a coordinator with two specialists, who may hand over to everybody.
func desk(t testing.TB, model func(name string) llm.Model, opts ...llmagent.Option) agent.Agent {
	specialist := func(name string) agent.Agent {
		a, err := llmagent.New(name, "You answer.", model(name), append(opts, llmagent.WithDescription(name+" questions"),
			llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}))...)
		require.NoError(t, err)
		return a
	}
	root, err := llmagent.New("support", "You route.", model("support"), llmagent.WithSubAgents(specialist("billing"), specialist("tech")))
	require.NoError(t, err)
	return root
}

func load(t testing.TB, text string) []eval.Case {
	cases, err := eval.Load([]byte(text), "c")
	require.NoError(t, err)
	return cases
}

func play(t *testing.T, root agent.Agent, cases string, opts ...eval.Option) *eval.Results {
	opts = append([]eval.Option{eval.WithStores(func() session.Store { return sessiontest.Memory(t) })}, opts...)
	all := load(t, cases)
	require.NoError(t, eval.Check(all, root))
	report, err := eval.Run(t.Context(), all, []eval.Subject{{Root: root}}, opts...)
	require.NoError(t, err)
	return &report.Subjects[0]
}

// differs returns all differences of all outcomes.
func differs(r *eval.Results) (all []string) {
	for _, o := range r.Outcomes {
		for _, turn := range o.Turns {
			for _, d := range turn.Differences {
				all = append(all, d.Kind+": "+d.Message)
			}
		}
		for _, d := range o.Differences {
			all = append(all, "case "+d.Kind+": "+d.Message)
		}
	}
	return all
}

const twice = `
support: call transfer_to_agent {"agent_name": "billing"} usage=100/5/20
billing: "Your  Invoice is" " refunded." usage=50/7
billing: "Our technician looks." call transfer_to_agent {"agent_name": "tech"} usage=60/3
tech: "It blinks no more." usage=40/4
`

func TestPlay(t *testing.T) {
	r := play(t, desk(t, models(t, twice)), `
turns:
  - say: My invoice is wrong
    path: support > billing
    answers: billing
    says: [invoice is refunded, /REFUND(ed)?\./]
    saysNot: [transfer, /(?-i)Refund/]
    noTools: transfer_to_agent
    max: {modelCalls: 2, transfers: 1, tokens: 162}
  - say: And the router blinks
    path: billing > tech
    answers: tech
    says: [technician, blinks no more]
max: {modelCalls: 4, tokens: 269, cost: 1, time: 1h}
`, eval.WithPrices(llm.Prices{"support": {Input: 1, CachedInput: 0.5, Output: 10}, "billing": {Input: 2}, "tech": {Output: 3}}))
	require.Empty(t, differs(r))
	require.Len(t, r.Outcomes, 1)
	out := r.Outcomes[0]
	require.True(t, out.OK())
	require.Equal(t, []string{"billing", "tech"}, out.Turns[1].Path)
	require.Equal(t, "Our technician looks.\nIt blinks no more.", out.Turns[1].Said)
	require.Equal(t, "tech", out.Turns[1].Answered)
	require.Empty(t, out.Turns[1].Tools)
	require.Equal(t, event.Usage{InputTokens: 150, OutputTokens: 12, CachedTokens: 20}, out.Turns[0].Usage)
	require.InDelta(t, (80*1+20*0.5+5*10+50*2)/1e6, *out.Turns[0].Cost, 1e-15)
	require.Positive(t, out.Turns[0].Took)
	s := r.Summary()
	require.Equal(t, eval.Wilson(1, 1), s.Passed)
	require.Equal(t, eval.Wilson(2, 2), s.Paths)
	require.Equal(t, eval.Wilson(2, 2), s.Answers)
	require.Equal(t, eval.Wilson(4, 4), s.Decisions)
	require.Equal(t, eval.Matrix{From: "billing", Names: []string{"billing", "tech"}, Counts: [][]int{{1, 0}, {0, 1}}}, s.Edges[1])
	require.Equal(t, 4, s.ModelCalls)
	require.Equal(t, 2, s.Transfers)
	require.InDelta(t, *out.Turns[0].Cost+*out.Turns[1].Cost, *s.Cost, 1e-15)
	require.Equal(t, event.Usage{InputTokens: 250, OutputTokens: 19, CachedTokens: 20}, s.Usage)

	text, err := json.Marshal(out)
	require.NoError(t, err)
	var again eval.Outcome
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, out, again)
}

// TestDifferences: each expectation that does not hold is one difference, and the case goes on.
func TestDifferences(t *testing.T) {
	r := play(t, desk(t, models(t, twice)), `
turns:
  - say: My invoice is wrong
    path: support > tech
    answers: tech|support
    tools: transfer_to_agent
    says: [sorry, /^refund/]
    saysNot: [invoice is, /\d|R/]
    max: {modelCalls: 1, tokens: 161}
  - say: And the router blinks
    path: tech
max: {transfers: 1, modelCalls: 3, tokens: 268, cost: 1, time: 1ns}
`)
	require.Equal(t, []string{
		"path: got support > billing, want support > tech",
		"answers: billing has answered, want tech|support",
		"tools: transfer_to_agent was not called; called: nothing",
		`says: "sorry" is not in "Your Invoice is refunded."`,
		`says: "/^refund/" is not in "Your Invoice is refunded."`,
		`says: "invoice is" is in "Your Invoice is refunded."`,
		`says: "/\\d|R/" is in "Your Invoice is refunded."`,
		"max: 2 answers of models, at most 1",
		"max: 162 tokens, at most 161",
		"path: got billing > tech, want tech",
		"case max: 2 transfers, at most 1",
		"case max: 4 answers of models, at most 3",
		"case max: 269 tokens, at most 268",
		"case max: the cost is not known: a model has no price, or its endpoint does not say what it has used",
	}, differs(r)[:14])
	require.Contains(t, differs(r)[14], "at most 1ns")
	s := r.Summary()
	require.Equal(t, []eval.Matrix{{From: "support", Names: []string{"support", "billing", "tech"}, Counts: [][]int{{0, 0, 0}, {0, 0, 0}, {0, 1, 0}}}}, s.Edges)
	require.Equal(t, map[string]int{"path": 2, "answers": 1, "tools": 1, "says": 4, "max": 7}, s.Differences)
	require.Nil(t, s.Cost)
}

func TestCostIsKnownOrNil(t *testing.T) {
	prices := llm.Prices{"support": {Input: 1}}
	one := func(script string) *float64 {
		return play(t, desk(t, models(t, script)), "{say: a, max: {cost: 0.00005}}", eval.WithPrices(prices)).Summary().Cost
	}
	require.InDelta(t, 1e-5, *one(`support: "yes" usage=10/1`), 1e-12)
	require.Nil(t, one(`support: "the endpoint does not say"`))
	require.Nil(t, one("support: call transfer_to_agent {\"agent_name\": \"tech\"} usage=9/1\ntech: \"no price\" usage=10/1"))
	require.Equal(t, []string{"max: a cost of 6e-05, at most 5e-05"},
		differs(play(t, desk(t, models(t, `support: "yes" usage=60/1`)), "{say: a, max: {cost: 0.00005}}", eval.WithPrices(prices))))
}

// TestErrorsAreDifferences: a turn that fails is wrong, and the next one is played.
func TestErrorsAreDifferences(t *testing.T) {
	r := play(t, desk(t, models(t, "support: fault=status:400\nsupport: \"ok\"\n")), "turns:\n- {say: a, path: support > tech}\n- {say: b, path: support}\n")
	require.Equal(t, []string{"path: got support, want support > tech"}, differs(r)[:1])
	require.Contains(t, differs(r)[1], "error: agent support: ")
	require.Len(t, differs(r), 2)
	require.Equal(t, "bad_request", r.Outcomes[0].Turns[0].Error)
	require.Empty(t, r.Outcomes[0].Turns[0].Decisions, "it has not decided")
	require.Equal(t, "ok", r.Outcomes[0].Turns[1].Said)
	s := r.Summary()
	require.Equal(t, map[string]int{"bad_request": 1}, s.Errors)
	require.Equal(t, 1, s.Silent)

	broken, err := agent.New("broken", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(func(*event.Event, error) bool) { panic("no such luck") }
	})
	require.NoError(t, err)
	r = play(t, broken, "{say: a, answers: broken}")
	require.Equal(t, "answers: nobody has answered, want broken", differs(r)[0])
	require.Contains(t, differs(r)[1], "no such luck")
	require.Equal(t, map[string]int{event.CodeInternal: 1}, r.Summary().Errors)
}

// failing is a model that cannot be asked from some call on.
type failing struct {
	llm.Model
	after int64
	code  llm.ErrorCode
	calls *atomic.Int64
}

func (m failing) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	if m.calls.Add(1) <= m.after {
		return m.Model.Generate(ctx, req)
	}
	return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{}, &llm.Error{Code: m.code, Message: "down"}) }
}

// TestAnEndpointThatCannotBeAsked ends the run: what is not the model's fault is not counted as
// its answer.
func TestAnEndpointThatCannotBeAsked(t *testing.T) {
	for _, code := range []llm.ErrorCode{llm.CodeUnreachable, llm.CodeUnauthorized, llm.CodeNotFound} {
		model := failing{scripted.Always("m", scripted.Reply(scripted.Text("ok"))), 2, code, new(atomic.Int64)}
		cases := load(t, "- {say: a, path: support}\n- {say: b, path: support}\n- {say: c, path: support}\n- {say: d, path: support}\n")
		root := desk(t, func(string) llm.Model { return model })
		report, err := eval.Run(t.Context(), cases, []eval.Subject{{"one", root}, {"two", root}}, eval.Parallel(1))
		var failed *llm.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, code, failed.Code)
		require.ErrorContains(t, err, `one: the case "c": `)
		require.EqualValues(t, 3, model.calls.Load(), "nothing more is asked")
		require.Len(t, report.Subjects, 1)
		require.Len(t, report.Subjects[0].Outcomes, 2)
		require.Empty(t, differs(&report.Subjects[0]))
	}
}

func TestContextEnds(t *testing.T) {
	gone := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	model := scripted.Func("m", func(*llm.Request) scripted.Answer {
		cancel(gone)
		return scripted.Reply(scripted.Text("too late"))
	})
	report, err := eval.Run(ctx, load(t, "- {say: a, path: support}\n- {say: b, path: support}"), []eval.Subject{{Root: desk(t, func(string) llm.Model { return model })}})
	require.ErrorIs(t, err, gone)
	require.Empty(t, report.Subjects[0].Outcomes)
}

// TestOrder: whatever is played at once, the report is in the order of the cases, and one
// repetition knows nothing of another.
func TestOrder(t *testing.T) {
	model := scripted.Func("m", func(r *llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text(fmt.Sprint(len(r.Messages), " ", r.Messages[len(r.Messages)-1].Text)))
	})
	var cases strings.Builder
	for i := range 40 {
		fmt.Fprintf(&cases, "- {say: q%d, says: /^1 q%d$/}\n", i, i)
	}
	var told []string
	for _, parallel := range []int{1, 3, 16} {
		told = nil
		r := play(t, desk(t, func(string) llm.Model { return model }), cases.String(), eval.Repeat(3), eval.Parallel(parallel),
			eval.Progress(func(subject string, o *eval.Outcome) {
				told = append(told, fmt.Sprint(o.Case, o.Repeat))
			}))
		require.Empty(t, differs(r))
		require.Len(t, r.Outcomes, 120)
		var want []string
		for i, o := range r.Outcomes {
			require.Equal(t, fmt.Sprint("q", i/3), o.Case)
			require.Equal(t, i%3+1, o.Repeat)
			want = append(want, fmt.Sprint(o.Case, o.Repeat))
		}
		require.ElementsMatch(t, want, told)
		require.Equal(t, eval.Wilson(120, 120), r.Summary().Passed)
	}
}

func TestProgressIsOneCallAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		root := desk(t, func(string) llm.Model { return scripted.Always("m", scripted.Reply(scripted.Text("ok"))) })
		play(t, root, "{say: a, path: support}", eval.Repeat(8), eval.Parallel(8), eval.Progress(func(string, *eval.Outcome) {
			if !mu.TryLock() {
				t.Error("two calls at once")
				return
			}
			defer mu.Unlock()
			time.Sleep(time.Second) // of the bubble: until nothing else goes on
		}))
	})
}

// TestNothingIsKept: the session of a case is deleted when it is over.
func TestNothingIsKept(t *testing.T) {
	store := session.NewMemory()
	play(t, desk(t, func(string) llm.Model { return scripted.Always("m", scripted.Reply(scripted.Text("ok"))) }), "- {say: a, path: support}\n- {say: b, path: support}",
		eval.WithStores(func() session.Store { return store }))
	list, err := store.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.Empty(t, list)
}

// TestAttemptsAreNoWay: a transfer that was refused moved nothing.
func TestAttemptsAreNoWay(t *testing.T) {
	r := play(t, desk(t, models(t, "support: call transfer_to_agent {\"agent_name\": \"nobody\"}\nsupport: call transfer_to_agent {\"agent_name\": \"tech\"} call transfer_to_agent {\"agent_name\": \"billing\"}\ntech: \"here\"")), "{say: a, path: support > tech, max: {transfers: 1}}")
	require.Empty(t, differs(r))
}

// TestOutputIsSaid: who ends with an output and no words has said the output.
func TestOutputIsSaid(t *testing.T) {
	f, err := agent.New("f", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonStop, Output: json.RawMessage(`{"order": 7}`)}}, nil)
		}
	})
	require.NoError(t, err)
	require.Empty(t, differs(play(t, f, `{say: a, answers: f, says: '/"order": ?7/'}`)))
}

// TestCasesAreIsolated: neither words nor state, of the session or of its user, outlive a case.
func TestCasesAreIsolated(t *testing.T) {
	a, err := agent.New("a", "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			of := func(key string) any { v, _ := inv.Session().State(key); return v }
			words := fmt.Sprint(of("given"), of("mine"), of("user:x"), of("app:y"), inv.Metadata()["lang"], inv.Session().Seq())
			if yield(&event.Event{Data: &event.Text{Content: words}}, nil) {
				yield(&event.Event{Data: &event.State{Delta: map[string]any{"mine": 1, "user:x": 2, "app:y": 3}}}, nil)
			}
		}
	})
	require.NoError(t, err)
	r := play(t, a, "- {say: a, state: {given: 7}, metadata: {lang: de}, path: a}\n- turns: [{say: b, path: a}, {say: c, path: a}]\n  state: {mine: 0}\n", eval.Repeat(2), eval.Parallel(1))
	for i := range 2 {
		require.Regexp(t, `^7 ?<nil> ?<nil> ?<nil> ?de`, r.Outcomes[i].Turns[0].Said)
		require.Regexp(t, `^<nil> ?0 ?<nil> ?<nil> ?<nil>`, r.Outcomes[2+i].Turns[0].Said)
		require.Regexp(t, `^<nil> ?1 ?2 ?3 ?<nil>`, r.Outcomes[2+i].Turns[1].Said)
	}
}

func TestUnsteady(t *testing.T) {
	var n atomic.Int64
	model := scripted.Func("m", func(r *llm.Request) scripted.Answer {
		if r.Messages[0].Text == "steady" || n.Add(1)%2 == 0 {
			return scripted.Reply(scripted.Text("right"))
		}
		return scripted.Reply(scripted.Text("wrong"))
	})
	r := play(t, desk(t, func(string) llm.Model { return model }), "- {say: steady, says: right}\n- {say: other, says: right}\n- {say: never, says: left}", eval.Repeat(4), eval.Parallel(1))
	s := r.Summary()
	require.Equal(t, 1, s.Unsteady)
	require.Equal(t, eval.Wilson(6, 12), s.Passed)
}

// cashier has a tool that needs an approval, and one that asks.
func cashier(t *testing.T, script string) agent.Agent {
	refund, err := tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) { return "done", nil }, tools.NeedsApproval(tools.ByUser()))
	require.NoError(t, err)
	where, err := tools.Func("where", "Asks.", func(c tools.Context, _ struct{}) (string, error) {
		street, err := c.Ask("Which street?", nil)
		return string(street), err
	})
	require.NoError(t, err)
	root, err := llmagent.New("cashier", "", models(t, script)("cashier"), llmagent.WithTools(refund, where))
	require.NoError(t, err)
	return root
}

func TestApprovals(t *testing.T) {
	const script = "cashier: call refund call where usage=9/1\ncashier: expect result \"Main\" \"All done.\" usage=9/1\ncashier: \"What else?\" usage=9/1\n"
	for name, tt := range map[string]struct {
		script, says string
		turns        int
		want         []string
	}{
		"decided":   {script, "approve: refund, reply: {where: Main Street}, asks: [refund, where], says: all done", 2, nil},
		"denied":    {strings.Replace(script, "\"Main\"", "\"no answer\"", 1), "deny: [refund, where], tools: [refund, where], says: nothing", 1, nil},
		"nothing":   {script, "says: done", 1, []string{`says: "done" is not in ""`, "asks: the turn waits for a decision about refund, and the case says neither approve, deny nor reply for it", "asks: the turn waits for a decision about where, and the case says neither approve, deny nor reply for it"}},
		"half":      {script, "approve: [refund], tools: [refund], path: cashier", 1, []string{"asks: the turn waits for a decision about where, and the case says neither approve, deny nor reply for it"}},
		"expected":  {"cashier: call refund call where usage=9/1\ncashier: \"What else?\" usage=9/1\n", "asks: [where, refund]", 2, nil},
		"not asked": {"cashier: \"no\"\ncashier: \"no\"\n", "approve: refund, asks: refund", 2, []string{"asks: nobody was asked about refund"}},
	} {
		if name == "denied" {
			tt.script, tt.says, tt.turns = strings.Replace(script, `expect result "Main" `, "", 1), "deny: [refund, where], tools: [refund, where], says: all done", 2
		}
		r := play(t, cashier(t, tt.script), "turns:\n- {say: a, "+tt.says+"}\n- {say: b, path: cashier}\n")
		require.Equal(t, tt.want, differs(r), name)
		require.Len(t, r.Outcomes[0].Turns, tt.turns, name)
		if name == "decided" {
			require.Equal(t, []string{"refund", "where"}, r.Outcomes[0].Turns[0].Tools)
			require.Equal(t, []string{"refund", "where"}, r.Outcomes[0].Turns[0].Asked)
			require.Equal(t, 2, r.Outcomes[0].Turns[0].ModelCalls, "what is resumed is not counted twice")
		}
		if name == "half" {
			require.Empty(t, r.Outcomes[0].Turns[0].Decisions)
		}
	}
}

// TestAToolThatAsksForever ends with a difference.
func TestAToolThatAsksForever(t *testing.T) {
	nag, err := tools.Func("nag", "Asks.", func(c tools.Context, _ struct{}) (string, error) {
		for {
			if _, err := c.Ask("And now?", nil); err != nil {
				return "", err
			}
		}
	})
	require.NoError(t, err)
	root, err := llmagent.New("a", "", models(t, "a: call nag")("a"), llmagent.WithTools(nag))
	require.NoError(t, err)
	r := play(t, root, "{say: a, reply: {nag: no}, path: a}")
	require.Contains(t, differs(r)[0], "asks: the turn waits for a decision about nag")
}

func TestJudge(t *testing.T) {
	judge := func(_ context.Context, out *eval.TurnOutcome, statement string) (*eval.Verdict, error) {
		switch statement {
		case "lost":
			return nil, errors.New("it stammers")
		case "down":
			return nil, &llm.Error{Code: llm.CodeUnreachable}
		}
		return &eval.Verdict{True: strings.Contains(out.Said, statement), Why: "read it"}, nil
	}
	root := desk(t, func(string) llm.Model { return scripted.Always("m", scripted.Reply(scripted.Text("it is late"))) })
	const cases = "- {say: a, judge: late}\n- {say: b, judge: early}\n- {say: c, judge: lost}\n"
	r := play(t, root, cases, eval.WithJudgeFunc(judge))
	require.Equal(t, []string{"judge: the judge finds it untrue that early: read it", "judge: the judge does not know whether lost: it stammers"}, differs(r))
	require.Equal(t, &eval.Verdict{True: true, Why: "read it"}, r.Outcomes[0].Turns[0].Verdict)
	require.Empty(t, differs(play(t, root, cases)), "without a judge nothing is judged")
	_, err := eval.Run(t.Context(), load(t, "{say: a, judge: down}"), []eval.Subject{{Root: root}}, eval.WithJudgeFunc(judge))
	require.ErrorContains(t, err, "the judge: ")
}

func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, err := agent.New("slow", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				time.Sleep(3 * time.Second)
				yield(&event.Event{Data: &event.Text{Content: "there"}}, nil)
			}
		})
		require.NoError(t, err)
		r := play(t, slow, "turns: [{say: a, max: {time: 2s}}, {say: b, max: {time: 3s}}]\nmax: {time: 5500}")
		require.Equal(t, []string{"max: 3s, at most 2s", "case max: 6s, at most 5.5s"}, differs(r))
		s := r.Summary()
		require.Equal(t, [2]time.Duration{3 * time.Second, 3 * time.Second}, [2]time.Duration{s.P50, s.P95})
	})
}

// TestParallel: so many cases are played at once, and no more.
func TestParallel(t *testing.T) {
	slow, err := agent.New("slow", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			time.Sleep(time.Second)
			yield(&event.Event{Data: &event.Text{Content: "there"}}, nil)
		}
	})
	require.NoError(t, err)
	for parallel, want := range map[int]time.Duration{1: 10 * time.Second, 3: 4 * time.Second, 10: time.Second, 99: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			require.Empty(t, differs(play(t, slow, "{say: a, path: slow}", eval.Repeat(10), eval.Parallel(parallel))))
			require.Equal(t, want, time.Since(began), parallel)
		})
	}
}

func TestWrongCalls(t *testing.T) {
	root := desk(t, models(t, ""))
	cases := load(t, "{say: a, path: support}")
	for want, f := range map[string]func() error{
		"Repeat and Parallel": func() error { _, err := eval.Run(t.Context(), cases, nil, eval.Repeat(0)); return err },
		"option 0 is nil":     func() error { _, err := eval.Run(t.Context(), cases, nil, nil); return err },
		`two subjects have the name "a"`: func() error {
			_, err := eval.Run(t.Context(), cases, []eval.Subject{{"a", root}, {"a", root}})
			return err
		},
		`the price of "m" is -1`: func() error {
			_, err := eval.Run(t.Context(), cases, nil, eval.WithPrices(llm.Prices{"m": {Input: -1}}))
			return err
		},
		"runner: a clock, a logger": func() error {
			_, err := eval.Run(t.Context(), cases, []eval.Subject{{Root: root}}, eval.WithRunner(runner.WithClock(nil)))
			return err
		},
		"the root agent is nil": func() error { _, err := eval.Run(t.Context(), cases, []eval.Subject{{}}); return err },
	} {
		require.ErrorContains(t, f(), want)
	}
	report, err := eval.Run(t.Context(), []eval.Case{{Name: "made in Go", Turns: []eval.Turn{{User: "a", Expect: eval.Expect{Says: []string{"/(/"}, SaysNot: []string{"/)/"}}}}}},
		[]eval.Subject{{Root: desk(t, models(t, `support: "yes"`))}})
	require.NoError(t, err)
	require.Len(t, differs(&report.Subjects[0]), 2)
}
