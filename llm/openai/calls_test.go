package openai

import (
	"cmp"
	"encoding/json"
	"strconv"
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
		`{"a":1}{"a":1}`:                     `{"a":1}`,
		`{"a":1} {"a": 1}{"a":1}`:            `{"a":1}`,
		`{"a":1}{"a":2}`:                     `{"a":1}{"a":2}`,
		"json\n" + `{"a":1}`:                 `{"a":1}`, // tenstorrent/tt-inference-server#3683
		`[{"a":1}]`:                          `{"a":1}`,
		`[{"a":1},{"a":2}]`:                  `[{"a":1},{"a":2}]`,
		`{&quot;a&quot;: &quot;&amp;&quot;}`: `{"a": "&"}`, // tetsuo-ai/AgenC#1283
		`{"a":"&quot;"}`:                     `{"a":"&quot;"}`,
		"{" + strings.Repeat("n", 1<<18):     "{" + strings.Repeat("n", 1<<18), // in linear time
		`{a: 1, "b": "x, c: 2",}`:            `{"a": 1, "b": "x, c: 2"}`,
		quoted(`{"a":1}`):                    quoted(`{"a":1}`),
		quoted(quoted(`{"a":1}`)):            quoted(`{"a":1}`),
		quoted(quoted(`["a", "b"]`)):         quoted(quoted(`["a", "b"]`)),
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

// TestArgumentsOfOtherTypes: models write values as texts (anthropics/claude-code#73137, mpfaffenberger/code_puppy#506,
// jjang-ai/vmlx#47), and null or "" for what they leave out (danny-avila/LibreChat#11905, coder/xum#2887). LM Studio makes
// numbers of texts (lmstudio-ai/lmstudio-bug-tracker#1626).
func TestArgumentsOfOtherTypes(t *testing.T) {
	req := stock()
	req.Tools[0].Parameters = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"f":{"type":"number"},"b":{"type":"boolean"},"l":{"type":"array","items":{}},
		"o":{"type":"object","properties":{}},"s":{"type":"string"},"e":{"type":"string","enum":["1"]},"u":{"anyOf":[{"type":"integer"},{"type":"null"}]},
		"sn":{"type":"string","nullable":true},"en":{"type":"string","enum":["a",null]},"ae":{"anyOf":[{"type":"string","enum":["1"]},{"type":"null"}]},"ac":{"type":"string","oneOf":[{"const":"1"},{"const":"2"}]},"ad":{"type":["string","integer"],"nullable":true},"m":{"type":["string","integer"]},"any":{},"of":{"oneOf":[{"enum":["1"]},{"type":"integer"}]}},"required":["b"]}`)
	for args, want := range map[string]string{
		`{"n":"5"}`: `{"n":5}`, `{"n":"1.5"}`: `{"n":"1.5"}`, `{"n":"five"}`: `{"n":"five"}`, `{"n":" 5\n"}`: `{"n":5}`, `{"n":"[5]"}`: `{"n":"[5]"}`,
		`{"f":"5"}`: `{"f":5}`, `{"f":"1.5"}`: `{"f":1.5}`, `{"b":"false"}`: `{"b":false}`, `{"b":"True"}`: `{"b":true}`, `{"b":"1"}`: `{"b":"1"}`,
		`{"l":"[1, 2]"}`: `{"l":[1,2]}`, `{"l":"7"}`: `{"l":"7"}`, `{"o":"{\"x\": \"y\"}"}`: `{"o":{"x":"y"}}`, `{"u":"7"}`: `{"u":7}`, `{"u":"null"}`: `{"u":null}`,
		`{"s":"5"}`: `{"s":"5"}`, `{"s":4711.50}`: `{"s":"4711.50"}`, `{"s":true}`: `{"s":true}`, `{"e":1}`: `{"e":"1"}`, `{"e":7}`: `{"e":7}`, `{"m":5}`: `{"m":5}`, `{"any":5}`: `{"any":5}`, `{"b":5}`: `{"b":5}`, `{"m":"5"}`: `{"m":"5"}`, `{"any":"5"}`: `{"any":"5"}`, `{"of":"1"}`: `{"of":"1"}`, `{"other":"5"}`: `{"other":"5"}`,
		`{"n":null,"s":null}`: `{}`, `{"n":"","s":""}`: `{"s":""}`, `{"u":null,"any":null}`: `{"u":null,"any":null}`, `{"b":null}`: `{"b":null}`, `{"b":""}`: `{"b":""}`,
		`{"m":5.0}`: `{"m":5.0}`, `{"m":1e3}`: `{"m":1e3}`, `{"m":1.5}`: `{"m":1.5}`, `{"n":"5.0"}`: `{"n":5.0}`, `{"sn":null,"en":null,"ad":null}`: `{"sn":null,"en":null,"ad":null}`, `{"sn":7}`: `{"sn":"7"}`,
		`{"ae":1,"ac":2}`: `{"ac":"2","ae":"1"}`, `{"ae":12,"ac":12}`: `{"ae":12,"ac":12}`, `{"ac":null}`: `{}`, `{"o":{"n":"5"}}`: `{"o":{"n":"5"}}`,
		`{"n</arg_key>":"5"}`: `{"n":5}`, `{"n</arg_key>":"5","n":6}`: `{"n</arg_key>":"5","n":6}`, `{"_n":"5","n:2":"6","tool.n":"7"}`: `{"_n":"5","n:2":"6","tool.n":"7"}`, // vllm-project/vllm#54971
		`{"other":null}`: `{"other":null}`, `{"arguments": {"n":"5"}}`: `{"n":5}`, `{"n": 5}`: `{"n": 5}`, `{"arguments":"{\"n\":\"5\"}"}`: `{"n":5}`, `{"input":{"n":"5"}}`: `{"n":5}`,
		`{"name":"lookup","arguments":{"n":"5"}}`: `{"n":5}`, `{"name":"other","arguments":{"n":"5"}}`: `{"name":"other","arguments":{"n":"5"}}`, `{"name":"lookup"}`: `{"name":"lookup"}`,
	} {
		got, err := ask(t, serve(t, jsonOf(`{"choices":[{"message":{"tool_calls":[{"id":"1","function":{"name":"lookup","arguments":`+quoted(args)+`}}]},"finish_reason":"tool_calls"}]}`)), req)
		require.NoError(t, err, args)
		require.Equal(t, want, got.Calls[0].Arguments, args)
	}
}

// TestArgumentsWithin: an object around the arguments stays if the tool may take it, and nothing changes where a key comes
// twice.
func TestArgumentsWithin(t *testing.T) {
	const ref = `"$defs":{"x":{"properties":{"input":{"type":"object"}},"required":["input"]}}`
	for _, c := range []struct{ schema, wrote, want string }{
		{`{"properties":{"a":{"type":"integer"}}}`, `{"input":{"a":"1"}}`, `{"a":1}`},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"input":{"a":1},"input":{"a":100}}`, ""},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"input":{"a":1},"\u0069nput":{"a":100}}`, ""},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"input":"{\"a\":1,\"a\":100}"}`, ""},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"name":"f","args":{"a":1},"args":{"a":100}}`, ""},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":"1","a":"100"}`, ""},
		{`{"properties":{"o":{"type":"object"}}}`, `{"o":"{\"a\":1,\"a\":2}"}`, ""},
		{`{"properties":{"filter":{"properties":{"name":{}}},"limit":{"type":"integer"}}}`, `{"name":"f","arguments":{"limit":"5"}}`, `{"limit":5}`},
		{`{"properties":{"a":{"type":"integer"}},"required":["a"]}`, `{"arguments":{"a":"1","note":"x"}}`, `{"a":1,"note":"x"}`},
		{`{"properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false}`, `{"arguments":{"a":"1","b":null}}`, `{"a":1}`},
		{`{"properties":{"a":{"type":"integer"}},"required":["a"]}`, `{"arguments":{"a<|im_end|>":1}}`, `{"a":1}`},
		{`{"properties":{"a":{}},"required":["input"],"additionalProperties":{"type":"object"}}`, `{"input":{"a":{}}}`, ""},
		{`{"properties":{"a":{}},"additionalProperties":true}`, `{"input":{"a":1}}`, ""},
		{`{"properties":{"a":{}},"required":["a"],"additionalProperties":true}`, `{"input":{"a":1}}`, `{"a":1}`},
		{`{"properties":{"a":{}},"patternProperties":{"^in":{}},"additionalProperties":false}`, `{"input":{"a":1}}`, ""},
		{`{"properties":{"a":{}},"allOf":[{"$ref":"#/$defs/x"}],` + ref + `}`, `{"input":{"a":1}}`, ""},
	} {
		req := &llm.Request{Messages: hello.Messages, Tools: []llm.ToolSpec{{Name: "f", Parameters: json.RawMessage(c.schema)}}}
		got, err := ask(t, serve(t, jsonOf(`{"choices":[{"message":{"tool_calls":[{"id":"1","function":{"name":"f","arguments":`+quoted(c.wrote)+`}}]},"finish_reason":"tool_calls"}]}`)), req)
		require.NoError(t, err, c.wrote)
		require.Equal(t, cmp.Or(c.want, c.wrote), got.Calls[0].Arguments, c.schema)
	}
}

