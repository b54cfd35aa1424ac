package conversation

import (
	"encoding/json"
	"strconv"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// stream makes turns of a conversation, without end: a message, an answer with a
// call, its result and words. Every run has nine events.
type stream struct {
	turn, step int
	last       string
}

func (s *stream) next() *event.Event {
	turn := strconv.Itoa(s.turn)
	user, run := "user-"+turn, "run-"+turn
	e := &event.Event{ID: "event-" + turn + "-" + strconv.Itoa(s.step), RunID: run, Agent: "support", Path: "desk/support", Seq: int64(s.turn*10 + s.step + 1)}
	switch s.step {
	case 0:
		e.RunID, e.ParentID, e.Data = user, s.last, &event.User{Content: llm.Content{Text: "How much is it?"}}
	case 1:
		e.ParentID, e.Data = user+":user", &event.HarnessStart{AgentID: "support"}
	case 2:
		e.Data = &event.Reasoning{Content: "The price is in the catalogue."}
	case 3:
		e.Data = &event.Text{Content: "Let me look."}
	case 4:
		e.ID, e.Data = "call-"+turn, &event.ToolCall{Name: "lookup", Input: json.RawMessage(`{"item":1}`)}
	case 5:
		e.Data = &event.Usage{InputTokens: 10, OutputTokens: 5}
	case 6:
		e.ID, e.Data = "call-"+turn, &event.ToolResult{Name: "lookup", Output: json.RawMessage(`5`)}
	case 7:
		e.Data = &event.Text{Content: "It is five."}
	case 8:
		e.Data = &event.Usage{InputTokens: 20, OutputTokens: 5}
	case 9:
		e.Data = &event.HarnessEnd{AgentID: "support", FinishReason: event.FinishReasonStop}
		s.last = run + ":harness_end"
		s.turn, s.step = s.turn+1, -1
	}
	s.step++
	return e
}
