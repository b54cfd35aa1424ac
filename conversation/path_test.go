package conversation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// anyGraph draws a graph of events that meet each other in every way, or of
// several turns, edits and answers as a conversation has them.
func anyGraph(t *rapid.T) *Graph {
	g := New()
	var events []string
	if rapid.Bool().Draw(t, "wild") {
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			events = append(events, anyEvent(t))
		}
	} else {
		events = branchedEvents(t)
		if cut := rapid.IntRange(0, len(events)).Draw(t, "cut"); rapid.Bool().Draw(t, "is cut") {
			events = events[:cut]
		}
	}
	for _, line := range events {
		g = must.Get(g.ReduceJSON([]byte(line)))
	}
	return g
}

// branchedEvents draws turns: each hangs on the end of another one, on a node in
// the middle of an answer, or on nothing, and has calls, sub-agents and deltas.
func branchedEvents(t *rapid.T) []string {
	var events, ends, middles []string
	seq := 0
	stored := rapid.Bool().Draw(t, "stored")
	add := func(e map[string]any) {
		if seq++; stored && e["partial"] == nil {
			e["seq"] = seq
		}
		events = append(events, asJSONOf(t, e))
	}
	var answer func(run, agent, parent string, depth int)
	answer = func(run, agent, parent string, depth int) {
		add(map[string]any{"type": "harness_start", "runId": run, "agentId": agent, "agent": agent, "parentId": parent})
		for i := range rapid.IntRange(0, 3).Draw(t, "steps") {
			id := fmt.Sprintf("%s-%d", run, i)
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				add(map[string]any{"type": "text", "id": id, "runId": run, "content": "one ", "partial": true})
				if rapid.Bool().Draw(t, "whole") {
					add(map[string]any{"type": "text", "id": id, "runId": run, "content": "one two "})
				}
			case 1:
				add(map[string]any{"type": "reasoning", "id": id, "runId": run, "content": "hm"})
			case 2:
				add(map[string]any{"type": "tool_call", "id": id, "runId": run, "name": "look", "input": map[string]any{}})
				if depth < 2 && rapid.Bool().Draw(t, "sub-agent") {
					answer("sub"+id, "other", id, depth+1)
				}
				if rapid.IntRange(0, 4).Draw(t, "answered") > 0 {
					add(map[string]any{"type": "tool_result", "id": id, "runId": run, "output": i})
				}
			case 3:
				add(map[string]any{"type": "relay", "id": id, "runId": run, "kind": "permission", "toolCallId": "nothing"})
			}
			if depth == 0 {
				middles = append(middles, id)
			}
		}
		if rapid.IntRange(0, 5).Draw(t, "ends") > 0 {
			add(map[string]any{"type": "harness_end", "runId": run})
			if depth == 0 {
				ends = append(ends, run+":harness_end")
			}
		}
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "turns") {
		user := map[string]any{"type": "user", "runId": fmt.Sprint("u", i), "content": fmt.Sprint("question ", i)}
		if len(ends) > 0 && rapid.IntRange(0, 5).Draw(t, "hangs") > 0 {
			user["parentId"] = rapid.SampledFrom(ends).Draw(t, "end")
		} else if len(middles) > 0 && rapid.Bool().Draw(t, "in the middle") {
			user["parentId"] = rapid.SampledFrom(middles).Draw(t, "middle")
		}
		add(user)
		for j := range rapid.IntRange(0, 2).Draw(t, "answers") {
			answer(fmt.Sprintf("a%d-%d", i, j), "desk", fmt.Sprintf("u%d:user", i), 0)
		}
		if len(middles) > 0 && rapid.IntRange(0, 5).Draw(t, "taken up") == 0 {
			answer(fmt.Sprint("again", i), "desk", rapid.SampledFrom(middles).Draw(t, "where"), 0)
		}
	}
	return events
}

// anyPath draws a path by operations one after the other.
func anyPath(t *rapid.T, g *Graph) (*Graph, Active) {
	var a Active
	for i := range rapid.IntRange(0, 6).Draw(t, "operations") {
		all := ids(slices.Collect(g.Nodes()))
		if len(all) == 0 {
			return g, a
		}
		id := rapid.SampledFrom(all).Draw(t, "node")
		var err error
		switch rapid.IntRange(0, 5).Draw(t, "operation") {
		case 0:
			a, err = a.Switch(g, id)
		case 1:
			a, err = a.Branch(g, id)
		case 2:
			if n, _ := g.Node(id); n.Kind == event.TypeUser && g.Run(n.RunID)[0].ID == id {
				g, a, err = a.Edit(g, id, fmt.Sprint("edit", i), llm.Content{Text: "edited"})
			}
		case 3:
			a, err = a.Collapse(g, id)
		case 4:
			a, err = a.Summarize(g, id, "In short.")
		case 5:
			a, err = a.Expand(g, id)
		}
		require.NoError(t, err)
	}
	return g, a
}

