package render

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
)

func TestToolLines(t *testing.T) {
	call := &event.ToolCall{Name: "find", Input: json.RawMessage(`{"z":"last\nfirst","a":[1,{"b":2}],"n":null}`)}
	require.Equal(t, `find(z="last\nfirst", a=[1,{"b":2}], n=null)`, callLine(call))
	require.Equal(t, "find()", callLine(&event.ToolCall{Name: "find", Input: json.RawMessage(`{}`)}))
	long := callLine(&event.ToolCall{Name: "find", Input: event.EncodeJSON(map[string]string{"a": strings.Repeat("x", 1000)})})
	require.Less(t, utf8.RuneCountInString(long), 80)

	for output, want := range map[string][]string{
		`"two\nwords"`:                {"two words"},
		`{"ok":true,"id":"x1"}`:       {"ok: true, id: x1"},
		`[{"id":1,"b":"c"},{"id":2}]`: {"2 rows", "id: 1, b: c", "id: 2"},
		`[]`:                          {"0 rows"},
		`[1,2]`:                       {"[1,2]"},
		`null`:                        {"null"},
		`{}`:                          {"{}"},
		`[{"i":1},{"i":2},{"i":3},{"i":4},{"i":5},{"i":6}]`: {"6 rows", "i: 1", "i: 2", "i: 3", "i: 4", "… and 2 more"},
	} {
		line, rows := resultLines(&event.ToolResult{Output: json.RawMessage(output)})
		require.Equal(t, want, append([]string{line}, rows...), output)
	}
	line, _ := resultLines(&event.ToolResult{Output: json.RawMessage(`"boom"`), IsError: true})
	require.Equal(t, "failed: boom", line)
}
