package openai

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// recorded asks once and returns the body that went over the wire, to the byte,
// and the headers.
func recorded(t *testing.T, model string, req *llm.Request, opts ...Option) (string, http.Header) {
	t.Helper()
	var body []byte
	var header http.Header
	var length int64
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		header, length = r.Header, r.ContentLength
		jsonOf(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)(w, r)
	}, opts...)
	_, err := ask(t, m.Named(model), req)
	require.NoError(t, err)
	require.EqualValues(t, len(body), length)
	return string(body), header
}

// The bytes of requests are pinned, one feature a case: prompt caches and the
// logs of endpoints compare them.
func TestBytesOfRequests(t *testing.T) {
	hi := []llm.Message{llm.UserText("hi")}
	with := func(s llm.Settings, tools ...llm.ToolSpec) *llm.Request {
		return &llm.Request{Messages: hi, Tools: tools, Settings: s}
	}
	said := func(m ...llm.Message) *llm.Request { return &llm.Request{Messages: m} }
	f := llm.ToolSpec{Name: "f"}
	const start = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":false`
	const tools = `,"tools":[{"function":{"name":"f","parameters":{"type":"object","properties":{}}},"type":"function"}]`
	cases := map[string]struct {
		req  *llm.Request
		opts []Option
		want string
	}{
		"smallest":      {with(llm.Settings{}), nil, start + `}`},
		"nothing":       {&llm.Request{}, nil, `{"model":"m","messages":[],"stream":false}`},
		"streamed":      {helloS, nil, `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`},
		"system":        {&llm.Request{System: "be <good>\u2028\n", Messages: hi}, nil, `{"model":"m","messages":[{"role":"system","content":"be \u003cgood\u003e\u2028\n"},{"role":"user","content":"hi"}],"stream":false}`},
		"invalid UTF-8": {said(llm.UserText("a\xffb")), nil, `{"model":"m","messages":[{"role":"user","content":"a\ufffdb"}],"stream":false}`},
		"empty texts": {said(llm.UserText(""), toolResult("1", ""), llm.UserParts(llm.TextPart{})), nil,
			`{"model":"m","messages":[{"role":"user","content":""},{"role":"tool","content":"(no output)","tool_call_id":"call00001"},{"role":"user","content":""}],"stream":false}`},
		"calls": {said(assistant("", llm.ToolCall{ID: "1", Name: "f"}, llm.ToolCall{Name: "g", Arguments: `{"a": "<"}`}), toolResult("1", "x")), nil,
			`{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"call00001","type":"function","function":{"name":"f","arguments":"{}"}},` +
				`{"type":"function","function":{"name":"g","arguments":"{\"a\": \"\u003c\"}"}}]},{"role":"tool","content":"x","tool_call_id":"call00001"}],"stream":false}`},
		"words and a call": {said(assistant("a", llm.TextPart{Text: "b"}, llm.ToolCall{ID: "1", Name: "f", Arguments: " "})), nil,
			`{"model":"m","messages":[{"role":"assistant","content":"a\nb","tool_calls":[{"id":"call00001","type":"function","function":{"name":"f","arguments":"{}"}}]}],"stream":false}`},
		"result without a call": {said(toolResult("", "x")), nil, `{"model":"m","messages":[{"role":"tool","content":"x"}],"stream":false}`},
		"reasoning": {said(assistant("b", llm.Reasoning{Text: "be"}, llm.Reasoning{Text: "cause"}, llm.ToolCall{ID: "1", Name: "f"}), assistant("", llm.Reasoning{Text: "x"})),
			[]Option{WithEndpoint("echo-filled")}, `{"model":"m","messages":[{"role":"assistant","content":"b","reasoning_content":".","tool_calls":[{"id":"call00001","type":"function","function":{"name":"f","arguments":"{}"}}]}],"stream":false}`},
		"media": {said(llm.Message{Role: llm.RoleUser, Content: llm.Content{Text: "see", Parts: []llm.Part{
			llm.TextPart{Text: "&"}, llm.TextPart{}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{0, 1}},
			llm.Media{Kind: llm.MediaFile, Data: []byte{0}, Name: "a\"<b.pdf"}, llm.Media{Kind: llm.MediaFile, URL: "https://x/?a&b"}}}}), nil,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"text","text":"\u0026"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAE="}},` +
				`{"type":"file","file":{"filename":"a\"\u003cb.pdf","file_data":"data:application/octet-stream;base64,AA=="}},{"type":"file","file":{"filename":"file","file_data":"https://x/?a\u0026b"}}]}],"stream":false}`},
		"tools": {with(llm.Settings{}, llm.ToolSpec{Name: "g", Description: "G <&>", Parameters: json.RawMessage("{ \"type\": \"object\",\n\t\"title\": \"<\" }")}, f), nil,
			start + `,"tools":[{"function":{"name":"g","description":"G \u003c\u0026\u003e","parameters":{"type":"object","title":"\u003c"}},"type":"function"},{"function":{"name":"f","parameters":{"type":"object","properties":{}}},"type":"function"}]}`},
		"tool choice":  {with(llm.Settings{ToolChoice: llm.ToolChoiceRequired}, f), nil, start + tools + `,"tool_choice":"required"}`},
		"one tool":     {with(llm.Settings{ToolChoice: "f"}, f), nil, start + tools + `,"tool_choice":{"type":"function","function":{"name":"f"}}}`},
		"no tools":     {with(llm.Settings{ToolChoice: "f", ParallelToolCalls: ptr(true)}), nil, start + `}`},
		"parallel":     {with(llm.Settings{ParallelToolCalls: ptr(true)}, f), nil, start + tools + `,"parallel_tool_calls":true}`},
		"not parallel": {with(llm.Settings{ParallelToolCalls: ptr(false)}, f), nil, start + tools + `,"parallel_tool_calls":false}`},
		"audio": {said(llm.UserParts(llm.Media{Kind: llm.MediaAudio, MediaType: "audio/x-wav", Data: []byte{0, 1}}, llm.Media{Kind: llm.MediaAudio, MediaType: "Audio/MPEG; rate=1", Data: []byte{2}})), nil,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAE=","format":"wav"}},{"type":"input_audio","input_audio":{"data":"Ag==","format":"mp3"}}]}],"stream":false}`},
		"effort and tier":   {with(llm.Settings{ReasoningEffort: "low"}), []Option{WithServiceTier(" flex ")}, start + `,"reasoning_effort":"low","service_tier":"flex"}`},
		"seed":              {with(llm.Settings{Seed: ptr(int64(1<<60 + 1))}), nil, start + `,"seed":1152921504606846977}`},
		"seed zero":         {with(llm.Settings{Seed: ptr(int64(0))}), nil, start + `,"seed":0}`},
		"completion tokens": {with(llm.Settings{MaxTokens: 7}), []Option{WithEndpoint("max-completion-tokens")}, start + `,"max_completion_tokens":7}`},
		"schema in the prompt": {&llm.Request{System: "s", Messages: hi, Settings: llm.Settings{ResponseFormat: &llm.ResponseFormat{Schema: json.RawMessage(`{"a":1}`)}}}, []Option{WithEndpoint("schema-in-prompt")},
			`{"model":"m","messages":[{"role":"system","content":"s\n\nAnswer with JSON that follows this schema, and with nothing else: {\"a\":1}"},{"role":"user","content":"hi"}],"stream":false}`},
		"schema is the prompt": {with(llm.Settings{ResponseFormat: &llm.ResponseFormat{Schema: json.RawMessage(`{}`)}}), []Option{WithEndpoint("schema-in-prompt")},
			`{"model":"m","messages":[{"role":"system","content":"Answer with JSON that follows this schema, and with nothing else: {}"},{"role":"user","content":"hi"}],"stream":false}`},
		"format": {with(llm.Settings{ResponseFormat: &llm.ResponseFormat{Schema: json.RawMessage(`{"type": "object"}`)}}), nil,
			start + `,"response_format":{"type":"json_schema","json_schema":{"name":"response","schema":{"type":"object"},"strict":false}}}`},
		"strict format": {with(llm.Settings{ResponseFormat: &llm.ResponseFormat{Name: "r", Strict: true, Schema: json.RawMessage(`{}`)}}), nil,
			start + `,"response_format":{"type":"json_schema","json_schema":{"name":"r","schema":{},"strict":true}}}`},
		"stop":          {with(llm.Settings{Stop: []string{"<END>", ""}}), nil, start + `,"stop":["\u003cEND\u003e",""]}`},
		"probabilities": {with(llm.Settings{TopLogProbs: 2}), nil, start + `,"logprobs":true,"top_logprobs":2}`},
		"zeros":         {with(llm.Settings{Temperature: ptr(0.0), TopP: ptr(0.0)}), nil, start + `,"temperature":0,"top_p":0}`},
		"digits":        {with(llm.Settings{Temperature: ptr(0.1), TopP: ptr(0.0000001)}), nil, start + `,"temperature":0.1,"top_p":0.0000001}`},
		"large":         {with(llm.Settings{Temperature: ptr(1e21), MaxTokens: 9}), nil, start + `,"temperature":1000000000000000000000,"max_tokens":9}`},
		"caches": {&llm.Request{Messages: hi, Agent: "a/<b>", Settings: llm.Settings{TopP: ptr(1.0), MaxTokens: 7}}, []Option{WithPromptCacheKey("shop"), WithSlots(2)},
			start + `,"top_p":1,"max_tokens":7,"prompt_cache_key":"shop/a/\u003cb\u003e","id_slot":0}`},
		"everything": {&llm.Request{Messages: hi, Tools: []llm.ToolSpec{f}, Stream: true, Settings: llm.Settings{
			Temperature: ptr(0.5), TopP: ptr(0.25), MaxTokens: 3, Stop: []string{"x"}, ToolChoice: "auto", ParallelToolCalls: ptr(false), TopLogProbs: 1,
			ResponseFormat: &llm.ResponseFormat{Schema: json.RawMessage(`{}`)}}}, nil,
			`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stop":["x"],` +
				`"response_format":{"type":"json_schema","json_schema":{"name":"response","schema":{},"strict":false}},"logprobs":true,"top_logprobs":1` + tools +
				`,"tool_choice":"auto","stream_options":{"include_usage":true},"parallel_tool_calls":false,"temperature":0.5,"top_p":0.25,"max_tokens":3}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, _ := recorded(t, "m", c.req, c.opts...)
			require.Equal(t, c.want, got)
		})
	}
	got, _ := recorded(t, "openai/o3 <\"x\">", with(llm.Settings{MaxTokens: 9}))
	require.Equal(t, `{"model":"openai/o3 \u003c\"x\"\u003e","messages":[{"role":"user","content":"hi"}],"stream":false,"max_completion_tokens":9}`, got)
}

func TestHeadersOfRequests(t *testing.T) {
	for _, stream := range []bool{false, true} {
		_, got := recorded(t, "m", &llm.Request{Messages: hello.Messages, Stream: stream})
		got.Del("Content-Length") // it is that of the body
		want := http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "Authorization": {"Bearer " + testKey}, "Content-Type": {"application/json"}, "User-Agent": {"arbor"}}
		if stream {
			maps.Copy(want, http.Header{"Accept": {"text/event-stream"}, "Accept-Encoding": {"identity"}, "Cache-Control": {"no-cache"}, "Connection": {"keep-alive"}})
		}
		require.Equal(t, want, got, slices.Sorted(maps.Keys(got)))
	}
}