// projected is everything that is shown of a graph on a path.
func projected(t require.TestingT, g *Graph, a Active) []string {
	all := []string{asJSONOf(t, Thread(g, a, ThreadOptions{})), asJSONOf(t, DAG(g, a)), asJSONOf(t, HypergraphOf(g, a)), a.Tip(g)}
	for _, m := range Messages(g, a) {
		all = append(all, fmt.Sprintf("%#v", m))
	}
	return all
}

// onPath returns the ids of the nodes on the path and inside of it.
func onPath(g *Graph, a Active) []string { return HypergraphOf(g, a).Chunks }

// TestOperationsRemoveNothing: no operation changes the graph that it is given or
// the path that it is called on; what Edit returns has one node more; and a path
// is the same after it has been to its JSON form and back.
func TestOperationsRemoveNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, a := anyPath(t, anyGraph(t))
		graph, shown := asJSONOf(t, before), projected(t, before, a)
		after, b := before, a
		for id := range before.Nodes() {
			b = must.Get(b.Switch(after, id.ID))
			b = must.Get(b.Collapse(after, id.ID))
			if id.Kind == event.TypeUser && before.Parents(id.ID) == nil {
				next, edited, err := b.Edit(after, id.ID, "new "+id.ID, llm.Content{Text: "other words"})
				require.NoError(t, err)
				require.Equal(t, after.Len()+1, next.Len())
				for n := range after.Nodes() {
					same, ok := next.Node(n.ID)
					require.True(t, ok)
					require.Equal(t, asJSONOf(t, n), asJSONOf(t, same))
					require.Equal(t, ids(after.Parents(n.ID)), ids(next.Parents(n.ID)))
				}
				require.Contains(t, onPath(next, edited), "new "+id.ID+":user")
				require.NotContains(t, onPath(next, edited), id.ID, "they stand beside each other")
				after, b = next, edited
			}
			b = must.Get(b.Branch(after, id.ID))
		}
		require.Equal(t, graph, asJSONOf(t, before))
		require.Equal(t, shown, projected(t, before, a))

		raw := asJSONOf(t, a)
		var read Active
		require.NoError(t, json.Unmarshal([]byte(raw), &read))
		require.Equal(t, raw, asJSONOf(t, read))
		require.Equal(t, shown, projected(t, before, read))
	})
}

// TestSwitchLeadsThroughTheNode: whatever the path was, after Switch the node is
// on it, and after Branch nothing that comes later in its run is.
func TestSwitchLeadsThroughTheNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, a := anyPath(t, anyGraph(t))
		for n := range g.Nodes() {
			seen := must.Get(a.Expand(g, n.ID))
			seen = must.Get(seen.Switch(g, n.ID))
			seen = must.Get(seen.Expand(g, n.ID)) // a summary on the way that it switched to
			require.Contains(t, onPath(g, seen), n.ID)
			require.Equal(t, asJSONOf(t, seen), asJSONOf(t, must.Get(seen.Expand(g, n.ID))), "once is enough")

			ended := must.Get(seen.Branch(g, n.ID))
			shown := onPath(g, ended)
			require.Contains(t, shown, n.ID)
			run := g.Run(n.RunID)
			at := slices.IndexFunc(run, func(o Node) bool { return o.ID == n.ID })
			for i, o := range run {
				want := i <= at || path{g: g}.isEnd(g.find(n.ID))
				require.Equal(t, want, slices.Contains(shown, o.ID), "%s, branched at %s", o.ID, n.ID)
			}
			for _, c := range g.Children(n.ID) {
				if c.RunID != n.RunID && (path{g: g}).follows(g.findRun(c.RunID)) {
					require.NotContains(t, shown, c.ID)
				}
			}
		}
	})
}

