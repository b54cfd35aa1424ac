package llmagent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

func TestToolsRunInParallelUpToABound(t *testing.T) {
	for _, c := range []struct {
		opts []llmagent.Option
		most int32
		took time.Duration
	}{
		{nil, 8, 2 * time.Second},
		{[]llmagent.Option{llmagent.WithParallelTools(1)}, 1, 10 * time.Second},
		{[]llmagent.Option{llmagent.WithParallelTools(3)}, 3, 4 * time.Second},
		{[]llmagent.Option{llmagent.WithParallelTools(100)}, 10, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var now, most atomic.Int32
			work := tool(t, "work", func(tools.Context) (any, error) {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Second)
				now.Add(-1)
				return "done", nil
			})
			items := make([]scripted.Item, 10)
			for i := range items {
				items[i] = scripted.Call("work", "{}")
			}
			s := newSolo(t, replies(reply(items...)), append(c.opts, llmagent.WithTools(work)))
			begin := time.Now()
			must.Get(s.say(t.Context()))
			require.Equal(t, c.most, most.Load())
			require.Equal(t, c.took, time.Since(begin))
		})
	}
}

func TestResultsComeAsTheySettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wait []tools.Tool
		for name, d := range map[string]time.Duration{"slow": 3 * time.Second, "quick": time.Second, "middling": 2 * time.Second} {
			wait = append(wait, tool(t, name, func(tools.Context) (any, error) { time.Sleep(d); return name, nil }))
		}
		s := newSolo(t, replies(reply(scripted.Call("slow", "{}"), scripted.Call("none", "{}"), scripted.Call("quick", "{}"), scripted.Call("middling", "{}"))),
			[]llmagent.Option{llmagent.WithTools(wait...)})
		begin := time.Now()
		var order []string
		var at []time.Duration
		for e, err := range s.runner.Run(t.Context(), key, llm.UserText("Hello")) {
			require.NoError(t, err)
			if _, ok := e.Data.(*event.ToolResult); ok {
				order, at = append(order, e.ID), append(at, time.Since(begin).Truncate(10*workflow.Settle))
				require.Equal(t, e.Seq, int64(len(s.log())), "stored when it is delivered")
			}
		}
		calls := ids[*event.ToolCall](s.log())
		require.Equal(t, []string{calls[1], calls[2], calls[3], calls[0]}, order)
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, at)
		var asked []string
		for _, m := range s.script.requests[1].Messages {
			if m.Role == llm.RoleTool {
				asked = append(asked, m.Parts[0].(llm.ToolResult).CallID)
			}
		}
		require.Equal(t, calls, asked, "the model reads them in the order of its calls")
	})
}

func TestStateAndProgressOfACall(t *testing.T) {
	work := tool(t, "work", func(c tools.Context) (any, error) {
		c.Progress(map[string]int{"step": 1})
		c.Progress("dropped, too soon")
		c.Set("k", 1)
		return nil, errors.New("failed all the same")
	})
	s := newSolo(t, replies(reply(scripted.Call("work", "{}"))), []llmagent.Option{llmagent.WithTools(work)})
	events := must.Get(s.say(context.Background()))
	calls := ids[*event.ToolCall](events)
	require.Equal(t, []*event.ToolProgress{{ToolCallID: calls[0], Name: "work", Content: []byte(`{"step":1}`)}}, payloads[*event.ToolProgress](events))
	require.NotEqual(t, calls, ids[*event.ToolProgress](events), "it has an id of its own")
	for i, e := range events {
		if d, ok := e.Data.(*event.State); ok {
			require.Equal(t, map[string]any{"k": 1.0}, d.Delta)
			require.Equal(t, event.TypeToolResult, events[i+1].Type(), "in one write with the result")
			require.Equal(t, e.Time, events[i+1].Time)
		}
	}
	require.True(t, payloads[*event.ToolResult](events)[0].IsError)
}

// TestProgressAfterTheEnd reports from a goroutine that a tool left behind,
// while other calls still run and when all is over. Both must be harmless.
func TestProgressAfterTheEnd(t *testing.T) {
	for range 50 { // what a select does with two ways open is chance
		synctest.Test(t, func(t *testing.T) {
			var left sync.WaitGroup
			leaves := tool(t, "leaves", func(c tools.Context) (any, error) {
				left.Go(func() {
					for range 10 {
						time.Sleep(time.Second)
						c.Progress("late")
					}
				})
				return "done", nil
			})
			slow := tool(t, "slow", func(tools.Context) (any, error) { time.Sleep(3 * time.Second); return "done", nil })
			s := newSolo(t, replies(reply(scripted.Call("leaves", "{}"), scripted.Call("slow", "{}"))), []llmagent.Option{llmagent.WithTools(leaves, slow)})
			events := must.Get(s.say(t.Context()))
			left.Wait()
			require.Empty(t, payloads[*event.ToolProgress](events), "a call that has its result reports no progress")
		})
	}
}

// moody is ready only the first time it is asked.
type moody struct {
	agent.Agent
	asked atomic.Int32
}

func (m *moody) Ready(context.Context) error {
	if m.asked.Add(1) > 1 {
		return errors.New("gone again")
	}
	return nil
}

