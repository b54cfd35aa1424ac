package openai

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

const native = `{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}]}`

// nulls is an event whose finish reason is null, as most endpoints write it.
func nulls(d string) string {
	return `data: {"choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}` + "\n\n"
}

// TestUnknownEnds: whatever is in no list is an answer that was given up, of which nothing counts.
func TestUnknownEnds(t *testing.T) {
	for _, reason := range []string{"abort", "network_error", "ERROR", "insufficient_system_resource", "something_new", "MALFORMED_FUNCTION_CALL",
		"function_call_filter: MALFORMED_FUNCTION_CALL", "cancelled", "time_limit", "OTHER", "load", "pause_turn"} {
		for body, text := range map[string]string{
			text("half") + delta(`{}`, reason) + done:                                       "half",
			delta(native, "") + delta(`{}`, reason) + done:                                  "",
			delta(native, reason) + delta(`{}`, "stop") + done:                              "",
			`{"choices":[{"message":{"content":"half"},"finish_reason":"` + reason + `"}]}`: "half",
			`{"choices":[{"message":` + native + `,"finish_reason":"` + reason + `"}]}`:     "",
			text("half") + delta(native, "tool_calls") + delta(`{}`, reason):                "half",
		} {
			var asked atomic.Int32
			m := serve(t, func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				jsonOf(body)(w, r)
			}, WithRetries(1))
			got, err := ask(t, m, helloS)
			var e *llm.Error
			require.ErrorAs(t, err, &e, reason)
			require.True(t, e.Retryable, reason)
			require.Contains(t, e.Message, "finish_reason is "+reason)
			require.Empty(t, got.Calls)
			require.Equal(t, text, got.Text)
			require.EqualValues(t, map[bool]int{true: 2, false: 1}[text == ""], asked.Load(), "of what nobody has seen the adapter asks again")
		}
	}
}

// TestEndingsOfWords: a reason is read whatever its letters look like.
func TestEndingsOfWords(t *testing.T) {
	for reason, want := range map[string]ending{"": endNone, "null": endNone, "0": endNone, "FINISH_REASON_UNSPECIFIED": endNone, "Stop": endWell, "end-turn": endWell,
		"endTurn": endWell, "COMPLETE": endWell, "tool-calls": endWell, "MODEL_LENGTH": endLength, "maxTokens": endLength, "sensitive": endFilter, "RECITATION": endFilter,
		"guardrail_intervened": endFilter, "error": endBroken,
		"contextLengthReached": endLength, "max_output_tokens_reached": endLength, "token_limit_reached": endLength, "model_max_length": endLength, "truncated": endLength, "time_limit": endBroken,
		"stopStringFound": endWell, "end_id": endWell, "tools": endWell, "Succeeded": endWell, "IMAGE_PROHIBITED_CONTENT": endFilter, "output_filter": endFilter, "TOO_MANY_TOOL_CALLS": endBroken, "stop it": endBroken} {
		require.Equal(t, want, endingOf(reason), reason)
	}
}

// TestEndsWithoutReason: [DONE] alone ends an answer well only if the endpoint never gives a reason.
func TestEndsWithoutReason(t *testing.T) {
	half, whole := nulls(`{"content":"half"}`)+done, text("all")+delta(`{}`, "stop")+done
	for name, c := range map[string]struct {
		bodies []string
		good   []bool
	}{
		"it gives one":         {[]string{whole, half, text("half") + done, half, half}, []bool{true, false, false, false, false}},
		"it has never":         {[]string{half, half, half}, []bool{false, true, true}},
		"it has no field":      {[]string{text("all") + done, half, half}, []bool{true, false, true}},
		"it gives one at last": {[]string{half, half, whole, half}, []bool{false, true, true, false}},
		"EOF never":            {[]string{text("half"), text("half"), text("half")}, []bool{false, false, false}},
		"whole by itself":      {[]string{whole, `{"choices":[{"message":{"content":"all"},"finish_reason":null}]}`}, []bool{true, true}},
	} {
		var asked atomic.Int32
		m := serve(t, func(w http.ResponseWriter, r *http.Request) { jsonOf(c.bodies[asked.Add(1)-1])(w, r) })
		for i, good := range c.good {
			_, err := ask(t, m, helloS)
			if good {
				require.NoError(t, err, "%s %d", name, i)
				continue
			}
			var e *llm.Error
			require.True(t, errors.As(err, &e) && e.Retryable && e.Code == llm.CodeTruncated, "%s %d %v", name, i, err)
		}
	}
}

