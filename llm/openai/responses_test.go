package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// sentResponses returns the body of one request of the Responses API, to the byte.
func sentResponses(t *testing.T, model string, req *llm.Request, opts ...Option) string {
	t.Helper()
	var body []byte
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/v1/responses", r.URL.Path)
		body, _ = io.ReadAll(r.Body)
		jsonOf(`{"object":"response","status":"completed","output":[]}`)(w, r)
	}, append(opts, WithResponses())...)
	_, err := ask(t, m.Named(model), req)
	require.NoError(t, err)
	return string(body)
}

func TestBytesOfResponsesRequests(t *testing.T) {
	hi := []llm.Message{llm.UserText("hi")}
	with := func(s llm.Settings, tools ...llm.ToolSpec) *llm.Request {
		return &llm.Request{Messages: hi, Tools: tools, Settings: s}
	}
	const start = `{"model":"m","input":[{"role":"user","content":"hi"}],"stream":false,"store":false`
	const tools = `,"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}},"strict":false}]`
	f := llm.ToolSpec{Name: "f"}
	for name, c := range map[string]struct {
		req  *llm.Request
		opts []Option
		want string
	}{
		"smallest": {with(llm.Settings{Seed: ptr(int64(3))}), nil, start + `}`},
		"system":   {&llm.Request{System: "be good", Messages: hi, Stream: true, Agent: "a/b"}, []Option{WithPromptCacheKey("x"), WithServiceTier("flex")}, `{"model":"m","instructions":"be good","input":[{"role":"user","content":"hi"}],"stream":true,"store":false,"service_tier":"flex","prompt_cache_key":"x/a/b"}`},
		"settings": {with(llm.Settings{Temperature: ptr(0.0), TopP: ptr(0.5), MaxTokens: 7, ReasoningEffort: "low"}), nil,
			start + `,"include":["reasoning.encrypted_content"],"temperature":0,"top_p":0.5,"max_output_tokens":16,"reasoning":{"effort":"low"}}`},
		"echo":     {with(llm.Settings{}), []Option{WithEndpoint("echo")}, start + `,"include":["reasoning.encrypted_content"],"reasoning":{"summary":"auto"}}`},
		"likely":   {with(llm.Settings{TopLogProbs: 4}), nil, start + `,"include":["message.output_text.logprobs"],"top_logprobs":4}`},
		"tools":    {with(llm.Settings{ToolChoice: "f", ParallelToolCalls: ptr(false)}, f), nil, start + tools + `,"tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false}`},
		"required": {with(llm.Settings{ToolChoice: llm.ToolChoiceRequired}, f), nil, start + tools + `,"tool_choice":"required"}`},
		"format": {with(llm.Settings{ResponseFormat: &llm.ResponseFormat{Name: "r", Strict: true, Schema: json.RawMessage(`{"type":"object"}`)}}), nil,
			start + `,"text":{"format":{"type":"json_schema","name":"r","schema":{"type":"object"},"strict":true}}}`},
		"parts": {&llm.Request{Messages: []llm.Message{llm.UserParts(llm.TextPart{Text: "t"}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{0, 1}},
			llm.Media{Kind: llm.MediaImage, URL: "https://x/a.png"}, llm.Media{Kind: llm.MediaFile, MediaType: "application/pdf", Data: []byte{0}, Name: "a.pdf"},
			llm.Media{Kind: llm.MediaFile, URL: "https://x/a.pdf"}, llm.Media{Kind: llm.MediaAudio, MediaType: "audio/wav", Data: []byte{0, 1}})}}, nil,
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"t"},{"type":"input_image","image_url":"data:image/png;base64,AAE="},{"type":"input_image","image_url":"https://x/a.png"},` +
				`{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,AA=="},{"type":"input_file","file_url":"https://x/a.pdf"},{"type":"input_audio","input_audio":{"data":"AAE=","format":"wav"}}]}],"stream":false,"store":false}`},
		"calls": {&llm.Request{Messages: append(hi, assistant("w", llm.ToolCall{ID: "1", Name: "f"}, llm.ToolCall{ID: "2", Name: "g h", Arguments: "{oops"}), toolResult("1", ""), toolResult("2", "x"))}, nil,
			`{"model":"m","input":[{"role":"user","content":"hi"},{"role":"assistant","content":"w"},{"type":"function_call","call_id":"call00001","name":"f","arguments":"{}"},` +
				`{"type":"function_call","call_id":"call00002","name":"g_h","arguments":"{\"raw\":\"{oops\"}"},{"type":"function_call_output","call_id":"call00001","output":"(no output)"},{"type":"function_call_output","call_id":"call00002","output":"x"}],"stream":false,"store":false}`},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, sentResponses(t, "m", c.req, c.opts...)) })
	}
	require.Contains(t, sentResponses(t, "openai/o4-mini", with(llm.Settings{})), `"include":["reasoning.encrypted_content"]}`)
	_, err := ask(t, serve(t, nil, WithResponses()), with(llm.Settings{Stop: []string{"x"}}))
	require.ErrorContains(t, err, "no stop strings")
}