// A target is asked once for each transfer: what was answered "Transferred" must
// not fail between the answer and the commit.
func TestATargetIsAskedOnceWhetherItIsReady(t *testing.T) {
	leaf := must.Get(llmagent.New("leaf", "", &model{}))
	target := &moody{Agent: leaf}
	m := &model{answers: replies(reply(scripted.Call(agent.TransferTool, `{"agent_name":"leaf"}`)))}
	root := must.Get(llmagent.New("root", "", m, llmagent.WithSubAgents(target)))
	r := must.Get(runner.New(root, sessiontest.Memory(t)))
	s := &solo{t: t, runner: r, script: m}
	events := must.Get(s.say(context.Background()))
	require.EqualValues(t, 1, target.asked.Load())
	require.Equal(t, event.TransferCommitted, payloads[*event.Transfer](events)[0].Outcome)
	require.Equal(t, "leaf", events[len(events)-1].Agent)
}

// A call that was under way when a limit ended the turn may have done its work.
// The limit comes before the tool's own, which is a minute.
func TestALimitDoesNotDenyWhatMayHaveHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paid := false
		pay := tool(t, "pay", func(c tools.Context) (any, error) { paid = true; <-c.Done(); return nil, c.Err() })
		s := newSolo(t, replies(reply(scripted.Call("pay", "{}"))), []llmagent.Option{llmagent.WithTools(pay)},
			runner.WithLimits(runner.Limits{Time: time.Minute / 2}))
		events, err := s.say(t.Context())
		require.ErrorIs(t, err, agent.ErrLimit)
		require.True(t, paid)
		told := event.OutputText(payloads[*event.ToolResult](events)[0].Output)
		require.Contains(t, told, "outcome unknown")
		require.NotContains(t, told, "not executed")
	})
}

// An agent that is run with nothing would ask its model with an empty message.
func TestAnInnerAgentNeedsWords(t *testing.T) {
	inner := &model{}
	helper := must.Get(llmagent.New("helper", "", inner))
	for _, input := range []string{"", " \n"} {
		ask := tool(t, "ask", func(c tools.Context) (any, error) { return c.RunAgent(helper, input) })
		s := newSolo(t, replies(reply(scripted.Call("ask", "{}"))), []llmagent.Option{llmagent.WithTools(ask)})
		events := must.Get(s.say(context.Background()))
		result := payloads[*event.ToolResult](events)[0]
		require.True(t, result.IsError)
		require.Contains(t, string(result.Output), "no text")
		require.Empty(t, inner.requests)
		require.NoError(t, inner.bad)
	}
}

// TestAnAnswerIsToItsQuestion: if a tool asks something else when it is called again, the answer does not count for that.
func TestAnAnswerIsToItsQuestion(t *testing.T) {
	price, bought := 40, []string{}
	buy := tool(t, "buy", func(ctx tools.Context) (any, error) {
		now := fmt.Sprint(price)
		for _, question := range []string{"Buy it for " + now + "?", "Wrap it?"} {
			answer, err := ctx.Ask(question, json.RawMessage(`{"type":"boolean"}`))
			if err != nil {
				return nil, err
			}
			bought = append(bought, now+" "+question+" "+string(answer))
		}
		return "bought", nil
	})
	s := newSolo(t, replies(reply(scripted.Call("buy", "{}"))), []llmagent.Option{llmagent.WithTools(buy)})
	must.Get(s.say(t.Context()))
	answer := func(asked string, content any) {
		t.Helper()
		waiting := must.Get(s.runner.Pending(t.Context(), key))
		require.Len(t, waiting, 1)
		require.Equal(t, asked, waiting[0].Message)
		bought = nil
		must.All(sessiontest.Turn(t, s.runner.Resume(t.Context(), key, runner.Answer(waiting[0].ToolCallID, content))))
	}
	price = 400
	answer("Buy it for 40?", true)
	require.Empty(t, bought, "nobody was asked about 400")
	answer("Buy it for 400?", true)
	require.Len(t, bought, 1)
	price = 4000
	answer("Wrap it?", true)
	require.Empty(t, bought)
	price = 400
	answer("Buy it for 4000?", true)
	require.Equal(t, []string{"400 Buy it for 400? true", "400 Wrap it? true"}, bought, "both were answered")
	waiting := must.Get(s.runner.Pending(t.Context(), key))
	require.Empty(t, waiting)
}

// TestAQuestionThatAlwaysChanges: a tool whose question is another one at each call fails at last, and is not asked for ever.
func TestAQuestionThatAlwaysChanges(t *testing.T) {
	asked := 0
	late := tool(t, "late", func(ctx tools.Context) (any, error) {
		asked++
		return ctx.Ask(fmt.Sprintf("It is %d o'clock. Go?", asked), nil)
	})
	s := newSolo(t, replies(reply(scripted.Call("late", "{}")), reply(scripted.Text("It failed."))), []llmagent.Option{llmagent.WithTools(late)})
	events := must.Get(s.say(t.Context()))
	for range 5 {
		waiting := must.Get(s.runner.Pending(t.Context(), key))
		require.Len(t, waiting, 1)
		events = must.All(sessiontest.Turn(t, s.runner.Resume(t.Context(), key, runner.Answer(waiting[0].ToolCallID, "yes"))))
	}
	require.Contains(t, event.OutputText(results(events)[0].Output), "it must stay the same")
}
