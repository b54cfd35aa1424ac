package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/llm"
)

// A dialect is how an endpoint writes an answer. Each field is drawn from the names of its
// table; ordinary is how OpenAI does it.
type dialect struct{ index, id, name, args, words, end string }

var dialectTable = map[string][]string{
	"index": {"ordinary", "none", "text", "float"},
	"id":    {"ordinary", "repeated", "changes"},
	"name":  {"ordinary", "repeated", "late", "pieces", "so far"},
	"args":  {"ordinary", "so far", "once more", "placeholder", "null first", "object", "Python", "tag"},
	"words": {"ordinary", "so far", "message beside", "think", "counted"},
	"end":   {"ordinary", "alias", "no mark", "field first"},
}

func drawDialect(t *rapid.T) dialect {
	one := func(of string) string { return rapid.SampledFrom(dialectTable[of]).Draw(t, of) }
	d := dialect{one("index"), one("id"), one("name"), one("args"), one("words"), one("end")}
	if d.index == "none" && d.id != "repeated" && d.name != "ordinary" {
		d.name = "ordinary" // nothing else would tell where a call begins
	}
	if d.index == "none" && d.name != "repeated" && d.id == "changes" {
		d.id = "ordinary"
	}
	if d.id == "changes" && d.name == "repeated" && strings.Contains("once more, placeholder, null first", d.args) {
		d.args = "ordinary" // the ids of two calls, for all that is known
	}
	if d.args == "object" || d.id == "changes" && d.name == "pieces" {
		d.name = "ordinary"
	}
	return d
}

// cut cuts a text into at least one piece.
func cut(t *rapid.T, s, label string) []string {
	var pieces []string
	for rest := []rune(s); ; {
		n := rapid.IntRange(1, max(1, len(rest))).Draw(t, label)
		if n >= len(rest) {
			return append(pieces, string(rest))
		}
		pieces, rest = append(pieces, string(rest[:n])), rest[n:]
	}
}

func soFar(pieces []string) []string {
	all := ""
	out := make([]string, len(pieces))
	for i, p := range pieces {
		all += p
		out[i] = all
	}
	return out
}

func quoted(s string) string {
	raw, _ := json.Marshal(s) // a string cannot fail to encode
	return string(raw)
}

// write returns the events of an answer in a dialect.
func (d dialect) write(t *rapid.T, words string, calls []llm.ToolCall) string {
	var b strings.Builder
	n := -1
	event := func(delta, more, finish string) {
		index := 0
		if n++; d.words == "counted" {
			index = n
		}
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":%d,\"delta\":%s%s,\"finish_reason\":%s}]}\n\n", index, delta, more, finish)
	}
	pieces := cut(t, words, "words")
	all := soFar(pieces)
	if d.words == "think" {
		pieces = cut(t, "<think>\nIt is 7.\n</think>\n\n"+words, "thoughts")
	}
	for i, p := range pieces {
		more := ""
		switch d.words {
		case "so far":
			if len(pieces) > 2 && len(strings.TrimSpace(pieces[0])) > 1 {
				p = all[i]
			}
		case "message beside":
			more = `,"message":{"content":` + quoted(all[i]) + `}`
		}
		if words != "" || d.words == "think" {
			event(`{"content":`+quoted(p)+`}`, more, "null")
		}
	}
	for i, c := range calls {
		d.call(t, i, c, func(part string) { event(`{"tool_calls":[`+part+`]}`, "", "null") })
	}
	reason := map[bool]string{false: "stop", true: "tool_calls"}[len(calls) > 0]
	if d.end == "alias" {
		reason = rapid.SampledFrom([]string{"END_TURN", "tool-use", "eos", "COMPLETE", "function_call"}).Draw(t, "reason")
	}
	event("{}", "", quoted(reason))
	if d.end != "no mark" {
		b.WriteString(done)
	}
	return b.String()
}

func (d dialect) call(t *rapid.T, at int, c llm.ToolCall, yield func(string)) {
	args := cut(t, c.Arguments, "args")
	switch d.args {
	case "so far":
		args = soFar(args)
	case "once more":
		if args = append(args, c.Arguments); len(args) == 2 {
			args = args[:1]
		}
	case "placeholder":
		args = append([]string{"{}"}, args...)
	case "null first":
		args = append([]string{"null"}, args...)
	case "object":
		args = []string{c.Arguments}
	case "Python":
		args = cut(t, strings.ReplaceAll(c.Arguments, `"`, `'`), "args")
	case "tag":
		args = append(args, "\n</tool_call>")
	}
	names := []string{c.Name}
	if d.name == "pieces" || d.name == "so far" {
		if names = cut(t, c.Name, "name"); d.name == "so far" {
			names = soFar(names)
		}
	}
	parts := max(len(names), 1) + len(args)
	for i := range parts {
		var f []string
		name, arg := "", ""
		if i < len(names) {
			name = names[i]
		} else {
			arg = args[i-len(names)]
		}
		switch {
		case d.name == "late" && i == 0:
			name = ""
		case d.name == "late" && i == 1, d.name == "repeated":
			name = c.Name
		}
		if name != "" {
			f = append(f, `"name":`+quoted(name))
		}
		if arg != "" && d.args == "object" {
			f = append(f, `"arguments":`+arg)
		} else {
			f = append(f, `"arguments":`+quoted(arg))
		}
		part := `"function":{` + strings.Join(f, ",") + `}`
		switch id := c.ID; {
		case i == 0, d.id == "repeated":
			part = `"id":` + quoted(id) + "," + part
		case d.id == "changes":
			part = `"id":` + quoted(id+"-"+strconv.Itoa(i)) + "," + part
		}
		switch d.index {
		case "ordinary":
			part = fmt.Sprintf(`"index":%d,%s`, at, part)
		case "text":
			part = fmt.Sprintf(`"index":"%d",%s`, at, part)
		case "float":
			part = fmt.Sprintf(`"index":%d.0,%s`, at, part)
		}
		yield("{" + part + "}")
	}
}

