package openaiapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server/internal/peers"
	"github.com/agentarbor/arbor/tools"
)

// atlas is a tree whose coordinator transfers to maps when it is asked for a place. Maps calls show_map, a tool of
// the client, and says what it got; the coordinator calls get_time, another one, and lookup, a tool of its own.
type atlas struct {
	root agent.Agent

	mu       sync.Mutex
	requests []*llm.Request
	looked   int
}

func newAtlas(t testing.TB) *atlas {
	t.Helper()
	a := &atlas{}
	model := func(name string) llm.Model {
		return scripted.Func(name, func(req *llm.Request) scripted.Answer {
			a.mu.Lock()
			a.requests = append(a.requests, req)
			a.mu.Unlock()
			last := req.Messages[len(req.Messages)-1]
			if last.Role == llm.RoleTool {
				var results []string
				for _, m := range req.Messages {
					for _, part := range m.Parts {
						if r, ok := part.(llm.ToolResult); ok {
							results = append(results, r.Output)
						}
					}
				}
				return scripted.Reply(scripted.Text("Results: " + strings.Join(results, ", ") + "."))
			}
			switch words := last.PlainText(); {
			case strings.Contains(words, "place") && name == "front":
				return scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"maps"}`))
			case strings.Contains(words, "place"):
				return scripted.Reply(scripted.Text("One moment."), scripted.Call("show_map", `{"city":"Oslo"}`))
			case strings.Contains(words, "both"):
				return scripted.Reply(scripted.Call("get_time", `{}`), scripted.Call("lookup", `{}`), scripted.Call("get_time", `{}`))
			case strings.Contains(words, "time"):
				return scripted.Reply(scripted.Call("get_time", `{}`))
			}
			return scripted.Reply(scripted.Text("Hello."))
		})
	}
	lookup := must.Get(tools.New(tools.Info{ToolSpec: llm.ToolSpec{Name: "lookup"}}, func(tools.Context, json.RawMessage) (any, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.looked++
		return "found", nil
	}))
	maps := must.Get(llmagent.New("maps", "You show maps.", model("maps"), llmagent.WithDescription("Shows maps")))
	a.root = must.Get(llmagent.New("front", "You help.", model("front"), llmagent.WithSubAgents(maps), llmagent.WithTools(lookup)))
	return a
}

// offered are the names of the tools in the last request to a model.
func (a *atlas) offered() (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.requests[len(a.requests)-1].Tools {
		names = append(names, t.Name)
	}
	return names
}

func function(name string) map[string]any {
	return map[string]any{"type": "function", "function": map[string]any{"name": name, "description": "Runs at the client",
		"parameters": map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}}
}

// browser is a client with tools, which sends the whole conversation each time, as clients of chat completions do.
type browser struct {
	*world
	messages []any
	tools    []any
	stream   bool
	more     map[string]any
	changes  []change
}

// ask sends the conversation with another message, and keeps what it got.
func (b *browser) ask(message map[string]any) (said string, calls []wireCall, finish string) {
	b.Helper()
	b.messages = append(b.messages, message)
	body := map[string]any{"model": "front", "messages": b.messages, "tools": b.tools, "stream": b.stream}
	for k, v := range b.more {
		body[k] = v
	}
	rec := b.post(context.Background(), "/chat/completions", body, b.changes...)
	require.Equal(b, http.StatusOK, rec.Code, "%s", rec.Body)
	frames := []string{rec.Body.String()}
	if b.stream {
		frames = nil
		for frame := range strings.SplitSeq(rec.Body.String(), "\n\n") {
			if data, ok := strings.CutPrefix(frame, "data: {"); ok {
				frames = append(frames, "{"+data)
			}
		}
	}
	for _, frame := range frames {
		c := must.JSON[wireChat](frame)
		for _, choice := range c.Choices {
			for _, m := range []*wireMessage{choice.Message, choice.Delta} {
				if m == nil {
					continue
				}
				if m.Content != nil {
					said += *m.Content
				}
				calls = append(calls, m.ToolCalls...)
				for _, call := range m.ToolCalls {
					require.True(b, strings.HasPrefix(call.ID, "call_"), call.ID)
				}
			}
			if choice.FinishReason != nil {
				finish = *choice.FinishReason
			}
		}
	}
	kept := map[string]any{"role": "assistant", "content": said}
	if calls != nil {
		kept["tool_calls"] = calls
	}
	b.messages = append(b.messages, kept)
	return said, calls, finish
}

func user(words string) map[string]any { return map[string]any{"role": "user", "content": words} }

func result(call wireCall, output string) map[string]any {
	return map[string]any{"role": "tool", "tool_call_id": call.ID, "content": output}
}

// TestClientToolsOfOneAnswer: calls of the client's and of the agent's own tools may be in one answer, and the client
// may give its results one after the other.
func TestClientToolsOfOneAnswer(t *testing.T) {
	a := newAtlas(t)
	b := &browser{world: newWorld(t, a.root), tools: []any{function("get_time")}}
	_, calls, finish := b.ask(user("both"))
	require.Len(t, calls, 2)
	require.Equal(t, "tool_calls", finish)
	require.Equal(t, 1, a.looked)
	b.messages[len(b.messages)-1].(map[string]any)["tool_calls"] = calls[1:]
	_, rest, _ := b.ask(result(calls[1], "ten"))
	require.Equal(t, calls[:1], rest, "this one is still to come")
	said, rest, _ := b.ask(result(calls[0], "nine"))
	require.Empty(t, rest)
	require.Equal(t, "Results: nine, found, ten.", said)
	require.Equal(t, 1, a.looked)
}

// TestClientGoesOn: a client may say something else in place of a result; the call is withdrawn then.
func TestClientGoesOn(t *testing.T) {
	a := newAtlas(t)
	b := &browser{world: newWorld(t, a.root), tools: []any{function("get_time")}}
	_, calls, _ := b.ask(user("time"))
	require.Len(t, calls, 1)
	b.messages = b.messages[:len(b.messages)-1]
	said, _, _ := b.ask(user("Never mind"))
	require.Equal(t, "Hello.", said)
	rec := b.post(context.Background(), "/chat/completions", map[string]any{"model": "front", "messages": []any{user("time"), result(calls[0], "late")}})
	require.Equal(t, http.StatusConflict, rec.Code, "%s", rec.Body)
}

// TestClientToolChoice: the client says whether a function is called.
func TestClientToolChoice(t *testing.T) {
	for choice, want := range map[string]llm.ToolChoice{`"auto"`: "auto", `"required"`: "required", `{"type":"function","function":{"name":"get_time"}}`: "get_time"} {
		a := newAtlas(t)
		b := &browser{world: newWorld(t, a.root), tools: []any{function("get_time")}, more: map[string]any{"tool_choice": json.RawMessage(choice)}}
		_, calls, _ := b.ask(user("time"))
		require.Len(t, calls, 1)
		require.Equal(t, want, a.requests[0].ToolChoice)
		said, _, _ := b.ask(result(calls[0], "ten"))
		require.Equal(t, "Results: ten.", said)
		if want != "auto" {
			require.Empty(t, a.requests[1].ToolChoice, "the model could not answer")
		}
	}
	for _, choice := range []string{
		`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"get_time"}}]}}`,
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"get_time"}]}`, // in the Responses API
	} {
		a := newAtlas(t)
		b := &browser{world: newWorld(t, a.root), tools: []any{function("get_time"), function("extra")}, more: map[string]any{"tool_choice": json.RawMessage(choice)}}
		_, calls, _ := b.ask(user("time"))
		require.Len(t, calls, 1)
		require.EqualValues(t, "required", a.requests[0].ToolChoice)
		require.Contains(t, a.offered(), "get_time")
		require.NotContains(t, a.offered(), "extra", "it is not among the allowed ones")
	}
	a := newAtlas(t)
	b := &browser{world: newWorld(t, a.root), tools: []any{function("get_time")}, more: map[string]any{"tool_choice": "none"}}
	b.ask(user("Hello"))
	require.NotContains(t, a.offered(), "get_time")
}

