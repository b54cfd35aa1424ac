package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// delta and whole make text events of one block.
func delta(id, who, words string) *event.Event {
	return &event.Event{ID: id, Agent: who, Partial: true, Data: &event.Text{Content: words}}
}

func whole(id, who, words string) *event.Event {
	return &event.Event{Seq: 1, ID: id, Agent: who, Data: &event.Text{Content: words}}
}

func TestPrinter(t *testing.T) {
	call := func(id, name, input string) *event.Event {
		return &event.Event{ID: id, Agent: "a", Data: &event.ToolCall{Name: name, Input: json.RawMessage(input)}}
	}
	result := func(id, name, output string) *event.Event {
		return &event.Event{ID: id, Agent: "a", Data: &event.ToolResult{Name: name, Output: json.RawMessage(output)}}
	}
	inner := func(e *event.Event) *event.Event { e.Scope = "x"; return e }
	end := func(r event.FinishReason) *event.Event { return &event.Event{Data: &event.HarnessEnd{FinishReason: r}} }
	transfer := func(o event.TransferOutcome, reason string) *event.Event {
		return &event.Event{Data: &event.Transfer{From: "a", To: "b", Reason: reason, Outcome: o}}
	}
	for name, tt := range map[string]struct {
		events []*event.Event
		want   string
	}{
		"streamed":                  {[]*event.Event{delta("1", "a", "Hel"), delta("1", "a", "lo"), whole("1", "a", "Hello")}, "a: Hello\n"},
		"not streamed":              {[]*event.Event{whole("1", "a", "\n\nHello\nthere\n")}, "a: Hello\nthere\n"},
		"line breaks first":         {[]*event.Event{delta("1", "a", "\n\n"), delta("1", "a", " Hi"), whole("1", "a", "\n\n Hi")}, "a: Hi\n"},
		"nothing but white space":   {[]*event.Event{delta("1", "a", "\n"), whole("1", "a", "\n")}, ""},
		"line break last":           {[]*event.Event{delta("1", "a", "Hi\n"), whole("1", "a", "Hi\n")}, "a: Hi\n"},
		"two blocks":                {[]*event.Event{delta("1", "a", "x"), whole("1", "a", "x"), delta("2", "b", "y"), whole("2", "b", "y")}, "a: x\nb: y\n"},
		"interrupted":               {[]*event.Event{delta("1", "a", "Hal")}, "a: Hal\n"},
		"discarded":                 {[]*event.Event{delta("1", "a", "Hal"), {Data: &event.Discard{IDs: []string{"1"}}}, delta("2", "a", "Whole")}, "a: Hal\n(answer discarded)\na: Whole\n"},
		"discarded without a trace": {[]*event.Event{{Data: &event.Discard{}}, whole("2", "a", "Whole")}, "a: Whole\n"},
		"words and a transfer":      {[]*event.Event{whole("1", "a", "One moment."), transfer("committed", "two\nlines \x1b")}, "a: One moment.\na → b (two lines ␛)\n"},
		"refused":                   {[]*event.Event{transfer("rejected", "x"), transfer("conflict", ""), transfer("failed", "")}, "a → b rejected\na → b failed\n"},
		"calls in parallel": {[]*event.Event{call("1", "f", `{"i":1}`), call("2", "f", `{"i":2}`), result("2", "f", `"two"`), result("1", "f", `"one"`)},
			"  f(i=2) → two\n  f(i=1) → one\n"},
		"call without result": {[]*event.Event{call("1", "f", `{}`)}, "  f() → no result\n"},
		"call of an agent that waits": {[]*event.Event{call("1", "f", `{}`), {ID: "2", Scope: "x", RunID: "r2", Data: &event.ToolCall{Name: "pay"}},
			{Scope: "x", RunID: "r2", Data: &event.Relay{ToolCallID: "2", Tool: "pay", Params: json.RawMessage(`{}`), Within: []string{"a"}}}, {Scope: "x", RunID: "r2", Data: &event.HarnessEnd{FinishReason: event.FinishReasonInputRequired}},
			end(event.FinishReasonInputRequired)}, "    pay() → waits for approval inside of a, call 2\n  f() → waits\n"},
		"call that waited": {[]*event.Event{call("1", "f", `{}`), end(event.FinishReasonInputRequired), end("canceled")}, "  f() → no result\n"},
		"transfer call":    {[]*event.Event{call("1", agent.TransferTool, `{}`), result("1", agent.TransferTool, `"ok"`)}, ""},
		"reasoning":        {[]*event.Event{{Data: &event.Reasoning{Content: "hm"}}, {Data: &event.Usage{}}, {Data: &event.State{}}}, ""},
		"inner scope":      {[]*event.Event{inner(call("1", "f", `{}`)), inner(whole("2", "x", "secret")), inner(result("1", "f", `"one"`)), inner(end("canceled"))}, "    f() → one\n"},
		"notice":           {[]*event.Event{{Data: &event.Notice{Message: "gone"}}}, "(gone)\n"},
		"compacted": {[]*event.Event{{Agent: "a", Data: &event.Compaction{}}, {Agent: "a", Data: &event.Compaction{Summary: "s"}}},
			"(a no longer sees the oldest part of the conversation)\n(a now sees a summary of the oldest part of the conversation)\n"},
		"cut off by length": {[]*event.Event{whole("1", "a", "So"), end(event.FinishReasonLength)}, "a: So\n(the model's answer was cut off at its length limit)\n"},
		"the user, live":    {[]*event.Event{{Data: &event.User{Content: llm.Content{Text: "hi"}}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			p := newPrinter(&out, Terminal{}, nil)
			for _, e := range tt.events {
				p.Event(e)
			}
			p.Finish()
			require.Equal(t, tt.want, out.String())
		})
	}
}
