package llmagent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
)

func TestRepeatedCalls(t *testing.T) {
	type in struct {
		Order int `json:"order"`
	}
	refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, in) (string, error) { return "done", nil }))
	busy := tool(t, "busy", func(tools.Context) (any, error) { return nil, errors.New("HTTP status 503") })
	wrong := func(arguments string) scripted.Answer { return reply(scripted.Call("refund", arguments)) }
	unknown := reply(scripted.Call("search", `{"q": 1}`))
	for name, c := range map[string]struct {
		answers []scripted.Answer
		asked   int
		told    int // how many results say that the call was made before
		fails   bool
	}{
		"three times":               {replies(wrong("{}"), wrong("{}"), wrong("{}"), good), 3, 2, true},
		"twice":                     {replies(wrong("{}"), wrong("{}"), good), 3, 1, false},
		"written in another way":    {replies(wrong(`{"order":"x","a":1}`), wrong(`{ "a": 1, "order": "x" }`), wrong(`{"a":1,"order":"x"}`), good), 3, 2, true},
		"no JSON":                   {replies(wrong("{oops"), wrong("{oops"), wrong("{oops"), good), 3, 2, true},
		"with others in between":    {replies(wrong("{}"), unknown, wrong("{}"), reply(scripted.Call("refund", `{"order":1}`)), wrong("{}"), good), 5, 2, true},
		"not the same call":         {replies(wrong("{}"), wrong(`{"order":"x"}`), wrong(`{"order":"y"}`), good), 4, 0, false},
		"an unknown tool":           {replies(unknown, unknown, unknown, good), 3, 2, true},
		"a name that is no name":    {replies(reply(scripted.Call("a b", "{}")), reply(scripted.Call("a b", "{}")), reply(scripted.Call("a b", "{}")), good), 3, 2, true},
		"three in one answer":       {replies(reply(scripted.Call("search", "{}"), scripted.Call("search", "{}"), scripted.Call("search", "{}")), good), 2, 0, false},
		"a tool that is busy":       {replies(reply(scripted.Call("busy", "{}")), reply(scripted.Call("busy", "{}")), reply(scripted.Call("busy", "{}")), reply(scripted.Call("busy", "{}")), good), 5, 0, false},
		"beside one that works":     {replies(wrong("{}"), wrong("{}"), reply(scripted.Call("refund", "{}"), scripted.Call("refund", `{"order":2}`)), good), 3, 2, true},
		"and then the transfer":     {replies(wrong("{}"), wrong("{}"), reply(scripted.Call("refund", "{}"), scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`))), 3, 2, false},
		"and then no more than one": {replies(wrong("{}"), wrong("{}"), reply(scripted.Call("refund", `{"order":2}`)), good), 4, 1, false},
	} {
		for _, steps := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				billing, err := llmagent.New("billing", "", scripted.Always("m", good))
				require.NoError(t, err)
				s := newSolo(t, c.answers, []llmagent.Option{llmagent.WithTools(refund, busy), llmagent.WithSubAgents(billing)})
				if steps { // nothing but the log tells one step of the one before it
					_, _, err = s.runner.Begin(context.Background(), key, llm.UserText("Hello"))
					for done := false; !done && err == nil; {
						_, done, err = over(s.runner.Advance(context.Background(), key, runner.Step{Attempt: 1}))
					}
				} else {
					_, err = s.say(context.Background())
				}
				require.Equal(t, c.fails, errors.Is(err, agent.ErrRepeatedCall), "%v", err)
				require.Len(t, s.script.requests, c.asked)
				told := 0
				for _, r := range payloads[*event.ToolResult](s.log()) {
					text := event.OutputText(r.Output)
					if strings.Contains(text, "this very call before") {
						told++
						if r.Name == "refund" {
							require.Contains(t, text, `"order":{"type":"integer"}`, "what would be valid")
						}
					}
				}
				require.Equal(t, c.told, told)
				if !c.fails {
					require.NoError(t, err)
					return
				}
				require.Equal(t, "repeated_call", must.As[*agent.RunError](err).Code)
				_, err = s.say(context.Background())
				require.NoError(t, err, "the session stays usable")
			})
		}
	}
}

// mends is an interceptor that puts arguments right.
type mends struct {
	agent.Passthrough
	fails bool
}

func (m mends) ToolCall(ctx context.Context, _ agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
	if m.fails {
		return &event.ToolResult{Name: "refund", Output: json.RawMessage(`"HTTP status 503"`), IsError: true}, nil
	}
	return next(ctx, json.RawMessage(`{"order":1}`))
}

// TestRepeatedCallsThatAreMended: a call whose arguments somebody corrects is not
// invalid, and neither is one that fails for another reason.
func TestRepeatedCallsThatAreMended(t *testing.T) {
	refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct {
		Order int `json:"order"`
	}) (string, error) {
		return "done", nil
	}))
	wrong := reply(scripted.Call("refund", "{}"))
	for _, fails := range []bool{false, true} {
		s := newSolo(t, replies(wrong, wrong, wrong, wrong, good), []llmagent.Option{llmagent.WithTools(refund)}, runner.WithInterceptors(mends{fails: fails}))
		must.Get(s.say(context.Background()))
		require.Len(t, s.script.requests, 5)
	}
}
