package conversation_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/llm"
)

// view is what a path through a graph shows.
type view struct {
	Active   conversation.Active     `json:"active"`
	Options  map[string]bool         `json:"options"`
	Thread   []conversation.ViewNode `json:"thread"`
	Messages []map[string]any        `json:"messages"`
}

// views returns what the newest path shows, and some others.
func views(t *testing.T, g *conversation.Graph, seed uint64) []view {
	t.Helper()
	chance := rand.New(rand.NewPCG(seed, 2))
	var ids []string
	for n := range g.Nodes() {
		ids = append(ids, n.ID)
	}
	var active conversation.Active
	all := []view{viewOf(g, active, false, false)}
	for range 3 {
		if len(ids) == 0 {
			break
		}
		id := ids[chance.IntN(len(ids))]
		var err error
		switch chance.IntN(6) {
		case 0, 1:
			active, err = active.Switch(g, id)
		case 2:
			active, err = active.Branch(g, id)
		case 3:
			active, err = active.Collapse(g, id)
		case 4:
			active, err = active.Summarize(g, id, "In short.")
		case 5:
			active, err = active.Expand(g, id)
		}
		require.NoError(t, err)
		all = append(all, viewOf(g, active, chance.IntN(3) == 0, chance.IntN(3) == 0))
	}
	return all
}

func viewOf(g *conversation.Graph, active conversation.Active, hideReasoning, collapseTools bool) view {
	options := conversation.ThreadOptions{HideReasoning: hideReasoning, CollapseTools: collapseTools}
	return view{active, map[string]bool{"hideReasoning": hideReasoning, "collapseTools": collapseTools},
		append([]conversation.ViewNode{}, conversation.Thread(g, active, options)...), messagesOf(g, active)}
}

// messagesOf returns messages in the form that the command prints.
func messagesOf(g *conversation.Graph, active conversation.Active) []map[string]any {
	out := []map[string]any{}
	for _, m := range conversation.Messages(g, active) {
		j := map[string]any{"role": m.Role}
		switch m.Role {
		case llm.RoleUser:
			j["content"] = m.Content
		case llm.RoleAssistant:
			j["content"] = nil
			if m.Text != "" {
				j["content"] = m.Text
			}
			var calls []map[string]any
			for _, part := range m.Parts {
				c := part.(llm.ToolCall)
				calls = append(calls, map[string]any{"id": c.ID, "name": c.Name, "arguments": json.RawMessage(c.Arguments)})
			}
			if calls != nil {
				j["tool_calls"] = calls
			}
		case llm.RoleTool:
			r := m.Parts[0].(llm.ToolResult)
			j["content"], j["tool_call_id"] = r.Output, r.CallID
		}
		out = append(out, j)
	}
	return out
}
