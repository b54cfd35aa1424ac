package runner_test

import (
	"encoding/json"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
)

// pageTool is the name of the tool that the user's client brings for some turns.
const pageTool = "page"

// broughtTools is the metadata of a turn for which the client brings its tool.
var broughtTools = map[string]any{tools.ClientKey: map[string]any{"tools": []any{map[string]any{"name": pageTool, "description": "Shows something."}}}}

// checkClientTools holds the calls of the client's tool against the log: the client is asked about a call of the
// conversation in a turn with the tool, and about no other; the result is what it has given, and any other call fails.
func (w *world) checkClientTools(log []*event.Event) {
	brought := false
	calls := make(map[string]*event.Event)
	asked, given := make(map[string]string), make(map[string]*event.RelayResolved)
	for _, e := range log {
		switch d := e.Data.(type) {
		case *event.User:
			_, brought = d.Metadata[tools.ClientKey]
		case *event.ToolCall:
			if d.Name == pageTool {
				calls[e.ID] = e
			}
		case *event.Relay:
			if d.Kind != event.RelayInput { // a rule demands an approval first
				break
			}
			if d.Client != (d.Tool == pageTool) || d.Client && (calls[d.ToolCallID] == nil || e.Scope != "" || !brought) {
				w.t.Fatalf("seq %d: the client is asked %+v in the scope %q", e.Seq, d, e.Scope)
			}
			if d.Client {
				asked[e.ID] = d.ToolCallID
			}
		case *event.RelayResolved:
			if call := asked[d.RelayID]; call != "" {
				given[call] = d
			}
		case *event.ToolResult:
			if calls[e.ID] == nil || strings.HasPrefix(event.OutputText(d.Output), "interrupted") {
				continue // the turn was given up before its agent could take what was given
			}
			result := given[e.ID]
			if taken := result != nil && result.Approved; taken == d.IsError || taken && event.OutputText(d.Output) != text(result.Content) {
				w.t.Fatalf("seq %d: the client's tool has the result %s (an error: %t), and was given %+v", e.Seq, d.Output, d.IsError, result)
			}
			if result != nil {
				w.happened["a result of the client"] = true
			}
		}
	}
}

// clientResults returns results of open calls of the client's tool, to come with the user's next message, and sometimes
// one of a call that does not wait.
func (w *world) clientResults() (given []runner.Decision) {
	for _, q := range w.story.questions {
		if q == q.call.last() && q.asked.Client && q.resolved == nil && oneInTen.Draw(w.rt, "comes with the message") >= 3 {
			given = append(given, runner.Answer(q.asked.ToolCallID, "with the message"))
			w.happened["a result with a message"] = true
		}
	}
	if oneInTen.Draw(w.rt, "of nothing") == 9 {
		given = append(given, runner.Answer("nothing", "é"))
	}
	return given
}

func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // the runner has checked it
	return s
}
