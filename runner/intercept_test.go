package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
)

type iterSeq = iter.Seq2[*event.Event, error]

// yields is a step of a function agent.
func yields(data ...event.Data) iterSeq {
	return func(yield func(*event.Event, error) bool) {
		for _, d := range data {
			if !yield(&event.Event{Data: d}, nil) {
				return
			}
		}
	}
}

// spy notes what it wraps, before and after.
type spy struct {
	name string
	mu   *sync.Mutex
	log  *[]string
}

func (s spy) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.log = append(*s.log, s.name+" "+fmt.Sprintf(format, args...))
}

func (s spy) Turn(ctx context.Context, t agent.TurnInfo, next agent.TurnFunc) iterSeq {
	return func(yield func(*event.Event, error) bool) {
		s.note("turn of %s", t.Root)
		defer s.note("turn ends")
		next(ctx)(yield)
	}
}

func (s spy) ModelCall(ctx context.Context, c agent.ModelCallInfo, next agent.ModelFunc) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		s.note("model %s of %s", c.Model.Name(), c.Invocation.Agent().Name())
		defer s.note("model %s ends", c.Model.Name())
		next(ctx, c.Request)(yield)
	}
}

func (s spy) ToolCall(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
	s.note("tool %s %s", c.Name, c.Input)
	defer s.note("tool %s ends", c.Name)
	return next(ctx, c.Input)
}

// TestInterceptors: the onion's order, and that everything passes through it:
// turns, attempts of models, tools, transfers, and what runs in inner scopes.
func TestInterceptors(t *testing.T) {
	inner := must.Get(agenttool.New(says(t, "inner", "yes")))
	billing := must.Get(llmagent.New("billing", "", callsThen("bm", "Done.", scripted.Call("inner", `{"input":"go"}`)), llmagent.WithTools(inner)))
	var mu sync.Mutex
	var log []string
	a, b := spy{"a", &mu, &log}, spy{"b", &mu, &log}
	r := newRun(t, handsTo(t, "billing", billing), runner.WithInterceptors(a), runner.WithInterceptors(b))
	run(t, r, s1, "Hi")
	require.Equal(t, `a turn of support
b turn of support
a model support of support
b model support of support
b model support ends
a model support ends
a tool transfer_to_agent {"agent_name":"billing"}
b tool transfer_to_agent {"agent_name":"billing"}
b tool transfer_to_agent ends
a tool transfer_to_agent ends
a model bm of billing
b model bm of billing
b model bm ends
a model bm ends
a tool inner {"input":"go"}
b tool inner {"input":"go"}
a model inner of inner
b model inner of inner
b model inner ends
a model inner ends
b tool inner ends
a tool inner ends
a model bm of billing
b model bm of billing
b model bm ends
a model bm ends
b turn ends
a turn ends`, strings.Join(log, "\n"))

	log = nil
	_, _, err := over(r.Advance(context.Background(), s1, runner.Step{Attempt: 1}))
	require.NoError(t, err)
	finish(t, r.Resume(context.Background(), s1))
	require.Equal(t, strings.Repeat("a turn of support\nb turn of support\nb turn ends\na turn ends\n", 2), strings.Join(log, "\n")+"\n")
}

// meddler changes what passes through it.
type meddler struct {
	agent.Passthrough
	model func(ctx context.Context, c agent.ModelCallInfo, next agent.ModelFunc) iter.Seq2[llm.Chunk, error]
	tool  func(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error)
}

func (m meddler) ModelCall(ctx context.Context, c agent.ModelCallInfo, next agent.ModelFunc) iter.Seq2[llm.Chunk, error] {
	if m.model == nil {
		return next(ctx, c.Request)
	}
	return m.model(ctx, c, next)
}

func (m meddler) ToolCall(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
	if m.tool == nil {
		return next(ctx, c.Input)
	}
	return m.tool(ctx, c, next)
}

