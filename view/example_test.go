package view_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// What billing's model sees of a conversation that support began, under three
// policies. Hand-overs are left out, other agents' words have their names.
func ExampleView() {
	silent := func(context.Context, *agent.Invocation) iter.Seq2[*agent.Event, error] {
		return func(func(*agent.Event, error) bool) {}
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
	said := []*agent.Event{
		{Agent: "user", Data: &agent.User{Content: llm.Content{Text: "I was charged twice"}}},
		{Agent: "support", Data: &agent.HarnessStart{AgentID: "support"}},
		{Agent: "support", Data: &agent.Text{Content: "Let me look."}},
		{Agent: "support", ID: "c1", Data: &agent.ToolCall{Name: "charges", Input: json.RawMessage(`{"of":"ann"}`)}},
		{Agent: "support", ID: "c1", Data: &agent.ToolResult{Name: "charges", Output: json.RawMessage(`"two of 19"`)}},
		{Agent: "support", ID: "c2", Data: &agent.ToolCall{Name: agent.TransferTool, Input: json.RawMessage(`{"agent_name":"billing"}`)}},
		{Agent: "support", ID: "c2", Data: &agent.ToolResult{Name: agent.TransferTool, Output: json.RawMessage(`"Transferred to billing."`)}},
		{Agent: "support", Data: &agent.Transfer{From: "support", To: "billing", ToolCallID: "c2", Outcome: agent.TransferCommitted}},
		{Agent: "support", Data: &agent.HarnessEnd{AgentID: "support", FinishReason: agent.FinishReasonTransfer, Target: "billing"}},
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
