package event_test

import (
	"encoding/json"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/oddbytes"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func encode(t testing.TB, e *event.Event) string {
	t.Helper()
	b, err := e.MarshalJSON()
	require.NoError(t, err)
	return string(b)
}

func decode(t testing.TB, s string) *event.Event {
	t.Helper()
	e := new(event.Event)
	require.NoError(t, json.Unmarshal([]byte(s), e))
	return e
}

func TestEventRoundTrip(t *testing.T) {
	for _, data := range sessiontest.Payloads() {
		t.Run((&event.Event{Data: data}).Type(), func(t *testing.T) {
			in := &event.Event{Seq: 7, ID: "e7", TurnID: "t1", RunID: "r1", Scope: "c1", ParentID: "r0:harness_end", Agent: "billing",
				Path: "support/billing", Time: time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC), Partial: true, Attempt: 2, Data: data}
			first := encode(t, in)
			out := decode(t, first)
			require.Equal(t, in, out)
			require.Equal(t, first, encode(t, out))
		})
	}
}

func TestEventShape(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 70, time.UTC)
	for _, tt := range []struct {
		event event.Event
		want  string
	}{
		{
			event.Event{Seq: 1, ID: "e1", TurnID: "t1", RunID: "u1", Agent: "user", Time: at, Data: &event.User{Content: llm.Content{Text: "hi"}}},
			`{"seq":1,"id":"e1","turnId":"t1","runId":"u1","type":"user","agent":"user","time":"2026-02-03T04:05:06.00000007Z","content":"hi"}`,
		},
		{
			event.Event{Data: &event.User{Content: llm.Content{Parts: []llm.Part{llm.TextPart{Text: "see"}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte("x")}}}}},
			`{"type":"user","content":[{"type":"text","text":"see"},{"type":"image","mediaType":"image/png","data":"eA=="}]}`,
		},
		{
			event.Event{Seq: 2, ID: "e2", TurnID: "t1", RunID: "r1", Scope: "c9", ParentID: "u1:user", Agent: "billing", Path: "support/billing",
				Data: &event.HarnessStart{AgentID: "billing", Input: json.RawMessage(`{"order": 7}`)}},
			`{"seq":2,"id":"e2","turnId":"t1","runId":"r1","scope":"c9","parentId":"u1:user","type":"harness_start","agent":"billing","path":"support/billing","agentId":"billing","input":{"order":7}}`,
		},
		{event.Event{ID: "b1", Partial: true, Attempt: 2, Data: &event.Text{Content: "He"}}, `{"id":"b1","type":"text","partial":true,"attempt":2,"content":"He"}`},
		{event.Event{Data: &event.Text{}, More: true}, `{"type":"text","content":""}`},
		{event.Event{Data: &event.Reasoning{Content: "hm"}}, `{"type":"reasoning","content":"hm"}`},
		{event.Event{Data: &event.ToolCall{Name: "lookup", Input: json.RawMessage(`{}`)}}, `{"type":"tool_call","name":"lookup","input":{}}`},
		{event.Event{Data: &event.ToolProgress{ToolCallID: "c1", Name: "lookup", Content: json.RawMessage(`50`)}}, `{"type":"tool_progress","toolCallId":"c1","name":"lookup","content":50}`},
		{event.Event{Data: &event.ToolResult{Name: "lookup", Output: json.RawMessage(`"ok"`)}}, `{"type":"tool_result","name":"lookup","output":"ok"}`},
		{event.Event{Data: &event.ToolResult{Name: "lookup", Output: json.RawMessage(`null`), IsError: true}}, `{"type":"tool_result","name":"lookup","output":null,"isError":true}`},
		{event.Event{Data: &event.Relay{Kind: "permission", ToolCallID: "c1", Tool: "refund", Params: json.RawMessage(`{}`)}}, `{"type":"relay","kind":"permission","toolCallId":"c1","tool":"refund","params":{}}`},
		{event.Event{Data: &event.RelayResolved{RelayID: "p1"}}, `{"type":"relay_resolved","relayId":"p1","approved":false}`},
		{event.Event{Data: &event.Transfer{From: "a", To: "b", Reason: "r", ToolCallID: "c1", Outcome: event.TransferCommitted}}, `{"type":"transfer","from":"a","to":"b","reason":"r","toolCallId":"c1","outcome":"committed"}`},
		{event.Event{Data: &event.State{Delta: map[string]any{"b": nil, "a": 1}}}, `{"type":"state","delta":{"a":1,"b":null}}`},
		{event.Event{Data: &event.Usage{}}, `{"type":"usage","inputTokens":0,"outputTokens":0}`},
		{event.Event{Data: &event.RemoteTask{TaskID: "x"}}, `{"type":"remote_task","taskId":"x"}`},
		{event.Event{Data: &event.Compaction{UpTo: 3, Summary: "s"}}, `{"type":"compaction","upTo":3,"summary":"s"}`},
		{event.Event{Data: &event.Notice{Code: "c", Message: "m"}}, `{"type":"notice","code":"c","message":"m"}`},
		{event.Event{Data: &event.Discard{Code: "c", Message: "m", IDs: []string{"b1"}}}, `{"type":"discard","code":"c","message":"m","ids":["b1"]}`},
		{event.Event{Data: &event.Failure{Code: "c", Message: "m"}}, `{"type":"error","code":"c","message":"m","retryable":false}`},
		{event.Event{Data: &event.HarnessEnd{AgentID: "a", FinishReason: event.FinishReasonTransfer, Target: "b"}}, `{"type":"harness_end","agentId":"a","finishReason":"transfer","target":"b"}`},
		{event.Event{Data: &event.Unknown{Type: "x", Raw: json.RawMessage(`{"z": 1.0, "a": [ ]}`)}}, `{"type":"x","z":1.0,"a":[]}`},
		{event.Event{Data: &event.Unknown{Type: "x"}}, `{"type":"x"}`},
	} {
		require.Equal(t, tt.want, encode(t, &tt.event))
	}
}

