package openai

import (
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

func TestErrorsUnderStatus200(t *testing.T) {
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
	for encoding, compress := range map[string]func(io.Writer) io.WriteCloser{
		"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"":        func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	} {
		compressed := func(status int, body string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				if encoding != "" {
					w.Header().Set("Content-Encoding", encoding)
				}
				w.WriteHeader(status)
				z := compress(w)
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
	}
	for _, body := range []string{"\x1f\x8bno", "\x78\x9cno"} {
		_, err := ask(t, serve(t, bodyOf(body)), helloS)
		require.Error(t, err)
	}
	_, err := ask(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		bodyOf("\x1b\x30\x00\xe0")(w, r)
	}), helloS)
	require.ErrorContains(t, err, "the answer is compressed with br, which the request")
	for _, name := range []string{"none", "utf-8", "chunked", "identity, identity"} {
		got, err := ask(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", name)
			bodyOf(text("Hello")+done)(w, r)
		}), helloS)
		require.NoError(t, err, name)
		require.Equal(t, "Hello", got.Text, name)
	}
}

func TestArgumentsAsObject(t *testing.T) {
	calls := `{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":{"a": [1, 2]}}}]}`
	for _, body := range []string{delta(calls, "tool_calls") + done, `{"choices":[{"message":` + calls + `,"finish_reason":"tool_calls"}]}`} {
		for _, req := range []*llm.Request{hello, helloS} {
			got, err := ask(t, serve(t, jsonOf(body)), req)
			require.NoError(t, err)
			require.Equal(t, []llm.ToolCall{{ID: "1", Name: "f", Arguments: `{"a": [1, 2]}`}}, got.Calls)
		}
	}
}

func TestParametersAreTheEndpointsToJudge(t *testing.T) {
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
