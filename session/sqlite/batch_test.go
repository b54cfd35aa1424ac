package sqlite_test

import (
	"fmt"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/llm"
)

// oneTurn makes the appends of a session's turn of a number, as the runner writes them: the user's message and
// the start of the run; the answer and the end. A transfer puts the call, the
// transfer with the end of the run, and the start of the next one in between.
func oneTurn(n, seq int64, transfer bool) [][]*event.Event {
	at := seq
	id := func(name string) string { return fmt.Sprintf("%s%d", name, n) }
	entry := func(run, who, parent string, data event.Data) *event.Event {
		at++
		return &event.Event{Seq: at, ID: fmt.Sprintf("e%d", at), TurnID: id("turn"), RunID: run, ParentID: parent, Agent: who, Path: who,
			Time: time.Unix(1_800_000_000, at).UTC(), Data: data}
	}
	user, a, b := id("user"), id("a"), id("b")
	before := ""
	switch {
	case n > 0 && transfer:
		before = fmt.Sprintf("b%d:harness_end", n-1)
	case n > 0:
		before = fmt.Sprintf("a%d:harness_end", n-1)
	}
	answer := func(run, who string) []*event.Event {
		return []*event.Event{entry(run, who, "", storetest.Batch(0, 1)[0].Data), entry(run, who, "", &event.Usage{InputTokens: 900, OutputTokens: 40}),
			entry(run, who, "", &event.HarnessEnd{AgentID: who, FinishReason: event.FinishReasonStop})}
	}
	appends := [][]*event.Event{{entry(user, "user", before, &event.User{Content: llm.Content{Text: "I was charged twice for order 7."}}),
		entry(a, "support", user+":user", &event.HarnessStart{AgentID: "support"})}}
	if !transfer {
		return append(appends, answer(a, "support"))
	}
	return append(appends,
		[]*event.Event{entry(a, "support", "", &event.ToolCall{Name: agent.TransferTool, Input: []byte(`{"agent":"billing"}`)}),
			entry(a, "support", "", &event.Usage{InputTokens: 900, OutputTokens: 40})},
		[]*event.Event{entry(a, "support", "", &event.Transfer{From: "support", To: "billing", Outcome: event.TransferCommitted}),
			entry(a, "support", "", &event.HarnessEnd{AgentID: "support", FinishReason: event.FinishReasonTransfer, Target: "billing"})},
		[]*event.Event{entry(b, "billing", a+":harness_end", &event.HarnessStart{AgentID: "billing"})},
		answer(b, "billing"))
}