func TestEventTime(t *testing.T) {
	zone := time.FixedZone("x", 5400)
	e := event.Event{Time: time.Date(2026, 1, 1, 0, 30, 0, 1, zone), Data: &event.Text{}}
	require.Equal(t, `{"type":"text","time":"2025-12-31T23:00:00.000000001Z","content":""}`, encode(t, &e))
	back := decode(t, encode(t, &e))
	require.True(t, e.Time.Equal(back.Time))
	require.Equal(t, time.UTC, back.Time.Location())
	require.Equal(t, back.Time, decode(t, `{"type":"text","time":"2026-01-01T00:30:00.000000001+01:30"}`).Time)

	now := event.Event{Time: time.Now(), Data: &event.Text{}}
	require.True(t, now.Time.Equal(decode(t, encode(t, &now)).Time), "nanoseconds are kept")

	e.Time = time.Time{}
	require.NotContains(t, encode(t, &e), "time")
	e.Time = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := e.MarshalJSON()
	require.Error(t, err)
	require.Error(t, new(event.Event).UnmarshalJSON([]byte(`{"type":"text","time":"9999-12-31T23:59:59-01:00"}`)), "is year 10000 in UTC, which has no JSON form")
}

func TestEventsWithoutJSONForm(t *testing.T) {
	for name, data := range map[string]event.Data{
		"no payload":        nil,
		"continue":          &event.Continue{},
		"finish":            &event.Finish{Reason: event.FinishReasonStop},
		"nil payload":       (*event.Text)(nil),
		"nil unknown":       (*event.Unknown)(nil),
		"unknown continue":  &event.Unknown{Type: "continue"},
		"no type":           &event.Unknown{},
		"list":              &event.Unknown{Type: "x", Raw: json.RawMessage(`[]`)},
		"broken":            &event.Unknown{Type: "x", Raw: json.RawMessage(`{"a":`)},
		"two values":        &event.Unknown{Type: "x", Raw: json.RawMessage(`{} {}`)},
		"not JSON":          &event.ToolCall{Input: json.RawMessage(`{oops`)},
		"function in state": &event.State{Delta: map[string]any{"f": func() {}}},
		"infinite":          &event.State{Delta: map[string]any{"f": math.Inf(1)}},
		"no user content":   &event.User{Content: llm.Content{Parts: []llm.Part{llm.ToolCall{}}}},
	} {
		_, err := (&event.Event{ID: "e1", Data: data}).MarshalJSON()
		require.Error(t, err, name)
	}
}

