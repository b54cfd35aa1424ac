package conversation_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// TestMessagesAreValidOnTheWire: whatever events came, complete or not, and
// whichever path is active, a model accepts the messages and the user's next one.
func TestMessagesAreValidOnTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := conversation.New()
		var ids []string
		for i := range rapid.IntRange(1, 40).Draw(t, "events") {
			run := rapid.SampledFrom([]string{"r", "s", "q", "p", "o"}).Draw(t, "run")
			id := fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id"), rapid.IntRange(0, 2).Draw(t, "n"))
			kind := rapid.SampledFrom([]string{"user", "harness_start", "harness_end", "text", "text", "reasoning", "tool_call", "tool_call", "tool_result", "tool_result", "error", "discard"}).Draw(t, "type")
			e := map[string]any{"type": kind, "runId": run, "id": id}
			if kind == "user" {
				e["runId"] = fmt.Sprintf("u%d", i)
			}
			if len(ids) > 0 && rapid.Bool().Draw(t, "hangs") {
				e["parentId"] = rapid.SampledFrom(ids).Draw(t, "parent")
			}
			switch kind {
			case "discard":
				e["ids"] = []string{id}
			case "tool_call":
				e["name"] = rapid.SampledFrom([]any{"look", "", "no spaces, please", 7, nil}).Draw(t, "name")
				e["input"] = rapid.SampledFrom([]any{map[string]any{"x": 1}, nil, "text", []int{1}, 5}).Draw(t, "input")
			case "tool_result":
				e["output"] = rapid.SampledFrom([]any{"", "x", nil, map[string]any{}}).Draw(t, "output")
			default:
				e["content"] = rapid.SampledFrom([]any{"", "x", nil, []any{}, []any{map[string]any{"type": "text", "text": "y"}}, []any{map[string]any{"type": "odd"}}}).Draw(t, "content")
			}
			line := must.Get(json.Marshal(e))
			g = must.Get(g.ReduceJSON(line))
			ids = ids[:0]
			for n := range g.Nodes() {
				ids = append(ids, n.ID)
			}
		}
		paths := []conversation.Active{{}}
		for _, id := range ids {
			through := must.Get(conversation.Active{}.Switch(g, id))
			until := must.Get(paths[len(paths)-1].Branch(g, id))
			folded := must.Get(through.Collapse(g, id))
			short := must.Get(through.Summarize(g, id, "What was said."))
			paths = append(paths, through, until, folded, short)
		}
		for _, a := range paths {
			messages := append(conversation.Messages(g, a), llm.UserText("Go on."))
			require.NoError(t, view.Check(&llm.Request{Messages: messages}))
			for _, m := range messages {
				for _, p := range m.Parts {
					_, thought := p.(llm.Reasoning)
					require.False(t, thought)
				}
			}
			requireTip(t, g, a)
		}
	})
}

// requireTip checks that what is added at the end of a path is on it.
func requireTip(t *rapid.T, g *conversation.Graph, a conversation.Active) {
	tip := a.Tip(g)
	if tip == "" {
		return
	}
	line := must.Get(json.Marshal(map[string]any{"type": "user", "runId": "the next", "parentId": tip, "content": "Go on."}))
	grown := must.Get(g.ReduceJSON(line))
	messages := conversation.Messages(grown, a)
	require.NotEmpty(t, messages)
	require.Equal(t, llm.UserText("Go on."), messages[len(messages)-1])
	require.NoError(t, view.Check(&llm.Request{Messages: messages}))
}
