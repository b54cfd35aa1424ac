package agenttool_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

func scopesOf(events []*event.Event) (scopes []string) {
	for _, e := range find[*event.HarnessStart](events) {
		if e.Scope != "" {
			scopes = append(scopes, e.Scope)
		}
	}
	return scopes
}

// meet returns an item that waits until n streams have reached it.
func meet(n int) func() scripted.Item {
	arrived := make(chan struct{}, n)
	all := make(chan struct{})
	return func() scripted.Item {
		return scripted.Wait(func(ctx context.Context) error {
			arrived <- struct{}{}
			if len(arrived) == n {
				close(all)
			}
			select {
			case <-all:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
}

// Two agent tools run at the same time: neither goes on before the other has
// begun, each in a scope of its own.
func TestParallel(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		t.Run(fmt.Sprint("streaming=", streaming), func(t *testing.T) {
			both, again := meet(2), meet(2)
			lookup := must.Get(tools.Func("lookup", "Looks up.", func(_ tools.Context, in struct {
				ID int `json:"id"`
			}) (string, error) {
				return fmt.Sprint("found ", in.ID), nil
			}))
			s := scripted.New(scripted.WithRecording()).
				Add("support",
					scripted.Reply(scripted.CallID("c1", "left", `{"input":"go left"}`), scripted.CallID("c2", "right", `{"input":"go right"}`)),
					scripted.Reply(scripted.ExpectResult("right done"), scripted.Text("Both done."))).
				Add("left",
					scripted.Reply(scripted.Text("le", "ft"), both(), scripted.Text("ing"), scripted.Call("lookup", `{"id":1}`)),
					scripted.Reply(again(), scripted.ExpectResult("found 1"), scripted.Text("left ", "done"))).
				Add("right",
					scripted.Reply(scripted.Text("ri", "ght"), both(), scripted.Text("ing"), scripted.Call("lookup", `{"id":2}`)),
					scripted.Reply(again(), scripted.ExpectResult("found 2"), scripted.Text("right ", "done")))
			support := newAgent(t, s, "support", llmagent.WithTools(
				newTool(t, newAgent(t, s, "left", llmagent.WithTools(lookup))),
				newTool(t, newAgent(t, s, "right", llmagent.WithTools(lookup)))))
			store := sessiontest.Memory(t)
			var opts []runner.Option
			if streaming {
				opts = append(opts, runner.WithStreaming())
			}
			events := must.Get(turn(t, newRunner(t, support, store, opts...), store, "hello"))
			require.NoError(t, s.Done())

			scopes, calls := scopesOf(events), transcript.CallsOf(events)
			require.Len(t, scopes, 2)
			require.NotEqual(t, scopes[0], scopes[1])
			for _, scope := range scopes {
				inner := inScope(events, scope)
				name := inner[0].Agent
				call := map[string]string{"left": "c1", "right": "c2"}[name]
				require.Equal(t, calls.ID(call), inner[0].ParentID)
				require.Equal(t, []string{"harness_start", "text", "tool_call", "usage", "tool_result", "text", "usage", "harness_end"}, bare(types(inner)))
				require.Equal(t, name+" done", event.OutputText(result(t, events, call).Output))
				require.Equal(t, []llm.Message{llm.UserText("go " + name)}, s.Requests(name)[0].Messages)
				require.NotContains(t, fmt.Sprint(s.Requests(name)[1].Messages), "hello")
			}
			// Both were open at once.
			starts, ends := find[*event.HarnessStart](events), find[*event.HarnessEnd](events)
			require.Less(t, starts[2].Seq, ends[0].Seq)
			// The calling model reads its results in the order of its calls.
			last := s.Requests("support")[1].Messages
			require.Equal(t, calls.ID("c1"), last[len(last)-2].Parts[0].(llm.ToolResult).CallID)
			require.Equal(t, calls.ID("c2"), last[len(last)-1].Parts[0].(llm.ToolResult).CallID)
		})
	}
}

func bare(types []string) (bare []string) {
	for _, t := range types {
		_, typ, _ := strings.Cut(t, " ")
		bare = append(bare, typ)
	}
	return bare
}

// The same agent called twice in one answer has two scopes that do not see each
// other.
func TestSameAgentTwice(t *testing.T) {
	s := scripted.New().
		Add("support",
			scripted.Reply(scripted.CallID("c1", "echo", `{"input":"one"}`), scripted.CallID("c2", "echo", `{"input":"two"}`)),
			scripted.Reply(scripted.Text("ok"))).
		Func("echo", func(r *llm.Request) scripted.Answer {
			if len(r.Messages) != 1 {
				return scripted.Reply(scripted.Text(fmt.Sprint("sees too much: ", r.Messages)))
			}
			return scripted.Reply(scripted.Text("echo " + r.Messages[0].Text))
		})
	support := newAgent(t, s, "support", llmagent.WithTools(newTool(t, newAgent(t, s, "echo"))))
	store := sessiontest.Memory(t)
	r := newRunner(t, support, store)
	events := must.Get(turn(t, r, store, "hello"))
	require.Equal(t, "echo one", event.OutputText(result(t, events, "c1").Output))
	require.Equal(t, "echo two", event.OutputText(result(t, events, "c2").Output))

	// Nor does a call in the next turn know of an earlier one.
	s.Add("support", scripted.Reply(scripted.CallID("c3", "echo", `{"input":"three"}`)), scripted.Reply(scripted.Text("ok")))
	events = must.Get(turn(t, r, store, "again"))
	require.Equal(t, "echo three", event.OutputText(result(t, events, "c1").Output))
}

func TestNested(t *testing.T) {
	inside := make(chan struct{})
	s := scripted.New(scripted.WithRecording()).
		Add("outer",
			scripted.Reply(scripted.CallID("c1", "middle", `{"input":"for the middle"}`)),
			scripted.Reply(scripted.ExpectResult("middle says so"), scripted.Text("done"))).
		Add("middle",
			scripted.Reply(scripted.Text("thinking "), scripted.CallID("c2", "inner", `{"input":"for the inner"}`)),
			scripted.Reply(scripted.ExpectResult("inner says so"), scripted.Text("middle says so"))).
		Add("inner",
			scripted.Reply(scripted.Text("calling "), scripted.CallID("c3", "slow", `{}`)),
			scripted.Reply(scripted.Text("inner ", "says so")))
	slow := must.Get(tools.Func("slow", "Waits.", func(ctx tools.Context, _ struct{}) (string, error) {
		select {
		case <-inside:
			return "waited", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}))
	inner := newAgent(t, s, "inner", llmagent.WithTools(slow))
	middle := newAgent(t, s, "middle", llmagent.WithTools(newTool(t, inner)))
	outer := newAgent(t, s, "outer", llmagent.WithTools(newTool(t, middle)))
	store := sessiontest.Memory(t)
	r := newRunner(t, outer, store, runner.WithStreaming())

	started := make(map[string]bool)
	var events []*event.Event
	for e, err := range r.Run(context.Background(), key, llm.UserText("hello")) {
		require.NoError(t, err)
		if _, ok := e.Data.(*event.HarnessStart); ok {
			started[e.RunID] = true
		}
		if e.Agent != "user" {
			require.True(t, started[e.RunID], "a %s event of %s before its run's start", e.Type(), e.Agent)
		}
		if call, ok := e.Data.(*event.ToolCall); ok && call.Name == "slow" {
			close(inside) // the innermost call is delivered while it runs, not after it
		}
		if !e.Partial {
			events = append(events, e)
		}
	}
	require.NoError(t, s.Done())
	checkLog(t, log(t, store))
	require.Equal(t, log(t, store), asStored(events))

	starts := find[*event.HarnessStart](events)
	require.Len(t, starts, 3)
	require.Equal(t, []string(transcript.CallsOf(events)[:2]), []string{starts[1].ParentID, starts[2].ParentID})
	require.NotEqual(t, starts[1].Scope, starts[2].Scope)
	require.Equal(t, []llm.Message{llm.UserText("for the middle")}, s.Requests("middle")[0].Messages)
	require.Equal(t, []llm.Message{llm.UserText("for the inner")}, s.Requests("inner")[0].Messages)
	require.Equal(t, "inner says so", event.OutputText(result(t, events, "c2").Output))
	require.Equal(t, "middle says so", event.OutputText(result(t, events, "c1").Output))
}

// The words that a source said before it handed over are no answer.
func TestInnerTransferToSilence(t *testing.T) {
	s := scripted.New().
		Add("support",
			scripted.Reply(scripted.CallID("c1", "desk", `{"input":"refund 42"}`)),
			scripted.Reply(scripted.Text("Sorry."))).
		Add("desk", scripted.Reply(scripted.Text("One moment."), scripted.Call("transfer_to_agent", `{"agent_name":"clerk"}`))).
		Add("clerk", scripted.Reply(), scripted.Reply())
	desk := newAgent(t, s, "desk", llmagent.WithSubAgents(newAgent(t, s, "clerk")))
	store := sessiontest.Memory(t)
	events := must.Get(turn(t, newRunner(t, newAgent(t, s, "support", llmagent.WithTools(newTool(t, desk))), store), store, "hello"))
	res := result(t, events, "c1")
	require.True(t, res.IsError, "%s", res.Output)
	require.Contains(t, string(res.Output), "empty answer")
}

func TestInnerFailure(t *testing.T) {
	s := scripted.New().
		Add("support",
			scripted.Reply(scripted.CallID("c1", "research", `{"input":"x"}`), scripted.CallID("c2", "echo", `{"input":"y"}`)),
			scripted.Reply(scripted.Text("One of two."))).
		Add("research", scripted.Reply(scripted.Text("par"), scripted.Status(400, 0))).
		Add("echo", scripted.Reply(scripted.Text("y")))
	support := newAgent(t, s, "support", llmagent.WithTools(newTool(t, newAgent(t, s, "research")), newTool(t, newAgent(t, s, "echo"))))
	store := sessiontest.Memory(t)
	events, err := turn(t, newRunner(t, support, store, runner.WithStreaming()), store, "hello")
	require.NoError(t, err, "what fails inside is the calling model's to handle")
	require.NoError(t, s.Done())
	res := result(t, events, "c1")
	require.True(t, res.IsError)
	require.Contains(t, string(res.Output), "agent research")
	require.Contains(t, string(res.Output), "the model's endpoint refused the request")
	require.False(t, result(t, events, "c2").IsError, "the other call is not touched")
	failures := find[*event.Failure](events)
	require.Len(t, failures, 1)
	require.Equal(t, "research", failures[0].Agent)
	require.NotEmpty(t, failures[0].Scope)
	for _, e := range find[*event.HarnessEnd](events) {
		if e.Agent == "research" {
			require.Equal(t, event.FinishReasonError, e.Data.(*event.HarnessEnd).FinishReason)
		}
	}
}

func TestInnerPanic(t *testing.T) {
	s := scripted.New().
		Add("support", scripted.Reply(scripted.CallID("c1", "bad", `{"input":"x"}`)), scripted.Reply(scripted.Text("Sorry.")))
	bad := must.Get(agent.New("bad", "Panics", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] { panic("boom") }))
	store := sessiontest.Memory(t)
	events := must.Get(turn(t, newRunner(t, newAgent(t, s, "support", llmagent.WithTools(newTool(t, bad))), store), store, "hello"))
	require.True(t, result(t, events, "c1").IsError)
}

// Limits count over the whole turn: a limit that an inner run reaches is an
// error for the calling model, whose own next answer then is beyond it too.
func TestLimits(t *testing.T) {
	s := scripted.New().
		Add("support", scripted.Reply(scripted.CallID("c1", "loop", `{"input":"x"}`))).
		Always("loop", scripted.Reply(scripted.Call("again", `{}`)))
	again := must.Get(tools.Func("again", "Again.", func(tools.Context, struct{}) (string, error) { return "again", nil }))
	support := newAgent(t, s, "support", llmagent.WithTools(newTool(t, newAgent(t, s, "loop", llmagent.WithTools(again)))))
	store := sessiontest.Memory(t)
	r := newRunner(t, support, store, runner.WithLimits(runner.Limits{ModelCalls: 4}))
	events, err := turn(t, r, store, "hello")
	require.ErrorIs(t, err, agent.ErrLimit)
	require.Len(t, find[*event.Usage](events), 4)
	require.Contains(t, string(result(t, events, "c1").Output), "limit reached")
	ends := find[*event.HarnessEnd](events)
	require.Len(t, ends, 2)
	for _, e := range ends {
		require.Equal(t, event.FinishReasonLimit, e.Data.(*event.HarnessEnd).FinishReason)
	}
	s.Add("support", scripted.Reply(scripted.Text("Fine again.")))
	must.Get(turn(t, r, store, "and now?"))
}

// A limit of one run, unlike those of the turn, leaves the calling model free.
func TestStepsOfInnerRun(t *testing.T) {
	s := scripted.New().
		Add("support", scripted.Reply(scripted.CallID("c1", "loop", `{"input":"x"}`)), scripted.Reply(scripted.Text("I stop."))).
		Always("loop", scripted.Reply(scripted.Call("again", `{}`)))
	again := must.Get(tools.Func("again", "Again.", func(tools.Context, struct{}) (string, error) { return "again", nil }))
	support := newAgent(t, s, "support", llmagent.WithTools(newTool(t, newAgent(t, s, "loop", llmagent.WithTools(again)))))
	store := sessiontest.Memory(t)
	events := must.Get(turn(t, newRunner(t, support, store, runner.WithLimits(runner.Limits{Steps: 3})), store, "hello"))
	require.True(t, result(t, events, "c1").IsError)
	require.Len(t, find[*event.Usage](events), 5)
}

func TestTimeoutClosesInnerRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted.New().
			Add("support", scripted.Reply(scripted.CallID("c1", "slow", `{"input":"x"}`)), scripted.Reply(scripted.ExpectResult("timed out"), scripted.Text("Too slow."))).
			Add("slow", scripted.Reply(scripted.Text("I "), scripted.WaitFor(make(chan int)), scripted.Text("am late.")))
		support := newAgent(t, s, "support", llmagent.WithTools(newTool(t, newAgent(t, s, "slow"), agenttool.WithTimeout(time.Hour))))
		store := sessiontest.Memory(t)
		events := must.Get(turn(t, newRunner(t, support, store, runner.WithStreaming()), store, "hello"))
		require.NoError(t, s.Done())
		require.True(t, result(t, events, "c1").IsError)
		ends := find[*event.HarnessEnd](events)
		require.Equal(t, "slow", ends[0].Agent)
		require.Equal(t, event.FinishReasonCanceled, ends[0].Data.(*event.HarnessEnd).FinishReason)
	})
}

