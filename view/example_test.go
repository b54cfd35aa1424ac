package view_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// What billing's model sees of a conversation that support began, under three
// policies. Hand-overs are left out, other agents' words have their names.
func ExampleView() {
	silent := func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(func(*event.Event, error) bool) {}
	}
	billing, err := agent.New("billing", "Refunds", silent)
	if err != nil {
		log.Fatal(err)
	}
	support, err := agent.New("support", "Routes", silent, agent.WithSubAgents(billing))
	if err != nil {
		log.Fatal(err)
	}
	tree, err := agent.NewTree(support)
	if err != nil {
		log.Fatal(err)
	}
	said := []*event.Event{
		{Agent: "user", Data: &event.User{Content: llm.Content{Text: "I was charged twice"}}},
		{Agent: "support", Data: &event.HarnessStart{AgentID: "support"}},
		{Agent: "support", Data: &event.Text{Content: "Let me look."}},
		{Agent: "support", ID: "c1", Data: &event.ToolCall{Name: "charges", Input: json.RawMessage(`{"of":"ann"}`)}},
		{Agent: "support", ID: "c1", Data: &event.ToolResult{Name: "charges", Output: json.RawMessage(`"two of 19"`)}},
		{Agent: "support", ID: "c2", Data: &event.ToolCall{Name: agent.TransferTool, Input: json.RawMessage(`{"agent_name":"billing"}`)}},
		{Agent: "support", ID: "c2", Data: &event.ToolResult{Name: agent.TransferTool, Output: json.RawMessage(`"Transferred to billing."`)}},
		{Agent: "support", Data: &event.Transfer{From: "support", To: "billing", ToolCallID: "c2", Outcome: event.TransferCommitted}},
		{Agent: "support", Data: &event.HarnessEnd{AgentID: "support", FinishReason: event.FinishReasonTransfer, Target: "billing"}},
	}
	for _, name := range []string{"full", "text_only", "own"} {
		policy, err := view.Parse(name)
		if err != nil {
			log.Fatal(err)
		}
		v := view.New(tree.Node("billing"), policy, "")
		for i, e := range said {
			e.Seq = int64(i + 1)
			v.Apply(e)
		}
		fmt.Println(name)
		for _, m := range v.Messages() {
			fmt.Println(" ", m.Role, m.Text)
		}
	}
	// Output:
	// full
	//   user I was charged twice
	//   user [support] Let me look.
	//   user [support] called charges({"of":"ann"}): two of 19
	// text_only
	//   user I was charged twice
	//   user [support] Let me look.
	// own
	//   user I was charged twice
}
