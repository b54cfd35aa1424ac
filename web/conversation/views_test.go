package conversation_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// view is what a path through a graph shows.
type view struct {
	// Change makes the path of the one before it, at a node; of an edit, Run is the
	// new run.
	Change   string                  `json:"change"`
	ID       string                  `json:"id"`
	Run      string                  `json:"run"`
	Active   conversation.Active     `json:"active"`
	Tip      string                  `json:"tip"`
	Options  map[string]bool         `json:"options"`
	Thread   []conversation.ViewNode `json:"thread"`
	Messages []map[string]any        `json:"messages"`
	DAG      conversation.Layout     `json:"dag"`
	// Hypergraphs are that of the graph and that of the path.
	Hypergraphs []conversation.Hypergraph `json:"hypergraphs"`
}

// views returns what the newest path shows, and some others.
func views(t *testing.T, g *conversation.Graph, seed uint64) []view {
	t.Helper()
	chance := rand.New(rand.NewPCG(seed, 2))
	var active conversation.Active
	all := []view{{}}
	all[0].fill(g, active, false, false)
	for i := range 4 {
		if g.Len() == 0 {
			break
		}
		nodes := slices.Collect(g.Nodes())
		n := nodes[chance.IntN(len(nodes))]
		v := view{ID: n.ID}
		var err error
		switch chance.IntN(6) {
		case 0, 1:
			v.Change = "switchTo"
			active, err = active.Switch(g, n.ID)
		case 2:
			v.Change = "branch"
			active, err = active.Branch(g, n.ID)
		case 3:
			v.Change = "collapse"
			active, err = active.Collapse(g, n.ID)
		case 4:
			v.Change = "summarize"
			active, err = active.Summarize(g, n.ID, "In short.")
		case 5:
			v.Change = "expand"
			active, err = active.Expand(g, n.ID)
		}
		require.NoError(t, err)
		if n.Kind == event.TypeUser && chance.IntN(2) == 0 {
			run := fmt.Sprint("edit", i)
			edited, next, err := all[len(all)-1].Active.Edit(g, n.ID, run, llm.Content{Text: "Again."})
			if err == nil { // it is the first of its run
				v.Change, v.Run, g, active = "edit", run, edited, next
			}
		}
		v.fill(g, active, chance.IntN(3) == 0, chance.IntN(3) == 0)
		all = append(all, v)
	}
	return all
}

func (v *view) fill(g *conversation.Graph, active conversation.Active, hideReasoning, collapseTools bool) {
	options := conversation.ThreadOptions{HideReasoning: hideReasoning, CollapseTools: collapseTools}
	v.Active, v.Tip = active, active.Tip(g)
	v.Options = map[string]bool{"hideReasoning": hideReasoning, "collapseTools": collapseTools}
	v.Thread = append([]conversation.ViewNode{}, conversation.Thread(g, active, options)...)
	v.Messages = messagesOf(g, active)
	v.DAG = conversation.DAG(g, active)
	v.Hypergraphs = []conversation.Hypergraph{g.Hypergraph(), conversation.HypergraphOf(g, active)}
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