func TestEventsThatAreRefused(t *testing.T) {
	for _, s := range []string{
		``, `null`, `[]`, `"text"`, `{}`, `{"id":"e1"}`, `{"type":""}`, `{"type":7}`, `{"type":null}`, `{"type":"text"`, `{"type":"text"} x`,
		`{"type":"continue"}`, `{"type":"finish","reason":"stop"}`, `{"type":"text","content":7}`, `{"type":"text","seq":"1"}`,
		`{"type":"text","seq":1.5}`, `{"type":"text","time":"yesterday"}`, `{"type":"user","content":{}}`, `{"type":"user","content":[{"type":"video"}]}`,
	} {
		before := event.Event{ID: "kept", Data: &event.Text{Content: "kept"}}
		e := before
		require.Error(t, e.UnmarshalJSON([]byte(s)), s)
		require.Equal(t, before, e, s)
	}
	require.Equal(t, &event.Event{Data: &event.Text{}}, decode(t, `{"type":"text"}`), "id, seq and time may be missing")
}

func TestUnknownTypesAreKept(t *testing.T) {
	const s = `{"seq":3,"id":"e3","type":"hologram","agent":"a","b":1.50,"a":{"y":1,"x":[ ]},"content":"<b>","big":12345678901234567890}`
	e := decode(t, strings.ReplaceAll(s, ",", " , "))
	require.Equal(t, &event.Unknown{Type: "hologram", Raw: json.RawMessage(`{"b":1.50,"a":{"y":1,"x":[]},"content":"<b>","big":12345678901234567890}`)}, e.Data)
	require.EqualValues(t, 3, e.Seq)
	require.Equal(t, strings.ReplaceAll(s, "[ ]", "[]"), encode(t, e), "order and numbers stay as they were")

	// A payload cannot pose as the envelope, in whatever case.
	e.Data = &event.Unknown{Type: "hologram", Raw: json.RawMessage(`{"seq":9,"SEQ":9,"TurnID":"x","type":"text","x":1}`)}
	require.Equal(t, `{"seq":3,"id":"e3","type":"hologram","agent":"a","x":1}`, encode(t, e))
}

func TestTextsInJSON(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`<a href="x">&amp;</a>`, `"<a href=\"x\">&amp;</a>"`}, // no HTML escapes
		{"a\x00\x1f\n", `"a\u0000\u001f\n"`},
		{"שלום 👩‍👧", `"שלום 👩‍👧"`},
		{"a\xffb", `"a\ufffdb"`},
	} {
		require.Equal(t, `{"type":"text","content":`+tt.want+`}`, encode(t, &event.Event{Data: &event.Text{Content: tt.text}}))
		require.Equal(t, `{"type":"tool_result","name":"","output":`+tt.want+`}`,
			encode(t, &event.Event{Data: &event.ToolResult{Output: event.EncodeJSON(tt.text)}}))
	}
	raw := encode(t, &event.Event{Data: &event.ToolResult{Output: json.RawMessage("{\n\"a\": \"<\xff>\"}")}})
	require.Equal(t, `{"type":"tool_result","name":"","output":{"a":"<`+"\ufffd"+`>"}}`, raw, "one line of valid UTF-8, whatever was given")
}

func TestObjectInput(t *testing.T) {
	for in, want := range map[string]string{
		``: `{}`, "  \n": `{}`, `{}`: `{}`, ` {"a": 1} `: `{"a": 1}`, `[1]`: `{"raw":"[1]"}`, `null`: `{"raw":"null"}`, `{oops`: `{"raw":"{oops"}`,
		`<b>`: `{"raw":"<b>"}`, `{} {}`: `{"raw":"{} {}"}`, ` x `: `{"raw":" x "}`,
	} {
		require.Equal(t, want, string(event.ObjectInput(in)), "%q", in)
	}
}

