package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

var s1 = session.ID("s1")

// say runs a turn to its end and returns the stored events and the error.
func say(r *runner.Runner, key session.Key, text string) ([]*event.Event, error) {
	return collect(r.Run(context.Background(), key, llm.UserText(text)))
}

// resume decides calls of a session that are named as transcripts name them: c1 is the first call of the log.
func resume(r *runner.Runner, key session.Key, decisions ...runner.Decision) iter.Seq2[*event.Event, error] {
	var calls transcript.Calls
	for e, err := range r.History(context.Background(), key) {
		if err == nil {
			calls.Add(e)
		}
	}
	named := slices.Clone(decisions)
	for i := range named {
		named[i].CallID = calls.ID(named[i].CallID)
	}
	return r.Resume(context.Background(), key, named...)
}

// collect returns the stored events of a turn, which must keep what consumers rely on.
func collect(seq iter.Seq2[*event.Event, error]) (events []*event.Event, failed error) {
	return gather(sessiontest.Turn(panics{}, seq))
}

// run is say for a turn that must not fail.
func run(t require.TestingT, r *runner.Runner, key session.Key, text string) []*event.Event {
	return finish(t, r.Run(context.Background(), key, llm.UserText(text)))
}

// finish is collect for a turn that must not fail.
func finish(t require.TestingT, seq iter.Seq2[*event.Event, error]) []*event.Event {
	return must.Get(collect(seq))
}

// gather does the same with a turn whose store may fail.
func gather(seq iter.Seq2[*event.Event, error]) (events []*event.Event, failed error) {
	for e, err := range seq {
		if err != nil {
			failed = err
		} else if !e.Partial {
			events = append(events, e)
		}
	}
	return events, failed
}

// panics fails a test by a panic, for code that has no test value.
type panics struct{}

func (panics) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (panics) Logf(string, ...any)               {}

func lastText(events []*event.Event) (agentName, text string) {
	for _, e := range events {
		if t := e.Text(); t != "" {
			agentName, text = e.Agent, t
		}
	}
	return agentName, text
}

func tree(t testing.TB, agents, script string) (agent.Agent, *scripted.Script) {
	s := must.Get(scripted.Parse([]byte(script)))
	return transcript.Tree(t, agents, func(name string) llm.Model { return checked{s.Model(name)} }), s
}

// callsThen is a model that makes calls, and says something when it has the result of one.
func callsThen(name, then string, calls ...scripted.Item) llm.Model {
	return scripted.Func(name, func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(scripted.Text(then))
		}
		return scripted.Reply(calls...)
	})
}

// newRunner returns a runner. When the test ends, the logs of its store must follow the laws and the runner's tree. A test
// of ResumeRoot, or whose tree loses the active agent, makes its runner by runner.New.
func newRunner(t testing.TB, root agent.Agent, store session.Store, opts ...runner.Option) *runner.Runner {
	r := must.Get(runner.New(root, store, opts...))
	if _, ok := t.(*testing.T); ok {
		t.Cleanup(func() { checkStore(t, r, store) })
	}
	return r
}

func newRun(t testing.TB, root agent.Agent, opts ...runner.Option) *runner.Runner {
	return newRunner(t, root, sessiontest.Memory(t), opts...)
}

// lenient answers "ok" where the script has nothing to say.
type lenient struct{ llm.Model }

func (m lenient) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for c, err := range m.Model.Generate(ctx, req) {
			if errors.Is(err, scripted.ErrDrift) {
				c, err = llm.Chunk{Text: "ok", Finish: llm.FinishStop}, nil
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{})
		slow := must.Get(tools.Func("slow", "Waits.", func(ctx tools.Context, _ struct{}) (string, error) {
			close(started)
			<-ctx.Done()
			return "", ctx.Err()
		}))
		s := scripted.New().Add("solo", scripted.Reply(scripted.Call("slow", "{}"), scripted.Call("slow2", "{}")), scripted.Reply(scripted.Text("Hi.")))
		a := must.Get(llmagent.New("solo", "", s.Model("solo"), llmagent.WithTools(slow)))
		r := newRun(t, a)
		for e, err := range r.Run(t.Context(), s1, llm.UserText("x")) {
			require.NoError(t, err)
			if _, ok := e.Data.(*event.ToolResult); ok { // of the tool that does not exist
				<-started
				break
			}
		}
		events := run(t, r, s1, "And?")
		require.Equal(t, event.TypeToolResult, events[0].Type())
		require.Contains(t, string(events[0].Data.(*event.ToolResult).Output), "interrupted")
		require.Equal(t, event.FinishReasonCanceled, events[1].Data.(*event.HarnessEnd).FinishReason)
		synctest.Wait() // the bubble fails if a goroutine stays
	})
}