// writeResponses returns the events of an answer of the Responses API, with fewer fields or other pieces than
// OpenAI sends.
func writeResponses(t *rapid.T, words string, calls []llm.ToolCall) string {
	draw := func(label string) bool { return rapid.Bool().Draw(t, label) }
	ids, places, added, dones, output, all := draw("ids"), draw("places"), draw("added"), draw("items done"), draw("output"), draw("words so far")
	onlyDone := draw("arguments at the end")
	var b strings.Builder
	send := func(kind, fields string) { fmt.Fprintf(&b, "data: {\"type\":%q%s}\n\n", kind, fields) }
	var whole []string
	item := func(kind string, fields, added string, pieces func(where string)) {
		id, at := "", len(whole)
		if ids {
			id = fmt.Sprintf(`,"id":"i%d"`, at)
		}
		where := ""
		if places {
			where = fmt.Sprintf(`,"output_index":%d`, at)
		}
		send("response.output_item.added", where+`,"item":{"type":`+quoted(kind)+id+added+`}`)
		at2 := where
		if ids {
			at2 += fmt.Sprintf(`,"item_id":"i%d"`, at)
		}
		pieces(at2)
		full := `{"type":` + quoted(kind) + id + fields + `}`
		if dones || kind == callItem && !output {
			send("response.output_item.done", where+`,"item":`+full)
		}
		whole = append(whole, full)
	}
	if words != "" {
		item(messageItem, `,"content":[{"type":"output_text","text":`+quoted(words)+`}]`, "", func(where string) {
			pieces := cut(t, words, "words")
			if all && len(pieces) > 2 && len(strings.TrimSpace(pieces[0])) > 1 {
				pieces = soFar(pieces)
			}
			for _, p := range pieces {
				send("response.output_text.delta", where+`,"delta":`+quoted(p))
			}
		})
	}
	for _, c := range calls {
		named := `,"call_id":` + quoted(c.ID) + `,"name":` + quoted(c.Name)
		first := ""
		if added || !dones && !output {
			first = named
		}
		item(callItem, named+`,"arguments":`+quoted(c.Arguments), first, func(where string) {
			if onlyDone {
				return
			}
			for _, p := range cut(t, c.Arguments, "args") {
				send("response.function_call_arguments.delta", where+`,"delta":`+quoted(p))
			}
		})
	}
	list := "[]"
	if output {
		list = "[" + strings.Join(whole, ",") + "]"
	}
	send("response.completed", `,"response":{"object":"response","status":"completed","output":`+list+`}`)
	return b.String()
}

// TestDialects: every ordinary answer means the same in every dialect, however it is cut.
func TestDialects(t *testing.T) {
	var body string
	answer := func(w http.ResponseWriter, r *http.Request) { bodyOf(body)(w, r) }
	chat, responses := serve(t, answer), serve(t, answer, WithResponses())
	rapid.Check(t, func(rt *rapid.T) {
		var calls []llm.ToolCall
		for i := range rapid.IntRange(0, 3).Draw(rt, "calls") {
			args := rapid.SampledFrom([]string{`{"city": "Ulm"}`, `{"a": {"b": [1, {"c": "}"}]}, "d": ""}`, `{"n": 12}`, `{"city":"São"}`}).Draw(rt, "arguments")
			calls = append(calls, llm.ToolCall{ID: "call_" + strconv.Itoa(i), Name: rapid.SampledFrom([]string{"lookup", "find_it", "transfer_to_agent"}).Draw(rt, "tool"), Arguments: args})
		}
		words := rapid.SampledFrom([]string{"", "There are 7 of them.", "ä🦜 It is:\n1, 11, 111", "No."}).Draw(rt, "text")
		if words == "" && len(calls) == 0 {
			words = "Hello."
		}
		m := chat
		if rapid.Bool().Draw(rt, "responses") {
			m, body = responses, writeResponses(rt, words, calls)
		} else {
			d := drawDialect(rt)
			body = d.write(rt, words, calls)
		}
		req := *helloS
		req.Tools = []llm.ToolSpec{{Name: "lookup"}, {Name: "find_it"}, {Name: "transfer_to_agent"}}
		got, err := collect(t.Context(), m, &req)
		require.NoError(rt, err, body)
		require.Equal(rt, words, got.Text, body)
		require.Len(rt, got.Calls, len(calls), body)
		for i, c := range got.Calls {
			require.Equal(rt, calls[i].Name, c.Name, body)
			require.JSONEq(rt, calls[i].Arguments, c.Arguments, body)
		}
		want := llm.FinishStop
		if len(calls) > 0 {
			want = llm.FinishToolCalls
		}
		require.Equal(rt, want, got.Finish, body)
	})
}
