package openai

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

func ptr[T any](v T) *T { return &v }

func assistant(text string, parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: text, Parts: parts}}
}

func toolResult(id, output string) llm.Message {
	return llm.Message{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: id, Output: output}}}}
}

func TestWholeRequest(t *testing.T) {
	req := &llm.Request{
		System: "be <good> & kind",
		Messages: []llm.Message{
			llm.UserText("I said \"content\":\"x\" and \"stream\":true"),
			assistant("let me see", llm.Reasoning{Text: "hm"}, llm.ToolCall{ID: "1", Name: "lookup", Arguments: `{"id": 1}`}),
			toolResult("1", "found"),
			assistant("", llm.Reasoning{Text: "only thoughts"}),
			{Role: llm.RoleUser, Content: llm.Content{Text: "look", Parts: []llm.Part{
				llm.TextPart{Text: "here"}, llm.TextPart{},
				llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{0, 1}},
				llm.Media{Kind: llm.MediaImage, URL: "https://x/y.png"},
				llm.Media{Kind: llm.MediaFile, MediaType: "application/pdf", Data: []byte{0, 1}, Name: "a\"b.pdf"},
				llm.Media{Kind: llm.MediaFile, Data: []byte{0}},
			}}},
			llm.UserParts(llm.TextPart{}),
		},
		Tools: []llm.ToolSpec{
			{Name: "lookup", Description: "Look <up> & return", Parameters: json.RawMessage(`{"type":"object","properties":{"stream":true}}`)},
			{Name: "now"},
		},
		Stream: true,
		Settings: llm.Settings{
			Temperature: ptr(0.7), TopP: ptr(0.0), MaxTokens: 100, Stop: []string{"END"}, ToolChoice: "lookup", ParallelToolCalls: ptr(false),
			ResponseFormat: &llm.ResponseFormat{Name: "answer", Strict: true, Schema: json.RawMessage(`{"type":"object"}`)},
		},
	}
	got, err := json.Marshal(sent(t, `a "model"`, req))
	require.NoError(t, err)
	require.JSONEq(t, `{
		"model": "a \"model\"",
		"messages": [
			{"role":"system","content":"be <good> & kind"},
			{"role":"user","content":"I said \"content\":\"x\" and \"stream\":true"},
			{"role":"assistant","content":"let me see","tool_calls":[{"id":"call00001","type":"function","function":{"name":"lookup","arguments":"{\"id\": 1}"}}]},
			{"role":"tool","tool_call_id":"call00001","content":"found"},
			{"role":"user","content":[
				{"type":"text","text":"look"},
				{"type":"text","text":"here"},
				{"type":"image_url","image_url":{"url":"data:image/png;base64,AAE="}},
				{"type":"image_url","image_url":{"url":"https://x/y.png"}},
				{"type":"file","file":{"filename":"a\"b.pdf","file_data":"data:application/pdf;base64,AAE="}},
				{"type":"file","file":{"filename":"file","file_data":"data:application/octet-stream;base64,AA=="}}]},
			{"role":"user","content":""}],
		"tools": [
			{"type":"function","function":{"name":"lookup","description":"Look <up> & return","parameters":{"type":"object","properties":{"stream":true}}}},
			{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}],
		"stream": true,
		"stream_options": {"include_usage":true},
		"temperature": 0.7, "top_p": 0, "max_tokens": 100, "stop": ["END"],
		"tool_choice": {"type":"function","function":{"name":"lookup"}},
		"parallel_tool_calls": false,
		"response_format": {"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}}
	}`, string(got))
}

func TestReasoningEcho(t *testing.T) {
	req := &llm.Request{Messages: []llm.Message{
		llm.UserText("a"), assistant("b", llm.Reasoning{Text: "because "}, llm.Reasoning{Text: "so"}), llm.UserText("c"),
	}}
	for _, opts := range [][]Option{nil, {WithEndpoint("echo")}} { // nobody knows whose it is
		require.NotContains(t, sent(t, "m", req, opts...)["messages"].([]any)[1].(map[string]any), "reasoning_content")
	}
}

