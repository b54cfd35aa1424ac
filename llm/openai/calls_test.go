package openai

import (
	"encoding/json"
	"strconv"
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
	arg := func(n int) string { return `"arguments":"{\"a\":` + strconv.Itoa(n) + `}"}}` }
	cases := map[string]string{
		"stream, nothing but names": toolDelta(`{"function":{"name":"f","arguments":"{}"}}`) + toolDelta(`{"function":{"name":"f","arguments":"{}"}}`) + done,
		"stream, index always 0":    toolDelta(`{"index":0,"function":{"name":"f","arguments":"{}"}}`) + toolDelta(`{"index":0,"function":{"name":"f","arguments":"{}"}}`) + done,
		"stream, one id":            toolDelta(`{"index":0,"id":"x","function":{"name":"f",`+arg(1)+`,{"index":1,"id":"x","function":{"name":"f",`+arg(2)) + done,
		"stream, one id, no index":  toolDelta(`{"id":"x","function":{"name":"f",`+arg(1)+`,{"id":"x","function":{"name":"f",`+arg(2)) + done,
		"whole, no ids":             `{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"f","arguments":"{}"}}]}}]}`,
		"whole, one id":             `{"choices":[{"message":{"tool_calls":[{"id":"x","function":{"name":"f",` + arg(1) + `,{"id":"x","function":{"name":"f",` + arg(2) + `]}}]}`,
		"whole, old":                `{"choices":[{"message":{"function_call":{"name":"f","arguments":"{}"},"tool_calls":[{"function":{"name":"f",` + arg(1) + `]}}]}`,
	}
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, serve(t, jsonOf(body)), helloS)
			require.NoError(t, err)
			require.Len(t, got.Calls, 2)
			require.NotEqual(t, got.Calls[0].ID, got.Calls[1].ID)
			for _, c := range got.Calls {
				require.NotEmpty(t, c.ID)
				require.Equal(t, "f", c.Name)
				require.Contains(t, []string{"{}", `{"a":1}`, `{"a":2}`}, c.Arguments)
			}
		})
	}
}

func TestArgumentsWithOneMeaning(t *testing.T) {
	for written, want := range map[string]string{
		`{"a":1}{"a":1}`:             `{"a":1}`,
		`{"a":1} {"a": 1}{"a":1}`:    `{"a":1}`,
		`{"a":1}{"a":2}`:             `{"a":1}{"a":2}`,
		`[{"a":1}]`:                  `{"a":1}`,
		`[{"a":1},{"a":2}]`:          `[{"a":1},{"a":2}]`,
		`{a: 1, "b": "x, c: 2",}`:    `{"a": 1, "b": "x, c: 2"}`,
		quoted(`{"a":1}`):            quoted(`{"a":1}`),
		quoted(quoted(`{"a":1}`)):    quoted(`{"a":1}`),
		quoted(quoted(`["a", "b"]`)): quoted(quoted(`["a", "b"]`)),
	} {
		got, err := ask(t, serve(t, bodyOf(toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":`+quoted(written)+`}}`)+delta(`{}`, "tool_calls")+done)), helloS)
		require.NoError(t, err)
		require.Equal(t, want, got.Calls[0].Arguments, written)
	}
}

// TestArgumentsAndCallsWithin: arguments within an object of their name, and calls among the parts of the content.
func TestArgumentsAndCallsWithin(t *testing.T) {
	for name, c := range map[string]struct{ body, args string }{
		"arguments":      {toolDelta(`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"arguments\": {\"city\":\"Ulm\"}}"}}`), `{"city":"Ulm"}`},
		"parameters":     {toolDelta(`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"parameters\":{\"city\":\"Ulm\"}}"}}`), `{"city":"Ulm"}`},
		"one of several": {toolDelta(`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"arguments\":{},\"city\":\"Ulm\"}"}}`), `{"arguments":{},"city":"Ulm"}`},
		"no object":      {toolDelta(`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"arguments\":7}"}}`), `{"arguments":7}`},
		"content":        {delta(`{"content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"1","name":"lookup","input":{"city":"Ulm"}}]}`, "tool_use"), `{"city":"Ulm"}`},
		"content, again": {delta(`{"content":[{"type":"tool_use","id":"1","name":"lookup","input":{}}],"tool_calls":[{"id":"1","function":{"name":"lookup","arguments":"{\"city\":\"Ulm\"}"}}]}`, ""), `{"city":"Ulm"}`},
	} {
		req := stock()
		req.Stream = true
		got, err := ask(t, serve(t, bodyOf(c.body+delta(`{}`, "tool_calls")+done)), req)
		require.NoError(t, err, name)
		require.Equal(t, []llm.ToolCall{{ID: "1", Name: "lookup", Arguments: c.args}}, got.Calls, name)
	}
	req := stock()
	req.Stream = true
	req.Tools[0].Parameters = json.RawMessage(`{"type":"object","properties":{"arguments":{"type":"object"}}}`)
	got, err := ask(t, serve(t, bodyOf(toolDelta(`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"arguments\":{}}"}}`)+delta(`{}`, "tool_calls")+done)), req)
	require.NoError(t, err)
	require.Equal(t, `{"arguments":{}}`, got.Calls[0].Arguments, "a parameter of that name")
}

func TestRepeatedNameWithEveryPart(t *testing.T) {
	body := toolDelta(`{"function":{"name":"f","arguments":"{\"a\""}}`) + toolDelta(`{"function":{"name":"f","arguments":":1}"}}`) + done
	got, err := ask(t, serve(t, bodyOf(body)), helloS)
	require.NoError(t, err)
	require.Len(t, got.Calls, 1)
	require.Equal(t, `{"a":1}`, got.Calls[0].Arguments)
}