func TestInterceptorsThatMeddle(t *testing.T) {
	boom := errors.New("boom")
	refuse := func(name string) func(context.Context, agent.ToolCallInfo, agent.ToolFunc) (*event.ToolResult, error) {
		return func(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
			if c.Name == name {
				return &event.ToolResult{Output: json.RawMessage(`"not today"`), IsError: true}, nil
			}
			return next(ctx, c.Input)
		}
	}
	looker := func(t *testing.T) agent.Agent { return looks(t, "secret") }
	support := func(t *testing.T) agent.Agent {
		n := 0
		return must.Get(llmagent.New("support", "", scripted.Func("m", func(*llm.Request) scripted.Answer {
			if n++; n == 1 {
				return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`))
			}
			return scripted.Reply(scripted.Text("Then I answer."))
		}), llmagent.WithSubAgents(says(t, "billing", "Hello."))))
	}
	for name, c := range map[string]struct {
		root    func(*testing.T) agent.Agent
		meddler meddler
		said    string
		results string
		err     error
		code    string
	}{
		"another answer": {looker, meddler{model: func(context.Context, agent.ModelCallInfo, agent.ModelFunc) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				yield(llm.Chunk{Text: "cached", Finish: llm.FinishStop}, nil)
			}
		}}, "looker: cached", "", nil, ""},
		"another request": {looker, meddler{model: func(ctx context.Context, c agent.ModelCallInfo, next agent.ModelFunc) iter.Seq2[llm.Chunk, error] {
			req := *c.Request
			req.Messages = []llm.Message{{Role: llm.RoleTool}}
			return next(ctx, &req)
		}}, "looker: done", "", nil, ""},
		"a refused call": {looker, meddler{tool: refuse("lookup")}, "looker: done", `"not today" "not today"`, nil, ""},
		"other arguments": {looker, meddler{tool: func(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
			return next(ctx, json.RawMessage(`{"x":1}`))
		}}, "looker: done", `"the arguments do not fit the schema: /: additional properties 'x' not allowed" "the arguments do not fit the schema: /: additional properties 'x' not allowed"`, nil, ""},
		"another result, no JSON": {looker, meddler{tool: func(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
			res, err := next(ctx, c.Input)
			return &event.ToolResult{Output: json.RawMessage(strings.Trim(string(res.Output), `"`)), IsError: res.IsError}, err
		}}, "looker: done", `"secret" "secret"`, nil, ""},
		"neither result nor error": {looker, meddler{tool: func(context.Context, agent.ToolCallInfo, agent.ToolFunc) (*event.ToolResult, error) { return nil, nil }},
			"", `"interrupted; outcome unknown; check before you repeat it" "interrupted; outcome unknown; check before you repeat it"`, nil, "agent_error"},
		"an error of a tool call": {looker, meddler{tool: func(context.Context, agent.ToolCallInfo, agent.ToolFunc) (*event.ToolResult, error) { return nil, boom }},
			"", `"interrupted; outcome unknown; check before you repeat it" "interrupted; outcome unknown; check before you repeat it"`, boom, "agent_error"},
		"a panic in a tool call": {looker, meddler{tool: func(context.Context, agent.ToolCallInfo, agent.ToolFunc) (*event.ToolResult, error) { panic("boom") }},
			"", `"interrupted; outcome unknown; check before you repeat it" "interrupted; outcome unknown; check before you repeat it"`, nil, "internal"},
		"a panic in a model call": {looker, meddler{model: func(context.Context, agent.ModelCallInfo, agent.ModelFunc) iter.Seq2[llm.Chunk, error] { panic("boom") }},
			"", "", nil, "internal"},
		"no sequence of a model call": {looker, meddler{model: func(context.Context, agent.ModelCallInfo, agent.ModelFunc) iter.Seq2[llm.Chunk, error] { return nil }},
			"", "", nil, "internal"},
		"a transfer refused before": {support, meddler{tool: refuse(agent.TransferTool)}, "support → billing failed \nsupport: Then I answer.", `"not today"`, nil, ""},
		"a transfer refused afterwards": {support, meddler{tool: func(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
			if _, err := next(ctx, c.Input); err != nil {
				return nil, err
			}
			return &event.ToolResult{Output: json.RawMessage(`"not today"`), IsError: true}, nil
		}}, "support → billing failed \nsupport: Then I answer.", `"not today"`, nil, ""},
		"a transfer to somebody else": {support, meddler{tool: func(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
			return next(ctx, json.RawMessage(`{"agent_name":"nobody"}`))
		}}, "support → nobody rejected \nsupport: Then I answer.", `"there is no agent \"nobody\". You can transfer to: billing."`, nil, ""},
		"an error of a transfer": {support, meddler{tool: func(context.Context, agent.ToolCallInfo, agent.ToolFunc) (*event.ToolResult, error) { return nil, boom }},
			"", `"not executed: boom"`, boom, "agent_error"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, c.root(t), runner.WithInterceptors(c.meddler))
			_, err := collect(r.Run(context.Background(), s1, llm.UserText("Hi")))
			log := load(t, r, s1)
			require.Equal(t, c.said, said(log))
			var results []string
			for _, d := range find[*event.ToolResult](log) {
				results = append(results, string(d.Output))
			}
			require.Equal(t, c.results, strings.Join(results, " "))
			if c.code == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.code, must.As[*agent.RunError](err).Code)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
			}
		})
	}
}

