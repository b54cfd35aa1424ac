package event_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
)

// conversation makes the log of a session of so many turns as the runner writes it: one
// agent answers, or calls a tool and hands over to the other; sometimes the state changes,
// a file is made, a router decides, or an attempt fails.
func conversation(turns int) []*event.Event {
	var log []*event.Event
	turn, before, who := "", "", 0
	id := func() string { return fmt.Sprintf("%012x", uint64(len(log)+1)*0x9e3779b97f4a7c15>>16) }
	add := func(run, parent string, data event.Data, call ...string) {
		e := &event.Event{Seq: int64(len(log) + 1), ID: id(), TurnID: turn, RunID: run, ParentID: parent,
			Agent: []string{"support", "billing"}[who], Path: []string{"support", "support/billing"}[who],
			Time: time.Unix(1_800_000_000, int64(len(log))*1_234_567).UTC(), Data: data}
		if len(call) > 0 {
			e.ID = call[0]
		}
		log = append(log, e)
	}
	for n := range turns {
		turn = "t" + id()
		user, run := "u"+id(), "r"+id()
		add(user, before, &event.User{Content: llm.Content{Text: "I was charged twice for order 7. Can you look\ninto it, please?"}})
		log[len(log)-1].Agent, log[len(log)-1].Path = "user", ""
		add(run, user+":user", &event.HarnessStart{AgentID: log[0].Agent})
		if n%3 == 1 {
			call := fmt.Sprintf("call_%06x", n)
			add(run, "", &event.ToolCall{Name: "lookup_order", Input: json.RawMessage(`{"order":7,"fields":["charges","date"]}`)}, call)
			add(run, "", &event.Usage{InputTokens: 912, OutputTokens: 40, Model: "gpt-5-mini"})
			add(run, "", &event.ToolResult{Name: "lookup_order", Output: json.RawMessage(`{"charges":[{"amount":24.90,"on":"2026-03-03"},{"amount":24.90,"on":"2026-03-03"}],"state":"shipped"}`)}, call)
			switch n % 4 {
			case 0:
				add(run, "", &event.State{Delta: map[string]any{"order": 7.0, "mood": "annoyed"}})
			case 1:
				add(run, "", &event.Discard{Code: "model_error", Message: "the stream was cut", IDs: []string{"b" + call}})
			case 2:
				add(run, "", &event.Relay{Kind: event.RelayPermission, ToolCallID: call, Tool: "refund", Params: json.RawMessage(`{"amount":24.90}`)})
				add(run, "", &event.RelayResolved{RelayID: "p" + call, Approved: true, By: "bob"})
			case 3:
				add(run, "", &event.Reasoning{Content: "Two charges on one day: one of them is to be paid back."})
				add(run, "", &event.Notice{Code: "agent_gone", Message: "sales is no longer in the tree"})
			}
		}
		if n%3 == 2 {
			call := fmt.Sprintf("call_%06x", n)
			add(run, "", &event.ToolCall{Name: agent.TransferTool, Input: json.RawMessage(`{"agent_name":"billing","reason":"charged twice"}`)}, call)
			add(run, "", &event.Usage{InputTokens: 900, OutputTokens: 21, Model: "gpt-5-mini"})
			add(run, "", &event.ToolResult{Name: agent.TransferTool, Output: json.RawMessage(`"Transferred to billing."`)}, call)
			if n%4 == 0 {
				add(run, "", &event.Route{From: "support", To: "billing", RuleIndex: new(int), LatencyMs: 0.02, GraphPath: []string{"support", "billing"}})
			}
			add(run, "", &event.Transfer{From: "support", To: "billing", Reason: "charged twice", ToolCallID: call, Outcome: event.TransferCommitted})
			add(run, "", &event.HarnessEnd{AgentID: "support", FinishReason: event.FinishReasonTransfer, Target: "billing"})
			before, run, who = run+":harness_end", "s"+id(), 1-who
			add(run, before, &event.HarnessStart{AgentID: "billing"})
		}
		add(run, "", &event.Text{Content: "I see two charges of 24.90 € on your card, both from the third of March.\n\nI have asked for one to be paid back; that takes \"three to five\" days."})
		add(run, "", &event.Usage{InputTokens: 1130, OutputTokens: 45, CachedTokens: 512, Model: "gpt-5-mini"})
		add(run, "", &event.HarnessEnd{AgentID: "billing", FinishReason: event.FinishReasonStop})
		before = run + ":harness_end"
	}
	return log
}

// TestAllocationBudgetOfTheCodec holds an event's way from and to its line to a number of allocations.
func TestAllocationBudgetOfTheCodec(t *testing.T) {
	log := conversation(100)
	stored := lines(t, log)
	var d event.Decoder
	for name, c := range map[string]struct {
		budget float64
		cost   func(i int)
	}{
		"decode":   {13, func(i int) { d.DecodeLine(int64(i+1), stored[i]) }},
		"encode":   {9, func(i int) { _, _ = log[i].Line() }},
		"how deep": {0, func(i int) { event.Deeper(stored[i], 10) }},
	} {
		got := race.Allocations(t, 20, func() {
			for i := range log {
				c.cost(i)
			}
		}) / float64(len(log))
		t.Logf("%s: %.2f allocations an event", name, got)
		if got > c.budget {
			t.Errorf("%s: %.2f allocations an event, the budget is %.2f", name, got, c.budget)
		}
	}
}

func lines(t testing.TB, log []*event.Event) (lines [][]byte) {
	for _, e := range log {
		lines = append(lines, []byte(line(t, e)))
	}
	return lines
}

// BenchmarkCodec reads and writes the log of a conversation, as JSON and as lines of a database.
func BenchmarkCodec(b *testing.B) {
	log := conversation(100)
	var whole [][]byte
	for _, e := range log {
		row, err := e.MarshalJSON()
		require.NoError(b, err)
		whole = append(whole, row)
	}
	short := lines(b, log)
	var d event.Decoder
	for name, f := range map[string]func(i int){
		"decode":      func(i int) { event.Decode(int64(i+1), whole[i]) },
		"decode-line": func(i int) { d.DecodeLine(int64(i+1), short[i]) },
		"encode":      func(i int) { _, _ = log[i].MarshalJSON() },
		"encode-line": func(i int) { _, _ = log[i].Line() },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for i := range log {
					f(i)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(log)), "ns/event")
		})
	}
}
