package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
)

// delta and whole make text events of one block.
func delta(id, who, words string) *agent.Event {
	return &agent.Event{ID: id, Agent: who, Partial: true, Data: &agent.Text{Content: words}}
}

func whole(id, who, words string) *agent.Event {
	return &agent.Event{Seq: 1, ID: id, Agent: who, Data: &agent.Text{Content: words}}
}

func TestPrinter(t *testing.T) {
	call := func(id, name, input string) *agent.Event {
		return &agent.Event{ID: id, Agent: "a", Data: &agent.ToolCall{Name: name, Input: json.RawMessage(input)}}
	}
	result := func(id, name, output string) *agent.Event {
		return &agent.Event{ID: id, Agent: "a", Data: &agent.ToolResult{Name: name, Output: json.RawMessage(output)}}
	}
	inner := func(e *agent.Event) *agent.Event { e.Scope = "x"; return e }
	end := func(r agent.FinishReason) *agent.Event { return &agent.Event{Data: &agent.HarnessEnd{FinishReason: r}} }
	transfer := func(o agent.TransferOutcome, reason string) *agent.Event {
		return &agent.Event{Data: &agent.Transfer{From: "a", To: "b", Reason: reason, Outcome: o}}
	}
	for name, tt := range map[string]struct {
		events []*agent.Event
		want   string
	}{
		"streamed":                  {[]*agent.Event{delta("1", "a", "Hel"), delta("1", "a", "lo"), whole("1", "a", "Hello")}, "a: Hello\n"},
		"not streamed":              {[]*agent.Event{whole("1", "a", "\n\nHello\nthere\n")}, "a: Hello\nthere\n"},
		"line breaks first":         {[]*agent.Event{delta("1", "a", "\n\n"), delta("1", "a", " Hi"), whole("1", "a", "\n\n Hi")}, "a: Hi\n"},
		"nothing but white space":   {[]*agent.Event{delta("1", "a", "\n"), whole("1", "a", "\n")}, ""},
		"line break last":           {[]*agent.Event{delta("1", "a", "Hi\n"), whole("1", "a", "Hi\n")}, "a: Hi\n"},
		"two blocks":                {[]*agent.Event{delta("1", "a", "x"), whole("1", "a", "x"), delta("2", "b", "y"), whole("2", "b", "y")}, "a: x\nb: y\n"},
		"interrupted":               {[]*agent.Event{delta("1", "a", "Hal")}, "a: Hal\n"},
		"discarded":                 {[]*agent.Event{delta("1", "a", "Hal"), {Data: &agent.Discard{IDs: []string{"1"}}}, delta("2", "a", "Whole")}, "a: Hal\n(answer discarded, asking again)\na: Whole\n"},
		"discarded without a trace": {[]*agent.Event{{Data: &agent.Discard{}}, whole("2", "a", "Whole")}, "a: Whole\n"},
		"words and a transfer":      {[]*agent.Event{whole("1", "a", "One moment."), transfer("committed", "two\nlines \x1b")}, "a: One moment.\na → b (two lines ␛)\n"},
		"refused":                   {[]*agent.Event{transfer("rejected", "x"), transfer("conflict", ""), transfer("failed", "")}, "a → b rejected\na → b failed\n"},
		"calls in parallel": {[]*agent.Event{call("1", "f", `{"i":1}`), call("2", "f", `{"i":2}`), result("2", "f", `"two"`), result("1", "f", `"one"`)},
			"  f(i=2) → two\n  f(i=1) → one\n"},
		"call without result": {[]*agent.Event{call("1", "f", `{}`)}, "  f() → no result\n"},
		"transfer call":       {[]*agent.Event{call("1", agent.TransferTool, `{}`), result("1", agent.TransferTool, `"ok"`)}, ""},
		"reasoning":           {[]*agent.Event{{Data: &agent.Reasoning{Content: "hm"}}, {Data: &agent.Usage{}}, {Data: &agent.State{}}}, ""},
		"inner scope":         {[]*agent.Event{inner(call("1", "f", `{}`)), inner(whole("2", "x", "secret")), inner(result("1", "f", `"one"`)), inner(end("canceled"))}, "    f() → one\n"},
		"notice":              {[]*agent.Event{{Data: &agent.Notice{Message: "gone"}}}, "(gone)\n"},
		"compacted": {[]*agent.Event{{Agent: "a", Data: &agent.Compaction{}}, {Agent: "a", Data: &agent.Compaction{Summary: "s"}}},
			"(a no longer sees the oldest part of the conversation)\n(a now sees a summary of the oldest part of the conversation)\n"},
		"cut off by length": {[]*agent.Event{whole("1", "a", "So"), end(agent.FinishReasonLength)}, "a: So\n(the model's answer was cut off at its length limit)\n"},
		"the user, live":    {[]*agent.Event{{Data: &agent.User{Content: llm.Content{Text: "hi"}}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			p := newPrinter(&out, look{}, nil)
			for _, e := range tt.events {
				p.event(e)
			}
			p.finish()
			require.Equal(t, tt.want, out.String())
		})
	}
}
