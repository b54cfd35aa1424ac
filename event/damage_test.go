package event_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

func deepList(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// TestDamage shows what an event that cannot be read tells.
func TestDamage(t *testing.T) {
	envelope := `{"seq":2,"id":"c1","turnId":"t1","runId":"r1","scope":"s","agent":"support","path":"support/x",` +
		`"time":"2026-02-03T04:05:06Z",`
	for _, c := range []struct{ json, was, reason string }{
		{envelope + `"type":"tool_result","name":"t","output":` + deepList(10_000) + `}`, event.TypeToolResult, "depth"},
		{envelope + `"type":"state","delta":{"a":` + deepList(9_999) + `}}`, event.TypeState, "depth"},
		{envelope + `"type":"hologram","angle":` + deepList(10_000) + `}`, "hologram", "depth"},
		{envelope + `"type":"text","content":7}`, event.TypeText, "content"},
		{envelope + `"type":"user","content":[{"type":"video"}]}`, event.TypeUser, "video"},
		{envelope + `"type":"text","content":"a","partial":true}`, event.TypeText, "partial"},
		{envelope + `"type":"continue"}`, "continue", "continue"},
		{envelope + `"content":"a"}`, "", "type"},
		{`{"seq":9,"id":"c1","type":"text","content":"a"}`, event.TypeText, "seq is 9"},
		{`{"seq":2,"id":7,"type":["text"]}`, "", "type"},
		{`[{"seq":2}]`, "", "array"},
		{`"text"`, "", "string"},
		{`null`, "", "type"},
	} {
		e := decodeLine(2, c.json)
		require.EqualValues(t, 2, e.Seq)
		damage, ok := e.Data.(*event.Unknown).Damage()
		require.True(t, ok)
		require.Equal(t, c.was, damage.Was)
		require.Contains(t, damage.Reason, c.reason)
		require.Equal(t, len(c.json), damage.Bytes)
		require.Contains(t, damage.Text, c.json[:min(len(c.json), 100)])
		require.NotEmpty(t, e.ID)
		require.False(t, e.Partial)
		if strings.HasPrefix(c.json, envelope) {
			require.Equal(t, "c1 t1 r1 s support support/x 2026-02-03T04:05:06Z",
				strings.Join([]string{e.ID, e.TurnID, e.RunID, e.Scope, e.Agent, e.Path}, " ")+" "+e.Time.Format(time.RFC3339))
		}
		again(t, e)
	}
}

// again requires that an event keeps its JSON when it is stored again.
func again(t *testing.T, e *event.Event) {
	t.Helper()
	first, err := e.MarshalJSON()
	require.NoError(t, err)
	var read event.Event
	require.NoError(t, read.UnmarshalJSON(first))
	second, err := read.MarshalJSON()
	require.NoError(t, err)
	require.True(t, string(first) == string(second)) // require.Equal would print them
}

// TestWhatEarlierVersionsStored shows that JSON that is too deep today is text.
func TestWhatEarlierVersionsStored(t *testing.T) {
	e := decodeLine(2, `{"seq":2,"id":"c1","type":"tool_result","name":"t","output":`+deepList(9_999)+`}`)
	require.Equal(t, deepList(9_999), event.OutputText(e.Data.(*event.ToolResult).Output))
	again(t, e)
}

func TestNumbersThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		line string
		want event.Data
	}{
		{`{"seq":1,"id":"e1","type":"usage","inputTokens":1e30,"outputTokens":-5,"cachedTokens":99999999999999999999,"model":"m"}`,
			&event.Usage{OutputTokens: -5, Model: "m"}},
		{`{"seq":1,"id":"e2","type":"discard","code":"c","usage":{"inputTokens":12.5,"outputTokens":7},"ids":["x"]}`,
			&event.Discard{Code: "c", Usage: &event.Usage{OutputTokens: 7}, IDs: []string{"x"}}},
		{`{"seq":1,"id":"e3","type":"remote_task","usage":[{"inputTokens":1e400,"outputTokens":7}],"taskId":"t"}`,
			&event.RemoteTask{Usage: []event.Usage{{OutputTokens: 7}}, TaskID: "t"}},
		{`{"seq":1,"id":"e4","type":"state","delta":{"a":1e400,"b":[-0,2],"c":"d"}}`,
			&event.State{Delta: map[string]any{"a": "1e400", "b": []any{0.0, 2.0}, "c": "d"}}},
		{`{"seq":1,"id":"e5","type":"user","content":"e","metadata":{"a":{"b":-1e999}}}`,
			&event.User{Content: llm.Content{Text: "e"}, Metadata: map[string]any{"a": map[string]any{"b": "-1e999"}}}},
	} {
		require.Equal(t, c.want, decodeLine(1, c.line).Data)
	}
}
