package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// streamed is what came of a stream.
type streamed struct {
	text, reasoning string
	calls           []llm.ToolCall
	finish          llm.FinishReason
	err             error
}

// readStream reads a body as the answer of an endpoint, and checks what holds for every answer: calls come last,
// and only if the answer is whole; one terminal chunk ends it, or an error.
func readStream(t *testing.T, body []byte, opts ...Option) (got streamed) {
	t.Helper()
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {"text/event-stream"}}
		return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
	})}
	m, err := New("m", append(opts, WithBaseURL("http://pipe/v1"), WithAPIKey(testKey), WithHTTPClient(client), WithRetries(0))...)
	require.NoError(t, err)
	req := stock()
	req.Stream, req.Messages = true, helloS.Messages
	ids := map[string]bool{}
	for chunk, err := range m.Generate(t.Context(), req) {
		require.Empty(t, got.finish, "a chunk after the terminal one")
		require.NoError(t, got.err, "a chunk after an error")
		if got.err = err; err != nil {
			require.Empty(t, got.calls, "an error after a call")
			continue
		}
		got.text += chunk.Text
		got.reasoning += chunk.Reasoning
		if c := chunk.Call; c != nil {
			require.False(t, c.ID == "" || ids[c.ID], "ids are unique")
			ids[c.ID] = true
			got.calls = append(got.calls, *c)
		}
		got.finish = chunk.Finish
	}
	require.True(t, got.err != nil || got.finish != "", "an answer without an end")
	return got
}

// checkCut holds that a stream which breaks off within the arguments of a call, before any finish reason, gives no call.
// The mark stands where the stream breaks off.
func checkCut(t *testing.T, body []byte, ends [][]byte, opts ...Option) {
	t.Helper()
	at := bytes.LastIndex(body, []byte("arguments"))
	if at < 0 {
		return
	}
	cut := body[:at]
	if json.Valid(cut) {
		return // a whole answer that is no stream
	}
	for _, end := range ends {
		if bytes.Contains(bytes.ToLower(cut), end) {
			return
		}
	}
	require.Empty(t, readStream(t, cut, opts...).calls)
}

// eventOf writes an event of a stream.
func eventOf(v any) string {
	raw, _ := json.Marshal(v) // what the fuzz targets give can be encoded
	return "data: " + string(raw) + "\n\n"
}

// FuzzChatStream reads any bytes as a stream of chat completions. A message that repeats the whole answer at its end
// adds nothing to it.
func FuzzChatStream(f *testing.F) {
	for _, body := range []string{
		text("There ") + text("are 7.") + delta(`{}`, "stop") + done,
		delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"lookup","arguments":"{\"city\":"}}]}`, "") + delta(`{"tool_calls":[{"index":0,"function":{"arguments":"\"Ulm\"}"}}]}`, "") + delta(`{}`, "tool_calls") + done,
		delta(`{"tool_calls":[{"id":"a","name":"lookup","arguments":{"city":"Ulm"}}]}`, "tool_calls") + done,
		delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"lookup","arguments":"{}"}}]}`, "") + delta(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"","arguments":"{\"city\":\"Ulm\"}"}}]}`, "") + delta(`{}`, "tool_calls") + done,
		delta(`{"function_call":{"name":"lookup","arguments":"{\"city\":\"Ulm\"}"}}`, "function_call"),
		`data: {"choices":[{"index":0,"delta":{"content":"a"},"message":{"content":"a"}}]}` + "\r\r" + `data: {"choices":[{"index":1,"delta":{"content":"b"},"message":{"content":"ab"},"finish_reason":"eos"}]}` + "\r\n\r\n",
		delta(`{"content":"<think>\nhm</think>\n\nSeven"}`, "") + delta(`{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"hm"}]}`, "") + delta(`{}`, "stop"),
		": keep\n\ndata: ping\n\nerror: {\"code\":500,\"message\":\"burning\"}\n\n" + done,
		text("a") + delta(`{}`, "abort") + done, `{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}`,
		delta(`{"content":"\ud83d"}`, "") + delta(`{"content":"\ude00"}`, "") + delta(`{"content":"{\"name\":\"lookup\",\"arguments\":{\"city\":\"Ulm\"}}"}`, "stop"),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := readStream(t, body)
		checkCut(t, body, [][]byte{[]byte("finish"), []byte("[done]"), []byte("message")})
		at := bytes.LastIndex(body, []byte("data: [DONE]"))
		if got.finish == "" || at < 0 || got.reasoning != "" || bytes.Count(body, []byte(`"delta":{"content":"`)) != bytes.Count(body, []byte("data: {")) {
			return
		}
		message := map[string]any{"content": got.text}
		again := eventOf(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "message": message}}})
		twice := readStream(t, []byte(string(body[:at])+again+string(body[at:])))
		require.Equal(t, got.text, twice.text)
		require.Len(t, twice.calls, len(got.calls))
	})
}

// FuzzResponsesStream reads any bytes as a stream of the Responses API. A last event that comes twice adds nothing.
func FuzzResponsesStream(f *testing.F) {
	item := `{"type":"function_call","id":"f1","call_id":"a","name":"lookup","arguments":%s,"status":"completed"}`
	call := fmt.Sprintf(item, `"{\"city\":\"Ulm\"}"`)
	message := `{"type":"message","id":"m1","content":[{"type":"output_text","text":"There are 7."}]}`
	words := "data: {\"type\":\"response.output_text.delta\",\"item_id\":\"m1\",\"output_index\":0,\"delta\":\"There are 7.\"}\n\n"
	end := func(output string) string {
		return `data: {"type":"response.completed","response":{"object":"response","status":"completed","output":[` + output + "]}}\n\n"
	}
	part := "data: {\"type\":\"response.function_call_arguments.delta\",\"item_id\":\"f1\",\"delta\":\"{\\\"city\\\":\"}\n\n"
	added := "data: {\"type\":\"response.output_item.added\",\"output_index\":1,\"item\":" + fmt.Sprintf(item, `""`) + "}\n\n"
	for _, body := range []string{
		words + end(message), words + added + part + strings.Replace(part, `{\"city\":`, `\"Ulm\"}`, 1) + end(message+","+call), end(message + "," + call),
		words + "data: {\"type\":\"response.output_item.done\",\"item\":" + call + "}\n\n" + end(""), added + part + end(""),
		strings.ReplaceAll(words+end(message), `"id":"m1",`, ""), words + `data: {"type":"response.failed","response":{"error":{"message":"burning"}}}`,
		words + `data: {"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`,
		end(fmt.Sprintf(item, `{"city":"Ulm"}`)), `data: {"type":"response.reasoning_summary_text.delta","item_id":"r","delta":"hm"}` + "\n\n" + end(`{"type":"reasoning","id":"r","encrypted_content":"x","summary":[]},`+message),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := readStream(t, body, WithResponses())
		checkCut(t, body, [][]byte{[]byte("completed"), []byte("incomplete"), []byte("response\"")}, WithResponses())
		at := bytes.LastIndex(body, []byte("data: {\"type\":\"response.completed\""))
		if got.finish == "" || at < 0 || bytes.Count(body[at:], []byte("data:")) != 1 || !bytes.HasSuffix(body, []byte("\n\n")) {
			return
		}
		twice := readStream(t, []byte(string(body)+string(body[at:])), WithResponses())
		require.Equal(t, [2]string{got.text, got.reasoning}, [2]string{twice.text, twice.reasoning})
		require.Len(t, twice.calls, len(got.calls))
	})
}