func TestCancelBetweenDecisionAndCommit(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	root, _ := tree(t, "support\n  billing", `
support: call transfer_to_agent#c1 {"agent_name": "billing"}
billing: "Hello."`)
	r := newRun(t, root, runner.WithInterceptors(agent.Passthrough{})) // whose answers are stored before they are carried out
	var last error
	for e, err := range r.Run(ctx, s1, llm.UserText("Hi")) {
		if last = err; err == nil && e.Type() == event.TypeUsage {
			cancel()
		}
	}
	require.ErrorIs(t, last, context.Canceled)
	require.Equal(t, "support", must.Get(r.Active(context.Background(), s1)), "nothing switched")

	events := finish(t, r.Resume(context.Background(), s1))
	who, text := lastText(events)
	require.Equal(t, "billing: Hello.", who+": "+text)
}

// TestResumeGoesOnWithTheTarget: the source's model is not asked again, wherever behind
// the transfer the log ends. Earlier versions stored the start of the target by itself.
func TestResumeGoesOnWithTheTarget(t *testing.T) {
	root, script := tree(t, "support\n  billing", `
support: call transfer_to_agent#c1 {"agent_name": "billing"}
billing: "Hello."
billing: "Hello."`)
	store, earlier := sessiontest.Memory(t), sessiontest.Memory(t)
	r := newRunner(t, root, store)
	for e, err := range r.Run(context.Background(), s1, llm.UserText("Hi")) {
		require.NoError(t, err)
		if end, ok := e.Data.(*event.HarnessEnd); ok && end.FinishReason == event.FinishReasonTransfer {
			break
		}
	}
	log := load(t, r, s1)
	last := len(log) - 1
	require.Equal(t, event.TypeHarnessStart, log[last].Type(), "it is part of the transfer's write")
	require.Equal(t, "billing", log[last].Agent)
	lease := must.Get(sessiontest.Acquire(t.Context(), earlier, s1, session.Owner{}))
	require.NoError(t, sessiontest.Append(t.Context(), earlier, s1, 0, lease, log[:last]...))
	require.NoError(t, sessiontest.Release(t.Context(), earlier, s1, lease))

	for _, c := range []struct {
		store session.Store
		first string
	}{{store, event.TypeText}, {earlier, event.TypeHarnessStart}} {
		fresh := must.Get(runner.New(root, c.store)) // another process
		events := finish(t, fresh.Resume(context.Background(), s1))
		require.Equal(t, c.first, events[0].Type())
		require.Equal(t, "billing", events[0].Agent)
	}
	require.NoError(t, script.Done())
}

func TestInterruptedToolIsNotRunAgainUnlessMarked(t *testing.T) {
	for name, opts := range map[string][]tools.Option{"neither": nil, "idempotent": {tools.Idempotent()}, "resumable": {tools.Resumable()}} {
		var runs atomic.Int32
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		keys := make(map[string]bool)
		pay := must.Get(tools.Func("pay", "Pays.", func(c tools.Context, _ struct{}) (string, error) {
			keys[c.IdempotencyKey()] = true
			if runs.Add(1) == 1 {
				cancel()
				<-c.Done()
				return "", c.Err()
			}
			return "paid", nil
		}, opts...))
		s := scripted.New().Add("solo", scripted.Reply(scripted.Call("pay", "{}")), scripted.Reply(scripted.Text("Done.")))
		a := must.Get(llmagent.New("solo", "", s.Model("solo"), llmagent.WithTools(pay)))
		r := newRun(t, a)
		_, err := collect(r.Run(ctx, s1, llm.UserText("Pay")))
		require.ErrorIs(t, err, context.Canceled)
		events := finish(t, r.Resume(context.Background(), s1))
		result := events[0].Data.(*event.ToolResult)
		if name != "neither" {
			require.EqualValues(t, 2, runs.Load(), name)
			require.Equal(t, `"paid"`, string(result.Output))
			require.Len(t, keys, 1, "both executions have the same idempotency key")
		} else {
			require.EqualValues(t, 1, runs.Load())
			require.True(t, result.IsError)
			require.Contains(t, string(result.Output), "unknown")
		}
	}
}