// TestErrorsUnderSuccess: an error ends the attempt wherever it is, with the endpoint's own words.
func TestErrorsUnderSuccess(t *testing.T) {
	begun := nulls(`{"content":"half"}`)
	for name, body := range map[string]string{
		"in the choice":       `{"choices":[{"index":0,"finish_reason":"error","error":{"code":502,"message":"boom"},"message":{"content":""}}]}`,
		"in a later choice":   begun + `data: {"choices":[{"delta":{},"error":"boom"}]}` + "\n\n" + done,
		"base_resp":           `{"base_resp":{"status_code":1008,"status_msg":"boom"},"choices":null}`,
		"base_resp, streamed": begun + `data: {"choices":[{"delta":{}}],"base_resp":{"status_code":1027,"status_msg":"boom"}}` + "\n\n" + done,
		"code":                begun + `data: {"code":"InvalidParameter","message":"boom"}` + "\n\n" + done,
		"code and msg":        `{"code":1113,"msg":"boom","success":false}`,
		"error_code":          begun + `data: {"error_code":336003,"error_msg":"boom"}` + "\n\n" + done,
		"true":                `{"error":true,"message":"boom"}`,
		"a number":            begun + `data: {"error":500,"message":"boom"}` + "\n\n" + done,
		"in lines":            begun + "[{\n  \"error\": {\n    \"message\": \"boom\"\n  }\n}\n]\n",
		"an array":            begun + `data: {"error":[{"message":"boom"}]}` + "\n\n" + done,
		"a list":              begun + `data: [{"error":{"message":"boom"}}]` + "\n\n" + done,
		"a field of the name": begun + `error: {"code":500,"message":"boom","type":"error"}` + "\n\n" + done,
		"a field, text":       begun + "error: boom\n\n" + done,
		"text as data":        begun + "data: Error: boom\n\n" + done,
		"type":                begun + `data: {"type":"error","message":"boom"}` + "\n\n" + done,
		"event of its type":   begun + "event: error\ndata: {\"type\":\"error\",\"message\":\"boom\"}\n\n" + done,
		"native reason":       begun + `data: {"choices":[{"delta":{},"finish_reason":"stop","native_finish_reason":"boom_error"}]}` + "\n\n" + done, // OleksandrChekhovskyi/hax#15
		"last words":          begun + "data: boom\n\n",
	} {
		for _, stream := range []bool{true, false} {
			_, err := ask(t, serve(t, jsonOf(body)), &llm.Request{Messages: hello.Messages, Stream: stream})
			var e *llm.Error
			require.ErrorAs(t, err, &e, name)
			require.Contains(t, e.Message, "boom", name)
		}
	}
	for name, body := range map[string]string{
		"code 0":      `{"code":0,"message":"ok","base_resp":{"status_code":0,"status_msg":""},"error":[],"choices":[{"message":{"content":"all"},"finish_reason":"stop"}]}`,
		"keep-alives": "data: : OPENROUTER PROCESSING\n\ndata: ping\n\ndata: \"ping\"\n\ndata: {\"type\":\"ping\"}\n\nevent: ping\ndata: 7\n\ndata: {}\n\ndata: []\n\n" + text("all") + delta(`{}`, "stop") + "data: \"[DONE]\"\n\n",
	} {
		got, err := ask(t, serve(t, jsonOf(body)), helloS)
		require.NoError(t, err, name)
		require.Equal(t, "all", got.Text, name)
	}
}