// TestASlowInterceptorIsCancelled: tools that wait in an interceptor end with
// the turn.
func TestASlowInterceptorIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	tool := must.Get(tools.Func("x", "", func(tools.Context, struct{}) (string, error) { return "", nil }))
	a := must.Get(llmagent.New("a", "", scripted.Always("m", scripted.Reply(scripted.Call("x", "{}"))), llmagent.WithTools(tool)))
	r := newRun(t, a, runner.WithInterceptors(meddler{tool: func(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}))
	_, err := collect(r.Run(ctx, s1, llm.UserText("Hi")))
	require.ErrorIs(t, err, context.Canceled)
}

// TestRefusedWordsBesideOthers: what is in one write with refused words is
// refused with them, above all a transfer.
func TestRefusedWordsBesideOthers(t *testing.T) {
	for name, events := range map[string][]*event.Event{
		"more words": {{Data: &event.Text{Content: "4111"}, More: true}, {Data: &event.Text{Content: "fine"}}},
		"a transfer": {{Data: &event.Text{Content: "4111"}, More: true}, {Data: &event.Transfer{To: "billing", Outcome: event.TransferCommitted}}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			root := must.Get(agent.New("root", "", func(context.Context, *agent.Invocation) iterSeq {
				return func(yield func(*event.Event, error) bool) {
					for _, e := range events {
						if !yield(e, nil) {
							return
						}
					}
				}
			}, agent.WithGuards(noCards(&asked)), agent.WithSubAgents(says(t, "billing", "Hello."))))
			r := newRun(t, root)
			_, err := collect(r.Run(context.Background(), s1, llm.UserText("Go")))
			require.ErrorIs(t, err, errCard)
			require.Empty(t, said(load(t, r, s1)))
		})
	}
}

// TestInterceptorsThatTryAgain: what an interceptor does a second time is what
// counts, and the log has it once.
func TestInterceptorsThatTryAgain(t *testing.T) {
	twice := meddler{tool: func(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
		if _, err := next(ctx, c.Input); err != nil {
			return nil, err
		}
		return next(ctx, c.Input)
	}}
	better := meddler{tool: func(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
		res, err := next(ctx, c.Input)
		if err == nil && res.IsError {
			return next(ctx, json.RawMessage(`{"agent_name":"billing"}`))
		}
		return res, err
	}}
	worse := meddler{tool: func(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
		if _, err := next(ctx, c.Input); err != nil {
			return nil, err
		}
		return next(ctx, json.RawMessage(`{"agent_name":"nobody"}`))
	}}
	transfers := func(arguments ...string) func() agent.Agent {
		return func() agent.Agent {
			var calls []scripted.Item
			for _, a := range arguments {
				calls = append(calls, scripted.Call(agent.TransferTool, a))
			}
			return scriptedAgent(t, "support", seq(scripted.Reply(calls...), scripted.Reply(scripted.Text("Then I answer."))), llmagent.WithSubAgents(says(t, "billing", "Hello.")))
		}
	}
	const toBilling, toNobody = `{"agent_name":"billing"}`, `{"agent_name":"nobody"}`
	for name, c := range map[string]struct {
		root    func() agent.Agent
		meddler meddler
		said    string
		results int
	}{
		"a transfer":                      {transfers(toBilling), twice, "support → billing committed \nbilling: Hello.", 1},
		"a refused transfer":              {transfers(toNobody), twice, "support → nobody rejected \nsupport: Then I answer.", 1},
		"a refused transfer, then a good": {transfers(toNobody), better, "support → billing committed \nbilling: Hello.", 1},
		"a good transfer, then a refused": {transfers(toBilling), worse, "support → nobody rejected \nsupport: Then I answer.", 1},
		"two transfers":                   {transfers(toNobody, toBilling), twice, "support → nobody rejected \nsupport → billing committed \nbilling: Hello.", 2},
		"one transfer too many":           {transfers(toBilling, toBilling), twice, "support → billing committed \nbilling: Hello.", 2},
		"a tool":                          {func() agent.Agent { return looks(t, "found") }, twice, "looker: done", 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, c.root(), runner.WithInterceptors(c.meddler))
			run(t, r, s1, "Hi")
			log := load(t, r, s1)
			require.Equal(t, c.said, said(log))
			require.Len(t, find[*event.ToolResult](log), c.results)
		})
	}

	t.Run("a transfer that asks", func(t *testing.T) {
		r := newRun(t, handsTo(t, "billing", says(t, "billing", "Hello."), llmagent.WithTransferApproval()), runner.WithInterceptors(twice))
		events := run(t, r, s1, "Hi")
		var asked []string
		for _, d := range find[*event.Relay](events) {
			asked = append(asked, d.ToolCallID)
		}
		require.Len(t, asked, 1)
		events = finish(t, r.Resume(context.Background(), s1, runner.Approve(asked[0])))
		require.Equal(t, "support → billing committed \nbilling: Hello.", said(events))
	})
}
