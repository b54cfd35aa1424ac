package endpoint_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
)

func start(t *testing.T, models func(string) (llm.Model, bool), opts ...endpoint.Option) *endpoint.Server {
	t.Helper()
	s, err := endpoint.Start(models, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func post(t *testing.T, url, body string) (*http.Response, string, error) {
	t.Helper()
	resp, err := http.Post(url+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// events cuts a body of server-sent events into the data of each.
func events(body string) []string {
	var all []string
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			all = append(all, strings.TrimSpace(data))
		}
	}
	return all
}

func one(items ...scripted.Item) func(string) (llm.Model, bool) {
	return endpoint.Models(scripted.Always("m", scripted.Reply(items...)))
}

var everything = one(scripted.Think("hm"), scripted.Text("a<", "b"), scripted.CallID("1", "f", `{"x":1}`),
	scripted.CallID("2", "f", "{}"), scripted.ModelName("m-2026"), scripted.Usage(5, 2, 1))

func TestWholeAnswer(t *testing.T) {
	s := start(t, everything)
	resp, got, err := post(t, s.URL(), body(""))
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(got), &m))
	require.NotZero(t, m["created"])
	delete(m, "created")
	want := `{"id":"chatcmpl-1","object":"chat.completion","model":"m-2026",
		"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"a<b","reasoning_content":"hm","tool_calls":[
			{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
			{"id":"2","type":"function","function":{"name":"f","arguments":"{}"}}]}}],
		"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":1}}}`
	b, err := json.Marshal(m)
	require.NoError(t, err)
	require.JSONEq(t, want, string(b))
}

func TestStreamedAnswer(t *testing.T) {
	s := start(t, everything)
	resp, got, err := post(t, s.URL(), body(`"stream":true,"stream_options":{"include_usage":true}`))
	require.NoError(t, err)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	var choices []string
	all := events(got)
	require.Equal(t, "[DONE]", all[len(all)-1])
	for _, e := range all[:len(all)-1] {
		var m struct {
			Object, Model string
			Choices       json.RawMessage
			Usage         json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(e), &m))
		require.Equal(t, "chat.completion.chunk", m.Object)
		choices = append(choices, string(m.Choices)+string(m.Usage))
	}
	require.Equal(t, []string{
		`[{"index":0,"delta":{"role":"assistant","reasoning_content":"hm"},"finish_reason":null}]`,
		`[{"index":0,"delta":{"content":"a<"},"finish_reason":null}]`,
		`[{"index":0,"delta":{"content":"b"},"finish_reason":null}]`,
		`[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},"finish_reason":null}]`,
		`[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"2","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":null}]`,
		`[{"index":0,"delta":{},"finish_reason":"tool_calls"}]`,
		`[]{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":1}}`,
	}, choices)

	_, got, err = post(t, s.URL(), body(`"stream":true`))
	require.NoError(t, err)
	require.NotContains(t, got, "prompt_tokens", "usage was not asked for")
}

// Chunks must leave the server one by one, not when the answer is whole.
func TestStreamIsFlushed(t *testing.T) {
	gate := make(chan struct{})
	s := start(t, one(scripted.Text("first"), scripted.WaitFor(gate), scripted.Text("second")))
	resp, err := http.Post(s.URL()+"/chat/completions", "application/json", strings.NewReader(body(`"stream":true`)))
	require.NoError(t, err)
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "first")
	close(gate)
}

// A client that goes away cancels the model's context.
func TestClientGone(t *testing.T) {
	waiting, gone := make(chan struct{}), make(chan error, 1)
	m := scripted.Always("m", scripted.Reply(scripted.Text("first"), scripted.Wait(func(ctx context.Context) error {
		close(waiting)
		<-ctx.Done()
		gone <- ctx.Err()
		return ctx.Err()
	})))
	s := start(t, endpoint.Models(m))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL()+"/chat/completions", strings.NewReader(body(`"stream":true`)))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	<-waiting
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
}

// requestSpy keeps what it was asked.
type requestSpy struct{ got *llm.Request }

func (*requestSpy) Name() string { return "m" }
func (s *requestSpy) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	s.got = req
	return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{Finish: llm.FinishStop}, nil) }
}

