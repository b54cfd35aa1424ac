package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

func toolDelta(s string) string { return delta(`{"tool_calls":[`+s+`]}`, "") }

func TestToolCallsAreAssembled(t *testing.T) {
	want := []llm.ToolCall{{ID: "1", Name: "f", Arguments: `{"a":1}`}, {ID: "2", Name: "g", Arguments: `{"b":2}`}}
	cases := map[string]string{
		"by index, interleaved": toolDelta(`{"index":0,"id":"1","type":"function","function":{"name":"f","arguments":""}}`) +
			toolDelta(`{"index":1,"id":"2","type":"function","function":{"name":"g","arguments":""}}`) +
			toolDelta(`{"index":0,"function":{"arguments":"{\"a\""}},{"index":1,"function":{"arguments":"{\"b\""}}`) +
			toolDelta(`{"index":1,"function":{"arguments":":2}"}}`) + toolDelta(`{"index":0,"function":{"arguments":":1}"}}`),
		"id and name repeated": toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\""}}`) +
			toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":":1}"}}`) +
			toolDelta(`{"index":1,"id":"2","function":{"name":"g","arguments":"{\"b\""}}`) +
			toolDelta(`{"index":1,"id":"","function":{"name":"","arguments":":2}"}}`),
		"index always 0": toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}}`) +
			toolDelta(`{"index":0,"id":"2","function":{"name":"g","arguments":"{\"b\""}}`) +
			toolDelta(`{"index":0,"function":{"arguments":":2}"}}`),
		"no index, ids": toolDelta(`{"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"2","function":{"name":"g","arguments":"{"}}`) +
			toolDelta(`{"id":"2","function":{"arguments":"\"b\":2}"}}`),
		"no index, parts without id": toolDelta(`{"id":"1","function":{"name":"f","arguments":"{\"a\""}}`) +
			toolDelta(`{"function":{"arguments":":1}"}}`) +
			toolDelta(`{"id":"2","function":{"name":"g","arguments":{"b":2}}}`),
		"late id and name": toolDelta(`{"index":0,"function":{"arguments":""}}`) + toolDelta(`{"index":0,"id":"1","function":{"name":"f"}}`) +
			toolDelta(`{"index":0,"function":{"arguments":"{\"a\":1}"}}`) + toolDelta(`{"index":1,"id":"2","function":{"name":"g","arguments":"{\"b\":2}"}}`),
	}
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, serve(t, bodyOf(body+delta(`{}`, "tool_calls")+done)), helloS)
			require.NoError(t, err)
			require.Equal(t, want, got.Calls)
			require.Equal(t, llm.FinishToolCalls, got.Finish)
		})
	}
}

func TestMissingAndRepeatedCallIDs(t *testing.T) {
	cases := map[string]string{
		"stream, nothing but names": toolDelta(`{"function":{"name":"f","arguments":"{}"}}`) + toolDelta(`{"function":{"name":"f","arguments":"{}"}}`) + done,
		"stream, index always 0":    toolDelta(`{"index":0,"function":{"name":"f","arguments":"{}"}}`) + toolDelta(`{"index":0,"function":{"name":"f","arguments":"{}"}}`) + done,
		"stream, one id":            toolDelta(`{"index":0,"id":"x","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"x","function":{"name":"f","arguments":"{}"}}`) + done,
		"whole, no ids":             `{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"f","arguments":"{}"}}]}}]}`,
		"whole, one id":             `{"choices":[{"message":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}},{"id":"x","function":{"name":"f","arguments":"{}"}}]}}]}`,
		"whole, old":                `{"choices":[{"message":{"function_call":{"name":"f","arguments":"{}"},"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]}`,
	}
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, serve(t, jsonOf(body)), helloS)
			require.NoError(t, err)
			require.Len(t, got.Calls, 2)
			require.NotEqual(t, got.Calls[0].ID, got.Calls[1].ID)
			for _, c := range got.Calls {
				require.NotEmpty(t, c.ID)
				require.LessOrEqual(t, len(c.ID), maxWireID)
				require.Equal(t, "f", c.Name)
				require.Equal(t, "{}", c.Arguments)
			}
		})
	}
}