// Without an option there is no time limit: an agent may take longer than the
// default of other tools.
func TestNoDefaultTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted.New().
			Add("support", scripted.Reply(scripted.CallID("c1", "slow", `{"input":"x"}`)), scripted.Reply(scripted.Text("ok"))).
			Add("slow", scripted.Reply(scripted.WaitFor(time.After(tools.DefaultTimeout*100)), scripted.Text("At last.")))
		support := newAgent(t, s, "support", llmagent.WithTools(newTool(t, newAgent(t, s, "slow"))))
		store := sessiontest.Memory(t)
		events := must.Get(turn(t, newRunner(t, support, store), store, "hello"))
		require.Equal(t, "At last.", event.OutputText(result(t, events, "c1").Output))
	})
}

// A canceled turn stores nothing more, leaves no goroutine (the bubble of
// synctest would not end), and the next turn is valid.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted.New(scripted.WithRecording()).
			Add("support", scripted.Reply(scripted.CallID("c1", "slow", `{"input":"x"}`), scripted.CallID("c2", "slow", `{"input":"y"}`))).
			Always("slow", scripted.Reply(scripted.Text("I "), scripted.WaitFor(make(chan int))))
		support := newAgent(t, s, "support", llmagent.WithTools(newTool(t, newAgent(t, s, "slow"))))
		store := sessiontest.Memory(t)
		r := newRunner(t, support, store, runner.WithStreaming())
		ctx, cancel := context.WithCancelCause(context.Background())
		cause := errors.New("the user went away")
		go func() {
			synctest.Wait()
			cancel(cause)
		}()
		var last error
		for _, err := range r.Run(ctx, key, llm.UserText("hello")) {
			last = err
		}
		require.ErrorIs(t, last, cause)
		before := log(t, store)
		require.Empty(t, find[*event.HarnessEnd](before))
		synctest.Wait()
		require.Len(t, log(t, store), len(before), "nothing is stored after a cancellation")

		s.Add("support", scripted.Reply(scripted.Text("Here again.")))
		events := must.Get(turn(t, r, store, "are you there?"))
		checkNext(t, events, s.Requests("support"))
	})
}

