package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// said asks a model and returns its answer as a conversation keeps it.
func said(t *testing.T, m *Model, stream bool) llm.Message {
	t.Helper()
	out, thought := assistant(""), llm.Reasoning{}
	var calls []llm.Part
	for c, err := range m.Generate(t.Context(), &llm.Request{Messages: hello.Messages, Stream: stream, Tools: []llm.ToolSpec{{Name: "f"}}}) {
		require.NoError(t, err)
		out.Text, thought.Text, thought.Sealed = out.Text+c.Text, thought.Text+c.Reasoning, thought.Sealed+c.Sealed
		if c.Call != nil {
			calls = append(calls, *c.Call)
		}
	}
	out.Parts = append([]llm.Part{thought}, calls...)
	return out
}

// TestOpaqueDataGoesBack checks that opaque data is sent only to the model that it came from.
func TestOpaqueDataGoesBack(t *testing.T) {
	long := "call_1__thought__" + repeat("c2ln", 300)
	call := func(more string) string {
		return `"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}` + more + `}]`
	}
	for name, c := range map[string]struct {
		answer, back string // of a message, what is in it and what goes back; {} is its text
		echoes       bool   // only with echo
	}{
		"reasoning_content":  {`"reasoning_content":"So.","content":"Hi"`, `"reasoning_content":"So."`, true},
		"reasoning":          {`"reasoning":"So.",` + call(""), `"reasoning":"So."`, true},
		"both":               {`"reasoning":"So.","reasoning_content":"So.",` + call(""), `"reasoning_content":"So."`, true},
		"a block":            {`"content":"<think>\nSo.\n</think>\n\nHi"`, `"content":"\u003cthink\u003e\nSo.\n\u003c/think\u003e\n\nHi"`, true},
		"a block and a call": {`"content":"<think>So.</think>",` + call(""), `"content":"\u003cthink\u003e\nSo.\n\u003c/think\u003e"`, true},
		"details":            {`"reasoning_details":[{"type":"reasoning.text","index":0,"text":"So.","signature":"s<"},{"type":"reasoning.encrypted","index":1,"data":"E"}],` + call(""), `"reasoning_details":[{"index":0,"signature":"s\u003c","text":"So.","type":"reasoning.text"},{"data":"E","index":1,"type":"reasoning.encrypted"}]`, true},
		"blocks":             {`"reasoning_content":"So.","thinking_blocks":[{"type":"thinking","thinking":"So.","signature":"s<"},{"type":"redacted_thinking","data":"E"}],` + call(""), `"reasoning_content":"So.","thinking_blocks":[{"signature":"s\u003c","thinking":"So.","type":"thinking"},{"data":"E","type":"redacted_thinking"}]`, true},
		"several blocks": {`"reasoning_content":"So.","reasoning_details":null,"thinking_blocks":[{"type":"thinking","thinking":"S","signature":"s1"},{"type":"thinking","thinking":"o.","signature":"s2"},` +
			`{"type":"redacted_thinking","data":"E1"},{"type":"redacted_thinking","data":"E2"},{"type":"thinking","thinking":"","signature":"s3"}],` + call(""),
			`"thinking_blocks":[{"signature":"s1","thinking":"S","type":"thinking"},{"signature":"s2","thinking":"o.","type":"thinking"},` +
				`{"data":"E1","type":"redacted_thinking"},{"data":"E2","type":"redacted_thinking"},{"signature":"s3","thinking":"","type":"thinking"}]`, true},
		"details beside":       {`"reasoning":"So.","reasoning_details":[{"type":"reasoning.summary","summary":"So."}],"content":"Hi"`, `"reasoning":"So.","reasoning_details":[{"summary":"So.","type":"reasoning.summary"}]`, true},
		"Gemini's signature":   {call(`,"extra_content":{"google":{"thought_signature":"c2<ln"}}`), `"extra_content":{"google":{"thought_signature":"c2\u003cln"}}`, false},
		"a field of LiteLLM's": {call(`,"provider_specific_fields":{"thought_signature":"c2ln"}`), `"provider_specific_fields":{"thought_signature":"c2ln"}`, false},
		"of a gateway":         {call(`,"thoughtSignature":"c2ln"`), `"thoughtSignature":"c2ln"`, false},
		"of the function":      {strings.Replace(call(""), `"arguments":"{}"`, `"arguments":"{}","thought_signature":"c2ln"`, 1), `"arguments":"{}","thought_signature":"c2ln"}`, false},
		"in the id":            {strings.Replace(call(""), "c1", long, 1), `"tool_call_id":"` + long + `"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			var body string
			h := func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				if body = string(raw); strings.Contains(body, `"stream":true`) {
					bodyOf(delta("{"+c.answer+"}", "")+delta("{}", "stop")+done)(w, r)
					return
				}
				jsonOf(`{"choices":[{"message":{`+c.answer+`},"finish_reason":"stop"}]}`)(w, r)
			}
			for _, stream := range []bool{false, true} {
				m, other := serve(t, h), serve(t, h)
				answer := said(t, m, stream)
				thought := answer.Parts[0].(llm.Reasoning)
				if strings.Contains(c.answer, "So.") {
					require.Equal(t, "So.", thought.Text)
				}
				require.NotContains(t, thought.Sealed, "So.", "what guards may withhold")
				req := &llm.Request{Messages: []llm.Message{llm.UserText("hi"), answer}}
				if len(answer.Parts) > 1 {
					req.Messages = append(req.Messages, toolResult(answer.Parts[1].(llm.ToolCall).ID, "r"))
				}
				goes := func(m *Model, echo llm.Echo) bool {
					req.Echo = echo
					_, err := ask(t, m, req)
					require.NoError(t, err)
					return strings.Contains(body, c.back)
				}
				require.Equal(t, !c.echoes, goes(m, ""))
				require.True(t, goes(m, llm.EchoOn), body)
				require.Equal(t, !c.echoes, goes(m, llm.EchoOff))
				require.False(t, goes(other, llm.EchoOn), "another endpoint: %s", body)
				require.False(t, goes(m.Named("n"), llm.EchoOn), "another model: %s", body)
				require.NotContains(t, body, "So.")
				answer.Parts[0] = llm.Reasoning{Text: thought.Text + " Secret.", Sealed: thought.Sealed}
				if strings.Contains(c.answer, "details") {
					require.False(t, goes(m, llm.EchoOn), "texts that are not what was sealed: %s", body)
				}
			}
		})
	}
}

// TestOpaqueDataOfALeftOutCall checks that another call does not get the data of a call that the conversation leaves out, such as a
// transfer.
func TestOpaqueDataOfALeftOutCall(t *testing.T) {
	const extra = `"extra_content":{"google":{"thought_signature":"c2ln"}}`
	part := func(id, more string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{}"}` + more + `}`
	}
	for signed, calls := range map[string]string{"c1": part("c1", ","+extra) + "," + part("c2", ""), "c2": part("c1", "") + "," + part("c2", ","+extra)} {
		var body string
		m := serve(t, func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			body = string(raw)
			jsonOf(`{"choices":[{"message":{"tool_calls":[`+calls+`]},"finish_reason":"tool_calls"}]}`)(w, r)
		})
		answer := said(t, m, false)
		require.Len(t, answer.Parts, 3)
		for _, kept := range []int{1, 2} {
			id := answer.Parts[kept].(llm.ToolCall).ID
			call := answer.Parts[kept].(llm.ToolCall)
			call.ID, call.Place = "x", kept // as the log names it
			shown := llm.Message{Role: answer.Role, Content: llm.Content{Parts: []llm.Part{answer.Parts[0], call}}}
			_, err := ask(t, m, &llm.Request{Messages: []llm.Message{llm.UserText("hi"), shown, toolResult("x", "r")}})
			require.NoError(t, err)
			require.Equal(t, id == signed, strings.Contains(body, extra), body)
			require.Contains(t, body, `"tool_call_id":"`+id+`"`)
		}
	}
}

