package event_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func line(t require.TestingT, e *event.Event) string {
	s, err := e.Line()
	require.NoError(t, err)
	return s
}

func decodeLine(seq int64, line string) *event.Event {
	return new(event.Decoder).DecodeLine(seq, []byte(line))
}

// sameFromLine requires that an event comes back from its line exactly as from its JSON.
func sameFromLine(t require.TestingT, e *event.Event) {
	whole, err := e.MarshalJSON()
	short, lineErr := e.Line()
	if err != nil {
		require.Equal(t, err, lineErr)
		return
	}
	require.NoError(t, lineErr)
	require.Equal(t, event.Decode(e.Seq, whole), decodeLine(e.Seq, short), short)
	require.Equal(t, event.Decode(e.Seq, whole), decodeLine(e.Seq, string(whole)))
	if len(short) > len(whole) {
		t.Errorf("the line %q is longer than %q", short, whole)
		t.FailNow()
	}
}

func TestLine(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 70, time.UTC)
	for _, tt := range []struct {
		event event.Event
		want  string
	}{
		{event.Event{Seq: 1, ID: "e1", TurnID: "t1", RunID: "u1", Agent: "user", Time: at, Data: &event.Text{Content: "hi"}},
			`text e1 t1 u1   user  1770091506000000070 {"content":"hi"}`},
		{event.Event{Seq: 2, ID: "e2", TurnID: "t1", RunID: "r1", Scope: "c9", ParentID: "u1:user", Agent: "billing", Path: "support/billing", Data: &event.HarnessStart{AgentID: "billing"}},
			`harness_start e2 t1 r1 c9 u1:user  support/billing  {"agentId":"billing"}`},
		{event.Event{Agent: "a", Path: "b/", Time: time.Unix(0, 0), Data: &event.Unknown{Type: "text"}}, `text      a b/ 0 {}`},
		{event.Event{Path: "b/", Data: &event.Text{}}, `text       b/  {"content":""}`},
		// What has no line is whole JSON.
		{event.Event{Path: "b", Data: &event.Text{}}, `{"type":"text","path":"b","content":""}`},
		{event.Event{ID: "e 1", Data: &event.Text{}}, `{"id":"e 1","type":"text","content":""}`},
		{event.Event{ID: "é", Data: &event.Text{}}, `{"id":"é","type":"text","content":""}`},
		{event.Event{ID: `"`, Data: &event.Text{}}, `{"id":"\"","type":"text","content":""}`},
		{event.Event{RunID: "{", Data: &event.Text{}}, `{"runId":"{","type":"text","content":""}`},
		{event.Event{ID: "e1", Attempt: 2, Data: &event.Text{}}, `{"id":"e1","type":"text","attempt":2,"content":""}`},
		{event.Event{ID: "e1", Partial: true, Data: &event.Text{}}, `{"id":"e1","type":"text","partial":true,"content":""}`},
		{event.Event{ID: "e1", Time: time.Unix(0, -1), Data: &event.Text{}}, `{"id":"e1","type":"text","time":"1969-12-31T23:59:59.999999999Z","content":""}`},
		{event.Event{ID: "e1", Data: &event.Unknown{Type: "hologram", Raw: json.RawMessage(`{"angle":7}`)}}, `{"id":"e1","type":"hologram","angle":7}`},
	} {
		require.Equal(t, tt.want, line(t, &tt.event))
		sameFromLine(t, &tt.event)
	}
	_, err := (&event.Event{}).Line()
	require.ErrorContains(t, err, "without payload")
}

func TestLineOfPayloads(t *testing.T) {
	for _, data := range sessiontest.Payloads() {
		e := &event.Event{Seq: 7, ID: "e7", TurnID: "t1", RunID: "r1", Scope: "c1", ParentID: "r0:harness_end", Agent: "billing",
			Path: "support/billing", Time: time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC), Data: data}
		sameFromLine(t, e)
		_, unknown := data.(*event.Unknown)
		require.Equal(t, unknown, line(t, e)[0] == '{')
	}
	for _, e := range sessiontest.OddEvents() {
		sameFromLine(t, e)
	}
}

func TestLinesOfAnyEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-z0-9_:./-]{1,12}`), rapid.String(),
			rapid.SampledFrom([]string{" ", "{", "a b", "\xff", "\u2028", "é", `\`, `"`, "a/b", "/"}))
		draw := func(name string) string { return word.Draw(t, name) }
		e := &event.Event{Seq: rapid.Int64Range(1, math.MaxInt64).Draw(t, "seq"), ID: draw("id"), TurnID: draw("turn"), RunID: draw("run"), Scope: draw("scope"),
			ParentID: draw("parent"), Agent: draw("agent"), Path: draw("path"), Attempt: rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(t, "attempt"),
			Data: rapid.SampledFrom(sessiontest.Payloads()).Draw(t, "payload")}
		if rapid.Bool().Draw(t, "path of the agent") {
			e.Path = strings.TrimPrefix(draw("parent path")+"/"+e.Agent, "/")
		}
		if rapid.Bool().Draw(t, "time") {
			e.Time = time.Unix(0, rapid.Int64().Draw(t, "ns"))
		}
		if rapid.Bool().Draw(t, "text") {
			e.Data = &event.Text{Content: rapid.String().Draw(t, "content")}
		}
		sameFromLine(t, e)
	})
}

// TestDamagedLines: what is damaged is shown as its whole JSON would be, and costs no more
// than itself.
func TestDamagedLines(t *testing.T) {
	for short, reason := range map[string]string{
		`text e1 t1 r1   a  0 {"content":7}`:    "content",
		`text e1 t1 r1   a  0 {"content":"x"`:   "unexpected end",
		`text e1 t1 r1   a  0 {}}`:              "invalid character",
		`text e1 t1 r1   a  0 {"content":"a"}}`: "invalid character",
	} {
		e := decodeLine(3, short)
		damage, ok := e.Data.(*event.Unknown).Damage()
		require.True(t, ok, short)
		require.Contains(t, damage.Reason, reason)
		require.Equal(t, "e1 t1 r1 a", strings.Join([]string{e.ID, e.TurnID, e.RunID, e.Agent}, " "))
		require.True(t, strings.HasPrefix(damage.Text, `{"seq":3,"id":"e1"`), damage.Text)
	}
	for _, none := range []string{"", "text", "text e1 t1 r1   a  {}", "text e1 t1 r1   a  x {}", "text e1 t1 r1   a  0 x{}", "text e1\x00 t1 r1   a  0 {}", "null", "text          "} {
		require.Equal(t, event.Decode(3, []byte(none)), decodeLine(3, none))
	}
	// A type that a later version knows.
	require.Equal(t, event.Decode(3, []byte(`{"seq":3,"id":"e1","type":"hologram","agent":"a","angle":7}`)), decodeLine(3, `hologram e1     a   {"angle":7}`))
}

func FuzzDecodeLine(f *testing.F) {
	for _, data := range sessiontest.Payloads() {
		s, err := (&event.Event{Seq: 3, ID: "e1", Agent: "a", Path: "b/a", Time: time.Unix(1, 2), Data: data}).Line()
		require.NoError(f, err)
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := decodeLine(3, s)
		require.EqualValues(t, 3, e.Seq)
		whole, err := e.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, event.Decode(3, whole), decodeLine(3, line(t, e)))
	})
}
