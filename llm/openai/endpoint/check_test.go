package endpoint_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm/openai/endpoint"
)

// body makes a request of one user message, a tool and whatever else is given;
// a later key wins.
func body(fields string) string {
	const tool = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
	m := map[string]json.RawMessage{}
	for _, part := range []string{`"model":"m","messages":[{"role":"user","content":"hi"}]`, tool, fields} {
		if part == "" {
			continue
		}
		if err := json.Unmarshal([]byte("{"+part+"}"), &m); err != nil {
			panic(err)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func msgs(list ...string) string { return body(`"messages":[` + strings.Join(list, ",") + `]`) }

const (
	user = `{"role":"user","content":"hi"}`
	sys  = `{"role":"system","content":"be good"}`
	ask1 = `{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	ask2 = `{"role":"assistant","content":null,"tool_calls":[{"id":"2","type":"function","function":{"name":"f","arguments":"{}"}},` +
		`{"id":"3","type":"function","function":{"name":"f","arguments":" {\"a\":1}"}}]}`
	done1 = `{"role":"tool","tool_call_id":"1","content":""}`
	done2 = `{"role":"tool","tool_call_id":"2","content":"ok"}`
	done3 = `{"role":"tool","tool_call_id":"3","content":[{"type":"text","text":"ok"}]}`
)

func call(id, name, args string) string {
	b, err := json.Marshal(map[string]any{"id": id, "type": "function", "function": map[string]string{"name": name, "arguments": args}})
	if err != nil {
		panic(err)
	}
	return `{"role":"assistant","tool_calls":[` + string(b) + `]}`
}

func schema(s string) string {
	return body(`"tools":[{"type":"function","function":{"name":"f","parameters":` + s + `}}]`)
}

var goodBodies = map[string]string{
	"simple":        body(""),
	"history":       msgs(sys, user, ask1, done1, ask2, done2, done3, `{"role":"assistant","content":"done"}`, user),
	"results moved": msgs(user, ask2, done3, done2),
	"parts": msgs(`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},` +
		`{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AA=="}}]}`),
	"reasoning": msgs(user, `{"role":"assistant","content":"a","reasoning_content":"b"}`, user),
	"settings": body(`"temperature":0,"top_p":0,"max_tokens":5,"stop":["a"],"stream":true,"stream_options":{"include_usage":true},` +
		`"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,` +
		`"response_format":{"type":"json_schema","json_schema":{"name":"r","strict":true,"schema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}}}`),
	"schema": schema(`{"type":"object","properties":{"a":{"type":["array","null"],"items":{"type":"string"}},"b":{"anyOf":[{"type":"null"},{"enum":[1]}]}},"required":["a"]}`),
}

func TestCheckBodyAccepts(t *testing.T) {
	for name, b := range goodBodies {
		t.Run(name, func(t *testing.T) { require.NoError(t, endpoint.CheckBody([]byte(b))) })
	}
}

func TestCheckBodyRefuses(t *testing.T) {
	cases := map[string]struct{ body, want string }{
		"garbage":            {`{oops`, "the body is not JSON"},
		"trailing":           {body("") + "{}", "the body is not JSON: invalid character '{' after top-level value"},
		"no object":          {`[]`, "got array, want object"},
		"deep":               {schema(`{"type":"object","properties":{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}}`), "nested more than 200 deep"},
		"huge number":        {body(`"temperature":1e9999999`), "more than three digits"},
		"choice of two":      {body(`"tool_choice":{"type":"function","allowed_tools":{"mode":"auto","tools":[]}}`), "tool_choice.allowed_tools: unknown field; tool_choice.function: is missing"},
		"no model":           {body(`"model":""`), "model: must be a non-empty string"},
		"unknown field":      {body(`"functions":[]`), "functions: unknown field"},
		"half a seed":        {body(`"seed":1.5`), "seed: must be an integer"},
		"tier":               {body(`"service_tier":"fast"`), `service_tier: value must be one of 'auto', 'default', 'flex', 'priority', 'scale', not "fast"`},
		"effort":             {body(`"reasoning_effort":3`), "reasoning_effort: value must be one of 'none'"},
		"cache key":          {body(`"prompt_cache_key":""`), "prompt_cache_key: must be a non-empty string"},
		"audio":              {msgs(`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"!","format":"ogg"}}]}`), `input_audio.data: must be base64, not "!"; messages[0].content[0].input_audio.format: value must be one of 'wav', 'mp3', not "ogg"`},
		"no messages":        {body(`"messages":[]`), "messages: must be a non-empty array"},
		"odd message":        {msgs(`1`), "messages[0]: got number, want object"},
		"role":               {msgs(`{"role":"developer","content":"x"}`), `messages[0].role: value must be one of 'system', 'user', 'assistant', 'tool', not "developer"`},
		"message field":      {msgs(`{"role":"user","content":"x","color":1}`), "messages[0].color: unknown field"},
		"second system":      {msgs(sys, sys, sys, user), "messages[1]: a system message can only be the first of several messages or the last one, or come before one of the user"},
		"late system":        {msgs(user, sys, sys), "messages[1]: a system message can only be the first of several messages or the last one, or come before one of the user"},
		"empty system":       {msgs(`{"role":"system","content":""}`, user), `messages[0].content: must be a non-empty string or list of parts, not ""`},
		"empty user":         {msgs(`{"role":"user","content":""}`), `messages[0].content: must be a non-empty string or list of parts, not ""`},
		"no content":         {msgs(`{"role":"user"}`), "messages[0].content: is missing"},
		"no parts":           {msgs(`{"role":"user","content":[]}`), "messages[0].content: must be a non-empty string or list of parts"},
		"empty part":         {msgs(`{"role":"user","content":[{"type":"text","text":""}]}`), "content[0].text: must be a non-empty string"},
		"odd part":           {msgs(`{"role":"user","content":[{"type":"image","url":"x"}]}`), `content[0].type: value must be one of 'text', 'image_url', 'file', 'input_audio', not "image"`},
		"bad image":          {msgs(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"x.png"}}]}`), "must be a web address or a base64 data URL"},
		"string image":       {msgs(`{"role":"user","content":[{"type":"image_url","image_url":"x"}]}`), "image_url: got string, want object"},
		"bad file":           {msgs(`{"role":"user","content":[{"type":"file","file":{"file_data":"data:text/plain;base64,AA=="}}]}`), "must hold a file_id, or a filename"},
		"name":               {msgs(`{"role":"user","content":"x","name":"a b"}`), `messages[0].name: must be 1 to 64 characters, without white space and <|\/>, not "a b"`},
		"empty assistant":    {msgs(user, `{"role":"assistant","content":""}`, user), "messages[1]: an assistant message needs content or tool_calls"},
		"bare assistant":     {msgs(user, `{"role":"assistant"}`, user), "messages[1]: an assistant message needs content or tool_calls"},
		"empty calls":        {msgs(user, `{"role":"assistant","content":"a","tool_calls":[]}`, user), "tool_calls: must be a non-empty array"},
		"last assistant":     {msgs(user, `{"role":"assistant","content":"a"}`), "messages[1]: the last message must not be the assistant's"},
		"open call":          {msgs(user, ask1), `messages[1]: the call "1" is not answered`},
		"open call inside":   {msgs(user, ask2, done3, user), `messages[1]: the call "2" is not answered`},
		"late result":        {msgs(user, ask1, user, done1), `messages[3]: no call "1" waits for a result here`},
		"orphan":             {msgs(user, done1), `messages[1]: no call "1" waits for a result here`},
		"twice answered":     {msgs(user, ask1, done1, done1), `messages[3]: no call "1" waits for a result here`},
		"no call id":         {msgs(user, ask1, `{"role":"tool","content":"x"}`), "messages[2].tool_call_id: is missing"},
		"tool no content":    {msgs(user, ask1, `{"role":"tool","tool_call_id":"1"}`), "messages[2].content: is missing"},
		"call id empty":      {msgs(user, call("", "f", "{}")), `tool_calls[0].id: must be a string of 1 to 40 characters, not ""`},
		"call id long":       {msgs(user, call(strings.Repeat("x", 41), "f", "{}")), "tool_calls[0].id: must be a string of 1 to 40 characters"},
		"call id twice":      {msgs(user, ask1, done1, ask1, done1), `messages[3]: "1" is the id of two calls`},
		"call name":          {msgs(user, call("1", "f.g", "{}"), done1), `function.name: must be 1 to 64 letters, digits, _ and -, not "f.g"`},
		"call args":          {msgs(user, call("1", "f", "{oops"), done1), `function.arguments: must be a string that holds a JSON object, not "{oops"`},
		"call args empty":    {msgs(user, call("1", "f", ""), done1), "function.arguments: must be a string that holds a JSON object"},
		"call args list":     {msgs(user, call("1", "f", "[]"), done1), "function.arguments: must be a string that holds a JSON object"},
		"call args object":   {msgs(user, `{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{}}}]}`, done1), "function.arguments: must be a string"},
		"call type":          {msgs(user, `{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}`, done1), "tool_calls[0].type: is missing"},
		"empty tools":        {body(`"tools":[]`), "tools: must be a non-empty array"},
		"same tools":         {body(`"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]`), `tools[1].function.name: "f" is the name of two tools`},
		"tool name":          {body(`"tools":[{"type":"function","function":{"name":"a b"}}]`), `tools[0].function.name: must be 1 to 64 letters, digits, _ and -, not "a b"`},
		"tool type":          {body(`"tools":[{"function":{"name":"a"}}]`), "tools[0].type: is missing"},
		"schema type":        {schema(`{"type":"string"}`), `parameters.type: value must be 'object', not "string"`},
		"schema none":        {schema(`null`), "parameters: got null, want object"},
		"schema array":       {schema(`{"type":"object","properties":{"a":{"type":"array"}}}`), "parameters.properties.a: an array needs items"},
		"schema odd type":    {schema(`{"type":"object","properties":{"a":{"type":"int"}}}`), "properties.a.type: value must be one of 'array', 'object'"},
		"schema required":    {schema(`{"type":"object","required":"a"}`), "parameters.required: got string, want array"},
		"schema enum":        {schema(`{"type":"object","properties":{"a":{"enum":[]}}}`), "properties.a.enum: must be a non-empty array"},
		"choice odd":         {body(`"tool_choice":"f"`), `tool_choice: value must be one of 'none', 'auto', 'required', not "f"`},
		"choice unknown":     {body(`"tool_choice":{"type":"function","function":{"name":"g"}}`), `tool_choice: the request has no tool "g"`},
		"choice no tools":    {`{"model":"m","messages":[` + user + `],"tool_choice":"auto"}`, "tool_choice: is allowed only when tools are given"},
		"parallel no tools":  {`{"model":"m","messages":[` + user + `],"parallel_tool_calls":true}`, "parallel_tool_calls: is allowed only when tools are given"},
		"temperature":        {body(`"temperature":3`), "temperature: must be a number from 0 to 2, not 3"},
		"top_p":              {body(`"top_p":"x"`), "top_p: must be a number from 0 to 1"},
		"max_tokens":         {body(`"max_tokens":0`), "max_tokens: must be an integer of at least 1, not 0"},
		"max_tokens broken":  {body(`"max_tokens":1.5`), "max_tokens: must be an integer"},
		"both max":           {body(`"max_tokens":1,"max_completion_tokens":1`), "max_tokens: cannot be combined with"},
		"stop":               {body(`"stop":["a","b","c","d","e"]`), "stop: must be a non-empty string, or a list of 1 to 4 of them"},
		"stop empty":         {body(`"stop":""`), "stop: must be a non-empty string"},
		"stream":             {body(`"stream":1`), "stream: got number, want boolean"},
		"stream options":     {body(`"stream_options":{"include_usage":true}`), "stream_options: is allowed only when stream is true"},
		"format":             {body(`"response_format":{"type":"xml"}`), "response_format.type: value must be one of 'text', 'json_object', 'json_schema'"},
		"format json word":   {body(`"response_format":{"type":"json_object"}`), `needs the word "json"`},
		"format name":        {body(`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}}`), "json_schema.name: is missing"},
		"format not strict":  {body(`"response_format":{"type":"json_schema","json_schema":{"name":"r","strict":true,"schema":{"type":"object","properties":{"a":{}}}}}`), `schema.required: must hold "a" in a strict schema`},
		"format no additons": {body(`"response_format":{"type":"json_schema","json_schema":{"name":"r","strict":true,"schema":{"type":"object"}}}`), "additionalProperties: must be false in a strict schema"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := endpoint.CheckBody([]byte(c.body))
			var check *endpoint.CheckError
			require.ErrorAs(t, err, &check)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestCheckBodyReportsEverythingAtOnce(t *testing.T) {
	err := endpoint.CheckBody([]byte(msgs(`{"role":"user","content":""}`, sys, done1, ask1)))
	var check *endpoint.CheckError
	require.ErrorAs(t, err, &check)
	require.Equal(t, []string{"messages[0].content", "messages[1]", "messages[2]", "messages[3]"},
		params(check))
}

func params(e *endpoint.CheckError) []string {
	var all []string
	for _, v := range e.Violations {
		all = append(all, v.Param)
	}
	return all
}

func FuzzCheckBody(f *testing.F) {
	for _, b := range goodBodies {
		f.Add([]byte(b))
	}
	f.Add([]byte(msgs(user, ask2, done3, user)))
	f.Add([]byte(strings.Repeat("[", 100)))
	f.Fuzz(func(t *testing.T, data []byte) {
		err := endpoint.CheckBody(data)
		if err == nil {
			require.True(t, json.Valid(data))
			return
		}
		var check *endpoint.CheckError
		require.True(t, errors.As(err, &check))
		require.NotEmpty(t, check.Violations)
		require.NotEmpty(t, err.Error())
	})
}

func TestCheckResponses(t *testing.T) {
	const hi = `{"role":"user","content":"hi"}`
	with := func(more string, items ...string) string {
		if len(items) == 0 {
			items = []string{hi}
		}
		return `{"model":"m","store":false,"input":[` + strings.Join(items, ",") + `]` + more + `}`
	}
	const call, output = `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, `{"type":"function_call_output","call_id":"c","output":"x"}`
	const thought, include = `{"type":"reasoning","id":"r","summary":[],"encrypted_content":"E"}`, `,"include":["reasoning.encrypted_content"]`
	require.NoError(t, endpoint.CheckResponses([]byte(with(include, hi, thought, call, output))))
	for body, want := range map[string]string{
		`{`: "the body is not JSON", `{"model":"m","input":[` + hi + `]}`: "store: is missing", with(`,"previous_response_id":"r"`): "previous_response_id: unknown field",
		with(`,"messages":[]`): "messages: unknown field", with(`,"max_output_tokens":5`): "max_output_tokens: must be an integer of at least 16, not 5", with(`,"max_output_tokens":20.5`): "must be an integer",
		with(`,"include":["x"]`): "include[0]: value must be one of", with(`,"include":{}`): "include: got object, want array", with(`,"top_logprobs":3`): "top_logprobs: is allowed only when",
		with(`,"tools":[]`): "tools: must be a non-empty array", with(`,"tools":[{"type":"function","function":{}}]`): "tools[0].function: unknown field",
		with(`,"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{}}}}]`): "in a strict schema",
		with(`,"tools":[{"type":"x"}]`): `tools[0].type: value must be 'function', not "x"`, with(`,"tools":[{"type":"function","name":"a b"}]`): "must be 1 to 64 letters",
		with(`,"tool_choice":"auto"`): "tool_choice: is allowed only", with(`,"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{},"required":[],"additionalProperties":false}}],"tool_choice":{"type":"function","name":"g"}`): `tool_choice: the request has no tool "g"`,
		with(`,"reasoning":{}`): "reasoning: minProperties: got 0, want 1", with(`,"reasoning":{"effort":"very"}`): "reasoning.effort: value must be one of",
		with(`,"text":{"format":{"type":"json_object"}}`): "text.format.type", with(`,"text":{"format":{"type":"json_schema","schema":{"type":"object"}}}`): "text.format.name",
		with("", `{"role":"system","content":"x"}`): "input[0]: a system message can only be", with("", `{"role":"user","content":""}`): "must be a non-empty string or list", with("", `{"role":"user","content":[]}`): "must be a non-empty string or list",
		with("", `{"role":"user","content":1}`): "must be a non-empty string or list of parts", with("", `{"role":"user","content":[{"type":"text","text":"x"}]}`): `value must be one of 'input_text', 'input_image', 'input_file', 'input_audio', not "text"`,
		with("", `{"role":"user","content":[{"type":"input_text"}]}`): "text: is missing", with("", `{"role":"user","content":[{"type":"input_image","image_url":"x"}]}`): "image_url: must be a web address",
		with("", `{"role":"user","content":[{"type":"input_file","file_data":"x"}]}`): "must hold a file_url", with("", `{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"","format":"x"}}]}`): "value must be one of 'wav', 'mp3'",
		with("", hi, `{"role":"assistant","content":"x"}`): "the last message must not be", with("", hi, call): `the call "c" is not answered`, with("", hi, output): `no call "c" waits`,
		with("", hi, call, hi, output): `input[1]: the call "c" is not answered before`, with("", hi, call, output, call, output): `"c" is the id of two calls`, with("", hi, `{"type":"item_reference","id":"x"}`): `input[1].type: value must be one of 'message', 'reasoning', 'function_call', 'function_call_output', not "item_reference"`,
		with("", hi, `{"type":"function_call","call_id":"c","name":"f g","arguments":"[]"}`, output): `must be a string that holds a JSON object, not "[]"; input[1].name: must be 1 to 64 letters`, with("", hi, call, `{"type":"function_call_output","call_id":"c","output":{}}`): "output: got object, want string",
		with("", hi, thought, call, output): "reasoning.encrypted_content included", with(include, hi, thought, hi): "reasoning without the item", with(include, hi, thought): "reasoning without the item",
		with(include, hi, `{"type":"reasoning","id":"r","status":"completed","encrypted_content":"E"}`, call, output): "status: unknown field", `{"model":"m","store":false,"input":[]}`: "input: must be a non-empty array",
	} {
		err := endpoint.CheckResponses([]byte(body))
		require.ErrorContains(t, err, want, body)
		require.ErrorContains(t, err, "Responses API")
	}
}
