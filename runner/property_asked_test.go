package runner_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
)

// inquiry is the name of the tool that asks in mid-call.
const inquiry = "inquire"

// inquires asks up to two questions, goes on though the first waits, and gives what it has
// heard. Who declines the only question has the tool fail.
func inquires(c tools.Context, n int) (any, error) {
	w, heard := worldOf(c), []string{}
	defer func() { w.hears(c.CallID(), heard) }()
	var waits error
	for i := range n % 3 {
		answer, err := c.Ask(inquiryOf(n, i))
		declined := new(tools.DeclinedError)
		switch {
		case errors.As(err, &declined):
			if heard = append(heard, "declined: "+declined.Reason); n%3 == 1 {
				return nil, err
			}
		case errors.Is(err, agent.ErrWaits):
			waits = err
		case err != nil:
			return nil, err
		case waits != nil:
			w.problem("the question %d of %s has an answer before the one before it", i, c.CallID())
		default:
			heard = append(heard, string(answer))
		}
	}
	return heard, waits
}

// inquiryOf is the i-th question for n, one of each two with a schema.
func inquiryOf(n, i int) (string, json.RawMessage) {
	if (n+i)%2 == 0 {
		return fmt.Sprintf("How many? (%d)", i), json.RawMessage(`{"type":"integer","minimum":1}`)
	}
	return fmt.Sprintf("What for? (%d)", i), nil
}

func (w *world) hears(call string, heard []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran[call].heard = append(w.ran[call].heard, heard)
}

var (
	someInquiries = rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 1, 3, 6, 8})
	curious       = rapid.SampledFrom([]plan{
		{Calls: []plannedCall{{Name: inquiry, Args: `{"n": 2}`}}, Usage: true},
		{Calls: []plannedCall{{Name: inquiry, Args: `{"n": 5}`}, {Name: inquiry, Args: `{"n": 1}`}}, Usage: true},
		{Calls: []plannedCall{{Name: inquiry, Args: `{"n": 4}`}, {Name: "nested", Args: `{"input": "do it"}`}, {Name: "ask"}}, Usage: true},
		{Calls: []plannedCall{{Name: pageTool, Args: `{}`}}, Usage: true},
		{Calls: []plannedCall{{Name: pageTool, Args: `{}`}, {Name: inquiry, Args: `{"n": 1}`}, {Name: pageTool, Args: `{}`}}, Usage: true},
		{Calls: []plannedCall{{Name: "nested_steps", Args: `{"input": "do that"}`}, {Name: "outside", Args: `{"input": "do it"}`}}, Usage: true},
	})
	whenAsked   = rapid.SampledFrom([]string{"approve", "approve", "approve", "deny", ""})
	someNumbers = rapid.SampledFrom([]any{1, 7, 1 << 40})
	someReplies = rapid.SampledFrom([]any{"", "for me", "<b>\x00 é\xff\n", `{"n": 1}`})
	notNumbers  = rapid.SampledFrom([]any{0, 1.5, "7", nil})
	notReplies  = rapid.SampledFrom([]any{7, nil, []string{"so"}})
)

// decision draws at most one about a question, sometimes one that does not fit.
func (w *world) decision(asked *event.Relay) (given []runner.Decision) {
	id, odd := asked.ToolCallID, oneInTen.Draw(w.rt, "does not fit") == 9
	choice := decisions
	if asked.Kind == event.RelayInput {
		choice = whenAsked
	}
	switch choice.Draw(w.rt, "decision") {
	case "":
		return nil
	case "deny":
		return []runner.Decision{runner.Deny(id, "because\nof it")}
	}
	right, wrong := someReplies, notReplies
	switch {
	case asked.Kind != event.RelayInput && odd:
		return []runner.Decision{runner.Answer(id, "yes")}
	case asked.Kind != event.RelayInput:
		return []runner.Decision{runner.Approve(id)}
	case len(asked.Schema) > 0:
		right, wrong = someNumbers, notNumbers
	}
	if !odd {
		return []runner.Decision{runner.Answer(id, right.Draw(w.rt, "answer"))}
	}
	w.happened["an answer that does not fit"] = true
	return []runner.Decision{rapid.SampledFrom([]runner.Decision{runner.Answer(id, wrong.Draw(w.rt, "answer")), runner.Approve(id),
		{CallID: id, Approved: true, Content: json.RawMessage(`{oops`)}}).Draw(w.rt, "no answer")}
}