func TestRequestReachesTheModel(t *testing.T) {
	spy := &requestSpy{}
	s := start(t, endpoint.Models(spy), endpoint.WithRecording())
	b := body(`"messages":[` + strings.Join([]string{sys,
		`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAE="}},` +
			`{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AAE="}}]}`,
		`{"role":"assistant","content":"a","reasoning_content":"r","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
		done1, user}, ",") + `],
		"temperature":0,"top_p":0.5,"max_tokens":7,"stop":"x","tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,
		"response_format":{"type":"json_schema","json_schema":{"name":"r","schema":{"type":"object"}}}`)
	resp, got, err := post(t, s.URL(), b)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode, got)

	zero, half, no := 0.0, 0.5, false
	require.Equal(t, &llm.Request{
		System: "be good",
		Messages: []llm.Message{
			llm.UserParts(llm.TextPart{Text: "see"},
				llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{0, 1}},
				llm.Media{Kind: llm.MediaImage, URL: "https://x/y.png"},
				llm.Media{Kind: llm.MediaFile, MediaType: "application/pdf", Data: []byte{0, 1}, Name: "a.pdf"}),
			{Role: llm.RoleAssistant, Content: llm.Content{Text: "a", Parts: []llm.Part{
				llm.Reasoning{Text: "r"}, llm.ToolCall{ID: "1", Name: "f", Arguments: "{}"}}}},
			{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: "1", Name: "f"}}}},
			llm.UserText("hi"),
		},
		Tools: []llm.ToolSpec{{Name: "f", Parameters: json.RawMessage(`{"type":"object"}`)}},
		Settings: llm.Settings{
			Temperature: &zero, TopP: &half, MaxTokens: 7, Stop: []string{"x"}, ToolChoice: "f", ParallelToolCalls: &no,
			ResponseFormat: &llm.ResponseFormat{Name: "r", Schema: json.RawMessage(`{"type":"object"}`)},
		},
	}, spy.got)
	require.Len(t, s.Requests(), 1)
	require.JSONEq(t, b, string(s.Requests()[0]))
}

func TestRefusals(t *testing.T) {
	s := start(t, one())
	cases := map[string]struct {
		body   string
		status int
		want   string
	}{
		"rules":  {msgs(sys, sys, sys, user), 400, `"param":"messages[1]"`},
		"model":  {body(`"model":"other"`), 404, `"code":"model_not_found"`},
		"size":   {body(`"user":"` + strings.Repeat("x", 32<<20) + `"`), 413, "too large"},
		"n":      {body(`"n":2`), 400, "gives one answer"},
		"base64": {msgs(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,!"}}]}`), 400, "is not in base64"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			resp, got, err := post(t, s.URL(), c.body)
			require.NoError(t, err)
			require.Equal(t, c.status, resp.StatusCode)
			require.Contains(t, got, c.want)
			require.Contains(t, got, `{"error":{"message":`)
		})
	}
	resp, err := http.Get(s.URL() + "/nothing")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 404, resp.StatusCode)
	_, got, err := post(t, strings.TrimSuffix(s.URL(), "/v1"), body(`"model":"other"`))
	require.NoError(t, err)
	require.Contains(t, got, "model_not_found")
}

func TestAPIKey(t *testing.T) {
	s := start(t, one(), endpoint.WithAPIKey("secret"))
	resp, _, err := post(t, s.URL(), body(""))
	require.NoError(t, err)
	require.Equal(t, 401, resp.StatusCode)
	req, err := http.NewRequest("POST", s.URL()+"/chat/completions", strings.NewReader(body("")))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer secret")
	resp, err = http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
}