// TestArgumentsOfAnOpenTool: a parameter that the tool does not name may have any name.
func TestArgumentsOfAnOpenTool(t *testing.T) {
	req := &llm.Request{Messages: hello.Messages, Tools: []llm.ToolSpec{{Name: "lookup", Parameters: json.RawMessage(`{"type":"object","properties":{"n":{}},"additionalProperties":{}}`)}}}
	got, err := ask(t, serve(t, bodyOf(toolDelta(`{"id":"1","function":{"name":"lookup","arguments":`+quoted(`{"n</arg_key>":5}`)+`}}`)+done)), req)
	require.NoError(t, err)
	require.Equal(t, `{"n</arg_key>":5}`, got.Calls[0].Arguments)
}

// TestParallelCallsInOne: models of OpenAI call a tool that they make up, whose arguments are calls.
func TestParallelCallsInOne(t *testing.T) {
	const uses = `{"tool_uses":[{"recipient_name":"functions.f","parameters":{"a":1}},{"recipient_name":"g"}]}`
	for name, want := range map[string][]llm.ToolCall{
		"multi_tool_use.parallel":           {{ID: "1", Name: "f", Arguments: `{"a":1}`}, {ID: "1_2", Name: "g", Arguments: "{}"}},
		"functions.multi_tool_use_parallel": {{ID: "1", Name: "f", Arguments: `{"a":1}`}, {ID: "1_2", Name: "g", Arguments: "{}"}},
		"parallel":                          {{ID: "1", Name: "parallel", Arguments: uses}},
	} {
		req := &llm.Request{Messages: []llm.Message{llm.UserText("hi")}, Tools: []llm.ToolSpec{{Name: "f"}, {Name: "g"}}}
		body := `{"choices":[{"message":{"tool_calls":[{"id":"1","function":{"name":"` + name + `","arguments":` + quoted(uses) + `}}]},"finish_reason":"tool_calls"}]}`
		got, err := ask(t, serve(t, jsonOf(body)), req)
		require.NoError(t, err)
		require.Equal(t, want, got.Calls, name)
	}
	other := strings.ReplaceAll(uses, "functions.f", "functions.get_weather")
	body := `{"choices":[{"message":{"tool_calls":[{"id":"1","function":{"name":"multi_tool_use.parallel","arguments":` + quoted(other) + `}}]},"finish_reason":"tool_calls"}]}`
	got, err := ask(t, serve(t, jsonOf(body)), &llm.Request{Messages: []llm.Message{llm.UserText("hi")}, Tools: []llm.ToolSpec{{Name: "get-weather"}, {Name: "g"}}})
	require.NoError(t, err)
	require.Len(t, got.Calls, 2, "names with other marks")
	require.Equal(t, "get-weather", got.Calls[0].Name)
	calls := []llm.ToolCall{{Name: "multi_tool_use.parallel", Arguments: uses}}
	require.Equal(t, calls, unrolled(calls, []llm.ToolSpec{{Name: "f"}}), "there is no g")
}