// TestProjectionsHonourThePath: the thread, the messages, the drawing and the
// hyperedges show what is on the path and nothing else; what is folded keeps its
// words; options take away what they say and nothing else.
func TestProjectionsHonourThePath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, a := anyPath(t, anyGraph(t))
		a.summaries, a.collapsed = nil, nil
		shown := onPath(g, a)
		var boxes []string
		for _, b := range DAG(g, a).Nodes {
			boxes = append(boxes, b.ID)
		}
		require.ElementsMatch(t, shown, boxes)

		thread := Thread(g, a, ThreadOptions{})
		text, reasoning, calls := wordsOf(thread)
		var wantText, wantReasoning, wantCalls []string
		for _, id := range shown {
			switch n, _ := g.Node(id); n.Kind {
			case event.TypeText:
				wantText = append(wantText, n.Text())
			case event.TypeReasoning:
				wantReasoning = append(wantReasoning, n.Text())
			case event.TypeToolCall:
				wantCalls = append(wantCalls, n.ID)
			}
		}
		require.Len(t, strings.Join(text, ""), len(strings.Join(wantText, "")))
		require.Len(t, strings.Join(reasoning, ""), len(strings.Join(wantReasoning, "")))
		require.ElementsMatch(t, wantCalls, calls)
		for _, m := range Messages(g, a) {
			for _, p := range m.Parts {
				if c, ok := p.(llm.ToolCall); ok {
					require.Contains(t, shown, c.ID)
				}
			}
		}

		less, none, sameCalls := wordsOf(Thread(g, a, ThreadOptions{HideReasoning: true}))
		require.Equal(t, strings.Join(text, ""), strings.Join(less, ""))
		require.Empty(t, strings.Join(none, ""))
		require.Equal(t, calls, sameCalls)
		for _, v := range Thread(g, a, ThreadOptions{CollapseTools: true}) {
			for _, c := range v.ToolCalls {
				require.Equal(t, ViewCall{ID: c.ID, Name: c.Name, Status: c.Status}, c)
			}
		}

		if len(shown) == 0 {
			return
		}
		n, _ := g.Node(rapid.SampledFrom(shown).Draw(t, "folded"))
		folded := must.Get(a.Collapse(g, n.ID))
		left := onPath(g, folded)
		require.Subset(t, shown, left)
		for _, id := range left {
			if o, _ := g.Node(id); o.RunID == n.RunID {
				require.Contains(t, []string{event.TypeText, event.TypeUser}, o.Kind)
			}
		}
		require.Equal(t, projected(t, g, a), projected(t, g, must.Get(folded.Expand(g, n.ID))), "and back")
		short := must.Get(a.Summarize(g, n.ID, "In short."))
		require.Subset(t, shown, onPath(g, short))
		require.Equal(t, projected(t, g, a), projected(t, g, must.Get(short.Expand(g, n.ID))), "and back")
		if first := Thread(g, short, ThreadOptions{})[0]; first.Role == RoleSummary {
			require.Equal(t, projected(t, g, a), projected(t, g, must.Get(short.Expand(g, first.ID))), "also by what the window shows of it")
		}
	})
}

// wordsOf collects what a thread says, with the threads inside of it.
func wordsOf(thread []ViewNode) (text, reasoning, calls []string) {
	for _, v := range thread {
		if v.Role == RoleAssistant {
			text, reasoning = append(text, v.Text), append(reasoning, v.Reasoning)
		}
		inside := slices.Clone(v.Branches)
		for _, c := range v.ToolCalls {
			calls = append(calls, c.ID)
			inside = append(inside, c.Branches...)
		}
		for _, b := range inside {
			moreText, moreReasoning, moreCalls := wordsOf(b)
			text, reasoning, calls = append(text, moreText...), append(reasoning, moreReasoning...), append(calls, moreCalls...)
		}
	}
	return text, reasoning, calls
}

// requireWire holds messages against what Messages promises, and what endpoints
// enforce.
func requireWire(t require.TestingT, messages []llm.Message) {
	calls := map[string]bool{}
	for _, m := range messages {
		require.Contains(t, []llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleTool}, m.Role)
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.ToolCall:
				require.Equal(t, llm.RoleAssistant, m.Role)
				require.Regexp(t, `^[!-~]{1,64}$`, p.ID)
				require.False(t, calls[p.ID], "%q stands twice", p.ID)
				calls[p.ID] = true
			case llm.ToolResult:
				require.Equal(t, llm.RoleTool, m.Role)
				require.True(t, calls[p.CallID])
			default:
				require.Equal(t, llm.RoleUser, m.Role)
			}
		}
	}
	require.NoError(t, view.Check(&llm.Request{Messages: append(slices.Clip(messages), llm.UserText("Go on."))}))
}

