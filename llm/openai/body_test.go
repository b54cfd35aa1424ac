package openai

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// The forms of event streams: all say the same.
func TestFormsOfStreams(t *testing.T) {
	const ev1 = `{"choices":[{"delta":{"content":"Hello "}}]}`
	const ev2 = `{"choices":[{"delta":{"content":"world"},"finish_reason":"stop"}],"model":"m-1"}`
	big := repeat("x", 10_000)
	cases := map[string]struct{ body, want string }{
		"plain":               {"data: " + ev1 + "\n\ndata: " + ev2 + "\n\n" + done, ""},
		"CRLF":                {"data: " + ev1 + "\r\n\r\ndata: " + ev2 + "\r\n\r\ndata: [DONE]\r\n\r\n", ""},
		"no space":            {"data:" + ev1 + "\n\ndata:" + ev2 + "\n\ndata:[DONE]\n\n", ""},
		"no blank lines":      {"data: " + ev1 + "\ndata: " + ev2 + "\ndata: [DONE]\n", ""},
		"comments and more":   {"\ufeff\n\n: hi\nid: 1\nretry: 10\nevent: message\ndata: " + ev1 + "\n\n:\n\nfoo: bar\ndata: " + ev2 + "\n\n", ""},
		"many comments":       {repeat(": keep-alive\n\n", 1000) + "data: " + ev1 + repeat("\n", 1000) + "data: " + ev2, ""},
		"over several lines":  {"data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"Hello world\"},\ndata:\ndata: \"finish_reason\":\"stop\"}],\ndata: \"model\":\"m-1\"}\n\n" + done, ""},
		"a bare word between": {"data: " + ev1 + "\n\n[ping]\n\n[ping]\ndata: " + ev2 + "\n\n" + done, ""},
		"unknown fields":      {"data: {\"choices\":\nx-time: 12\ndata: [{\"delta\":{\"content\":\"Hello world\"},\"finish_reason\":\"stop\"}],\nx-time: 13\ndata: \"model\":\"m-1\"}\n\n" + done, ""},
		"several, then done":  {"data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"Hello world\"}}],\"model\":\"m-1\"}\ndata: [DONE]", ""},
		"after done":          {"data: " + ev1 + "\n\ndata: " + ev2 + "\n\n" + done + text("never"), ""},
		"empty choices":       {`data: {"choices":[],"prompt_filter_results":[{}]}` + "\n\ndata: " + ev1 + "\n\ndata: {}\n\ndata: " + ev2 + "\n\n" + done, ""},
		"other choices":       {`data: {"choices":[{"index":1,"delta":{"content":"no"}}]}` + "\n\ndata: " + ev1 + "\n\ndata: " + ev2 + "\n\n" + done, ""},
		"odd types":           {`data: {"id":7,"created":1.5,"choices":[{"delta":{"content":[{"type":"text","text":"Hello "},{"type":"text","text":"world"}]},"logprobs":"no"}],"usage":"none"}` + "\n\n" + `data: {"choices":[{"delta":null,"finish_reason":"stop"}],"model":"m-1"}`, ""},
		"empty lists":         {`data: {"base_resp":[],"x_groq":"","choices":[{"delta":{"content":"Hello world","function_call":"","tool_calls":false}}],"model":"m-1"}` + "\n\n" + `data: {"choices":[{"delta":[],"message":"","finish_reason":"stop"}]}`, ""},
		"json":                {`{"choices":[{"message":{"role":"assistant","content":"Hello world"},"finish_reason":"stop"}],"model":"m-1"}`, ""},
		"pretty json":         {"\n \r\n{\"choices\":[\n  {\"message\":{\"content\":\"Hello world\"}}\r\n],\n\"model\":\"m-1\"}\n", ""},
		"json, then done":     {`{"choices":[{"message":{"content":"Hello world"}}],"model":"m-1"}` + "data: [DONE]\n\n", ""}, // decolua/9router#3492
		"json, and done":      {"{\n" + `"choices":[{"message":{"content":"Hello world"}}],"model":"m-1"}` + "\n\n[done]\n", ""},
		"json after all":      {": hi\n\n{\"choices\":[\n  {\"message\":{\"content\":\"Hello world\"},\"finish_reason\":\"stop\"}],\n\"model\":\"m-1\"}\n", ""},
		"events of events":    {"data: data: " + ev1 + "\n\ndata: data: " + ev2 + "\n\ndata: data: [done]\n\n", ""},
		"thoughts in parts":   {`{"choices":[{"message":{"content":[{"type":"reasoning","text":"Hm."},{"type":"thinking","text":"So."},{"type":"text","text":"Hello world"}]}}],"model":"m-1"}`, ""},
		"refusal":             {`data: {"choices":[{"delta":{"content":null,"refusal":"Hello world"}}],"model":"m-1"}` + "\n\n" + done, ""},
		"refusal twice":       {`data: {"choices":[{"delta":{"content":"Hello world","refusal":"Hello world"}}],"model":"m-1"}` + "\n\n" + done, ""},
		"parts of others":     {`{"choices":[{"message":{"content":[{"type":"text","text":{"value":"Hel"}},{"type":"text","content":"lo "},{"type":"x","content":"no"},{"type":"refusal","refusal":"world"}]}}],"model":"m-1"}`, ""},
		"events as texts":     {"data: " + quoted(ev1) + "\n\ndata: " + quoted(ev2) + "\n\n" + done, ""},
		"json as a text":      {quoted("{\n" + `"choices":[{"message":{"content":"Hello world"}}],"model":"m-1"}`), ""},
		"json in a field":     {`{"statusCode":200,"body":` + quoted(`{"choices":[{"message":{"content":"Hello world"}}],"model":"m-1"}`) + `}`, ""},
		"byte order marks":    {"\ufeffdata: " + ev1 + "\n\n\ufeffdata: " + ev2 + "\n\n" + done, ""},
		"long lines":          {text(big) + text(big) + done, big + big},
		"unicode":             {text("ä\u2028\x00\"\\ 🦜") + done, "ä\u2028\x00\"\\ 🦜"},
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

// TestErrorWithinAnEvent: a gateway that loses its endpoint within an event writes its error before the event ends
// (Wei-Shaw/sub2api#1471).
func TestErrorWithinAnEvent(t *testing.T) {
	e := fails(t, serve(t, bodyOf(text("a")+"data: {\"choices\":[{\"delta\":{\"con\ndata: {\"type\":\"error\",\"error\":{\"message\":\"stream_read_error\"}}\n\n")), helloS)
	require.Equal(t, llm.CodeServer, e.Code)
	require.True(t, e.Retryable)
	require.Contains(t, e.Message, "stream_read_error")
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

// FuzzAnswerBody feeds any bytes as the body of an answer. Whatever they are, each
// event must be one line, reading must end, and come out the same however the
// bytes arrive.
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
		read := func(src io.Reader) (events []string, err error) {
			a := &attempt{client: m.endpoint(), ctx: context.Background(), watch: newWatchdog(llm.Timeouts{}, func(error) {})}
			b := newAnswerBody(&meter{src: io.NopCloser(src), a: a, left: 1 << 20}, contentType, m.endpoint())
			defer b.finish()
			for {
				ev, err := b.next()
				if err != nil {
					return events, err
				}
				require.NotContains(t, string(ev), "\n")
				if events = append(events, string(ev)); len(events) > len(data)+1 {
					t.Fatal("more events than bytes")
				}
			}
		}
		events, err := read(bytes.NewReader(data))
		again, errAgain := read(iotest.OneByteReader(bytes.NewReader(data)))
		require.Equal(t, events, again)
		require.Equal(t, err.Error(), errAgain.Error())
	})
}