// TestCallsInOne: gateways join the arguments of calls of one tool (BerriAI/litellm#40582).
func TestCallsInOne(t *testing.T) {
	for args, want := range map[string][]llm.ToolCall{
		`{"city":"Ulm"}{"city":"Bonn"}`:             {{ID: "1", Name: "lookup", Arguments: `{"city":"Ulm"}`}, {ID: "1_2", Name: "lookup", Arguments: `{"city":"Bonn"}`}},
		`{"city":"}{"} {"city":"b"} {"city": "}{"}`: {{ID: "1", Name: "lookup", Arguments: `{"city":"}{"}`}, {ID: "1_2", Name: "lookup", Arguments: `{"city":"b"}`}},
		`{"city":"Ulm"}{"city":`:                    {{ID: "1", Name: "lookup", Arguments: `{"city":"Ulm"}{"city":`}},
		`{"city":"Ulm"}["Bonn"]`:                    {{ID: "1", Name: "lookup", Arguments: `{"city":"Ulm"}["Bonn"]`}},
	} {
		for _, stream := range []bool{true, false} {
			req := stock()
			req.Stream = stream
			call := `{"tool_calls":[{"index":0,"id":"1","function":{"name":"lookup","arguments":` + quoted(args) + `}}]}`
			h := jsonOf(`{"choices":[{"message":` + call + `,"finish_reason":"tool_calls"}]}`)
			if stream {
				h = bodyOf(delta(call, "tool_calls") + done)
			}
			got, err := ask(t, serve(t, h), req)
			require.NoError(t, err)
			require.Equal(t, want, got.Calls, args)
		}
	}
}

// TestArgumentsInAName: what was lost to the name does not run without them.
func TestArgumentsInAName(t *testing.T) {
	const name = "lookup\n<arg_key>city</arg_key><arg_value>Ulm</arg_value>"
	got, err := ask(t, serve(t, bodyOf(toolDelta(`{"id":"1","function":{"name":`+quoted(name)+`,"arguments":"{}"}}`)+done)), stock())
	require.NoError(t, err)
	require.Equal(t, name, got.Calls[0].Name)
}

func TestRepeatedNameWithEveryPart(t *testing.T) {
	body := toolDelta(`{"function":{"name":"f","arguments":"{\"a\""}}`) + toolDelta(`{"function":{"name":"f","arguments":":1}"}}`) + done
	got, err := ask(t, serve(t, bodyOf(body)), helloS)
	require.NoError(t, err)
	require.Len(t, got.Calls, 1)
	require.Equal(t, `{"a":1}`, got.Calls[0].Arguments)
}
