package openai

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// The tests of this file are numbered after what go-openai's client (v1.43.0)
// loses or gets wrong, and why this package takes no more than its types.

func TestDefect1_EndWithoutDoneIsNoGoodEnd(t *testing.T) {
	e := fails(t, serve(t, bodyOf(text("part"))), helloS)
	require.Equal(t, llm.CodeTruncated, e.Code)
	require.True(t, e.Retryable)

	got, err := ask(t, serve(t, bodyOf(text("all")+delta(`{}`, "stop"))), helloS)
	require.NoError(t, err, "a finish_reason is enough")
	require.Equal(t, result{Text: "all", Model: "m-1", Finish: llm.FinishStop}, got)

	got, err = ask(t, serve(t, bodyOf(text("all")+done)), helloS)
	require.NoError(t, err, "and so is [DONE]")
	require.Equal(t, llm.FinishStop, got.Finish)
}

func TestDefect2_LastLineWithoutNewline(t *testing.T) {
	last := `data: {"choices":[{"index":0,"delta":{"content":"!"},"finish_reason":"length"}]}`
	got, err := ask(t, serve(t, bodyOf(text("hi")+last)), helloS)
	require.NoError(t, err)
	require.Equal(t, "hi!", got.Text)
	require.Equal(t, llm.FinishLength, got.Finish)

	got, err = ask(t, serve(t, bodyOf(text("hi")+"data: [DONE]")), helloS)
	require.NoError(t, err)
	require.Equal(t, "hi", got.Text)
}