// thought is an answer of a reasoning model: it thinks before its words, before the
// second of two calls, and at the end, which leads to nothing.
const thought = `{"object":"response","model":"o4-mini-2025","status":"completed","output":[` +
	`{"type":"reasoning","id":"rs_1","status":null,"summary":[{"type":"summary_text","text":"Hm. "}],"encrypted_content":"E<1>"},` +
	`{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"One moment."}]},` +
	`{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"},` +
	`{"type":"web_search_call","id":"ws_1"},` +
	`{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"E2"},{"type":"reasoning","id":"rs_x","summary":[{"text":"And."}]},` +
	`{"type":"function_call","id":"fc_2","call_id":"c2","name":"g","arguments":"{\"a\":1}"},` +
	`{"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":"E3"}],` +
	`"usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":10},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":39}}`

// TestReasoningIsGivenBack: encrypted, where it stood, and to nobody else.
func TestReasoningIsGivenBack(t *testing.T) {
	bodies := make(chan string, 9)
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		jsonOf(thought)(w, r)
	}, WithResponses()).Named("o4-mini")
	said := assistant("")
	var last llm.Chunk
	for c, err := range m.Generate(t.Context(), hello) {
		require.NoError(t, err)
		said.Text += c.Text
		if c.Reasoning != "" || c.Sealed != "" {
			said.Parts = append(said.Parts, llm.Reasoning{Text: c.Reasoning, Sealed: c.Sealed})
		}
		if c.Call != nil {
			said.Parts = append(said.Parts, *c.Call)
		}
		last = c
	}
	require.Equal(t, "One moment.", said.Text)
	require.Equal(t, &llm.Usage{InputTokens: 30, OutputTokens: 9, CachedTokens: 10}, last.Usage)
	require.Equal(t, llm.FinishToolCalls, last.Finish)
	require.Equal(t, "o4-mini-2025", last.Model)
	<-bodies
	again := &llm.Request{Messages: []llm.Message{llm.UserText("hi"), said, toolResult("c1", "x"), toolResult("c2", "y")}}
	_, err := ask(t, m, again)
	require.NoError(t, err)
	require.Contains(t, <-bodies, `"input":[{"role":"user","content":"hi"},`+
		`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm. "}],"encrypted_content":"E\u003c1\u003e"},{"role":"assistant","content":"One moment."},`+
		`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},`+
		`{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"E2"},{"type":"function_call","call_id":"c2","name":"g","arguments":"{\"a\":1}"},`+
		`{"type":"function_call_output","call_id":"c1","output":"x"},{"type":"function_call_output","call_id":"c2","output":"y"}]`)
	_, err = ask(t, m.Named("o3"), again)
	require.NoError(t, err)
	require.NotContains(t, <-bodies, `{"type":"reasoning"`, "another model cannot read it")
	require.NotContains(t, sentResponses(t, "o4-mini", again), `{"type":"reasoning"`, "nor can another endpoint")
}