func TestAgentThatLeftTheTree(t *testing.T) {
	store := sessiontest.Memory(t)
	root, _ := tree(t, "support\n  billing", `
support: call transfer_to_agent#c1 {"agent_name": "billing"}
billing: "Hello."`)
	r := must.Get(runner.New(root, store))
	run(t, r, s1, "Hi")

	root, _ = tree(t, "support\n  tech", `support: "I am here."`)
	r = newRunner(t, root, store)
	events := run(t, r, s1, "And now?")
	require.Equal(t, "agent_gone", events[1].Data.(*event.Notice).Code)
	who, _ := lastText(events)
	require.Equal(t, "support", who)
}

// TestLimitsHaveDefaults: who sets one limit keeps the others.
func TestLimitsHaveDefaults(t *testing.T) {
	for given, want := range map[runner.Limits]runner.Limits{
		{}:                             {Transfers: 8, ModelCalls: 50, ToolCalls: 200, Steps: 25},
		{Time: time.Minute, Steps: 30}: {Transfers: 8, ModelCalls: 50, ToolCalls: 200, Steps: 30, Time: time.Minute},
		{Transfers: runner.NoLimit, ModelCalls: -2, ToolCalls: runner.NoLimit, Steps: runner.NoLimit, Time: runner.NoLimit}: {},
	} {
		require.Equal(t, want, newRun(t, says(t, "solo", "Hello."), runner.WithLimits(given)).Limits())
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits runner.Limits
		script string
	}{
		{"model calls", runner.Limits{ModelCalls: 3}, `solo: call lookup {} always`},
		{"answers of one agent", runner.Limits{Steps: 3}, `solo: call lookup {} always`},
		{"tool calls", runner.Limits{ToolCalls: 5}, `solo: call lookup {} call lookup {} always`},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, _ := tree(t, "solo lookup", c.script)
			r := newRun(t, root, runner.WithLimits(c.limits))
			for range 2 { // the session stays usable
				events, err := say(r, s1, "Go")
				require.ErrorIs(t, err, agent.ErrLimit)
				limit := must.As[*agent.LimitError](err)
				require.Equal(t, c.name, limit.Name)
				end := events[len(events)-1].Data.(*event.HarnessEnd)
				require.Equal(t, event.FinishReasonLimit, end.FinishReason)
				require.Equal(t, "limit", events[len(events)-2].Data.(*event.Failure).Code)
			}
		})
	}
}

func TestTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted.New().Add("solo", scripted.Reply(scripted.Wait(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })), scripted.Reply(scripted.Text("Hi.")))
		a := must.Get(llmagent.New("solo", "", s.Model("solo")))
		r := newRun(t, a, runner.WithLimits(runner.Limits{Time: time.Minute}))
		events, err := say(r, s1, "Go")
		require.ErrorIs(t, err, agent.ErrLimit)
		require.Equal(t, event.FinishReasonLimit, events[len(events)-1].Data.(*event.HarnessEnd).FinishReason)
		run(t, r, s1, "Again")
	})
}

func TestTheLeaseIsKeptDuringALongTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted.New().Add("solo", scripted.Reply(scripted.Wait(func(ctx context.Context) error { time.Sleep(time.Hour); return ctx.Err() }), scripted.Text("Hi.")))
		a := must.Get(llmagent.New("solo", "", s.Model("solo")))
		r := newRun(t, a)
		done := make(chan error)
		go func() {
			_, err := say(r, s1, "Go")
			done <- err
		}()
		time.Sleep(time.Minute)
		_, err := say(r, s1, "Me too")
		require.ErrorIs(t, err, agent.ErrSessionBusy)
		require.NoError(t, <-done)
	})
}

func TestWaitForABusySession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted.New().Add("solo", scripted.Reply(scripted.Wait(func(context.Context) error { time.Sleep(time.Second); return nil }), scripted.Text("first")), scripted.Reply(scripted.Text("second")))
		a := must.Get(llmagent.New("solo", "", s.Model("solo")))
		r := newRun(t, a, runner.WithWait(5*time.Second))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				run(t, r, s1, "Go")
			})
		}
		wg.Wait()
	})
}

func TestBadInput(t *testing.T) {
	root, _ := tree(t, "solo", `solo: "never"`)
	r := newRun(t, root)
	for _, text := range []string{"", " \n\t", "\xff"} {
		events, err := say(r, s1, text)
		require.ErrorIs(t, err, agent.ErrBadInput)
		require.Empty(t, events)
	}
	_, err := say(r, session.Key{App: "a", ID: "x"}, "Hi")
	require.ErrorIs(t, err, agent.ErrBadInput)
	require.Empty(t, load(t, r, s1), "nothing was stored")
}