// fits reports whether a decision is one about what was asked.
func fits(d runner.Decision, asked *event.Relay) bool {
	if !d.Approved {
		return true
	}
	if asked.Kind != event.RelayInput {
		return d.Content == nil
	}
	if len(asked.Schema) > 0 {
		var n int
		return json.Unmarshal(d.Content, &n) == nil && n >= 1
	}
	return len(d.Content) > 0 && d.Content[0] == '"'
}

// checkAsked holds the calls of the tool that asks against the answers in the log: each of
// its questions gets its own, the next one is asked when there is one, it runs once for
// each, and its result says what was answered. When the turn is over, it has one.
func (w *world) checkAsked(log []*event.Event, over bool) {
	type inquired struct {
		n       int
		answers []string
		result  *event.ToolResult
	}
	calls, byRelay := make(map[string]*inquired), make(map[string]*inquired)
	for _, e := range log {
		switch d := e.Data.(type) {
		case *event.ToolCall:
			var in struct{ N int }
			if d.Name == inquiry {
				_ = json.Unmarshal(d.Input, &in)
				calls[e.ID] = &inquired{n: in.N}
			}
		case *event.Relay:
			if d.Kind != event.RelayInput || d.Tool != inquiry {
				break // a remote agent asks as well
			}
			c := calls[d.ToolCallID]
			require.NotNil(w.t, c, "seq %d: a question of no call", e.Seq)
			message, form := inquiryOf(c.n, len(c.answers))
			if len(c.answers) >= c.n%3 || d.Message != message || string(d.Schema) != string(form) {
				w.t.Fatalf("seq %d: %q is asked with %d of %d answers", e.Seq, d.Message, len(c.answers), c.n%3)
			}
			byRelay[e.ID] = c
		case *event.RelayResolved:
			c := byRelay[d.RelayID]
			switch {
			case c == nil:
			case d.Approved:
				c.answers = append(c.answers, string(d.Content))
			default:
				c.answers = append(c.answers, "declined: "+d.Reason)
			}
		case *event.ToolResult:
			c := calls[e.ID]
			if c == nil {
				break
			}
			if c.result = d; d.IsError {
				break
			}
			var heard []string
			require.NoError(w.t, json.Unmarshal(d.Output, &heard))
			if len(heard) != c.n%3 || fmt.Sprintf("%q", heard) != fmt.Sprintf("%q", c.answers) {
				w.t.Fatalf("seq %d: %s has heard %q of the answers %q to %d questions", e.Seq, e.ID, heard, c.answers, c.n%3)
			}
		}
	}
	for id, c := range calls {
		if c.result == nil && over {
			w.t.Fatalf("the turn is over, and the call %s has no result", id)
		}
		if w.ran[id] == nil {
			continue
		}
		for i, heard := range w.ran[id].heard {
			before := len(w.ran[id].heard[0]) // in the session of a fork
			if len(heard) != before+i || len(heard) > len(c.answers) || fmt.Sprintf("%q", heard) != fmt.Sprintf("%q", c.answers[:len(heard)]) {
				w.t.Fatalf("the execution %d of %s has heard %q, and the answers are %q", i+1, id, heard, c.answers)
			}
		}
	}
}

// where says what a scope is inside of.
func where(scope string) string {
	switch {
	case scope == "":
		return ""
	case event.ParentRun(scope) == "":
		return " in an agent tool"
	}
	return " in a graph"
}
