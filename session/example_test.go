package session_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// A store appends under a lease, at a position that the writer knows. A writer
// that is behind stores nothing.
func ExampleStore() {
	ctx, key := context.Background(), session.ID("s1")
	store := session.NewMemory()
	lease, err := sessiontest.Acquire(ctx, store, key, session.Self())
	if err != nil {
		log.Fatal(err)
	}
	_, err = sessiontest.Acquire(ctx, store, key, session.Self())
	fmt.Println("busy:", errors.Is(err, agent.ErrSessionBusy))

	hello := &event.Event{Seq: 1, ID: "a", Data: &event.User{Content: llm.Content{Text: "Hello"}}}
	if err := sessiontest.Append(ctx, store, key, 0, lease, hello); err != nil {
		log.Fatal(err)
	}
	err = sessiontest.Append(ctx, store, key, 0, lease, hello)
	fmt.Println("conflict:", errors.Is(err, agent.ErrConflict))

	for e, err := range store.Load(ctx, key, 0) {
		fmt.Println(e.Seq, e.Type(), err)
	}
	// Output:
	// busy: true
	// conflict: true
	// 1 user <nil>
}

// A fold is what follows from a log: here who would answer next, and that the
// turn is not over, because that agent has not begun.
func ExampleFold() {
	var f session.Fold
	for i, data := range []event.Data{
		&event.User{Content: llm.Content{Text: "I was charged twice"}},
		&event.HarnessStart{AgentID: "support"},
		&event.Transfer{From: "support", To: "billing", Outcome: event.TransferCommitted},
		&event.HarnessEnd{AgentID: "support", FinishReason: event.FinishReasonTransfer, Target: "billing"},
	} {
		f.Apply(&event.Event{Seq: int64(i + 1), TurnID: "t1", RunID: "r1", Agent: "support", Data: data})
	}
	fmt.Println("active:", f.Scope("").Active)
	fmt.Println("transfers in this turn:", f.Turn.Transfers)
	fmt.Println("unfinished:", f.Unfinished())
	// Output:
	// active: billing
	// transfers in this turn: 1
	// unfinished: true
}

// Records say what each event is about: here, which tool a decision lets run, and what was asked.
func ExampleRecords() {
	store, ctx, key := session.NewMemory(), context.Background(), session.ID("s1")
	lease, err := sessiontest.Acquire(ctx, store, key, session.Self())
	if err != nil {
		log.Fatal(err)
	}
	err = sessiontest.Append(ctx, store, key, 0, lease,
		&event.Event{Seq: 1, ID: "c", Agent: "billing", Data: &event.ToolCall{Name: "refund", Input: []byte(`{"amount":20}`)}},
		&event.Event{Seq: 2, ID: "q", Agent: "billing", Data: &event.Relay{Kind: event.RelayPermission, ToolCallID: "c", Tool: "refund"}},
		&event.Event{Seq: 3, ID: "d", Data: &event.RelayResolved{RelayID: "q", Approved: true}},
		&event.Event{Seq: 4, ID: "c", Agent: "billing", Data: &event.ToolResult{Name: "refund", Output: []byte(`"done"`)}})
	if err != nil {
		log.Fatal(err)
	}
	for rec, err := range session.Records(store.Load(ctx, key, 0)) {
		if err != nil {
			log.Fatal(err)
		}
		switch d := rec.Data.(type) {
		case *event.RelayResolved:
			fmt.Println(rec.Question.Agent, "may run it:", d.Approved)
		case *event.ToolResult:
			fmt.Printf("%s%s gave %s\n", d.Name, rec.Call.Data.(*event.ToolCall).Input, d.Output)
		}
	}
	// Output:
	// billing may run it: true
	// refund{"amount":20} gave "done"
}