// TestMessagesOfEveryPath: of graphs of whole streams and of such that were cut
// off, on every path that ends at a node or leads through one, after any other
// operations, the messages do for the strictest endpoint.
func TestMessagesOfEveryPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, a := anyPath(t, anyGraph(t))
		requireWire(t, Messages(g, a))
		for n := range g.Nodes() {
			for _, operation := range []func(Active) (Active, error){
				func(a Active) (Active, error) { return a.Switch(g, n.ID) },
				func(a Active) (Active, error) { return a.Branch(g, n.ID) },
				func(a Active) (Active, error) { return a.Collapse(g, n.ID) },
				func(a Active) (Active, error) { return a.Summarize(g, n.ID, "In short.") },
			} {
				for _, from := range []Active{{}, a} {
					requireWire(t, Messages(g, must.Get(operation(from))))
				}
			}
		}
	})
}

func TestCallIDsOnTheWire(t *testing.T) {
	long := strings.Repeat("k", 65)
	g := fold(t, start, `{"type":"tool_call","id":"`+long+`","runId":"r","name":"a"}`, `{"type":"tool_call","id":"é","runId":"r","name":"b"}`,
		`{"type":"tool_call","id":"call_1","runId":"r","name":"c"}`, `{"type":"tool_call","id":"a b","runId":"r","name":"d"}`, `{"type":"tool_result","id":"é","runId":"r","output":"B"}`)
	messages := Messages(g, Active{})
	requireWire(t, messages)
	var got []string
	for _, p := range messages[0].Parts {
		got = append(got, p.(llm.ToolCall).Name+" "+p.(llm.ToolCall).ID)
	}
	require.Equal(t, []string{"a call_2", "b call_3", "c call_1", "d call_4"}, got)
	require.Equal(t, llm.ToolResult{CallID: "call_3", Name: "b", Output: "B"}, messages[2].Parts[0])
}

// TestUserAndAgentInOneRun: a stream from elsewhere can have both in one run.
func TestUserAndAgentInOneRun(t *testing.T) {
	g := fold(t, text("r", "a", "Welcome."), `{"type":"user","runId":"r","content":"Hello"}`, text("r", "b", "Hi."))
	require.Equal(t, "a Welcome. | u Hello | a Hi.", said(g, Active{}))
	require.Equal(t, "a Welcome. | u Hello | a Hi.", asked(g, Active{}))
	require.Equal(t, StatusStreaming, Thread(g, Active{}, ThreadOptions{})[2].Status)
}

// FuzzActive reads paths from anywhere: no panic, the form of what was read is
// stable, and whatever it says, a graph can be shown by it.
func FuzzActive(f *testing.F) {
	for _, seed := range []string{"{}", "null", `{"next":{"u1":"a1","a1":"u1"}}`, `{"next":{"":"u1"},"begins":[""],"beside":{"u1":"u1","u2":"u1"}}`,
		`{"ends":{"a2":{"node":"k","without":["b1","b1"]},"a1":{"node":"t3"},"u1":{}},"collapsed":["a2"],"summaries":{"a1":"","u9":"x"}}`} {
		f.Add([]byte(seed))
	}
	var g *Graph
	f.Fuzz(func(t *testing.T, text []byte) {
		if g == nil {
			g = fold(t, append(slices.Clip(twoAnswers), `{"type":"user","runId":"u9","content":"Again"}`, `{"type":"user","runId":"u3","parentId":"k"}`)...)
		}
		var a, again Active
		if json.Unmarshal(text, &a) != nil {
			require.Equal(t, Active{}, a)
			return
		}
		raw := asJSON(t, a)
		require.NoError(t, json.Unmarshal([]byte(raw), &again))
		require.Equal(t, raw, asJSON(t, again))
		require.Equal(t, projected(t, g, a), projected(t, g, again))
		requireWire(t, Messages(g, a))
		requireDrawn(t, DAG(g, a))
		for n := range g.Nodes() {
			for _, operation := range []func(*Graph, string) (Active, error){a.Switch, a.Branch, a.Collapse, a.Expand} {
				next := must.Get(operation(g, n.ID))
				projected(t, g, next)
			}
		}
	})
}