// TestSealedByTheLastVersion: logs of the version that kept the ids of the endpoint hold what was sealed as it was then.
func TestSealedByTheLastVersion(t *testing.T) {
	var body string
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		body = string(raw)
		jsonOf(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)(w, r)
	})
	long := "call_1__thought__" + strings.Repeat("s", 40)
	by := m.endpoint().sealer("m")
	was := `{"by":"` + by + `","items":[{"call":1,"item":{"extra_content":{"x":1}}},{"call":2,"item":{"id":"` + long + `"}}],"calls":["a","b","` + long + `"]}`
	answer := assistant("", llm.Reasoning{Sealed: was}, llm.ToolCall{ID: "b", Name: "f", Place: 2}, llm.ToolCall{ID: "k7x", Name: "f", Place: 3})
	_, err := ask(t, m, &llm.Request{Messages: []llm.Message{llm.UserText("hi"), answer, toolResult("b", "r"), toolResult("k7x", "r")}})
	require.NoError(t, err)
	require.Contains(t, body, `{"id":"b","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"x":1}}`)
	require.Contains(t, body, `{"id":"`+long+`","type":"function"`)
	require.Contains(t, body, `"tool_call_id":"b"`)
	require.Contains(t, body, `"tool_call_id":"`+long+`"`)
}