func TestRepeatedNameWithEveryPart(t *testing.T) {
	body := toolDelta(`{"function":{"name":"f","arguments":"{\"a\""}}`) + toolDelta(`{"function":{"name":"f","arguments":":1}"}}`) + done
	got, err := ask(t, serve(t, bodyOf(body)), helloS)
	require.NoError(t, err)
	require.Len(t, got.Calls, 1)
	require.Equal(t, `{"a":1}`, got.Calls[0].Arguments)
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
		{"content_filter", true, llm.FinishContentFilter}, {"SAFETY", false, llm.FinishContentFilter}, {"eos", false, llm.FinishStop},
		{"something_new", false, "something_new"},
	}
	for _, c := range cases {
		t.Run(fmt.Sprint(c.reason, c.calls), func(t *testing.T) {
			body := text("x")
			if c.calls {
				body += call
			}
			got, err := ask(t, serve(t, bodyOf(body+delta(`{}`, c.reason)+done)), helloS)
			require.NoError(t, err)
			require.Equal(t, c.want, got.Finish)
			require.Equal(t, c.calls, len(got.Calls) == 1)
		})
	}
}

// The forms of event streams: all say the same.
func TestFormsOfStreams(t *testing.T) {
	const ev1 = `{"choices":[{"delta":{"content":"Hello "}}]}`
	const ev2 = `{"choices":[{"delta":{"content":"world"},"finish_reason":"stop"}],"model":"m-1"}`
	big := repeat("x", 10_000)
	cases := map[string]struct{ body, want string }{
		"plain":              {"data: " + ev1 + "\n\ndata: " + ev2 + "\n\n" + done, ""},
		"CRLF":               {"data: " + ev1 + "\r\n\r\ndata: " + ev2 + "\r\n\r\ndata: [DONE]\r\n\r\n", ""},
		"no space":           {"data:" + ev1 + "\n\ndata:" + ev2 + "\n\ndata:[DONE]\n\n", ""},
		"no blank lines":     {"data: " + ev1 + "\ndata: " + ev2 + "\ndata: [DONE]\n", ""},
		"comments and more":  {"\ufeff\n\n: hi\nid: 1\nretry: 10\nevent: message\ndata: " + ev1 + "\n\n:\n\nfoo: bar\ndata: " + ev2 + "\n\n", ""},
		"over several lines": {"data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"Hello world\"},\ndata:\ndata: \"finish_reason\":\"stop\"}],\ndata: \"model\":\"m-1\"}\n\n" + done, ""},
		"several, then done": {"data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"Hello world\"}}],\"model\":\"m-1\"}\ndata: [DONE]\n", ""},
		"after done":         {"data: " + ev1 + "\n\ndata: " + ev2 + "\n\n" + done + text("never"), ""},
		"empty choices":      {`data: {"choices":[],"prompt_filter_results":[{}]}` + "\n\ndata: " + ev1 + "\n\ndata: {}\n\ndata: " + ev2 + "\n\n" + done, ""},
		"other choices":      {`data: {"choices":[{"index":1,"delta":{"content":"no"}}]}` + "\n\ndata: " + ev1 + "\n\ndata: " + ev2 + "\n\n" + done, ""},
		"odd types":          {`data: {"id":7,"created":1.5,"choices":[{"delta":{"content":[{"type":"text","text":"Hello "},{"type":"text","text":"world"}]},"logprobs":"no"}],"usage":"none"}` + "\n\n" + `data: {"choices":[{"delta":null,"finish_reason":"stop"}],"model":"m-1"}`, ""},
		"json":               {`{"choices":[{"message":{"role":"assistant","content":"Hello world"},"finish_reason":"stop"}],"model":"m-1"}`, ""},
		"pretty json":        {"\n \r\n{\"choices\":[\n  {\"message\":{\"content\":\"Hello world\"}}\r\n],\n\"model\":\"m-1\"}\n", ""},
		"refusal":            {`data: {"choices":[{"delta":{"content":null,"refusal":"Hello world"}}],"model":"m-1"}` + "\n\n" + done, ""},
		"long lines":         {text(big) + text(big) + done, big + big},
		"unicode":            {text("ä\u2028\x00\"\\ 🦜") + done, "ä\u2028\x00\"\\ 🦜"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.want == "" {
				c.want = "Hello world"
			}
			for _, req := range []*llm.Request{hello, helloS} {
				for _, h := range []http.HandlerFunc{jsonOf(c.body), bodyOf(c.body), byteByByte(c.body)} {
					got, err := ask(t, serve(t, h), req)
					require.NoError(t, err)
					require.Equal(t, c.want, got.Text)
					require.Equal(t, llm.FinishStop, got.Finish)
					require.Equal(t, "m-1", got.Model)
				}
			}
		})
	}
}