func TestTextIsCarriedWordForWord(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("0123456789", 12_000), "a\x00\x01\x1b[31mb", "שלום \u202e עולם", "{{.System}} ${HOME} %s {agent_name}",
		"<script>&amp;</script>", "</s><|im_end|>", `{"agent_name":"billing"}`, "line\nline\r\n",
	} {
		var got string
		m := scripted.Func("solo", func(req *llm.Request) scripted.Answer {
			got = req.Messages[len(req.Messages)-1].Text
			return scripted.Reply(scripted.Text(got))
		})
		a := must.Get(llmagent.New("solo", "", m))
		r := newRun(t, a)
		events := run(t, r, s1, text)
		require.Equal(t, text, got)
		_, said := lastText(events)
		require.Equal(t, text, said)
	}
}

// TestConcurrentSessions runs many sessions on one runner at once.
func TestConcurrentSessions(t *testing.T) {
	const sessions, turns = 1000, 3
	billing := must.Get(llmagent.New("billing", "", scripted.Always("billing", scripted.Reply(scripted.Text("I see ", "it.")))))
	support := must.Get(llmagent.New("support", "", scripted.Always("support", scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`))), llmagent.WithSubAgents(billing)))
	before := runtime.NumGoroutine()
	r := newRun(t, support, runner.WithStreaming(), runner.WithCache(100))
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			for n := range turns {
				_, err := say(r, session.ID(fmt.Sprint(i)), fmt.Sprintf("turn %d of %d", n, i))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range sessions {
		events := load(t, r, session.ID(fmt.Sprint(i)))
		require.Len(t, events, 11+5*(turns-1))
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before+1)
}

func function(t testing.TB, name string, f agent.RunFunc, opts ...agent.Option) agent.Agent {
	return must.Get(agent.New(name, "A function.", f, opts...))
}

// TestFunctionAgents: what a function yields is checked as what a model asks for is.
func TestFunctionAgents(t *testing.T) {
	hello, oops := &event.Text{Content: "hello"}, errors.New("oops")
	echo := function(t, "echo", func(context.Context, *agent.Invocation) iterSeq { return yields(hello) })
	to := func(name string, outcome event.TransferOutcome) event.Data {
		return &event.Transfer{To: name, Outcome: outcome}
	}
	after := func(d event.Data) iterSeq { // what goes on after it has failed
		return func(yield func(*event.Event, error) bool) {
			yield(nil, oops)
			yield(&event.Event{Data: d}, nil)
		}
	}
	for name, c := range map[string]struct {
		run    iterSeq     // nil panics
		target agent.Agent // nil for echo
		want   string
		err    error
		code   string // of a failure
		says   string // what the error says
	}{
		"a transfer":               {run: yields(hello, to("echo", event.TransferCommitted)), want: "root: hello\nroot → echo committed \necho: hello"},
		"no outcome":               {run: yields(to("echo", ""), hello), want: "root → echo committed \necho: hello"},
		"a target without words":   {run: yields(to("echo", "")), target: function(t, "echo", func(context.Context, *agent.Invocation) iterSeq { return yields() }), want: "root → echo committed "},
		"an illegal target":        {run: yields(to("nobody", event.TransferCommitted)), err: agent.ErrTransferRejected, says: "root"},
		"no target, no outcome":    {run: yields(to("", "")), err: agent.ErrTransferRejected, says: "root"},
		"nobody, no outcome":       {run: yields(to("nobody", "")), err: agent.ErrTransferRejected, says: "root"},
		"itself, no outcome":       {run: yields(to("root", "")), err: agent.ErrTransferRejected, says: "root"},
		"not ready, no outcome":    {run: yields(to("echo", "")), target: unready{echo}, err: agent.ErrTargetNotReady, says: "root"},
		"an unknown outcome":       {run: yields(to("echo", "done")), err: agent.ErrTransferRejected, says: `"done"`},
		"a rejected attempt":       {run: yields(to("nobody", event.TransferRejected), hello), want: "root → nobody rejected \nroot: hello"},
		"an attempt in a conflict": {run: yields(to("nobody", event.TransferConflict), hello), want: "root → nobody conflict \nroot: hello"},
		"an attempt that failed":   {run: yields(to("nobody", event.TransferFailed), hello), want: "root → nobody failed \nroot: hello"},
		"an end after an error":    {run: after(&event.Finish{Reason: event.FinishReasonStop}), err: oops},
		"going on after an error":  {run: after(&event.Continue{}), err: oops},
		"words after an error":     {run: after(hello), err: oops},
		"an endless run":           {run: yields(&event.Continue{}), err: agent.ErrLimit},
		"a panic":                  {code: "internal", says: "boom"},
		"a user's message":         {run: yields(&event.User{}), code: "agent_error"},
		"the start of a run":       {run: yields(&event.HarnessStart{}), code: "agent_error"},
		"the end of a run":         {run: yields(&event.HarnessEnd{}), code: "agent_error"},
		"an event without data":    {run: yields(nil), code: "agent_error"},
	} {
		t.Run(name, func(t *testing.T) {
			target := c.target
			if target == nil {
				target = echo
			}
			r := newRun(t, function(t, "root", func(context.Context, *agent.Invocation) iterSeq {
				if c.run == nil {
					panic("boom")
				}
				return c.run
			}, agent.WithSubAgents(target)))
			events, err := say(r, s1, "Hi")
			require.Equal(t, c.want, said(events))
			if c.code != "" {
				require.Equal(t, c.code, must.As[*agent.RunError](err).Code)
			} else {
				require.ErrorIs(t, err, c.err)
			}
			if err != nil {
				require.ErrorContains(t, err, c.says)
			}
		})
	}
}

// TestFunctionsInACircle: functions that hand over to each other come to the limit of transfers.
func TestFunctionsInACircle(t *testing.T) {
	pong := function(t, "pong", goesTo("ping"), agent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true}))
	_, err := say(newRun(t, function(t, "ping", goesTo("pong"), agent.WithSubAgents(pong))), s1, "Hi")
	require.ErrorIs(t, err, agent.ErrTransferLimit)
}

// TestNobodyHandsOverInAnothersName: a function agent's transfer is its own, whatever it says.
func TestNobodyHandsOverInAnothersName(t *testing.T) {
	for _, outcome := range []event.TransferOutcome{"", event.TransferCommitted} {
		yielded := &event.Transfer{From: "billing", To: "billing", Outcome: outcome}
		root := function(t, "root", func(context.Context, *agent.Invocation) iterSeq { return yields(yielded) }, agent.WithSubAgents(says(t, "billing", "Hello.")))
		require.Equal(t, "root → billing committed \nbilling: Hello.", said(run(t, newRun(t, root), s1, "Go")))
		require.Equal(t, &event.Transfer{From: "billing", To: "billing", Outcome: outcome}, yielded, "what the agent made stays its own")
	}
}

// TestTheConsumersPanicIsItsOwn: it comes through, and the lease is given back.
func TestTheConsumersPanicIsItsOwn(t *testing.T) {
	r := newRun(t, says(t, "echo", "hello"))
	require.PanicsWithValue(t, "mine", func() {
		for range r.Run(context.Background(), s1, llm.UserText("Hi")) {
			panic("mine")
		}
	})
	run(t, r, s1, "Hi")
}

// TestAttemptAfterACrash: a break before the first step leaves the second attempt to Resume.
func TestAttemptAfterACrash(t *testing.T) {
	var attempts []int
	r := newRun(t, function(t, "root", func(_ context.Context, inv *agent.Invocation) iterSeq {
		attempts = append(attempts, inv.Attempt())
		return yields(&event.Text{Content: "hello"})
	}))
	for range r.Run(context.Background(), s1, llm.UserText("Hi")) {
		break
	}
	finish(t, r.Resume(context.Background(), s1))
	require.Equal(t, []int{2}, attempts)
}

// TestTargetThatIsNotReady: a model reads that its target cannot start.
func TestTargetThatIsNotReady(t *testing.T) {
	root := scriptedAgent(t, "root", seq(scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"echo"}`)), scripted.Reply(scripted.ExpectResult("unplugged"), scripted.Text("Then I answer."))),
		llmagent.WithSubAgents(unready{says(t, "echo", "hello")}))
	require.Equal(t, "root → echo failed \nroot: Then I answer.", said(run(t, newRun(t, root), s1, "Hi")))
}