func TestDefect3_ErrorsUnderStatus200(t *testing.T) {
	cases := map[string]struct {
		body string
		code llm.ErrorCode
		want string
	}{
		"first":          {`data: {"error":{"message":"overloaded","type":"server_error"}}` + "\n\n", llm.CodeServer, "overloaded"},
		"later":          {text("a") + `data: {"error":{"message":"overloaded"}}` + "\n\n", llm.CodeServer, "overloaded"},
		"other order":    {`data: {"id":"1","error":{"message":"overloaded","code":"rate_limit_exceeded"},"choices":[]}` + "\n\n", llm.CodeRateLimited, "overloaded"},
		"text":           {`data: {"error":"overloaded"}` + "\n\n", llm.CodeServer, "overloaded"},
		"event name":     {"event: error\ndata: {\"message\":\"overloaded\"}\n\n", llm.CodeServer, "overloaded"},
		"event text":     {"event: error\ndata: overloaded\n\n", llm.CodeServer, "overloaded"},
		"object":         {`data: {"object":"error","message":"overloaded","code":503}` + "\n\n", llm.CodeServer, "overloaded"},
		"without data":   {text("a") + `{"error":{"message":"overloaded"}}` + "\n", llm.CodeServer, "overloaded"},
		"finish error":   {delta(`{}`, "error") + done, llm.CodeServer, "finish_reason is error"},
		"page":           {text("a") + "<html>\n<head><title>504 Gateway Time-out</title></head>\n<body>secret-page</body>\n</html>\n", llm.CodeServer, `the answer is a web page with the title "504 Gateway Time-out"`},
		"page cut off":   {text("a") + "<html><head><title>Sign in</title></head>", llm.CodeBadResponse, `the answer is a web page with the title "Sign in"; is OPENAI_BASE_URL right?`},
		"page first":     {"<html><title>ERROR 502</title>", llm.CodeServer, `the answer is a web page with the title "ERROR 502"`},
		"number":         {`data: {"error":{"message":"no","code":401}}` + "\n\n", llm.CodeUnauthorized, "no (401)"},
		"context":        {`data: {"error":{"message":"no","code":"context_length_exceeded"}}` + "\n\n", llm.CodeContextLength, "no"},
		"provider":       {`data: {"error":{"message":"Provider returned error","metadata":{"raw":"the GPU burns"}}}` + "\n\n", llm.CodeServer, "Provider returned error: the GPU burns"},
		"groq":           {`data: {"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"error":"over capacity"}}` + "\n\n", llm.CodeServer, "over capacity"},
		"json":           {`{"error":{"message":"overloaded"}}`, llm.CodeServer, "overloaded"},
		"json detail":    {`{"detail":[{"loc":["body"],"msg":"field required"}]}`, llm.CodeServer, "field required"},
		"json errors":    {`{"success":false,"errors":[{"code":5007,"message":"No such model"}]}`, llm.CodeNotFound, "No such model"},
		"json list":      {`[{"error":{"message":"overloaded","code":400}}]`, llm.CodeBadRequest, "overloaded"},
		"json odd":       {`{"status":"ok"}`, llm.CodeBadResponse, `has no choices: {"status":"ok"}`},
		"json unknown":   {`{"Response":{"Error":{"Message":"overloaded"}}}`, llm.CodeBadResponse, "overloaded"},
		"unknown later":  {text("a") + `data: {"errmsg":"overloaded"}` + "\n\n", llm.CodeTruncated, `the endpoint's last text: {"errmsg":"overloaded"}`},
		"in the delta":   {`data: {"choices":[{"delta":{"error":{"message":"overloaded"}},"finish_reason":"error"}]}` + "\n\n", llm.CodeServer, "overloaded"},
		"name and text":  {`{"status":500,"error":"Internal Server Error","message":"overloaded"}`, llm.CodeServer, "Internal Server Error: overloaded"},
		"html":           {"<!DOCTYPE html><html><head><title>Sign in &amp; go</title></head></html>", llm.CodeBadResponse, `a web page with the title "Sign in & go"; is OPENAI_BASE_URL right? It usually ends in /v1`},
		"plain":          {"It works!", llm.CodeBadResponse, "neither JSON nor an event stream): It works!"},
		"garbage":        {"data: {oops\n\n" + done, llm.CodeBadResponse, "{oops"},
		"odd types":      {`data: {"choices":"none"}` + "\n\n" + done, llm.CodeBadResponse, "choices"},
		"text as delta":  {`data: {"choices":[{"delta":"Do not "}]}` + "\n\n" + text("pay.") + done, llm.CodeBadResponse, "Do not "},
		"text, message":  {`data: {"choices":[{"message":"Do not pay.","finish_reason":"stop"}]}` + "\n\n" + done, llm.CodeBadResponse, "Do not pay."},
		"calls in list":  {`data: {"choices":[{"delta":[{"tool_calls":[{"id":"1","function":{"name":"f"}}]}]}]}` + "\n\n" + text("a") + delta(`{}`, "stop") + done, llm.CodeBadResponse, "tool_calls"},
		"no choices":     {`data: {"choices":[]}` + "\n\n" + done, llm.CodeBadResponse, "has no choices"},
		"json then more": {`{"choices":[]} {"x":1}`, llm.CodeBadResponse, "unexpected data after the JSON object"},
		"json garbage":   {`{"choices": oops}`, llm.CodeBadResponse, "oops"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, req := range []*llm.Request{hello, helloS} {
				e := fails(t, serve(t, jsonOf(c.body)), req)
				require.Equal(t, c.code, e.Code)
				require.Contains(t, e.Message, c.want)
				require.Contains(t, e.Message, "127.0.0.1")
			}
		})
	}
	// null is no error, wherever it is
	got, err := ask(t, serve(t, bodyOf(`data: {"error":null,"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}`+"\n\n"+done)), helloS)
	require.NoError(t, err)
	require.Equal(t, "ok", got.Text)
}

// TestEventsWithoutFields: some endpoints send a JSON object a line, without "data:".
func TestEventsWithoutFields(t *testing.T) {
	bare := func(events string) string { return strings.ReplaceAll(events, "data: ", "") }
	for _, ends := range []string{"\n", "\n\n", "\r\n"} {
		body := strings.ReplaceAll(bare(text("hi")+text(" all")+delta(`{}`, "stop")+`data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`+"\n\n"), "\n\n", ends)
		for _, last := range []string{"", "[DONE]\n"} {
			got, err := ask(t, serve(t, jsonOf(body+last)), helloS)
			require.NoError(t, err)
			require.Equal(t, result{Text: "hi all", Model: "m-1", Finish: llm.FinishStop, Usage: &llm.Usage{InputTokens: 3, OutputTokens: 2}}, got)
		}
		e := fails(t, serve(t, jsonOf(bare(text("hi"))+`{"error":{"message":"the GPU is gone"}}`+ends)), helloS)
		require.Equal(t, llm.CodeServer, e.Code)
		require.Equal(t, llm.CodeTruncated, fails(t, serve(t, jsonOf(bare(text("hi"))+`{"choices":[{"del`)), helloS).Code)
	}
}

