package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// TestCamelCaseNames: without toolCalls, a call would be an empty answer that looks complete. Without finishReason, an
// answer that was cut off at its limit would look complete.
func TestCamelCaseNames(t *testing.T) {
	const calls = `"toolCalls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}]`
	for _, body := range []string{
		`{"choices":[{"message":{"content":null,` + calls + `},"finishReason":"toolCalls"}]}`,
		`data: {"choices":[{"delta":{` + calls + `},"finishReason":null}]}` + "\n\n" +
			`data: {"choices":[{"delta":{},"finishReason":"tool_calls"}]}` + "\n\n",
	} {
		got, err := ask(t, serve(t, bodyOf(body)), helloS)
		require.NoError(t, err)
		require.Equal(t, llm.FinishToolCalls, got.Finish)
		require.Len(t, got.Calls, 1)

		cut := strings.NewReplacer("tool_calls", "length", `"toolCalls"}`, `"length"}`, calls, `"content":"x"`).Replace(body)
		got, err = ask(t, serve(t, bodyOf(cut)), helloS)
		require.NoError(t, err)
		require.Equal(t, llm.FinishLength, got.Finish)
		require.Equal(t, "x", got.Text)
	}
}

func TestFinishReasons(t *testing.T) {
	call := toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}`)
	cases := []struct {
		reason string
		calls  bool
		want   llm.FinishReason
	}{
		{"stop", false, llm.FinishStop}, {"stop", true, llm.FinishToolCalls}, {"", true, llm.FinishToolCalls}, {"", false, llm.FinishStop},
		{"tool_calls", true, llm.FinishToolCalls}, {"tool_calls", false, llm.FinishStop}, {"function_call", true, llm.FinishToolCalls},
		{"length", false, llm.FinishLength}, {"length", true, llm.FinishLength}, {"MAX_TOKENS", false, llm.FinishLength},
		{"SAFETY", false, llm.FinishContentFilter}, {"content_filter: PROHIBITED_CONTENT", false, llm.FinishContentFilter}, {"eos", false, llm.FinishStop},
		{"FINISH_REASON_STOP", true, llm.FinishToolCalls}, {"toolUse", true, llm.FinishToolCalls}, {"model_context_window_exceeded", false, llm.FinishLength},
	}
	for _, c := range cases {
		t.Run(fmt.Sprint(c.reason, c.calls), func(t *testing.T) {
			body := text("x")
			if c.calls {
				body += call
			}
			end := delta(`{}`, c.reason)
			for _, end := range []string{end, strings.ReplaceAll(end, quoted(c.reason), `{"type":`+quoted(c.reason)+`,"matched":7}`)} { // SGLang
				got, err := ask(t, serve(t, bodyOf(body+end+done)), helloS)
				require.NoError(t, err)
				require.Equal(t, c.want, got.Finish)
				require.Equal(t, c.calls, len(got.Calls) == 1)
			}
		})
	}
}

// TestWrappedAnswers: gateways wrap each answer in an object of their own (smallmain/vscode-unify-chat-provider#71).
func TestWrappedAnswers(t *testing.T) {
	const whole, end = `{"choices":[{"message":{"content":"Hi."},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`, `{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`
	for _, around := range []string{`{"code":0,"msg":"ok","data":%s}`, `{"success":true,"errors":[],"messages":[],"result":%s}`, `{"data":[%s]}`, `{"response":%s,"choices":null}`} {
		for _, h := range []http.HandlerFunc{
			jsonOf(fmt.Sprintf(around, whole)),
			bodyOf("data: " + fmt.Sprintf(around, `{"choices":[{"delta":{"content":"Hi."}}]}`) + "\n\ndata: " + fmt.Sprintf(around, end) + "\n\n" + done),
		} {
			got, err := ask(t, serve(t, h), helloS)
			require.NoError(t, err, around)
			require.Equal(t, "Hi.", got.Text)
			require.Equal(t, &llm.Usage{InputTokens: 5, OutputTokens: 2}, got.Usage)
		}
	}
	e := fails(t, serve(t, jsonOf(`{"code":500,"msg":"no \"choices\"","data":null}`)), hello)
	require.Contains(t, e.Message, `no "choices"`)
}

// TestCallsAtTheLimit: a call at the limit of tokens may be cut, whatever the finish reason says (vllm-project/vllm#46303).
func TestCallsAtTheLimit(t *testing.T) {
	for name, body := range map[string]string{
		"a name":    toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":""}}`) + delta(`{}`, "tool_calls"),
		"arguments": toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\":1"}}`) + delta(`{}`, "stop"),
		"mended":    `{"choices":[{"message":{"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"completion_tokens":16}}`,
		"leaked":    text("<tool_call>"+toBilling) + delta(`{}`, "stop"),
	} {
		native := strings.NewReplacer(`"finish_reason"`, `"native_finish_reason":"MAX_TOKENS","finish_reason"`).Replace(body) // OpenRouter
		byNative, err := ask(t, serve(t, jsonOf(native)), asking())
		require.NoError(t, err, name)
		require.Equal(t, llm.FinishLength, byNative.Finish, "%s, by its native reason", name)
		if body[0] != '{' {
			body += `data: {"choices":[],"usage":{"completion_tokens":16}}` + "\n\n" + done
		}
		for limit, want := range map[int]llm.FinishReason{0: llm.FinishToolCalls, 15: llm.FinishLength, 16: llm.FinishLength, 17: llm.FinishToolCalls} {
			req := asking()
			req.Stream, req.MaxTokens = body[0] != '{', limit
			got, err := ask(t, serve(t, jsonOf(body)), req)
			require.NoError(t, err, name)
			require.Len(t, got.Calls, 1, name)
			require.Equal(t, want, got.Finish, "%s, at most %d tokens", name, limit)

			reasoned := strings.ReplaceAll(body, `{"completion_tokens":16}`, `{"completion_tokens":116,"completion_tokens_details":{"reasoning_tokens":100}}`)
			got, err = ask(t, serve(t, jsonOf(reasoned)), req)
			require.NoError(t, err, name)
			require.Equal(t, want, got.Finish, "%s, at most %d tokens and reasoning", name, limit)
		}
		req := asking()
		req.Stream = body[0] != '{'
		got, err := ask(t, serve(t, jsonOf(strings.ReplaceAll(body, `"completion_tokens":16`, `"completion_tokens":8192`)), WithEndpoint("max-tokens-always")), req)
		require.NoError(t, err, name)
		require.Equal(t, llm.FinishLength, got.Finish, "%s, at the limit of the endpoint's form", name)
	}
}

func TestUsage(t *testing.T) {
	cases := map[string]struct {
		usage string
		want  *llm.Usage
	}{
		"openai":   {`"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,"prompt_tokens_details":{"cached_tokens":4}}`, &llm.Usage{InputTokens: 10, OutputTokens: 3, CachedTokens: 4}},
		"deepseek": {`"usage":{"prompt_tokens":10,"completion_tokens":3,"prompt_cache_hit_tokens":4}`, &llm.Usage{InputTokens: 10, OutputTokens: 3, CachedTokens: 4}},
		"floats":   {`"usage":{"prompt_tokens":10.0,"completion_tokens":3.0,"prompt_tokens_details":null}`, &llm.Usage{InputTokens: 10, OutputTokens: 3}},
		"groq":     {`"x_groq":{"usage":{"prompt_tokens":10,"completion_tokens":3}}`, &llm.Usage{InputTokens: 10, OutputTokens: 3}},
		"claude":   {`"usage":{"input_tokens":10,"output_tokens":3,"cache_read_input_tokens":4}`, &llm.Usage{InputTokens: 10, OutputTokens: 3, CachedTokens: 4}},
		"mistral":  {`"usage":{"prompt_tokens":10,"completion_tokens":3,"num_cached_tokens":4,"prompt_token_details":{"cached_tokens":4}}`, &llm.Usage{InputTokens: 10, OutputTokens: 3, CachedTokens: 4}}, // vercel/ai#14382
		"bedrock":  {`"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,"cacheReadInputTokens":4,"uncached_tokens":6,"cache_write_tokens":5}`, &llm.Usage{InputTokens: 10, OutputTokens: 3, CachedTokens: 4}},
		"kimi":     {`"usage":{"prompt_tokens":10,"completion_tokens":3,"cached_tokens":4}`, &llm.Usage{InputTokens: 10, OutputTokens: 3, CachedTokens: 4}},
		"grok":     {`"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":33,"completion_tokens_details":{"reasoning_tokens":20}}`, &llm.Usage{InputTokens: 10, OutputTokens: 23}},
		"gemini":   {`"usage":{"prompt_tokens":10,"completion_tokens":0,"total_tokens":30}`, &llm.Usage{InputTokens: 10, OutputTokens: 20}},
		"apart":    {`"usage":{"prompt_tokens":10,"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":20}}`, &llm.Usage{InputTokens: 10, OutputTokens: 23}},
		"within":   {`"usage":{"prompt_tokens":10,"completion_tokens":23,"total_tokens":33,"completion_tokens_details":{"reasoning_tokens":20}}`, &llm.Usage{InputTokens: 10, OutputTokens: 23}},
		"cache":    {`"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":19,"cache_read_input_tokens":4,"cache_creation_input_tokens":2}`, &llm.Usage{InputTokens: 16, OutputTokens: 3, CachedTokens: 4}},
		"added":    {`"usage":{"prompt_tokens":1000,"completion_tokens":3,"total_tokens":1203,"prompt_tokens_details":{"cached_tokens":200}}`, &llm.Usage{InputTokens: 1200, OutputTokens: 3, CachedTokens: 200}},
		"hits":     {`"usage":{"prompt_tokens":1000,"completion_tokens":3,"total_tokens":1203,"prompt_cache_hit_tokens":200}`, &llm.Usage{InputTokens: 1200, OutputTokens: 3, CachedTokens: 200}},
		"thought":  {`"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":33,"cache_read_input_tokens":4,"completion_tokens_details":{"reasoning_tokens":20}}`, &llm.Usage{InputTokens: 10, OutputTokens: 23, CachedTokens: 4}},
		"equal":    {`"usage":{"prompt_tokens":30,"completion_tokens":3,"total_tokens":53,"cached_tokens":20,"completion_tokens_details":{"reasoning_tokens":20}}`, &llm.Usage{InputTokens: 30, OutputTokens: 23, CachedTokens: 20}},
		"both":     {`"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":37,"cache_read_input_tokens":4,"completion_tokens_details":{"reasoning_tokens":20}}`, &llm.Usage{InputTokens: 14, OutputTokens: 23, CachedTokens: 4}},
		"answer":   {`"usage":{"completion_tokens":20,"total_tokens":30}`, &llm.Usage{InputTokens: 10, OutputTokens: 20}},
		"thoughts": {`"usage":{"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":20}}`, &llm.Usage{OutputTokens: 23}},
		"total":    {`"usage":{"total_tokens":33}`, nil},
		"null":     {`"usage":null`, nil},
		"odd":      {`"usage":[1]`, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			// after the finish reason, as OpenAI does
			got, err := ask(t, serve(t, bodyOf(text("a")+delta(`{}`, "stop")+`data: {"choices":[],`+c.usage+"}\n\n"+done)), helloS)
			require.NoError(t, err)
			require.Equal(t, c.want, got.Usage)
			// with the finish reason, and in a whole answer
			for _, part := range []string{"delta", "message"} {
				body := `{"choices":[{"` + part + `":{"content":"a"},"finish_reason":"stop"}],` + c.usage + `}`
				got, err = ask(t, serve(t, jsonOf(body)), hello)
				require.NoError(t, err)
				require.Equal(t, c.want, got.Usage)
			}
		})
	}
	// Kimi says it within the choice.
	got, err := ask(t, serve(t, bodyOf(text("a")+`data: {"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":10,"completion_tokens":3}}]}`+"\n\n"+done)), helloS)
	require.NoError(t, err)
	require.Equal(t, &llm.Usage{InputTokens: 10, OutputTokens: 3}, got.Usage)
	// The last count is the one that counts.
	got, err = ask(t, serve(t, bodyOf(`data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\n"+
		`data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`+"\n\n"+
		`data: {"choices":[],"usage":null}`+"\n\n"+done)), helloS)
	require.NoError(t, err)
	require.Equal(t, &llm.Usage{InputTokens: 1, OutputTokens: 2}, got.Usage)
}

// TestUsageInParts: gateways to Claude give the input at the beginning of an answer, and the output at its end.
func TestUsageInParts(t *testing.T) {
	first := `data: {"choices":[],"usage":{"prompt_tokens":25,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":20}}}` + "\n\n"
	for _, last := range []string{`{"completion_tokens":15}`, `{"prompt_tokens":0,"completion_tokens":15,"total_tokens":15}`, `{"prompt_tokens":25,"completion_tokens":15,"cached_tokens":20}`} {
		got, err := ask(t, serve(t, bodyOf(first+text("a")+`data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":`+last+"}\n\n"+done)), helloS)
		require.NoError(t, err)
		require.Equal(t, &llm.Usage{InputTokens: 25, OutputTokens: 15, CachedTokens: 20}, got.Usage, last)
	}
	got, err := ask(t, serve(t, bodyOf(text("a")+`data: {"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":15}}`+"\n\n"+`data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":25}}`+"\n\n"+done)), helloS)
	require.NoError(t, err)
	require.Equal(t, &llm.Usage{InputTokens: 25, OutputTokens: 15}, got.Usage)
}

// TestOddCounts: a count that cannot be true makes the usage unknown, and fails
// nothing.
func TestOddCounts(t *testing.T) {
	for told, want := range map[string]*llm.Usage{
		`{"prompt_tokens":12.0,"completion_tokens":7}`:                                                             {InputTokens: 12, OutputTokens: 7},
		`{"prompt_tokens":-100000,"completion_tokens":7}`:                                                          nil,
		`{"prompt_tokens":12,"completion_tokens":-1}`:                                                              nil,
		`{"prompt_tokens":1e30,"completion_tokens":7}`:                                                             nil,
		`{"prompt_tokens":99999999999999999999,"completion_tokens":7}`:                                             nil,
		`{"prompt_tokens":1e400,"completion_tokens":7}`:                                                            nil,
		`{"prompt_tokens":12,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":-4}}`:                  {InputTokens: 12, OutputTokens: 7},
		`{"prompt_tokens":12,"completion_tokens":7,"prompt_cache_hit_tokens":1e30,"prompt_tokens_details":{}}`:     {InputTokens: 12, OutputTokens: 7},
		`{"prompt_tokens":10,"completion_tokens":0,"total_tokens":2147483647}`:                                     {InputTokens: 10},
		`{"completion_tokens":7,"total_tokens":2147483647}`:                                                        {OutputTokens: 7},
		`{"prompt_tokens":12,"completion_tokens":7,"completion_tokens_details":{"reasoning_tokens":2147483647}}`:   {InputTokens: 12, OutputTokens: 7},
		`{"prompt_tokens":0,"completion_tokens":0}`:                                                                nil,
		`{"prompt_tokens":"12"}`:                                                                                   {InputTokens: 12},
		`{"prompt_tokens":"twelve"}`:                                                                               nil,
		`{"prompt_tokens":true}`:                                                                                   nil,
		`[]`:                                                                                                       nil,
		`{"prompt_tokens":12,"completion_tokens":7,"prompt_tokens_details":[{"modality":"TEXT","tokenCount":12}]}`: {InputTokens: 12, OutputTokens: 7}, // Gemini's details
		`{"prompt_tokens":12,"completion_tokens":7,"prompt_tokens_details":0,"input_tokens_details":"none"}`:       {InputTokens: 12, OutputTokens: 7},
		`{"prompt_tokens":12,"completion_tokens":null}`:                                                            {InputTokens: 12}, // livekit/agents#6595
		`{"prompt_tokens":"NaN","completion_tokens":7}`:                                                            nil,
	} {
		got, err := ask(t, serve(t, bodyOf(`data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":`+told+"}\n\n"+done)), helloS)
		require.NoError(t, err, told)
		require.Equal(t, want, got.Usage, told)
	}
}

// FuzzEvents decodes any JSON as an event, which must not panic.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"choices":[{"delta":{"content":[{"text":"a"}],"tool_calls":[{"index":0,"function":{"arguments":{}}}]},"finish_reason":1}],"usage":{}}`))
	f.Add([]byte(`{"error":[{"message":["a",1,null]}],"detail":{"msg":"x"}}`))
	for _, n := range []string{"-100000", "1e30", "1e400", "-0", "12.5", "99999999999999999999", "2147483648", `"7"`, "null", "{}"} {
		f.Add([]byte(`{"usage":{"prompt_tokens":` + n + `,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":` + n + `}}}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var ev event
		if json.Unmarshal(data, &ev) != nil {
			return
		}
		_ = ev.failure(true, true)
		if u := ev.usage(); u != nil {
			again, ok := u.Plausible()
			require.True(t, ok)
			require.Equal(t, again, u.Usage)
		}
		var calls callList
		for _, c := range ev.Choices {
			for i := range c.Delta.ToolCalls {
				calls.add(&c.Delta.ToolCalls[i])
			}
			for i := range c.Message.ToolCalls {
				calls.set(&c.Message.ToolCalls[i], i)
			}
		}
		seen := map[string]bool{}
		for _, c := range calls.end(nil) {
			require.False(t, seen[c.ID] || c.ID == "")
			seen[c.ID] = true
		}
	})
}
