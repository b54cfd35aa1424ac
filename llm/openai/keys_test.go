package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/llm"
)

var plainKey = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// query has properties with keys that Claude refuses, two of which would get the same name, and one whose name is taken.
var query = llm.ToolSpec{Name: "query", Parameters: json.RawMessage(`{"type":"object","required":["$filter","a b"],
	"properties":{"$filter":{"type":"string","enum":["$filter"],"description":"as $filter"},"_filter":{"type":"number"},"a b":{"$ref":"#/properties/$filter"},"a.b":{"type":"object",
		"properties":{"@type":{"const":{"@type":"x"}},"properties":{"type":"string"}},"required":["@type"],"anyOf":[{"required":["properties"]}]},
		"` + strings.Repeat("long", 20) + `":{"type":"array","items":{"$ref":"#/$defs/x"}}},
	"dependentRequired":{"$filter":["a b"]},"$defs":{"x":{"type":"object","properties":{"x y":{}},"dependencies":{"x y":{"required":["x y"]}}}}}`)}

var (
	queried = `{"$filter":"$filter","_filter":1.50,"a b":"c","a.b":{"@type":{"@type":"x"}},"` + strings.Repeat("long", 20) + `":[{"x y":12345678901234567890}]}`
	wire    = `{"_filter":1.50,"_filter__1":"$filter","a_b__1":"c","a_b__2":{"_type__1":{"_type__1":"x"}},"` + strings.Repeat("long", 15) + `l__1":[{"x_y__1":12345678901234567890}]}`
)

// TestPlainKeys: after the refusal, schemas, earlier calls and the endpoint's own calls have other names of properties, and callers
// see the names of the tool.
func TestPlainKeys(t *testing.T) {
	for _, c := range []struct {
		opts   []Option
		answer http.HandlerFunc
		schema func(tool wireObject) any
	}{
		{nil, bodyOf(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"query","arguments":`+quoted(wire)+`}}]}`, "tool_calls") + done),
			func(tool wireObject) any { return tool["function"].(wireObject)["parameters"] }},
		{[]Option{WithResponses()}, jsonOf(`{"object":"response","status":"completed","output":[{"type":"function_call","call_id":"c1","name":"query","arguments":` + quoted(wire) + `}]}`),
			func(tool wireObject) any { return tool["parameters"] }},
	} {
		var bodies []string
		m := serve(t, func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(raw))
			if strings.Contains(string(raw), "a b") {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error":{"message":"tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"}}`)
				return
			}
			c.answer(w, r)
		}, c.opts...)
		req := &llm.Request{Messages: []llm.Message{llm.UserText("ask")}, Tools: []llm.ToolSpec{query, {Name: "plain", Parameters: json.RawMessage(`{"z":1,"a":2}`)}}}
		got, err := ask(t, m, req)
		require.NoError(t, err)
		require.JSONEq(t, queried, got.Calls[0].Arguments)
		require.Contains(t, got.Calls[0].Arguments, "12345678901234567890")
		require.Contains(t, bodies[1], `{"z":1,"a":2}`, "the schemas of other tools stay as they are")
		var sent wireObject
		require.NoError(t, json.Unmarshal([]byte(bodies[1]), &sent))
		schema, err := json.Marshal(c.schema(sent["tools"].([]any)[0].(wireObject)))
		require.NoError(t, err)
		require.JSONEq(t, `{"type":"object","required":["_filter__1","a_b__1"],
			"properties":{"_filter__1":{"type":"string","enum":["$filter"],"description":"as $filter"},"_filter":{"type":"number"},"a_b__1":{"$ref":"#/properties/_filter__1"},"a_b__2":{"type":"object",
				"properties":{"_type__1":{"const":{"_type__1":"x"}},"properties":{"type":"string"}},"required":["_type__1"],"anyOf":[{"required":["properties"]}]},
				"`+strings.Repeat("long", 15)+`l__1":{"type":"array","items":{"$ref":"#/$defs/x"}}},
			"dependentRequired":{"_filter__1":["a_b__1"]},"$defs":{"x":{"type":"object","properties":{"x_y__1":{}},"dependencies":{"x_y__1":{"required":["x_y__1"]}}}}}`, string(schema))

		req.Messages = append(req.Messages, assistant("", got.Calls[0]), toolResult("c1", "r"), llm.UserText("more"))
		before := len(bodies)
		_, err = ask(t, m, req)
		require.NoError(t, err)
		require.Len(t, bodies, before+1)
		require.Contains(t, bodies[before], quoted(wire)[1:len(quoted(wire))-1], "earlier calls have the names, too")
		require.JSONEq(t, queried, got.Calls[0].Arguments, "the caller's messages are not changed")
	}
}