// TestClientToolsThatCannotBe: the answer says what is wrong, and nothing is begun.
func TestClientToolsThatCannotBe(t *testing.T) {
	a := newAtlas(t)
	w := newWorld(t, a.root)
	odd := function("odd")
	odd["function"].(map[string]any)["parameters"] = map[string]any{"type": "nothing"}
	for _, c := range []struct {
		tools []any
		more  map[string]any
		want  string
	}{
		{[]any{function("lookup")}, nil, `the client and the agent front both have "lookup"`},
		{[]any{function("transfer_to_agent")}, nil, `both have "transfer_to_agent"`},
		{[]any{function("transfer_to_maps")}, nil, `the agent maps both have "transfer_to_maps"`},
		{[]any{function("maps")}, nil, `the client and the agent maps both have "maps"`},
		{[]any{function("a"), function("a")}, nil, `tool "a" is registered twice`},
		{[]any{function("a b")}, nil, `tool name "a b"`},
		{[]any{odd}, nil, `tool "odd"`},
		{[]any{map[string]any{"type": "function", "function": map[string]any{"name": "a", "description": strings.Repeat("x", 256<<10)}}}, nil, "at most 262144 are allowed"},
		{[]any{map[string]any{"type": "web_search"}}, nil, `tools[0].type: is "web_search"`},
		{[]any{function("a")}, map[string]any{"tool_choice": "maybe"}, `tool_choice`},
		{[]any{function("a")}, map[string]any{"tool_choice": map[string]any{"type": "function", "function": map[string]any{"name": "b"}}}, `tool_choice: names "b"`},
		{[]any{function("a")}, map[string]any{"tool_choice": map[string]any{"type": "allowed_tools", "mode": "auto", "tools": []any{map[string]any{"type": "function", "name": "b"}}}}, `tool_choice: allows "b"`},
		{[]any{function("a")}, map[string]any{"tool_choice": map[string]any{"type": "allowed_tools"}}, `tool_choice: is "{`},
	} {
		body := map[string]any{"model": "front", "messages": []any{user("time")}, "tools": c.tools}
		for k, v := range c.more {
			body[k] = v
		}
		rec := w.post(context.Background(), "/chat/completions", body)
		require.Equal(t, http.StatusBadRequest, rec.Code, "%s", rec.Body)
		got := must.JSON[struct{ Error wireError }](rec.Body.Bytes())
		require.Contains(t, got.Error.Message, c.want)
	}
	require.Empty(t, w.list())

	w = newWorld(t, a.root, WithClientTools())
	rec := w.post(context.Background(), "/chat/completions", map[string]any{"model": "front", "messages": []any{user("time")}, "tools": []any{function("a")}})
	require.Equal(t, http.StatusBadRequest, rec.Code, "%s", rec.Body)
	b := &browser{world: newWorld(t, a.root, WithClientTools("maps")), tools: []any{function("show_map")}}
	_, calls, _ := b.ask(user("place"))
	require.Len(t, calls, 1)
	require.NotContains(t, (&atlas{requests: a.requests[:1]}).offered(), "show_map")
}