func byteByByte(body string) http.HandlerFunc {
	if len(body) > 1000 {
		return bodyOf(body)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := range len(body) {
			_, _ = io.WriteString(w, body[i:i+1])
			flush(w)
		}
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
	// The last count is the one that counts.
	got, err := ask(t, serve(t, bodyOf(`data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\n"+
		`data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`+"\n\n"+
		`data: {"choices":[],"usage":null}`+"\n\n"+done)), helloS)
	require.NoError(t, err)
	require.Equal(t, &llm.Usage{InputTokens: 1, OutputTokens: 2}, got.Usage)
}

// TestOddCounts: a count that cannot be true makes the usage unknown, and fails
// nothing.
func TestOddCounts(t *testing.T) {
	for told, want := range map[string]*llm.Usage{
		`{"prompt_tokens":12.0,"completion_tokens":7}`:                                                         {InputTokens: 12, OutputTokens: 7},
		`{"prompt_tokens":-100000,"completion_tokens":7}`:                                                      nil,
		`{"prompt_tokens":12,"completion_tokens":-1}`:                                                          nil,
		`{"prompt_tokens":1e30,"completion_tokens":7}`:                                                         nil,
		`{"prompt_tokens":99999999999999999999,"completion_tokens":7}`:                                         nil,
		`{"prompt_tokens":1e400,"completion_tokens":7}`:                                                        nil,
		`{"prompt_tokens":12,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":-4}}`:              {InputTokens: 12, OutputTokens: 7},
		`{"prompt_tokens":12,"completion_tokens":7,"prompt_cache_hit_tokens":1e30,"prompt_tokens_details":{}}`: {InputTokens: 12, OutputTokens: 7},
		`{"prompt_tokens":0,"completion_tokens":0}`:                                                            nil,
		`{"prompt_tokens":"12"}`:                                                                               nil,
		`[]`:                                                                                                   nil,
	} {
		got, err := ask(t, serve(t, bodyOf(`data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":`+told+"}\n\n"+done)), helloS)
		require.NoError(t, err, told)
		require.Equal(t, want, got.Usage, told)
	}
}

// FuzzAnswerBody feeds any bytes as the body of an answer. Whatever they are,
// the library's lines must be those of next, each one JSON object in a line, and
// reading must end.
func FuzzAnswerBody(f *testing.F) {
	f.Add([]byte(text("hi")+delta(`{}`, "stop")+done), true)
	f.Add([]byte(": c\n\ndata: {\"error\":null}\r\ndata: [DONE]"), true)
	f.Add([]byte("data: {\ndata: }\n\nevent: error\ndata: x\n\n"), false)
	f.Add([]byte("event: error\ndata: {}\n\n"), false)
	f.Add([]byte(" \n{\"choices\":[\n]}"), false)
	f.Add([]byte("<html><title>x"), false)
	f.Add([]byte("[{\"error\":\"x\"}]"), false)
	f.Add([]byte("data: "+repeat("x", 5000)+"\n\n"), true)
	m, err := New("m")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, isSSE bool) {
		contentType := ""
		if isSSE {
			contentType = "text/event-stream"
		}
		open := func() *answerBody {
			a := &attempt{client: m.endpoint(), ctx: context.Background(), watch: newWatchdog(Timeouts{}, func(error) {})}
			a.body = newAnswerBody(&meter{src: io.NopCloser(bytes.NewReader(data)), a: a, left: 1 << 20}, contentType, m.endpoint())
			return a.body
		}
		var events []string
		b := open()
		err := error(nil)
		for err == nil {
			var ev []byte
			if ev, err = b.next(); err == nil {
				require.NotContains(t, string(ev), "\n")
				line := string(ev)
				if rest, ok := strings.CutPrefix(line, `{"error"`); ok {
					line = `{ "error"` + rest
				}
				events = append(events, line)
				if len(events) > len(data)+1 {
					t.Fatal("more events than bytes")
				}
			}
		}
		b.finish()
		c := open()
		lines, readErr := io.ReadAll(c)
		if err == io.EOF {
			require.NoError(t, readErr)
		} else {
			require.Equal(t, err.Error(), readErr.Error())
		}
		want := ""
		for _, ev := range events {
			want += "data: " + ev + "\n"
		}
		require.Equal(t, want, string(lines))
	})
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
		_ = ev.failure(true)
		if u := ev.usage(); u != nil {
			again, ok := u.Plausible()
			require.True(t, ok)
			require.Equal(t, again, *u)
		}
		var calls callList
		for _, c := range ev.Choices {
			calls.addAll(&c.Delta, false)
			calls.addAll(&c.Message, true)
		}
		seen := map[string]bool{}
		for c := range calls.all() {
			require.False(t, seen[c.ID] || c.ID == "")
			seen[c.ID] = true
		}
	})
}