// events makes a stream of events of the Responses API.
func events(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		kind, _, _ := strings.Cut(strings.TrimPrefix(l, `{"type":"`), `"`)
		b.WriteString("event: " + kind + "\ndata: " + l + "\n\n")
	}
	return b.String()
}

func TestResponsesStreams(t *testing.T) {
	const created = `{"type":"response.created","response":{"model":"gpt-x-1","status":"in_progress","error":null}}`
	const completed = `{"type":"response.completed","response":{"model":"gpt-x-1","status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":2}}}`
	delta := func(s string) string {
		return `{"type":"response.output_text.delta","output_index":0,"delta":"` + s + `"}`
	}
	call := `{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}}`
	message := `{"type":"message","content":[{"type":"output_text","text":"Hello","logprobs":[]}]}`
	said := func(id string, at int, s string) string {
		return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":{"type":"message","id":%q,"content":%q}}`, at, id, s)
	}
	second := func(s string) string {
		return `{"type":"response.output_text.delta","item_id":"m2","output_index":1,"delta":"` + s + `"}`
	}
	added := func(call string) string {
		return `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc","call_id":"` + call + `","name":"f","arguments":""}}`
	}
	args := func(city string) string {
		return `{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc","delta":"{\"city\":\"` + city + `\"}"}`
	}
	itemDone := func(call, city string) string {
		return `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc","call_id":"` + call + `","name":"f","arguments":"{\"city\":\"` + city + `\"}"}}`
	}
	for name, c := range map[string]struct {
		body   string
		text   string
		calls  int
		finish llm.FinishReason
		code   llm.ErrorCode // of the error
		retry  bool
	}{
		"words":                      {body: events(created, delta("Hel"), delta("lo"), `{"type":"response.output_item.done","output_index":0,"item":`+message+`}`, completed), text: "Hello", finish: llm.FinishStop},
		"without deltas":             {body: events(created, `{"type":"response.output_item.done","output_index":0,"item":`+message+`}`, completed), text: "Hello", finish: llm.FinishStop},
		"all in the last":            {body: events(`{"type":"response.completed","response":{"status":"completed","output":[` + message + `]}}`), text: "Hello", finish: llm.FinishStop},
		"both":                       {body: events(delta("Hello"), call, `{"type":"response.completed","response":{"status":"completed","output":[`+message+`,{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}}`), text: "Hello", calls: 1, finish: llm.FinishToolCalls},
		"other ids in the last":      {body: events(delta("Hello"), call, `{"type":"response.completed","response":{"status":"completed","output":[`+message+`,{"type":"function_call","id":"new","call_id":"new","name":"f","arguments":"{ }"}]}}`), text: "Hello", calls: 1, finish: llm.FinishToolCalls},
		"twice in the last":          {body: events(call, `{"type":"response.done","response":{"status":"completed","output":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call","call_id":"d","name":"f","arguments":"{}"}]}}`), calls: 2, finish: llm.FinishToolCalls},
		"content as a text":          {body: events(`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":"Hello"}]}}`), text: "Hello", finish: llm.FinishStop},
		"types as names":             {body: "event: response.output_text.delta\ndata: {\"delta\":\"Hello\"}\n\nevent: response.completed\ndata: {\"response\":{\"status\":\"completed\"}}\n\n", text: "Hello", finish: llm.FinishStop},
		"no status":                  {body: events(delta("Hello"), `{"type":"response.completed","response":{}}`), text: "Hello", finish: llm.FinishStop},
		"no status, length":          {body: events(delta("Hel"), `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`), text: "Hel", finish: llm.FinishLength},
		"no status, failed":          {body: events(delta("x"), `{"type":"response.failed","response":{}}`), text: "x", code: llm.CodeServer, retry: true},
		"a refusal":                  {body: events(`{"type":"response.refusal.delta","output_index":0,"delta":"No."}`, completed), text: "No.", finish: llm.FinishStop},
		"length":                     {body: events(delta("Hel"), `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`), text: "Hel", finish: llm.FinishLength},
		"filter":                     {body: events(`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`), finish: llm.FinishContentFilter},
		"unknown events":             {body: events(created, `{"type":"response.queued"}`, `{"type":"response.mcp_call.in_progress","output_index":4}`, delta("x"), completed), text: "x", finish: llm.FinishStop},
		"done mark":                  {body: events(delta("x"), completed) + done, text: "x", finish: llm.FinishStop},
		"no end":                     {body: events(created, delta("x"), call), text: "x", code: llm.CodeTruncated, retry: true},
		"no end but a mark":          {body: events(created, delta("x")) + done, text: "x", code: llm.CodeTruncated, retry: true},
		"nothing":                    {body: "", code: llm.CodeTruncated, retry: true},
		"failed":                     {body: events(created, delta("x"), `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}`), text: "x", code: llm.CodeServer, retry: true},
		"error event":                {body: events(delta("x"), `{"type":"error","code":"rate_limit_exceeded","message":"slow","param":null}`), text: "x", code: llm.CodeRateLimited, retry: true},
		"error event with an object": {body: events(delta("x"), `{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"long"}}`), text: "x", code: llm.CodeContextLength},
		"error object":               {body: events(delta("x")) + "data: {\"error\":{\"message\":\"boom\",\"code\":\"500\"}}\n\n", text: "x", code: llm.CodeServer, retry: true},
		"garbage":                    {body: events(delta("x")) + "data: {oops}\n\n", text: "x", code: llm.CodeBadResponse},
		"a problem":                  {body: `{"type":"about:blank","status":503,"title":"Unavailable","detail":"boom"}`, code: llm.CodeServer, retry: true}, // RFC 9457, NVIDIA
		"another protocol":           {body: text("x") + done, code: llm.CodeBadResponse},
		"two messages":               {body: events(delta("Hello"), said("m1", 0, "Hello"), second("I "), second("look."), said("m2", 1, "I look."), completed), text: "Hello\n\nI look.", finish: llm.FinishStop},
		"two, whole":                 {body: events(`{"type":"response.completed","response":{"status":"completed","output":[` + message + `,{"type":"message","content":"I look."}]}}`), text: "Hello\n\nI look.", finish: llm.FinishStop},
		"the same message twice":     {body: events(delta("Hello"), said("m1", 0, "Hello"), second("Hel"), second("lo"), said("m2", 1, "Hello"), completed), text: "Hello", finish: llm.FinishStop},
		"a beginning of the first":   {body: events(delta("Hello"), said("m1", 0, "Hello"), second("Hel"), completed), text: "Hello\n\nHel", finish: llm.FinishStop},
		"the first and more":         {body: events(delta("Hello"), said("m1", 0, "Hello"), second("Hello"), second("!"), completed), text: "Hello\n\nHello!", finish: llm.FinishStop},
		"a cut one with the same id": {body: events(`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m2"}}`, `{"type":"response.output_text.delta","item_id":"m2","output_index":0,"delta":"Hel"}`, said("m2", 0, ""),
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"m2"}}`, second("Hello."), said("m2", 1, "Hello."), `{"type":"response.completed","response":{"output":[{"type":"message","id":"m2","content":"Hello."}]}}`), text: "Hel\n\nHello.", finish: llm.FinishStop},
		"missing deltas":           {body: events(delta("Hel"), `{"type":"response.output_text.done","output_index":0,"text":"Hello."}`, completed), text: "Hello.", finish: llm.FinishStop},
		"the part alone":           {body: events(`{"type":"response.content_part.done","output_index":0,"part":{"type":"output_text","text":"Hello."}}`, completed), text: "Hello.", finish: llm.FinishStop},
		"a part of the reasoning":  {body: events(`{"type":"response.content_part.done","output_index":0,"part":{"type":"reasoning_text","text":"Hm."}}`, `{"type":"response.output_text.delta","output_index":1,"delta":"Hello."}`, completed), text: "Hello.", finish: llm.FinishStop},
		"a refusal without deltas": {body: events(`{"type":"response.refusal.done","output_index":0,"refusal":"No."}`, completed), text: "No.", finish: llm.FinishStop},
		"one id, one index":        {body: events(added("c1"), args("Ulm"), itemDone("c1", "Ulm"), added("c2"), args("Bonn"), itemDone("c2", "Bonn"), completed), calls: 2, finish: llm.FinishToolCalls},
		"no object":                {body: `{"status":"completed","output":[` + message + `]}`, text: "Hello", finish: llm.FinishStop},
		"wrapped":                  {body: `{"code":0,"data":{"object":"response","status":"completed","output":[` + message + `]}}`, text: "Hello", finish: llm.FinishStop},
		"an ending in details":     {body: `{"object":"response","status":"completed","output":[` + message + `],"incomplete_details":{"reason":"max_output_tokens"}}`, text: "Hello", finish: llm.FinishLength},
		"details that are empty":   {body: `{"object":"response","status":"completed","output":[` + message + `],"incomplete_details":""}`, text: "Hello", finish: llm.FinishStop},
		"cut off before all":       {body: `{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`, finish: llm.FinishLength},
		"a type of its own":        {body: `{"type":"response","object":"response","status":"completed","output":[` + message + `]}`, text: "Hello", finish: llm.FinishStop},
		"a call that never came":   {body: events(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"1","call_id":"c","name":"f","arguments":""}}`, completed), code: llm.CodeTruncated, retry: true},
		"a call without arguments": {body: events(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"1","call_id":"c","name":"f","arguments":""}}`, `{"type":"response.function_call_arguments.done","item_id":"1","output_index":0,"arguments":""}`, completed), calls: 1, finish: llm.FinishToolCalls},
		"a call in progress":       {body: events(`{"type":"response.completed","response":{"status":"completed","output":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}","status":"in_progress"}]}}`), calls: 1, finish: llm.FinishLength},
		"a call without status":    {body: events(`{"type":"response.function_call_arguments.done","item_id":"1","output_index":0,"name":"f","arguments":"{}"}`, `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"1","call_id":"c","name":"f","arguments":"{}","status":"in_progress"}}`, completed), calls: 1, finish: llm.FinishToolCalls},
		"other events":             {body: events(delta("Hel"), `{"type":"keepalive","output":null}`, `{"type":"tool.progress","output":"x"}`, `{"type":"usage","output":120}`, `{"type":"x","output":[]}`, `{"type":"x","object":"response","status":"in_progress"}`, `{"type":"ping","code":"1"}`, `{"type":"moderation","success":false}`, delta("lo"), completed), text: "Hello", finish: llm.FinishStop},
		"other events, cut off":    {body: events(delta("Hel"), `{"type":"keepalive","output":null}`, `{"type":"x","output":[]}`), text: "Hel", code: llm.CodeTruncated, retry: true},
		"a reason of its own":      {body: events(delta("Hello"), `{"type":"response.completed","response":{"status":"completed","incomplete_details":{"reason":"n/a"}}}`), text: "Hello", finish: llm.FinishStop},
		"still in progress":        {body: events(`{"type":"response.completed","response":{"status":"queued"}}`), code: llm.CodeBadResponse},
	} {
		t.Run(name, func(t *testing.T) {
			m := serve(t, bodyOf(c.body), WithResponses(), WithRetries(0))
			var got string
			var calls int
			var finish llm.FinishReason
			var failed error
			arguments := map[string]bool{}
			for chunk, err := range m.Generate(t.Context(), helloS) {
				if failed = err; err != nil {
					break
				}
				got, finish = got+chunk.Text, chunk.Finish
				if chunk.Call != nil {
					calls++
					require.False(t, arguments[chunk.Call.Arguments] && strings.Contains(chunk.Call.Arguments, "city"))
					arguments[chunk.Call.Arguments] = true
				}
			}
			require.Equal(t, c.text, got)
			if c.code != "" {
				var e *llm.Error
				require.ErrorAs(t, failed, &e)
				require.Equal(t, c.code, e.Code, e)
				require.Equal(t, c.retry, e.Retryable)
				require.NotContains(t, e.Message, "chat-completions", c.code)
				require.Zero(t, calls, "no call of a broken answer")
				return
			}
			require.NoError(t, failed)
			require.Equal(t, c.calls, calls)
			require.Equal(t, c.finish, finish)
		})
	}
}

