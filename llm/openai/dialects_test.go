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

// TestDialects: every ordinary answer means the same in every dialect, however it is cut.
func TestDialects(t *testing.T) {
	var body string
	m := serve(t, func(w http.ResponseWriter, r *http.Request) { bodyOf(body)(w, r) })
	rapid.Check(t, func(rt *rapid.T) {
		var calls []llm.ToolCall
		for i := range rapid.IntRange(0, 3).Draw(rt, "calls") {
			args := rapid.SampledFrom([]string{`{"city": "Ulm"}`, `{"a": {"b": [1, {"c": "}"}]}, "d": ""}`, `{"n": 12}`, `{"city":"São"}`}).Draw(rt, "arguments")
			calls = append(calls, llm.ToolCall{ID: "call_" + strconv.Itoa(i), Name: rapid.SampledFrom([]string{"lookup", "find_it", "transfer_to_agent"}).Draw(rt, "tool"), Arguments: args})
		}
		words := rapid.SampledFrom([]string{"", "There are 7 of them.", "ä🦜 It is:\n1, 11, 111", "No."}).Draw(rt, "text")
		d := drawDialect(rt)
		if words == "" && len(calls) == 0 {
			words = "Hello."
		}
		body = d.write(rt, words, calls)
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
