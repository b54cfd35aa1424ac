package sessiontest

import (
	"encoding/json"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// spoil replaces a stored event by other JSON. It skips the test without [Options.Damage].
func (f *fixture) spoil(key session.Key, seq int64, text string) {
	f.Helper()
	if f.Damage == nil {
		f.Skip("needs the option Damage")
	}
	f.Damage(f.T, f.store, key, seq, text)
}

var damageTests = []test{
	{"a damaged event costs no more than itself", func(f *fixture) {
		f.write(f.key, text("a"), text("b"), text("c"))
		f.spoil(f.key, 2, `{"seq":2,"id":"c1","type":"text","content":7}`)
		for _, after := range []int64{0, 1} {
			damaged := f.load(f.key, after)[1-after]
			require.EqualValues(f, 2, damaged.Seq)
			require.Equal(f, event.TypeUnreadable, damaged.Type())
		}
		f.write(f.key, text("d"))
		require.Equal(f, []string{"a", "", "c", "d"}, f.contents(f.key))
		require.Equal(f, []string{"a", "", "c"}, f.contents(f.fork(f.key, 3, "fork")))
		require.Len(f, f.list(session.Key{App: f.app}), 2)
	}},
}

// nested returns every payload that contains JSON of models or tools. Each has a value with the given number of levels,
// or one more where an object is required.
func nested(levels int) []event.Data {
	list := json.RawMessage(strings.Repeat("[", levels) + strings.Repeat("]", levels))
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