// Every kind of failure, before and amid the answer, streamed and not.
func TestFaultsTravel(t *testing.T) {
	fail := func(code llm.ErrorCode) scripted.Item { return scripted.Fail(&llm.Error{Code: code, Message: "boom"}) }
	cases := map[string]struct {
		fault  scripted.Item
		status int    // 0: no answer, the connection breaks
		early  string // in the error body when it comes first
		late   string // the last event when it comes after text; "" means cut
	}{
		"503":          {scripted.Status(503, 0), 503, `"type":"server_error"`, `{"error":{"message":"scripted fault: 503 Service Unavailable","type":"server_error"}}`},
		"429":          {scripted.Status(429, 1500*time.Millisecond), 429, "rate_limit_exceeded", `{"error":{"message":"scripted fault: 429 Too Many Requests","type":"rate_limit_error","code":"rate_limit_exceeded"}}`},
		"timeout":      {fail(llm.CodeTimeout), 408, "boom", `{"error":{"message":"boom","type":"timeout","code":"timeout"}}`},
		"unauthorized": {fail(llm.CodeUnauthorized), 401, "invalid_api_key", `{"error":{"message":"boom","type":"invalid_request_error","code":"invalid_api_key"}}`},
		"context":      {fail(llm.CodeContextLength), 400, "context_length_exceeded", `{"error":{"message":"boom","type":"invalid_request_error","code":"context_length_exceeded"}}`},
		"bad request":  {fail(llm.CodeBadRequest), 400, "boom", `{"error":{"message":"boom","type":"invalid_request_error"}}`},
		"not found":    {fail(llm.CodeNotFound), 404, "boom", `{"error":{"message":"boom","type":"invalid_request_error","code":"model_not_found"}}`},
		"plain":        {scripted.Fail(errors.New("boom")), 500, "boom", `{"error":{"message":"boom","type":"server_error"}}`},
		"bad response": {fail(llm.CodeBadResponse), 200, "oops", `{"object": oops`},
		"unreachable":  {fail(llm.CodeUnreachable), 0, "", ""},
		"truncated":    {fail(llm.CodeTruncated), 200, "", ""},
		"cut":          {scripted.Cut(), 200, "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, stream := range []string{`"stream":true`, `"stream":false`} {
				s := start(t, one(c.fault))
				resp, got, err := post(t, s.URL(), body(stream))
				if c.status == 0 {
					require.ErrorIs(t, err, io.EOF)
					continue
				}
				require.Equal(t, c.status, resp.StatusCode)
				if c.early == "" {
					require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				} else {
					require.NoError(t, err)
				}
				require.Contains(t, got, c.early)
				if c.status == 429 {
					require.Equal(t, "2", resp.Header.Get("Retry-After"))
					require.Equal(t, "1500", resp.Header.Get("Retry-After-Ms"))
				}
			}
			s := start(t, one(scripted.Text("part"), c.fault))
			resp, got, err := post(t, s.URL(), body(`"stream":true`))
			require.Equal(t, 200, resp.StatusCode)
			all := events(got)
			require.Contains(t, all[0], "part")
			if c.late == "" {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				require.Len(t, all, 1)
			} else {
				require.NoError(t, err)
				require.Equal(t, c.late, all[1])
			}
		})
	}
}

func TestScriptedModelsByName(t *testing.T) {
	script := scripted.New().
		Add("support", scripted.Reply(scripted.Text("from support"))).
		Add("billing", scripted.Reply(scripted.Text("from billing")))
	s := start(t, script.Models())
	for _, agent := range []string{"billing", "support"} {
		_, got, err := post(t, s.URL(), body(`"model":"`+agent+`"`))
		require.NoError(t, err)
		require.Contains(t, got, "from "+agent)
	}
	require.NoError(t, script.Done())
	resp, got, err := post(t, s.URL(), body(`"model":"support"`))
	require.NoError(t, err)
	require.Equal(t, 400, resp.StatusCode)
	require.Contains(t, got, "beyond its script")
}

func TestCloseEndsAnswersUnderWay(t *testing.T) {
	entered := make(chan struct{})
	s := start(t, one(scripted.Wait(func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	})))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = post(t, s.URL(), body(""))
	}()
	<-entered
	require.NoError(t, s.Close())
	<-done
}

func TestLogProbsTravel(t *testing.T) {
	model := scripted.Always("m", scripted.Reply(scripted.Likely("é", 0.5, map[string]float64{"e": 0.25, "x": 0}), scripted.Text("t")))
	s, err := endpoint.Start(endpoint.Models(model))
	require.NoError(t, err)
	defer s.Close()
	client, err := openai.New("m", openai.WithBaseURL(s.URL()), openai.WithRetries(0))
	require.NoError(t, err)
	for _, stream := range []bool{false, true} {
		var probs []llm.LogProb
		var text string
		for c, err := range client.Generate(t.Context(), &llm.Request{Messages: []llm.Message{llm.UserText("hi")}, Stream: stream, Settings: llm.Settings{TopLogProbs: 3}}) {
			require.NoError(t, err)
			text += c.Text
			probs = append(probs, c.LogProbs...)
		}
		require.Equal(t, "ét", text)
		require.Equal(t, []llm.LogProb{{Token: "é", LogProb: math.Log(0.5), Top: []llm.LogProb{
			{Token: "é", LogProb: math.Log(0.5)}, {Token: "e", LogProb: math.Log(0.25)}, {Token: "x", LogProb: -math.MaxFloat32}}}}, probs)
	}
	require.ErrorContains(t, endpoint.CheckBody([]byte(body(`"top_logprobs":3`))), "top_logprobs: is allowed only when logprobs is true")
}
