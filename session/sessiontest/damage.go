package sessiontest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// WithDamage sets a function that replaces a stored event by other JSON, as a fault or an earlier version may have
// done. With it, the suite tests that the rest of the log stays usable.
func WithDamage(damage func(t *testing.T, store session.Store, key session.Key, seq int64, text string)) Option {
	return func(s *suite) { s.damage = damage }
}

// spoil replaces a stored event by other JSON. It skips the test without [WithDamage].
func (f *fixture) spoil(key session.Key, seq int64, text string) {
	f.Helper()
	if f.damage == nil {
		f.Skip("needs the option WithDamage")
	}
	f.damage(f.T, f.store, key, seq, text)
}

func deepList(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

var damageTests = []test{
	{"a damaged event costs no more than itself", func(f *fixture) {
		envelope := `{"seq":2,"id":"c1","turnId":"t1","runId":"r1","scope":"s","agent":"support","path":"support/x","time":"2026-02-03T04:05:06Z",`
		for i, c := range []struct{ json, was, reason string }{
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
			key := f.key
			key.ID = fmt.Sprintf("s%d", i)
			f.write(key, text("a"), text("b"), text("c"))
			f.spoil(key, 2, c.json)
			for _, after := range []int64{0, 1} {
				log := f.load(key, after)
				require.Len(f, log, int(3-after), c.json[:min(len(c.json), 200)])
				e := log[1-after]
				require.EqualValues(f, 2, e.Seq)
				damage, ok := e.Data.(*event.Unknown).Damage()
				require.True(f, ok)
				require.Equal(f, c.was, damage.Was)
				require.Contains(f, damage.Reason, c.reason)
				require.Equal(f, len(c.json), damage.Bytes)
				require.Contains(f, damage.Text, c.json[:min(len(c.json), 100)])
				require.NotEmpty(f, e.ID)
				require.False(f, e.Partial)
				if strings.HasPrefix(c.json, envelope) {
					require.Equal(f, "c1 t1 r1 s support support/x 2026-02-03T04:05:06Z",
						strings.Join([]string{e.ID, e.TurnID, e.RunID, e.Scope, e.Agent, e.Path, e.Time.Format("2006-01-02T15:04:05Z07:00")}, " "))
				}
				toJSON(f.T, log)
			}
			f.write(key, text("d"))
			require.Equal(f, []string{"a", "", "c", "d"}, f.contents(key))
			fork := key
			fork.ID += "fork"
			require.NoError(f, f.store.Fork(f.Context(), key, 3, fork))
			require.Equal(f, []string{"a", "", "c"}, f.contents(fork))
		}
		list, err := f.store.List(f.Context(), session.Key{App: f.app}, session.Page{})
		require.NoError(f, err)
		require.Len(f, list, 26)
	}},
	{"what earlier versions stored too deep is text", func(f *fixture) {
		f.write(f.key, text("a"), &event.ToolResult{Name: "t"}, text("c"))
		f.spoil(f.key, 2, `{"seq":2,"id":"c1","type":"tool_result","name":"t","output":`+deepList(9_999)+`}`)
		log := f.load(f.key, 0)
		require.Equal(f, deepList(9_999), event.OutputText(log[1].Data.(*event.ToolResult).Output))
		toJSON(f.T, log)
	}},
	{"numbers that do not fit", func(f *fixture) {
		f.write(f.key, text("a"), text("b"), text("c"), text("d"), text("e"))
		f.spoil(f.key, 1, `{"seq":1,"id":"e1","type":"usage","inputTokens":1e30,"outputTokens":-5,"cachedTokens":99999999999999999999,"model":"m"}`)
		f.spoil(f.key, 2, `{"seq":2,"id":"e2","type":"discard","code":"c","usage":{"inputTokens":12.5,"outputTokens":7},"ids":["x"]}`)
		f.spoil(f.key, 3, `{"seq":3,"id":"e3","type":"remote_task","usage":[{"inputTokens":1e400,"outputTokens":7}],"taskId":"t"}`)
		f.spoil(f.key, 4, `{"seq":4,"id":"e4","type":"state","delta":{"a":1e400,"b":[-0,2],"c":"d"}}`)
		f.spoil(f.key, 5, `{"seq":5,"id":"e5","type":"user","content":"e","metadata":{"a":{"b":-1e999}}}`)
		log := f.load(f.key, 0)
		require.Equal(f, []event.Data{
			&event.Usage{OutputTokens: -5, Model: "m"},
			&event.Discard{Code: "c", Usage: &event.Usage{OutputTokens: 7}, IDs: []string{"x"}},
			&event.RemoteTask{Usage: []event.Usage{{OutputTokens: 7}}, TaskID: "t"},
			state("a", "1e400", "b", []any{0.0, 2.0}, "c", "d"),
			&event.User{Content: llm.Content{Text: "e"}, Metadata: map[string]any{"a": map[string]any{"b": "-1e999"}}},
		}, payloadsOf(log))
	}},
}

func payloadsOf(log []*event.Event) (data []event.Data) {
	for _, e := range log {
		data = append(data, e.Data)
	}
	return data
}

// nested returns every payload that contains JSON of models or tools. Each has a value with the given number of levels,
// or one more where an object is required.
func nested(levels int) []event.Data {
	list := json.RawMessage(deepList(levels))
	object := json.RawMessage(`{"a":` + string(list) + `}`)
	var value any
	for range levels {
		value = []any{value}
	}
	return []event.Data{
		&event.User{Content: llm.Content{Text: "a"}, Metadata: map[string]any{"a": value}},
		&event.HarnessStart{AgentID: "a", Input: list},
		&event.ToolCall{Name: "a", Input: object},
		&event.ToolProgress{Name: "a", Content: list},
		&event.ToolResult{Name: "a", Output: list},
		&event.Relay{Tool: "a", Params: list},
		&event.Transfer{To: "a", Payload: list},
		&event.Transfer{To: "a", RouteDecision: list},
		&event.State{Delta: map[string]any{"a": value, "user:a": value}},
		&event.HarnessEnd{AgentID: "a", Output: list},
		&event.Unknown{Type: "hologram", Raw: object},
	}
}
