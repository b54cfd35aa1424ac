package openai

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// TestPartsOfCalls: which part belongs to which call, in each way that endpoints are known
// to write them. An = before arguments says that they are refused with their own text.
func TestPartsOfCalls(t *testing.T) {
	const ulm, bonn = `lookup {"city": "Ulm"}`, `lookup {"city": "Bonn"}`
	for name, c := range map[string]struct {
		parts string // in the list tool_calls, an event a line
		want  []string
	}{
		"index as a text": {`{"index":"0","id":"1","function":{"name":"lookup","arguments":""}}
			{"index":"0","function":{"arguments":"{\"city\": \"Ulm\"}"}}`, []string{ulm}},
		"index as a float": {`{"index":0.0,"id":"1","function":{"name":"lookup","arguments":"{\"city\": "}}
			{"index":1.0,"id":"2","function":{"name":"lookup","arguments":"{\"city\": "}}
			{"index":0.0,"function":{"arguments":"\"Ulm\"}"}}
			{"index":1,"function":{"arguments":"\"Bonn\"}"}}`, []string{ulm, bonn}},
		"index counts parts": {`{"index":0,"id":"1","function":{"name":"lookup","arguments":""}}
			{"index":1,"function":{"arguments":"{\"city\": "}}
			{"index":2,"function":{"arguments":"\"Ulm\"}"}}`, []string{ulm}},
		"index counts parts, with the id": {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"city\": "}}
			{"index":1,"id":"1","function":{"name":"lookup","arguments":"\"Ulm\"}"}}`, []string{ulm}},
		"index always 0, interleaved": {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"city\": "}}
			{"index":0,"id":"2","function":{"name":"find","arguments":"{\"city\": "}}
			{"index":0,"id":"1","function":{"arguments":"\"Ulm\"}"}}
			{"index":0,"id":"2","function":{"arguments":"\"Bonn\"}"}}`, []string{ulm, `find {"city": "Bonn"}`}},
		"id changes": {`{"index":0,"id":"1","function":{"name":"lookup","arguments":""}}
			{"index":0,"id":"2","function":{"arguments":"{\"city\": "}}
			{"index":0,"id":"3","function":{"arguments":"\"Ulm\"}"}}`, []string{ulm}},
		"id changes, no index, name again": {`{"id":"1","function":{"name":"lookup","arguments":""}}
			{"id":"2","function":{"name":"lookup","arguments":"{\"city\": "}}
			{"id":"3","function":{"name":"lookup","arguments":"\"Ulm\"}"}}`, []string{ulm}},
		"name late": {`{"index":0,"id":"1","function":{"arguments":"{\"city\": "}}
			{"index":0,"id":"1","function":{"name":"lookup","arguments":"\"Ulm\"}"}}`, []string{ulm}},
		"name in pieces": {`{"index":0,"id":"1","function":{"name":"loo"}}
			{"index":0,"function":{"name":"kup"}}
			{"index":0,"function":{"arguments":"{\"city\": \"Ulm\"}"}}`, []string{ulm}},
		"name so far": {`{"index":0,"id":"1","function":{"name":"loo"}}
			{"index":0,"function":{"name":"lookup"}}
			{"index":0,"function":{"name":"lookup","arguments":"{\"city\": \"Ulm\"}"}}`, []string{ulm}},
		"two without arguments": {`{"index":0,"id":"1","function":{"name":"ping"}}
			{"index":0,"id":"2","function":{"name":"ping","arguments":""}}`, []string{"ping ", "ping "}},
		"two tools, no index": {`{"function":{"name":"ping"}}
			{"function":{"name":"lookup","arguments":"{\"city\": \"Ulm\"}"}}`, []string{"ping ", ulm}},
		"arguments so far": {`{"id":"1","function":{"name":"lookup","arguments":""}}
			{"id":"1","function":{"name":"lookup","arguments":"{\"ci"}}
			{"id":"1","function":{"name":"lookup","arguments":"{\"city\": \"U"}}
			{"id":"1","function":{"name":"lookup","arguments":"{\"city\": \"Ulm\"}"}}
			{"id":"1","function":{"name":"lookup","arguments":"{\"city\": \"Ulm\"}"}}`, []string{ulm}},
		"arguments so far, behind a placeholder": {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{}"}}
			{"index":0,"function":{"arguments":"{\"ci"}}
			{"index":0,"function":{"arguments":"{\"city\": \"Ulm\"}"}}`, []string{ulm}},
		"whole at the end": {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"city\": "}}
			{"index":0,"function":{"arguments":"\"Ulm\"}"}}
			{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"city\":\"Ulm\"}"}}`, []string{ulm}},
		"whole at the end, nameless": {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"city\": "}}
			{"index":0,"function":{"arguments":"\"Ulm\"}"}}
			{"index":0,"function":{"arguments":"{\"city\": \"Ulm\"}"}}`, []string{ulm}},
		"null first": {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"null"}}
			{"index":0,"function":{"arguments":"{\"city\": \"Ulm\"}"}}`, []string{ulm}},
		"empty object first, name again": {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{}"}}
			{"index":0,"function":{"name":"lookup","arguments":"{\"city\": \"Ulm\"}"}}`, []string{ulm}},
		"empty object last": {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"city\": \"Ulm\"}"}}
			{"index":0,"function":{"arguments":"{}"}}`, []string{ulm}},
		"null, absent, None, an empty list": {`{"index":0,"id":"1","function":{"name":"a","arguments":"null"}},{"index":1,"id":"2","function":{"name":"b"}},{"index":2,"id":"3","function":{"name":"c","arguments":[]}},{"index":3,"id":"4","function":{"name":"d","arguments":null}},{"index":4,"function":{"name":"e","arguments":"None"}}`,
			[]string{"a {}", "b ", "c {}", "d ", "e {}"}},
		"an object":                      {`{"index":0,"id":"1","function":{"name":"lookup","arguments":{"city": "Ulm"}}}`, []string{ulm}},
		"encoded twice, and half Python": {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"\"{'city': \\\"Ulm\\\"}\""}}`, []string{ulm}},
		"encoded twice":                  {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"\"{\\\"city\\\": \\\"Ulm\\\"}\""}}`, []string{`lookup "{\"city\": \"Ulm\"}"`}}, // which agents read
		"Python":                         {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{'city': 'U\"lm', \"x\": \"it's\", 'y': [True, None,], }"}}`, []string{`lookup {"city": "U\"lm", "x": "it's", "y": [true, null]}`}},
		"a comma":                        {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"city\": \"Ulm\",}"}}`, []string{ulm}},
		"tags":                           {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"<tool_call>\n{\"city\": \"Ulm\"}"}},{"index":0,"function":{"arguments":"\n</tool_call><|im_end|>"}}`, []string{ulm}},
		"a fence":                        {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"` + "```json\\n{\\\"city\\\": \\\"Ulm\\\"}\\n```" + `"}}`, []string{ulm}},
		"closed once too often":          {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"city\": \"Ulm\"}}"}}`, []string{ulm}},
		"a raw line end":                 {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"city\": \"U\nlm\"}"}}`, []string{`lookup {"city": "U\u000alm"}`}},
		"no function around it":          {`{"id":"1","name":"lookup","arguments":{"city": "Ulm"}}`, []string{ulm}},
		"other names":                    {`{"id":"1","type":"tool_use","name":"lookup","input":{"city": "Ulm"}},{"function":{"name":"lookup","parameters":{"city": "Bonn"}}},{"id":"3","name":"lookup","args":{"city": "Ulm"}}`, []string{ulm, bonn, ulm}},
		"empty ones":                     {`null,{},{"index":0,"id":"","function":{"name":"","arguments":""}},{"id":"x","function":{"name":null,"arguments":"{}"}}`, nil},
		"half":                           {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"city\": \"Ul"}}`, []string{`lookup {"city": "Ul`}},
		"two objects":                    {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{\"city\": \"Ulm\"}"}},{"index":0,"function":{"arguments":"{\"city\": \"Bonn\"}"}}`, []string{ulm, bonn}},
		"an object that is continued":    {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{}{\"city\": \"Ul"}},{"index":0,"function":{"arguments":"m\"}{}"}}`, []string{ulm}},
		"no name":                        {`{"index":0,"id":"1","function":{"arguments":"{\"city\": \"Ulm\"}"}}`, []string{` {"city": "Ulm"}`}},
		"what cannot be read":            {`"lookup"`, []string{` "lookup"`}},
		"broken, with a comma":           {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"{,}"}}`, []string{`lookup {,}`}},
		"words in the arguments":         {`{"index":0,"id":"1","function":{"name":"lookup","arguments":"Sure: {\"city\": \"Ulm\"}"}}`, []string{`lookup Sure: {"city": "Ulm"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			var body strings.Builder
			for line := range strings.Lines(c.parts) {
				body.WriteString(toolDelta(strings.TrimSpace(line)))
			}
			req := *helloS
			req.Tools = []llm.ToolSpec{{Name: "lookup"}, {Name: "find"}, {Name: "ping"}}
			got, err := ask(t, serve(t, bodyOf(body.String()+delta(`{}`, "tool_calls")+done)), &req)
			require.NoError(t, err)
			var calls []string
			ids := map[string]bool{"": true}
			for _, call := range got.Calls {
				calls = append(calls, call.Name+" "+call.Arguments)
				require.False(t, ids[call.ID], "an id of its own")
				ids[call.ID] = true
			}
			require.Equal(t, c.want, calls)
		})
	}
}