// TestPlainKeysBesideOthers: references with escapes follow the names, and an object without a schema keeps the keys that a
// property had only after a simple replacement.
func TestPlainKeysBesideOthers(t *testing.T) {
	schema := json.RawMessage(`{"properties":{"First Name":{},"a/b":{},"x~y":{},"to":{"anyOf":[{"$ref":"#/properties/First%20Name"},{"$ref":"#/properties/a~1b"},{"$ref":"#/properties/x~0y"}]},"fields":{"type":"object"}}}`)
	wire, own := plainNames(schema)
	require.JSONEq(t, `{"properties":{"First_Name__1":{},"a_b__1":{},"x_y__1":{},"fields":{"type":"object"},
		"to":{"anyOf":[{"$ref":"#/properties/First_Name__1"},{"$ref":"#/properties/a_b__1"},{"$ref":"#/properties/x_y__1"}]}}}`, wire.apply(string(schema), inSchema))
	require.JSONEq(t, `{"First Name":"A","fields":{"First_Name":"B"}}`, own.apply(`{"First_Name__1":"A","fields":{"First_Name":"B"}}`, inValue))
}

// TestPlainNames: whatever the keys are, their names are plain and different, and the way back gives the keys.
func TestPlainNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfDistinct(rapid.StringMatching(`[ab_$ .\-]{0,3}|[a$]{63,66}|ü+|a_2`), rapid.ID).Draw(t, "keys")
		schema, args := map[string]any{}, map[string]any{}
		for i, key := range keys {
			schema[key], args[key] = map[string]any{}, float64(i)
		}
		raw, err := json.Marshal(map[string]any{"properties": schema})
		require.NoError(t, err)
		given, err := json.Marshal(args)
		require.NoError(t, err)
		wire, own := plainNames(raw)
		sent := wire.apply(string(given), inValue)
		var members map[string]any
		require.NoError(t, json.Unmarshal([]byte(sent), &members))
		require.Len(t, members, len(keys), sent)
		for key := range members {
			require.Regexp(t, plainKey, key)
		}
		require.JSONEq(t, string(given), own.apply(sent, inValue), fmt.Sprint(wire))
	})
}