// TestOldCompletions: servers of the old API give the text without a message around it.
func TestOldCompletions(t *testing.T) {
	for _, body := range []string{
		`{"choices":[{"index":0,"text":"hi","finish_reason":"stop"}]}`, `{"choices":[{"text":"hi","message":{"content":"hi"},"finish_reason":"stop"}]}`,
		`data: {"choices":[{"text":"h"}]}` + "\n\n" + `data: {"choices":[{"text":"i"}]}` + "\n\n" + `data: {"choices":[{"text":"","finish_reason":"stop"}]}` + "\n\n" + done,
		`data: {"choices":[{"text":"h","delta":{"content":"h"}}]}` + "\n\n" + `data: {"choices":[{"text":"i","delta":{"content":"i"},"finish_reason":"stop"}]}` + "\n\n" + done,
	} {
		got, err := ask(t, serve(t, jsonOf(body)), helloS)
		require.NoError(t, err)
		require.Equal(t, "hi", got.Text, body)
	}
}

func TestDefect4_ManyKeepAliveComments(t *testing.T) {
	got, err := ask(t, serve(t, bodyOf(repeat(": keep-alive\n\n", 1000)+text("ok")+repeat("\n", 1000)+delta(`{}`, "stop")+done)), helloS)
	require.NoError(t, err)
	require.Equal(t, "ok", got.Text)
}

// TestCompressedAnswers: proxies compress although the request does not allow it (Anionex/agent-vision-toolkit#36), and
// do not always say so (Wei-Shaw/claude-relay-service#1039).
func TestCompressedAnswers(t *testing.T) {
	slow := WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			resp.Body = struct {
				io.Reader
				io.Closer
			}{iotest.OneByteReader(resp.Body), resp.Body}
		}
		return resp, err
	})})
	for _, encoding := range []string{"gzip", ""} {
		compressed := func(status int, body string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				if encoding != "" {
					w.Header().Set("Content-Encoding", encoding)
				}
				w.WriteHeader(status)
				z := gzip.NewWriter(w)
				_, _ = z.Write([]byte(body))
				_ = z.Close()
			}
		}
		for _, req := range []*llm.Request{hello, helloS} {
			got, err := ask(t, serve(t, compressed(200, text("all")+delta(`{}`, "stop")+done)), req)
			require.NoError(t, err)
			require.Equal(t, "all", got.Text)
			got, err = ask(t, serve(t, compressed(200, text("all")+delta(`{}`, "stop")+done), slow), req)
			require.NoError(t, err)
			require.Equal(t, "all", got.Text)
			_, err = ask(t, serve(t, compressed(400, `{"error":{"message":"odd"}}`)), req)
			require.ErrorContains(t, err, "Bad Request: odd")
			_, err = ask(t, serve(t, compressed(200, `{"choices":[{"message":{"content":"`+strings.Repeat("x", 5000)+`"}}]}`), WithMaxAnswerBytes(1000)), req)
			require.ErrorContains(t, err, "the answer is longer than 1000 bytes")
		}
		_, err := ask(t, serve(t, bodyOf("\x1f\x8bno")), helloS)
		require.Error(t, err)
	}
}

func TestDefect5_ZeroTemperatureIsSent(t *testing.T) {
	zero, small := 0.0, 0.0000001
	for _, stream := range []bool{true, false} {
		req := &llm.Request{Messages: hello.Messages, Stream: stream}
		body := sent(t, "m", req)
		require.NotContains(t, body, "temperature")
		require.NotContains(t, body, "top_p")
		req.Temperature, req.TopP = &zero, &small
		body = sent(t, "m", req)
		require.Contains(t, body, "temperature")
		require.Equal(t, 0.0, body["temperature"])
		require.Equal(t, small, body["top_p"])
	}
}