// TestCallsInOddPlaces: calls that are told twice, or elsewhere.
func TestCallsInOddPlaces(t *testing.T) {
	const call = `{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}`
	const old = `"function_call":{"name":"f","arguments":"{\"a\":1}"}`
	const end = `"finish_reason":"tool_calls"}`
	for name, body := range map[string]string{
		"old and new":           `{"choices":[{"message":{` + old + `,"tool_calls":[` + call + `]},` + end + `]}`,
		"old and new, streamed": delta(`{"function_call":{"name":"f","arguments":"{\"a\""},"tool_calls":[`+call+`]}`, "") + delta(`{"function_call":{"arguments":":1}"}}`, "tool_calls") + done,
		"old alone":             delta(`{"function_call":{"name":"f"}}`, "") + delta(`{"function_call":{"name":"f","arguments":"{\"a\":1}"}}`, "function_call") + done,
		"another choice":        `{"choices":[{"message":{"content":"I look."},"finish_reason":"stop"},{"index":1,"message":{"content":"I look.","tool_calls":[` + call + `]},` + end + `]}`,
		"another choice alone":  `{"choices":[{"index":1,"message":{"content":"I look.","tool_calls":[` + call + `]},` + end + `]}`,
		"message beside delta":  delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\""}}]},"message":{"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"a\""}}]}`, "") + delta(`{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]},"message":{"tool_calls":[`+call+`]}`, "tool_calls") + done,
		"message after deltas":  delta(`{"tool_calls":[`+call+`]}`, "") + `data: {"choices":[{"message":{"tool_calls":[` + call + `]},` + end + `]}` + "\n\n" + done,
		"an object":             `{"choices":[{"message":{"tool_calls":` + call + `},` + end + `]}`,
	} {
		got, err := ask(t, serve(t, jsonOf(body)), helloS)
		require.NoError(t, err, name)
		require.Len(t, got.Calls, 1, name)
		require.Equal(t, `{"a":1}`, got.Calls[0].Arguments, name)
		if strings.Contains(body, "I look") {
			require.Equal(t, "I look.", got.Text, name)
		}
	}
	got, err := ask(t, serve(t, jsonOf(`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"},{"index":1,"message":{"tool_calls":[`+call+`]},"finish_reason":"length"}]}`)), helloS)
	require.NoError(t, err)
	require.Equal(t, llm.FinishLength, got.Finish, "what is not whole in one choice is not whole")
}

// TestChoicesOfWords: whose words are the answer.
func TestChoicesOfWords(t *testing.T) {
	event := func(at, text, reason string) string {
		return `data: {"choices":[{"index":` + at + `,"delta":{"content":"` + text + `"},"finish_reason":` + reason + `}]}` + "\n\n"
	}
	for name, body := range map[string]string{
		"counted":               event("0", "all", "null") + event("1", " of", "null") + event("2", " it", "null") + event("3", "", `"stop"`),
		"counted from 1":        event("1", "all", "null") + event("2", " of", "null") + event("3", " it", `"stop"`),
		"counted, two":          event("0", "all of it", "null") + event("1", "", `"stop"`),
		"counted, two, words":   event("0", "all of", "null") + event("1", " it", `"stop"`),
		"two answers":           event("0", "all of", "null") + event("1", "no", "null") + event("0", " it", `"stop"`) + event("1", "no", `"length"`),
		"one after the other":   event("0", "all of it", `"stop"`) + event("1", "no", `"stop"`),
		"the second alone":      event(`"1"`, "all of", "null") + event("1", " it", `"stop"`),
		"whole, and nothing":    `{"choices":[{"index":0,"message":{"content":null}},{"index":1,"message":{"content":"all of it"},"finish_reason":"stop"}]}`,
		"whole, another answer": `{"choices":[{"index":0,"message":{"content":"all of it"},"finish_reason":"stop"},{"index":1,"message":{"content":"no"},"finish_reason":"stop"}]}`,
	} {
		if body[0] == 'd' {
			body += done
		}
		got, err := ask(t, serve(t, jsonOf(body)), helloS)
		require.NoError(t, err, name)
		require.Equal(t, "all of it", got.Text, name)
		require.Equal(t, llm.FinishStop, got.Finish, name)
	}
}

// TestResponsesItems: items are found by their ids, or else by place and content, and each
// counts once.
func TestResponsesItems(t *testing.T) {
	const args = `{\"a\":1}`
	added := `{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"f1","call_id":"c1","name":"f","arguments":""}}`
	part := func(s string) string {
		return `{"type":"response.function_call_arguments.delta","item_id":"f1","output_index":1,"delta":"` + s + `"}`
	}
	itemOf := func(id, arguments string) string {
		return `{"type":"function_call","id":"` + id + `","call_id":"c1","name":"f","arguments":` + arguments + `}`
	}
	message := func(id string) string {
		return `{"type":"message","id":"` + id + `","content":[{"type":"output_text","text":"I look."}]}`
	}
	said := `{"type":"response.output_text.delta","item_id":"m1","output_index":0,"delta":"I look."}`
	completed := func(output string) string {
		return `{"type":"response.completed","response":{"status":"completed","output":[` + output + `]}}`
	}
	done := func(item string) string {
		return `{"type":"response.output_item.done","output_index":1,"item":` + item + `}`
	}
	all := []string{said, added, part(`{\"a\"`), part(`:1}`), done(itemOf("f1", `"`+args+`"`))}
	for name, lines := range map[string][]string{
		"as it should":         append(all, completed(message("m1")+","+itemOf("f1", `"`+args+`"`))),
		"no output":            append(all, completed("")),
		"other ids at the end": append(all, completed(message("x")+","+itemOf("y", `"`+args+`"`))),
		"deltas alone":         {said, added, part(`{\"a\"`), part(`:1}`), completed("")},
		"deltas, then nothing": {said, added, part(`{\"a\"`), part(`:1}`), done(itemOf("f1", `""`)), completed(message("m1") + "," + itemOf("f1", `"{}"`))},
		"an object":            {said, added, done(itemOf("f1", `{"a":1}`)), completed("")},
		"at the end alone":     {completed(message("m1") + "," + itemOf("f1", `{"a":1}`))},
		"words done":           {`{"type":"response.output_text.done","item_id":"m1","text":"I look."}`, done(itemOf("f1", `"`+args+`"`)), completed("")},
		"words at the end":     {`{"type":"response.output_text.delta","item_id":"m1","delta":"I "}`, added, part(args), completed(message("m1"))},
	} {
		body := events(lines...)
		for range 3 { // with indexes, with others, with none
			got, err := ask(t, serve(t, bodyOf(body), WithResponses()), helloS)
			require.NoError(t, err, name)
			require.Equal(t, "I look.", got.Text, name)
			require.Equal(t, []llm.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a":1}`}}, got.Calls, name)
			if strings.Contains(body, `_index":1`) {
				body = strings.NewReplacer(`_index":0`, `_index":"1"`, `_index":1`, `_index":2.0`).Replace(body)
			} else {
				body = strings.NewReplacer(`"output_index":"1",`, "", `"output_index":2.0,`, "").Replace(body)
			}
		}
	}
	// All items of openai-agents-python have the id __fake_id__ (src/agents/models/fake_id.py), also in gateways that use it.
	var streamed, whole []string
	for i, args := range []string{`{\"a\":1}`, `{\"a\":2}`} {
		at := `"output_index":` + strconv.Itoa(i) + `,`
		call := `{"type":"function_call","id":"x","call_id":"c` + strconv.Itoa(i) + `","name":"f","arguments":"` + args + `"}`
		streamed = append(streamed, `{"type":"response.output_item.added",`+at+`"item":`+strings.Replace(call, args, "", 1)+`}`,
			`{"type":"response.function_call_arguments.delta",`+at+`"item_id":"x","delta":"`+args+`"}`, `{"type":"response.output_item.done",`+at+`"item":`+call+`}`)
		whole = append(whole, call)
	}
	late := append(slices.Clone(streamed), completed(""))
	late[3], late[4] = late[4], late[3] // a part before what adds its item
	for _, answer := range []http.HandlerFunc{bodyOf(events(append(streamed, completed(strings.Join(whole, ",")))...)), bodyOf(events(late...)),
		jsonOf(`{"object":"response","status":"completed","output":[` + strings.Join(whole, ",") + `]}`)} {
		got, err := ask(t, serve(t, answer, WithResponses()), helloS)
		require.NoError(t, err)
		require.Equal(t, []llm.ToolCall{{ID: "c0", Name: "f", Arguments: `{"a":1}`}, {ID: "c1", Name: "f", Arguments: `{"a":2}`}}, got.Calls)
	}
	got, err := ask(t, serve(t, bodyOf(events(done(strings.Replace(itemOf("f1", `"{\"a\""`), `"id"`, `"status":"incomplete","id"`, 1)), completed(""))), WithResponses()), helloS)
	require.NoError(t, err)
	require.Equal(t, llm.FinishLength, got.Finish, "an item that is not whole makes the answer so")
}