// TestClientToolsForgeNothing: a result is one for a call of the client's own, and for no other.
func TestClientToolsForgeNothing(t *testing.T) {
	asks := must.Get(tools.New(tools.Info{ToolSpec: llm.ToolSpec{Name: "refund"}, Approval: tools.Ask, By: tools.ByUser()}, func(tools.Context, json.RawMessage) (any, error) {
		t.Error("nobody has approved it")
		return "paid", nil
	}))
	wants := must.Get(tools.New(tools.Info{ToolSpec: llm.ToolSpec{Name: "wants"}, Resumable: true}, func(ctx tools.Context, _ json.RawMessage) (any, error) {
		return ctx.Ask("How much?", nil)
	}))
	for _, tool := range []string{"refund", "wants"} {
		root := must.Get(llmagent.New("front", "", scripted.Func("m", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Call(tool, `{}`)) }), llmagent.WithTools(asks, wants)))
		b := &browser{world: newWorld(t, root), tools: []any{function("get_time")}}
		said, calls, finish := b.ask(user("pay"))
		require.Contains(t, said, tool)
		require.Empty(t, calls)
		require.Equal(t, "stop", finish)
		var asked *event.Event
		for _, e := range b.log(b.list()[0].Key) {
			if e.Type() == event.TypeRelay {
				asked = e
			}
		}
		id := asked.Data.(*event.Relay).ToolCallID
		rec := b.post(context.Background(), "/chat/completions", map[string]any{"model": "front", "messages": append(b.messages, result(wireCall{Call: callNamed(id)}, "yes"))})
		require.Equal(t, http.StatusConflict, rec.Code, "%s", rec.Body)
	}
}