func TestHistoryOfOtherEndpointsIsMadeLegal(t *testing.T) {
	long := "call_" + repeat("x", 60)
	req := &llm.Request{Messages: []llm.Message{
		llm.UserText("a"),
		assistant("", llm.ToolCall{ID: long, Name: "functions.look up", Arguments: `{oops`}, llm.ToolCall{ID: "2", Name: "", Arguments: `[1]`},
			llm.ToolCall{ID: "3", Name: repeat("n", 70), Arguments: ` {"a": 1} `}),
		toolResult(long, "x"), toolResult("2", "x"), toolResult("3", "x"),
	}}
	messages := sent(t, "m", req)["messages"].([]any)
	var names, args, ids []string
	for _, c := range messages[1].(map[string]any)["tool_calls"].([]any) {
		call := c.(map[string]any)
		f := call["function"].(map[string]any)
		ids, names, args = append(ids, call["id"].(string)), append(names, f["name"].(string)), append(args, f["arguments"].(string))
	}
	require.Equal(t, []string{"functions_look_up", "unnamed", repeat("n", 64)}, names)
	require.Equal(t, []string{`{"raw":"{oops"}`, `{"raw":"[1]"}`, ` {"a": 1} `}, args)
	require.Equal(t, []string{"call00001", "call00002", "call00003"}, ids, "what the strictest endpoints take")
	for i, id := range ids {
		require.Equal(t, id, messages[2+i].(map[string]any)["tool_call_id"])
	}
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	cases := map[string]struct {
		req  llm.Request
		want string
	}{
		"tool result in a user message": {llm.Request{Messages: []llm.Message{llm.UserParts(llm.ToolResult{})}}, "message 0 of the request cannot be sent: a message of role user cannot hold a tool result"},
		"text in a tool message":        {llm.Request{Messages: []llm.Message{{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{llm.TextPart{}}}}}}, "role tool cannot hold a text part"},
		"parameters":                    {llm.Request{Tools: []llm.ToolSpec{{Name: "f", Parameters: json.RawMessage(`{oops`)}}}, `the parameters of tool "f" are not JSON`},
		"schema":                        {llm.Request{Settings: llm.Settings{ResponseFormat: &llm.ResponseFormat{Name: "r"}}}, `the schema of the response format "r" is not JSON`},
		"NaN":                           {llm.Request{Settings: llm.Settings{Temperature: ptr(math.NaN())}}, "temperature is NaN"},
		"Inf":                           {llm.Request{Settings: llm.Settings{TopP: ptr(math.Inf(1))}}, "top_p is +Inf"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("something was sent") })
			e := fails(t, m, &c.req)
			require.Equal(t, llm.CodeBadRequest, e.Code)
			require.False(t, e.Retryable)
			require.Contains(t, e.Message, c.want)
		})
	}
}

func TestHeadersAndAddress(t *testing.T) {
	type seen struct {
		path, query string
		header      http.Header
	}
	try := func(base string, opts ...Option) seen {
		var got seen
		m := serve(t, func(w http.ResponseWriter, r *http.Request) {
			got = seen{r.URL.Path, r.URL.RawQuery, r.Header}
			_, _ = io.ReadAll(r.Body)
			jsonOf(`{"choices":[{"message":{"content":"ok"}}]}`)(w, r)
		})
		host := strings.TrimSuffix(m.endpoint().where, "/v1/chat/completions")
		m, err := New("m", append([]Option{WithBaseURL(strings.Replace(base, "HOST", host, 1))}, opts...)...)
		require.NoError(t, err)
		_, err = ask(t, m, hello)
		require.NoError(t, err)
		return got
	}
	got := try("http://HOST/v1/")
	require.Equal(t, "/v1/chat/completions", got.path)
	require.NotContains(t, got.header, "Authorization", "no key, no header")
	require.Equal(t, "application/json", got.header.Get("Content-Type"))

	got = try(" http://HOST/openai/v1/chat/completions?api-version=2026-01-01\n", WithAPIKey(" key\n"),
		WithHeader("x-title", "old"), WithHeader("X-Title", "new"), WithHeader("api-key", "k2"))
	require.Equal(t, "/openai/v1/chat/completions", got.path)
	require.Equal(t, "api-version=2026-01-01", got.query)
	require.Equal(t, "Bearer key", got.header.Get("Authorization"))
	require.Equal(t, []string{"new"}, got.header["X-Title"])
	require.Equal(t, "k2", got.header.Get("Api-Key"))

	got = try("http://user:pass@HOST")
	require.Equal(t, "/chat/completions", got.path)
	require.Equal(t, "Basic dXNlcjpwYXNz", got.header.Get("Authorization"))

	got = try("http://HOST/v1", WithAPIKey("key"), WithHeader("Authorization", "Token mine"))
	require.Equal(t, "Token mine", got.header.Get("Authorization"))
}

// TestAudioThatCannotBeSent is refused before anything is sent.
func TestAudioThatCannotBeSent(t *testing.T) {
	m := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("something was sent") })
	for want, media := range map[string]llm.Media{
		`audio of the type "audio/ogg"`: {Kind: llm.MediaAudio, MediaType: "audio/ogg", Data: []byte{1}},
		"only its address names":        {Kind: llm.MediaAudio, MediaType: "audio/wav", URL: "https://example.com/a.wav"},
	} {
		_, err := ask(t, m, &llm.Request{Messages: []llm.Message{llm.UserParts(media)}})
		var e *llm.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, llm.CodeBadRequest, e.Code)
		require.ErrorContains(t, err, want)
	}
}
