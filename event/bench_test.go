package event_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session/sessiontest"
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

func rows(t testing.TB, log []*event.Event) (rows [][]byte) {
	for _, e := range log {
		row, err := e.MarshalJSON()
		require.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

// byType has an example of each type, the first one of those that are alike.
func byType() (log []*event.Event) {
	seen := make(map[string]bool)
	for _, data := range sessiontest.Payloads() {
		if typ := data.EventType(); !seen[typ] {
			seen[typ] = true
			log = append(log, &event.Event{Seq: int64(len(log) + 1), ID: "j44jnnmzvf2n", TurnID: "a4tp6nnqnka3", RunID: "2apq5jh80f1v", Agent: "billing", Path: "support/billing",
				Time: time.Date(2026, 2, 3, 4, 5, 6, 258_207_175, time.UTC), Data: data})
		}
	}
	return log
}

// TestAllocationBudgetOfTheCodec holds an event's way from and to JSON to a number of
// allocations. One is the event with its payload, one its texts, one each of its raw JSON;
// those of maps and lists are theirs.
func TestAllocationBudgetOfTheCodec(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	log := conversation(100)
	stored := rows(t, log)
	var d event.Decoder
	per := func(n int, f func(i int)) float64 {
		return testing.AllocsPerRun(20, func() {
			for i := range n {
				f(i)
			}
		}) / float64(n)
	}
	for name, c := range map[string]struct {
		budget float64
		cost   func(i int)
	}{
		"decode a log":    {2.5, func(i int) { d.Decode(int64(i+1), stored[i]) }},
		"decode alone":    {2.7, func(i int) { event.Decode(int64(i+1), stored[i]) }},
		"unmarshal alone": {2.7, func(i int) { _ = new(event.Event).UnmarshalJSON(stored[i]) }}, // the new one stays where it is
		"encode a log":    {1.01, func(i int) { _, _ = log[i].MarshalJSON() }},
		"how deep":        {0, func(i int) { event.Deeper(stored[i], 10) }},
	} {
		got := per(len(log), c.cost)
		t.Logf("%s: %.2f allocations an event", name, got)
		if got > c.budget {
			t.Errorf("%s: %.2f allocations an event, the budget is %.2f", name, got, c.budget)
		}
	}
	budgets := map[string]float64{event.TypeUser: 20, event.TypeState: 20, event.TypeRoute: 20, event.TypeHandoffStatus: 9, event.TypeTransfer: 5, event.TypeDiscard: 3}
	examples := byType()
	for i, row := range rows(t, examples) {
		got := per(1, func(int) { d.Decode(int64(i+1), row) })
		budget := max(budgets[examples[i].Type()], 4)
		t.Logf("%s: %.0f allocations to decode, %.0f to encode", examples[i].Type(), got, per(1, func(int) { _, _ = examples[i].MarshalJSON() }))
		if got > budget {
			t.Errorf("%s: %.0f allocations, the budget is %.0f", examples[i].Type(), got, budget)
		}
	}
	var boxed any = "It's \"so\"\nthat"
	encoded, number := []byte(`"It's \"so\"\nthat"`), []byte("12.5")
	for name, cost := range map[string]func(int){
		"a text":    func(int) { event.EncodeJSON(boxed) },
		"its text":  func(int) { event.OutputText(encoded) },
		"arguments": func(int) { event.ObjectInput(`{"agent_name":"billing"}`) },
		"no object": func(int) { event.ObjectInput("billing") },
		"a value":   func(int) { event.DecodeValue(number) },
	} {
		if got := per(1, cost); got > 1 {
			t.Errorf("%s: %.0f allocations, the budget is 1", name, got)
		}
	}
}

func total(rows [][]byte) (n int64) {
	for _, row := range rows {
		n += int64(len(row))
	}
	return n
}

// BenchmarkDecode decodes a log: with a memory, without, with package json, and beside
// that a bare copy of the same rows. Then it decodes an event of each type.
func BenchmarkDecode(b *testing.B) {
	stored := rows(b, conversation(100))
	var d event.Decoder
	for _, c := range []struct {
		name   string
		decode func(seq int64, row []byte)
	}{
		{"log", func(seq int64, row []byte) { d.Decode(seq, row) }},
		{"log-alone", func(seq int64, row []byte) { event.Decode(seq, row) }},
		{"log-package-json", func(seq int64, row []byte) { _, _ = event.Slow(row) }},
		{"log-copy", func(seq int64, row []byte) { sink = bytes.Clone(row) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(total(stored))
			b.ReportAllocs()
			for b.Loop() {
				for i, row := range stored {
					c.decode(int64(i+1), row)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(stored)), "ns/event")
		})
	}
	examples := byType()
	for i, row := range rows(b, examples) {
		b.Run(examples[i].Type(), func(b *testing.B) {
			b.SetBytes(int64(len(row)))
			b.ReportAllocs()
			for b.Loop() {
				d.Decode(int64(i+1), row)
			}
		})
	}
}

var sink []byte

// BenchmarkEncode does the same the other way.
func BenchmarkEncode(b *testing.B) {
	log := conversation(100)
	stored := rows(b, log)
	for _, c := range []struct {
		name   string
		encode func(i int)
	}{
		{"log", func(i int) { sink, _ = log[i].MarshalJSON() }},
		{"log-package-json", func(i int) { sink, _ = event.WriteSlow(log[i]) }},
		{"log-copy", func(i int) { sink = bytes.Clone(stored[i]) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(total(stored))
			b.ReportAllocs()
			for b.Loop() {
				for i := range log {
					c.encode(i)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(log)), "ns/event")
		})
	}
	for _, e := range byType() {
		b.Run(e.Type(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink, _ = e.MarshalJSON()
			}
		})
	}
}
