package sessiontest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

var recorded = time.Date(2026, 2, 3, 4, 5, 6, 789012345, time.UTC)

// ended returns a canceled context.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// entry returns a stored event with an ordinary envelope.
func entry(seq int64, data event.Data) *event.Event {
	return &event.Event{Seq: seq, ID: fmt.Sprintf("e%d", seq), TurnID: "t1", RunID: "r1", Agent: "support", Path: "support",
		Time: recorded.Add(time.Duration(seq)), Data: data}
}

// events returns events for the positions after seq.
func events(seq int64, data ...event.Data) []*event.Event {
	out := make([]*event.Event, len(data))
	for i, d := range data {
		out[i] = entry(seq+int64(i)+1, d)
	}
	return out
}

func text(s string) *event.Text { return &event.Text{Content: s} }

func texts(n int, prefix string) []event.Data {
	out := make([]event.Data, n)
	for i := range out {
		out[i] = text(fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}

func state(pairs ...any) *event.State {
	delta := make(map[string]any)
	for i := 0; i < len(pairs); i += 2 {
		delta[pairs[i].(string)] = pairs[i+1]
	}
	return &event.State{Delta: delta}
}

// toJSON returns an event in the form in which events are compared. It decodes and encodes the JSON once more, because
// a store may change what JSON does not distinguish, such as an int and a float64, or bytes that are not UTF-8.
func toJSON(t *testing.T, list []*event.Event) []string {
	t.Helper()
	out := make([]string, len(list))
	for i, e := range list {
		for range 2 {
			b, err := e.MarshalJSON()
			require.NoError(t, err)
			out[i], e = string(b), new(event.Event)
			require.NoError(t, e.UnmarshalJSON(b))
		}
	}
	return out
}

// Payloads returns an example of every payload type that can be stored, with
// all of its fields set, and of [event.Unknown].
func Payloads() []event.Data {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	return []event.Data{
		&event.User{Content: llm.Content{Text: "I was charged twice"}, Metadata: map[string]any{"channel": "web", "n": 1.5, "deep": map[string]any{"list": []any{"a", nil, true}}}},
		&event.User{Content: llm.Content{Parts: []llm.Part{
			llm.TextPart{Text: "look"},
			llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{0, 1, 2, 255}},
			llm.Media{Kind: llm.MediaFile, MediaType: "text/plain", URL: "https://example.test/a?b=c&d=e", Name: "a <b>.txt"},
			llm.Media{Kind: llm.MediaAudio, MediaType: "audio/wav", Data: []byte("RIFF")},
		}}},
		&event.HarnessStart{AgentID: "support", Input: raw(`{"order":7}`)},
		text("One moment."),
		&event.Reasoning{Content: "The user is billed by two systems.", Sealed: `[{"<":1}]`},
		&event.ToolCall{Name: "lookup", Input: raw(`{"id":12345678901234567890,"when":null}`)},
		&event.ToolProgress{ToolCallID: "c1", Name: "lookup", Content: raw(`"half"`)},
		&event.ToolResult{Name: "lookup", Output: raw(`[1,2.50,{"a":"b"}]`), IsError: true},
		&event.Relay{Kind: "permission", ToolCallID: "c1", Tool: "refund", Params: raw(`{"amount":10}`)},
		&event.Relay{Kind: event.RelayInput, ToolCallID: "c1", Tool: "refund", Params: raw(`{"amount":10}`), Message: "How much?", Schema: raw(`{"type":"number"}`), Within: []string{"support", "billing"}},
		&event.RelayResolved{RelayID: "p1", Approved: true, Reason: "fine", By: "bob", Content: raw(`10`)},
		&event.Transfer{From: "support", To: "billing", Reason: "charged twice", ToolCallID: "c2", Outcome: event.TransferCommitted,
			Payload: raw(`{"x":1}`), TransferType: "rule", RouteDecision: raw(`{"score":0.5}`), GraphPath: []string{"a", "b"}},
		&event.Route{From: "front", To: "billing", RuleIndex: new(int), Reason: "charged twice", IntentLabel: "billing", IntentConfidence: 0.75,
			Sentiment: map[string]float64{"frustration": 0.5}, LatencyMs: 0.02, GraphPath: []string{"front", "billing"},
			Failed: &event.Failure{Code: "model_error", Message: "503", Retryable: true}},
		&event.Route{From: "front", To: "billing", LatencyMs: 1, GraphPath: []string{"front", "billing"}},
		&event.HandoffStatus{HandoffID: "h1", Status: "queued", TargetAgent: "Ann", Reason: "frustrated", QueuePosition: new(int), EstimatedWaitTime: new(float64),
			RouteDecision: "human", GraphPath: []string{"front", "human"}, UpTo: 12, DeskEventID: "d1"},
		state("mood", "calm", "turn:step", 3.0, "gone", nil, "nested", map[string]any{"k": []any{1.0, "two"}}),
		&event.File{Name: "refund <1>.pdf", MediaType: "application/pdf", Size: 12_000, Digest: session.Digest([]byte("refund")), ToolCallID: "c1"},
		&event.File{Name: "far.txt", MediaType: "text/plain", URL: "https://example.test/a?b=c&d"},
		&event.File{Name: "notes.txt", MediaType: "text/plain; charset=utf-8", Digest: session.Digest(nil)},
		&event.Usage{InputTokens: 12, OutputTokens: 5, CachedTokens: 3, Model: "m-1"},
		&event.RemoteTask{TaskID: "task", ContextID: "ctx", Status: "working", URL: "https://example.test/rpc"},
		&event.Compaction{UpTo: 40, Summary: "They talked about bills."},
		&event.Notice{Code: "agent_gone", Message: "billing is no longer in the tree"},
		&event.Discard{Code: "retry", Message: "the stream was cut", IDs: []string{"b1", "b2"}},
		&event.Failure{Code: "model_error", Message: "503", Retryable: true},
		&event.HarnessEnd{AgentID: "support", FinishReason: event.FinishReasonTransfer, Target: "billing", Output: raw(`"done"`)},
		&event.Unknown{Type: "hologram", Raw: raw(`{"angle":0.10,"frames":[1,2],"content":"x"}`)},
		&event.Unknown{Type: "empty", Raw: raw(`{}`)},
	}
}

// difficult are texts that some databases damage.
func difficult() map[string]string {
	var control strings.Builder
	for r := range rune(0xa0) {
		control.WriteRune(r)
	}
	return map[string]string{
		"empty":         "",
		"control":       control.String(),
		"nul":           "a\x00b\x00",
		"right to left": "שלום \u202eעולם\u202c مرحبا",
		"combining":     "e\u0301 \u1112\u1161\u11ab",
		"beyond bmp":    "👩‍👩‍👧 𝔘𝔫𝔦",
		"separators":    "a\u2028b\u2029c\ufeff",
		"noncharacter":  "\ufffe\uffff\U0010ffff",
		"invalid":       "a\xffb\xc0\xafc\xed\xa0\x80",
		"html":          `<a href="x">&amp;</a>`,
		"quotes":        `'; DROP TABLE event; -- "\" \\u0000 %s $1 ?`,
		"newlines":      "a\r\nb\rc\n",
		"120 KB":        strings.Repeat("0123456789 äöü ", 120<<10/18),
	}
}