func TestOutputText(t *testing.T) {
	for in, want := range map[string]string{
		`"plain"`: "plain", `"a\nb \u00e4 \"q\""`: "a\nb ä \"q\"", `""`: "", `{"a":1}`: `{"a":1}`, `12`: "12", `null`: "null", ``: "", `"`: `"`, `"open`: `"open`,
	} {
		require.Equal(t, want, event.OutputText(json.RawMessage(in)), in)
	}
	for _, s := range []string{"", "plain", "<&>", "a\"b\\c", "tab\t", "ä", "\x7f", "\u2028"} {
		require.Equal(t, s, event.OutputText(event.EncodeJSON(s)))
	}
	require.Contains(t, string(event.EncodeJSON(func() {})), "value without a JSON form")
}

// FuzzEventCodec requires of every input that it is refused, or that it has a
// form that further rounds do not change.
func FuzzEventCodec(f *testing.F) {
	for i, data := range sessiontest.Payloads() {
		b, err := (&event.Event{Seq: int64(i + 1), ID: "e", RunID: "r", Time: time.Unix(int64(i), 5), Data: data}).MarshalJSON()
		require.NoError(f, err)
		f.Add(b)
	}
	for _, s := range []string{
		`{"type":"x","SEQ":5,"seq":6}`, `{"TYPE":"text","Content":"a"}`, `{"type":"user","content":[]}`, `{"type":"state","delta":null}`,
		`{"type":"tool_call","input":null}`, `{"seq":7,"type":"tool_progress"}`, `{"type":"text","time":"0000-01-01T00:00:00+23:59"}`, "{\"type\":\"\xff\",\"\xff\":\"\xff\"}",
		`{"type":"x","type":"y","a":1,"a":2}`, `{"type":"tool_result","output":"\ud800"}`, `{"type":"text","content":"\u2028<"}`, `{"type":"continue"}`,
		`{"type":"user","content":[{"type":"text"},{"type":"file","data":"AA=="}],"metadata":{"a":1e400}}`,
	} {
		f.Add([]byte(s))
	}
	for _, odd := range oddbytes.JSON() {
		f.Add([]byte(`{"seq":1,"type":"state","delta":{"a":` + odd + `}}`))
		f.Add([]byte(`{"seq":1,"type":"usage","inputTokens":` + odd + `,"outputTokens":` + odd + `}`))
		f.Add([]byte(`{"seq":1,"id":` + odd + `,"type":"tool_result","output":` + odd + `}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		stored := event.Decode(7, data)
		require.EqualValues(t, 7, stored.Seq)
		require.False(t, stored.Partial)
		kept, err := stored.MarshalJSON()
		require.NoError(t, err, "what was loaded can be written")
		require.Equal(t, stored.Type(), event.Decode(7, kept).Type())
		_, deep := event.Bound(stored.Data)
		require.Nil(t, deep)
		require.Equal(t, stored.Data, event.Canonical(stored.Data))
		var first event.Event
		if first.UnmarshalJSON(data) != nil {
			return
		}
		encoded, err := first.MarshalJSON()
		require.NoError(t, err, "what was read can be written")
		require.True(t, json.Valid(encoded))
		require.NotContains(t, string(encoded), "\n")
		var second, third event.Event
		require.NoError(t, second.UnmarshalJSON(encoded))
		again, err := second.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, string(encoded), string(again))
		require.NoError(t, third.UnmarshalJSON(again))
		require.Equal(t, second, third)
		require.Equal(t, first.Type(), second.Type())
		require.Equal(t, first.Seq, second.Seq)
		require.True(t, first.Time.Equal(second.Time))
	})
}

// TestEncodingOnlyReads: stored events are shared, so that writing one must change nothing in it, not even to what is
// there already. The race detector sees it.
func TestEncodingOnlyReads(t *testing.T) {
	for _, data := range sessiontest.Payloads() {
		e := &event.Event{Seq: 1, ID: "e", TurnID: "t", RunID: "r", Agent: "a", Path: "a", Attempt: 1, Data: data}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				_, err := e.MarshalJSON()
				assert.NoError(t, err)
				_, err = e.Line()
				assert.NoError(t, err)
			})
		}
		both.Wait()
	}
}