func TestDefect6_EmptyContentAndArgumentsAreSent(t *testing.T) {
	req := &llm.Request{Messages: []llm.Message{
		llm.UserText("hi"),
		{Role: llm.RoleAssistant, Content: llm.Content{Parts: []llm.Part{llm.ToolCall{ID: "1", Name: "f"}, llm.ToolCall{ID: "2", Name: "g", Arguments: " "}}}},
		{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: "1"}}}},
		{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: "2", Output: "out"}}}},
		llm.UserText(""),
	}}
	messages, err := json.Marshal(sent(t, "m", req)["messages"])
	require.NoError(t, err)
	require.JSONEq(t, `[
		{"role":"user","content":"hi"},
		{"role":"assistant","content":null,"tool_calls":[
			{"id":"call00001","type":"function","function":{"name":"f","arguments":"{}"}},
			{"id":"call00002","type":"function","function":{"name":"g","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"call00001","content":"(no output)"},
		{"role":"tool","tool_call_id":"call00002","content":"out"},
		{"role":"user","content":""}]`, string(messages))
}

func TestDefect7_ArgumentsAsObject(t *testing.T) {
	calls := `{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":{"a": [1, 2]}}}]}`
	for _, body := range []string{delta(calls, "tool_calls") + done, `{"choices":[{"message":` + calls + `,"finish_reason":"tool_calls"}]}`} {
		for _, req := range []*llm.Request{hello, helloS} {
			got, err := ask(t, serve(t, jsonOf(body)), req)
			require.NoError(t, err)
			require.Equal(t, []llm.ToolCall{{ID: "1", Name: "f", Arguments: `{"a": [1, 2]}`}}, got.Calls)
		}
	}
}

func TestDefect8_MissingIndexAndReasoningField(t *testing.T) {
	body := delta(`{"reasoning":"let me "}`, "") + delta(`{"reasoning_content":"see","reasoning":"see"}`, "") +
		delta(`{"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"a\""}}]}`, "") +
		delta(`{"tool_calls":[{"function":{"arguments":":1}"}}]}`, "") +
		delta(`{"tool_calls":[{"id":"2","function":{"name":"g","arguments":"{}"}}]}`, "tool_calls") + done
	got, err := ask(t, serve(t, bodyOf(body)), helloS)
	require.NoError(t, err)
	require.Equal(t, "let me see", got.Reasoning)
	require.Equal(t, []llm.ToolCall{{ID: "1", Name: "f", Arguments: `{"a":1}`}, {ID: "2", Name: "g", Arguments: "{}"}}, got.Calls)

	got, err = ask(t, serve(t, jsonOf(`{"choices":[{"message":{"content":"a","reasoning":"b"},"finish_reason":"stop"}]}`)), hello)
	require.NoError(t, err)
	require.Equal(t, "b", got.Reasoning)
}

func TestDefect9_RetriesAndRetryAfter(t *testing.T) {
	var calls atomic.Int32
	h := func(w http.ResponseWriter, r *http.Request) {
		switch calls.Add(1) {
		case 1:
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(429)
		case 2:
			w.WriteHeader(503)
		default:
			bodyOf(text("ok")+done)(w, r)
		}
	}
	got, err := ask(t, serve(t, h, WithRetries(2)), helloS)
	require.NoError(t, err)
	require.Equal(t, "ok", got.Text)
	require.EqualValues(t, 3, calls.Load())

	e := fails(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(429)
	}), helloS)
	require.Equal(t, 7*time.Second, e.RetryAfter)
}

func TestDefect10_ParametersAreTheEndpointsToJudge(t *testing.T) {
	temperature := 0.3
	req := &llm.Request{Messages: hello.Messages, Tools: []llm.ToolSpec{{Name: "f"}}}
	req.Temperature, req.MaxTokens = &temperature, 9
	for _, model := range []string{"o1-mini", "o3", "o4-mini", "gpt-5", "gpt-6-sol", "gpt-6-astra"} {
		body := sent(t, model, req)
		require.Equal(t, model, body["model"])
		require.Equal(t, 0.3, body["temperature"])
		require.Equal(t, 9.0, body["max_completion_tokens"])
		require.NotContains(t, body, "max_tokens")
		require.Len(t, body["tools"], 1)
	}
	require.Equal(t, 9.0, sent(t, "llama", req)["max_tokens"])

	// and what it says about them is one clear error
	m := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"error":{"message":"use the Responses API","code":"unsupported"}}`)
	})
	e := fails(t, m, req)
	require.Equal(t, llm.CodeBadRequest, e.Code)
	require.Contains(t, e.Message, "use the Responses API (unsupported)")
}