type unready struct{ agent.Agent }

func (unready) Ready(context.Context) error { return errors.New("unplugged") }

func TestState(t *testing.T) {
	var got []any
	note := must.Get(tools.Func("note", "Notes.", func(c tools.Context, _ struct{}) (string, error) {
		for _, k := range []string{"turn:a", "b", "user:c", "app:d"} {
			v, _ := c.Get(k)
			got = append(got, v)
			c.Set(k, k)
		}
		return "ok", nil
	}))
	a := must.Get(llmagent.New("solo", "", callsThen("solo", "ok", scripted.Call("note", "{}")), llmagent.WithTools(note)))
	r := newRun(t, a)
	for _, key := range []session.Key{s1, s1, session.ID("s2"), {App: session.DefaultApp, User: "other", ID: "s1"}} {
		run(t, r, key, "Hi")
	}
	require.Equal(t, []any{
		nil, nil, nil, nil, // the first turn finds nothing
		nil, "b", "user:c", "app:d", // the turn's state ended with it
		nil, nil, "user:c", "app:d", // another session of the user
		nil, nil, nil, "app:d", // another user
	}, got)
}

func TestTreeProblemsAllAtOnce(t *testing.T) {
	m := scripted.Always("m", scripted.Reply(scripted.Text("x")))
	build := func(name string, opts ...llmagent.Option) agent.Agent {
		return must.Get(llmagent.New(name, "", m, opts...))
	}
	tool := must.Get(tools.Func("twice", "A tool named like a target.", func(tools.Context, struct{}) (string, error) { return "", nil }))
	shared := build("twice")
	root := build("root", llmagent.WithTools(tool), llmagent.WithSubAgents(shared, build("b", llmagent.WithSubAgents(shared)), build("b")))
	_, err := runner.New(root, sessiontest.Memory(t))
	require.Len(t, must.As[*agent.TreeError](err).Problems, 3, err.Error())

	_, err = llmagent.New("human", "", nil, llmagent.WithTools(tool, tool))
	require.ErrorContains(t, err, "reserved")
	require.ErrorContains(t, err, "model is nil")
	require.ErrorContains(t, err, "two tools")
}