func TestBareSchema(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":true,"b":{"type":"array","maxItems":9,"items":{"type":"string","enum":["x"],"pattern":"x"}},
			"maxItems":{"type":"string","default":"y"}},"required":["a"],"additionalProperties":false}`: `"a":{"type":"string"},"b":{"type":"array","items":{"type":"string","enum":["x"]}},"maxItems":{"type":"string"}},"required":["a"]`,
		`{"properties":{"a":{"type":["null","integer"]},"b":{"type":"array"},"c":{"type":"integer","enum":[1]},"d":{"description":"any","default":10},"e":{"enum":["x",""]}},"required":["z"]}`:                                                                                                                                            `"a":{"type":"integer"},"b":{"type":"array","items":{"type":"string"}},"c":{"type":"integer"},"d":{"description":"any","type":"integer"},"e":{"type":"string"}}`,
		`{"properties":{"a":{"description":"d","anyOf":[{"type":"null"},{"anyOf":[{"type":"object","properties":{"x":{}}},{"type":"string"}]}]},"b":{"type":"object","description":"d"},"c":{"type":"array","items":[{"type":"number"}]}},"anyOf":[{}]}`:                                                                                   `"a":{"description":"d","type":"object","properties":{"x":{"type":"string"}}},"b":{"type":"string","description":"d (a JSON object)"},"c":{"type":"array","items":{"type":"string"}}}`,
		`{"properties":{"p":{"description":"P","allOf":[{"type":"object","properties":{"a":{},"c":{"description":"C"}}},{"properties":{"b":{"enum":[1,2.5]},"c":{"type":"integer"}},"required":["b","a"]}],"required":["a"]}}}`:                                                                                                            `"p":{"description":"P","type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"},"c":{"description":"C","type":"integer"}},"required":["a","b"]}}`,
		`{"properties":{"a":{"type":"object","properties":{"x":{}},"anyOf":[{"required":["x"]},{"required":["y"]}]},"b":{"anyOf":[{"$ref":"#/x"},{"type":["integer","string"]}]},"c":{"enum":[null,true]},"d":{"const":"x"},"e":{"oneOf":[{"enum":["x"]},{"const":"y"}]},"f":{"type":"string","anyOf":[{"enum":["x"]},{"minLength":3}]}}}`: `"a":{"type":"object","properties":{"x":{"type":"string"}}},"b":{"type":"integer"},"c":{"type":"boolean"},"d":{"type":"string","enum":["x"]},"e":{"type":"string","enum":["x","y"]},"f":{"type":"string"}}`,
		`{"type":"object","oneOf":[{"properties":{"kind":{"const":"a"},"x":{}},"required":["kind","x"]},{"properties":{"kind":{"const":"b"},"y":{"type":"array","items":{"type":"integer"}}},"required":["kind"]}]}`:                                                                                                                       `"kind":{"type":"string","enum":["a","b"]},"x":{"type":"string"},"y":{"type":"array","items":{"type":"integer"}}},"required":["kind"]`,
		`{"properties":{"a":{"type":"string","enum":["a","b"],"allOf":[{"description":"x"}]}},"allOf":[{"properties":{"a":{"enum":["b","a"]}}}]}`:                                                                                                                                                                                          `"a":{"description":"x","type":"string","enum":["a","b"]}}`,
		`{"type":"object"}`: `"none":{"type":"string","description":"Leave this out."}}`,
	} {
		require.JSONEq(t, `{"type":"object","properties":{`+want+`}`, string(bareSchema(json.RawMessage(schema))))
	}
}

// TestBareCalls: what a model writes as a text, because a bare schema has a text there, becomes the value of the tool's own schema.
func TestBareCalls(t *testing.T) {
	for _, c := range []struct{ schema, wrote, want string }{
		{`{"properties":{"rows":{"type":"array","items":{"type":"object"}}}}`, `{"rows":["{\"x\":1}",{"y":2}]}`, `{"rows":[{"x":1},{"y":2}]}`},
		{`{"properties":{"f":{"type":"object","properties":{"labels":{"type":"object","additionalProperties":{"type":"string"}},"n":{"type":"integer"}},"required":["n"]}}}`, `{"f":{"labels":"{\"a\":\"1\"}","n":"5"}}`, `{"f":{"labels":{"a":"1"},"n":5}}`},
		{`{"properties":{"f":{"anyOf":[{"type":"null"},{"type":"object","properties":{"labels":{"type":"object"},"s":{"type":"string"}}}]}}}`, `{"f":{"labels":"{}","s":7}}`, `{"f":{"labels":{},"s":"7"}}`},
		{`{"allOf":[{"properties":{"a":{"type":"integer"}}},{"properties":{"b":{"type":"object"}}}]}`, `{"a":"1","b":"{}"}`, `{"a":1,"b":{}}`},
		{`{"oneOf":[{"properties":{"x":{"type":"integer"}}},{"properties":{"x":{"type":"string"}}}]}`, `{"x":"1"}`, `{"x":"1"}`},
		{`{"properties":{"any":{},"list":{"type":"array"},"either":{"type":["object","string"]}}}`, `{"any":"{\"a\":1}","list":["1"],"either":"{}"}`, `{"any":"{\"a\":1}","list":["1"],"either":"{}"}`},
		{`{"properties":{"n":{"enum":[1,2]},"s":{"enum":["1"]}}}`, `{"n":"1","s":1}`, `{"n":1,"s":"1"}`},
		{`{"type":"object","additionalProperties":false}`, `{"none":""}`, `{}`},
		{`{"properties":{"none":{"type":"string"}}}`, `{"none":"x"}`, `{"none":"x"}`},
	} {
		m := serve(t, jsonOf(`{"choices":[{"message":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":`+quoted(c.wrote)+`}}]},"finish_reason":"tool_calls"}]}`), WithEndpoint("bare-schemas"))
		got, err := ask(t, m, &llm.Request{Messages: []llm.Message{llm.UserText("ask")}, Tools: []llm.ToolSpec{{Name: "f", Parameters: json.RawMessage(c.schema)}}})
		require.NoError(t, err)
		require.JSONEq(t, c.want, got.Calls[0].Arguments, c.schema)
	}
}