// TestDetailsOfStreams puts entries together, whether their pieces follow each other, grow or alternate with those of
// other entries.
func TestDetailsOfStreams(t *testing.T) {
	entry := func(index int, text string) string {
		return fmt.Sprintf(`{"type":"reasoning.text","index":%d,"text":%q,"secret":"x"}`, index, text)
	}
	know := `[{"type":"reasoning.text","index":0,"text":"I know that.","signature":"s"},{"type":"reasoning.text","index":1,"text":"Yes. No."}]`
	for _, pieces := range [][]string{
		{entry(0, "I know"), entry(0, " that."), entry(1, "Yes."), entry(1, " No.")},
		{entry(0, "I know"), entry(0, "I know that."), entry(1, "Yes."), entry(1, "Yes. No.")},
		{entry(0, "I know"), entry(1, "Yes."), entry(0, " that."), entry(1, " No.")},
		{entry(0, "I know"), entry(1, "Yes.") + "," + entry(0, " that."), entry(1, " No.")},
	} {
		body := ""
		for _, p := range append(pieces, `{"type":"reasoning.text","index":0,"text":null,"signature":"s"}`) {
			body += delta(`{"reasoning_details":[`+p+`]}`, "")
		}
		m := serve(t, bodyOf(body+text("Hi")+delta("{}", "stop")+done))
		answer := said(t, m, true)
		thought := answer.Parts[0].(llm.Reasoning)
		require.Len(t, thought.Text, len("I know that.Yes. No."))
		require.NotContains(t, thought.Sealed, "secret", "no guard sees it")
		var s sealed
		require.NoError(t, json.Unmarshal([]byte(thought.Sealed), &s))
		raw, err := json.Marshal(s.details(thought.Text))
		require.NoError(t, err)
		require.JSONEq(t, know, string(raw), pieces)
		require.Nil(t, s.details(thought.Text[1:]))
		require.Nil(t, s.details(thought.Text+"No."))
	}
	require.Empty(t, new(details).take(json.RawMessage(`{"no":"list"}`), false, false))
	for _, places := range []string{"[-1,1]", "[0]", "[1,0]", "[0,2]", "[0,1,5]"} {
		require.Nil(t, (&sealed{Items: []sealedItem{{-1, json.RawMessage(`{"text":` + places + `}`)}}}).details("x"), places)
	}
}

// TestRefusedThoughts checks that a conversation goes on if the endpoint refuses its own thoughts. It can no longer find
// those that it should have stored, and cannot read those of another of its accounts.
func TestRefusedThoughts(t *testing.T) {
	blocks := `{"choices":[{"message":{"thinking_blocks":[{"type":"thinking","thinking":"So.","signature":"s"}],` +
		`"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`
	for refusal, c := range map[string]struct {
		answer   string
		refused  string // in the body of a request
		stays    string
		refusals int // of two requests
	}{
		"Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.": {thought, `"id":"rs_1"`, `"encrypted_content":"E2"`, 1}, // vercel/ai#10290
		"Referenced reasoning item 'rs_1' was not found or has expired":                                                      {thought, `"id":"rs_1"`, `"encrypted_content":"E2"`, 1}, // maximhq/bifrost#6465
		"The encrypted content gAAA...6Dg= could not be verified.":                                                           {thought, `"encrypted_content":`, `"call_id":"c2"`, 2},  // openai/codex#8145
		"messages.1.content.0: Invalid `signature` in `thinking` block":                                                      {blocks, `"thinking_blocks":`, `"id":"c1"`, 2},
		"messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.": {blocks, `"thinking_blocks":`, `"id":"c1"`, 2},
	} {
		t.Run(refusal, func(t *testing.T) {
			refusals, body := 0, ""
			m := serve(t, func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				if body = string(raw); strings.Contains(body, c.refused) {
					refusals++
					status(400, `{"error":{"type":"invalid_request_error","message":`+quoted(refusal)+`}}`)(w, r)
					return
				}
				jsonOf(c.answer)(w, r)
			}, WithEndpoint("echo"), func(o *config) { o.responses = c.answer == thought }).Named("o4-mini")
			turn := said(t, m, false)
			for range 2 {
				_, err := ask(t, m, &llm.Request{Messages: []llm.Message{llm.UserText("hi"), turn, toolResult("c1", "x"), toolResult("c2", "y")}})
				require.NoError(t, err)
				require.Contains(t, body, c.stays)
			}
			require.Equal(t, c.refusals, refusals)
		})
	}
}