// An agent returns the conversation to its parent, and by the parent's own policy further up.
func TestReturnToParent(t *testing.T) {
	s := must.Get(scripted.Parse([]byte(`
support: call transfer_to_agent {"agent_name": "tech"}
tech: call transfer_to_agent {"agent_name": "network"}
network: "Pull the plug."
support: expect user "And now?" "Tell me more."`)))
	network := must.Get(llmagent.New("network", "", s.Model("network"), llmagent.WithReturn(agent.ReturnToParent)))
	tech := must.Get(llmagent.New("tech", "", s.Model("tech"), llmagent.WithReturn(agent.ReturnToParent), llmagent.WithSubAgents(network)))
	support := must.Get(llmagent.New("support", "", s.Model("support"), llmagent.WithSubAgents(tech)))
	r := newRun(t, support)
	run(t, r, s1, "It does not work")
	require.Equal(t, "support", must.Get(r.Active(context.Background(), s1)), "the parent's own policy counts too")
	events := run(t, r, s1, "And now?")
	who, _ := lastText(events)
	require.Equal(t, "support", who)
	require.NoError(t, s.Done())
}

// A session that was deleted and made anew shares nothing with the old one, also
// when its log has the same length and the runner knew the old one.
func TestDeletedSessionIsForgotten(t *testing.T) {
	root, _ := tree(t, "support\n  billing", `
support: call transfer_to_agent {"agent_name": "billing"}
billing: "Hello."
support: call transfer_to_agent {"agent_name": "billing"}
billing: "Hello again."
support: "I am the root."`)
	store := sessiontest.Memory(t)
	r := newRunner(t, root, store)
	events := run(t, r, s1, "Hi")
	require.NoError(t, store.Delete(context.Background(), s1))
	other := newRunner(t, root, store)
	again := run(t, other, s1, "Hi")
	require.Len(t, again, len(events))
	require.NoError(t, store.Delete(context.Background(), s1))
	events = run(t, r, s1, "Who is there?")
	who, _ := lastText(events)
	require.Equal(t, "support", who)
}

func TestResumeRoot(t *testing.T) {
	root, _ := tree(t, "support\n  billing", `
support: call transfer_to_agent#c1 {"agent_name": "billing"}
billing: "Hello."
support: "Root again."`)
	r := must.Get(runner.New(root, sessiontest.Memory(t), runner.ResumeRoot()))
	run(t, r, s1, "Hi")
	events := run(t, r, s1, "And now?")
	who, _ := lastText(events)
	require.Equal(t, "support", who)
}