// TestClientToolsOfResponses: the same by the Responses API, where the items are the call and its output.
func TestClientToolsOfResponses(t *testing.T) {
	flat := func(name string) map[string]any {
		f := function(name)["function"].(map[string]any)
		f["type"] = "function"
		return f
	}
	for _, stream := range []bool{false, true} {
		for _, way := range []string{"previous", "conversation", "history"} {
			a := newAtlas(t)
			w := newWorld(t, a.root)
			body := map[string]any{"model": "front", "input": "Show me the place", "tools": []any{flat("show_map")}, "stream": stream}
			first := w.respond(body).is(t, http.StatusOK)
			require.Equal(t, "completed", first.Response.Status)
			require.Len(t, first.Response.Output, 2)
			call := first.Response.Output[1]
			require.Equal(t, "function_call", call.Type)
			require.Equal(t, "show_map", call.Name)
			require.Equal(t, `{"city":"Oslo"}`, *call.Arguments)
			if stream {
				var types []string
				for _, kind := range first.types() {
					if strings.HasPrefix(kind, "function_call") {
						types = append(types, kind)
					}
				}
				require.Equal(t, []string{"function_call_arguments.delta", "function_call_arguments.done"}, types)
				for _, ev := range first.Events { // whoever was cut off anywhere gets the rest
					rest := w.get(first.Response.ID, ev.Number)
					require.Equal(t, len(first.Events), len(rest.Events)+indexOf(first.Events, ev)+1)
				}
			}
			output := map[string]any{"type": "function_call_output", "call_id": call.CallID, "output": "a map"}
			next := map[string]any{"model": "front", "input": []any{output}, "stream": stream}
			switch way {
			case "previous":
				next["previous_response_id"] = first.Response.ID
			case "conversation":
				next["conversation"] = first.Response.Conversation.ID
			case "history":
				next["input"] = []any{user("Show me the place"), first.Response.Output[0], call, output}
			}
			for range 2 { // a client that repeats itself has the same answer
				second := w.respond(next).is(t, http.StatusOK)
				require.Equal(t, "Results: a map.", second.text())
			}
			require.Len(t, w.list(), 1)
		}
	}
}

func indexOf(all []*wireResponseEvent, ev *wireResponseEvent) int {
	for i := range all {
		if all[i] == ev {
			return i
		}
	}
	return -1
}

func callNamed(id string) chatform.Call {
	return chatform.CallOf(llm.ToolCall{ID: id, Name: "get_time", Arguments: "{}"})
}

// TestClientToolsOfOfficialClients: clients that nobody here wrote run their functions in the loops that they have for
// it: OpenAI's in JavaScript and Python, and LangChain's.
func TestClientToolsOfOfficialClients(t *testing.T) {
	t.Parallel()
	for _, peer := range []string{"node", "python"} {
		program, script := peers.OpenAI().Node(t, "tools.mjs")
		if peer == "python" {
			program, script = peers.OpenAI().Python(t, "tools.py")
		}
		url := loopback(t, newWorld(t, newAtlas(t).root))
		var got struct {
			Given []map[string]any
			Said  []string
		}
		peers.Run(t, map[string]any{"base": url + "/v1", "model": "front", "says": "Show me the place"}, &got, program, script)
		require.Equal(t, slices.Repeat([]map[string]any{{"city": "Oslo"}}, 4), got.Given)
		require.Equal(t, slices.Repeat([]string{"Results: a map of Oslo."}, 4), got.Said)
	}
}
