package llm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
)

func TestEstimateTokens(t *testing.T) {
	for text, want := range map[string]int{
		"":                        0,
		"a":                       1,
		"abcd":                    1,
		"abcde":                   2,
		"Refund the second one.":  6,
		`{"a":1}`:                 4,
		"2026":                    2,
		"日本語":                     3,
		"Привет":                  3,
		"año":                     1,
		"שלום":                    4,
		"🙂":                       2,
		"\xff\xfe":                4, // no UTF-8 at all
		strings.Repeat("x", 4000): 1000,
	} {
		require.Equal(t, want, llm.EstimateTokens(text), "%q", text)
	}
	text := strings.Repeat("Ein längerer Text, 日本 too. ", 50)
	require.Zero(t, race.Allocations(t, 10, func() { llm.EstimateTokens(text) }))
}

func TestCountRequest(t *testing.T) {
	bytes := func(text string) int { return len(text) }
	empty := llm.CountRequest(&llm.Request{}, bytes)
	require.Equal(t, 3, empty)
	for name, c := range map[string]struct {
		req  llm.Request
		want int // beside the frames
		all  int
	}{
		"system": {llm.Request{System: "12345"}, 5, llm.MessageTokens},
		"text":   {llm.Request{Messages: []llm.Message{llm.UserText("123")}}, 3, llm.MessageTokens},
		"parts": {llm.Request{Messages: []llm.Message{llm.UserParts(llm.TextPart{Text: "12"}, llm.Media{Data: make([]byte, 1<<20)}, llm.Media{URL: "https://example.com"})}},
			2, llm.MessageTokens + 2*1000},
		"call and result": {llm.Request{Messages: []llm.Message{
			{Role: llm.RoleAssistant, Content: llm.Content{Text: "1", Parts: []llm.Part{llm.Reasoning{Text: "12"}, llm.ToolCall{ID: "c1", Name: "123", Arguments: "{}"}}}},
			{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: "c1", Name: "123", Output: "1234"}}}},
		}}, 1 + 2 + 3 + 2 + 4, 2*llm.MessageTokens + 8},
		"tools":  {llm.Request{Tools: []llm.ToolSpec{{Name: "a", Description: "12", Parameters: json.RawMessage(`{"a":1}`)}, {Name: "b"}}}, 1 + 2 + 7 + 1, 2 * 8},
		"format": {llm.Request{Settings: llm.Settings{ResponseFormat: &llm.ResponseFormat{Name: "a", Schema: json.RawMessage("{}")}}}, 3, 8},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, empty+c.want+c.all, llm.CountRequest(&c.req, bytes))
			require.GreaterOrEqual(t, llm.CountRequest(&c.req, nil), empty+c.all, "without a counter the estimate counts")
		})
	}
	require.Equal(t, llm.MessageTokens+1, llm.CountMessage(&llm.Message{Content: llm.Content{Text: "four"}}, nil))
	require.Equal(t, 8+1, llm.CountTools([]llm.ToolSpec{{Name: "look"}}, nil))
}