// checkNext checks the turn after one that was cut off: all is closed, and the
// calling model reads a result of each of its calls.
func checkNext(t *testing.T, events []*event.Event, requests []*llm.Request) {
	t.Helper()
	last := requests[len(requests)-1]
	open := make(map[string]bool)
	for _, m := range last.Messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.ToolCall:
				open[p.ID] = true
			case llm.ToolResult:
				require.True(t, open[p.CallID])
				delete(open, p.CallID)
			}
		}
	}
	require.Empty(t, open, "calls without a result on the wire")
	require.Equal(t, event.FinishReasonStop, events[len(events)-1].Data.(*event.HarnessEnd).FinishReason)
}

// Scopes that run side by side share the turn's limits: a model call that is
// under way counts before its answer is stored.
func TestLimitsOfParallelScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted.New().
			Add("support", scripted.Reply(scripted.CallID("c1", "slow", `{"input":"x"}`), scripted.CallID("c2", "slow", `{"input":"y"}`), scripted.CallID("c3", "slow", `{"input":"z"}`))).
			Func("slow", func(*llm.Request) scripted.Answer {
				return scripted.Reply(scripted.WaitFor(time.After(time.Second)), scripted.Text("At last."))
			})
		support := newAgent(t, s, "support", llmagent.WithTools(newTool(t, newAgent(t, s, "slow"))))
		store := sessiontest.Memory(t)
		events, err := turn(t, newRunner(t, support, store, runner.WithLimits(runner.Limits{ModelCalls: 2})), store, "hello")
		require.ErrorIs(t, err, agent.ErrLimit)
		require.Len(t, find[*event.Usage](events), 2, "answers that models gave")
	})
}

// asStored returns events without what only their consumer gets.
func asStored(events []*event.Event) []*event.Event {
	stored := make([]*event.Event, len(events))
	for i, e := range events {
		plain := *e
		plain.Streamed = false
		stored[i] = &plain
	}
	return stored
}