// TestResponsesAreRetried: a failure in front of everything is tried again, as one by a
// status is.
func TestResponsesAreRetried(t *testing.T) {
	var asked atomic.Int64
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 1:
			w.WriteHeader(503)
		case 2:
			bodyOf(events(`{"type":"response.created","response":{"status":"in_progress"}}`, `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}`))(w, r)
		default:
			jsonOf(`{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"ok"}]}]}`)(w, r)
		}
	}, WithResponses(), WithRetries(2), WithRetryDelay(0, 0))
	got, err := ask(t, m, helloS)
	require.NoError(t, err)
	require.Equal(t, "ok", got.Text)
	require.EqualValues(t, 3, asked.Load())
}

// TestResponsesWithoutSealedReasoning: a model that looks like one that reasons refuses what only such models have.
func TestResponsesWithoutSealedReasoning(t *testing.T) {
	requests := 0
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if requests++; strings.Contains(string(raw), "include") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"Encrypted content is not supported with this model.","param":"include"}}`) // pydantic/pydantic-ai#3326
			return
		}
		jsonOf(`{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hi."}]}]}`)(w, r)
	}, WithResponses())
	for range 2 {
		got, err := ask(t, m.Named("gpt-5-chat-latest"), hello)
		require.NoError(t, err)
		require.Equal(t, "Hi.", got.Text)
	}
	require.Equal(t, 3, requests)
}

// TestTypedItems: llama.cpp refuses a message of the assistant without a type, once (ggml-org/llama.cpp#26394).
func TestTypedItems(t *testing.T) {
	refused := 0
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"w"}]}`) {
			refused++
			status(400, `{"error":{"code":400,"message":"Cannot determine type of 'item'","type":"invalid_request_error"}}`)(w, r)
			return
		}
		jsonOf(`{"object":"response","output":[{"type":"message","content":"ok"}]}`)(w, r)
	}, WithResponses())
	for range 2 {
		got, err := ask(t, m, &llm.Request{Messages: []llm.Message{llm.UserText("hi"), assistant("w"), llm.UserText("more")}})
		require.NoError(t, err)
		require.Equal(t, "ok", got.Text)
	}
	require.Equal(t, 1, refused)
}

// TestReasoningInContent: servers of open models give the reasoning itself in place of a summary (vllm-project/vllm#28248).
func TestReasoningInContent(t *testing.T) {
	for _, summary := range []string{"[]", "null"} {
		got, err := ask(t, serve(t, jsonOf(`{"object":"response","output":[{"type":"reasoning","summary":`+summary+`,"content":[{"type":"reasoning_text","text":"Hm."}]},`+
			`{"type":"message","content":"ok"}]}`), WithResponses()), hello)
		require.NoError(t, err)
		require.Equal(t, "Hm.", got.Reasoning)
		require.Equal(t, "ok", got.Text)
	}
}
