package conversation

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// TestThreadCases compares the threads of the cases with testdata/threads.json.
func TestThreadCases(t *testing.T) {
	data := must.Get(os.ReadFile(filepath.Join("testdata", "threads.json")))
	var want map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &want))
	for _, name := range caseNames(t) {
		g := New()
		for _, line := range lines(t, name) {
			g = must.Get(g.ReduceJSON(line))
		}
		require.JSONEq(t, string(want[name]), asJSON(t, Thread(g, Active{}, ThreadOptions{})), name)
	}
}

// TestMessagesCases: the messages of the cases are those of the implementation
// that they come from, but for an unanswered call, for the branch that is on the
// path, and for rounds of calls without words between, which stay apart.
func TestMessagesCases(t *testing.T) {
	type call struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	type message struct {
		Role      string  `json:"role"`
		Content   *string `json:"content"`
		ToolCalls []call  `json:"tool_calls"`
		CallID    string  `json:"tool_call_id"`
	}
	for _, name := range caseNames(t) {
		var want struct{ Messages []message }
		data := must.Get(os.ReadFile(filepath.Join("testdata", "cases", name+".expected.json")))
		require.NoError(t, json.Unmarshal(data, &want))
		theirs := ""
		for i, m := range want.Messages {
			if i > 0 {
				theirs += " | "
			}
			theirs += m.Role[:1] + " "
			if m.Content != nil {
				theirs += *m.Content
			}
			for _, c := range m.ToolCalls {
				theirs += " " + c.Name + "()"
			}
		}
		switch name {
		case "12-fork-regenerate":
			theirs = "u Hello | a Reply B"
		case "15-streaming-open":
			theirs += " | t " + NoResult
		case "18-redelivery": // has no messages
			theirs = "a  bash() | t f"
		case "21-tool-rounds-without-text":
			theirs = "a  read() | t A | a  read() | t B | a both read"
		}
		g := New()
		for _, line := range lines(t, name) {
			g = must.Get(g.ReduceJSON(line))
		}
		require.Equal(t, theirs, asked(g, Active{}), name)
	}
}

func TestThreadOptions(t *testing.T) {
	g := fold(t, start, `{"type":"reasoning","id":"a","runId":"r","content":"hm"}`, text("r", "t", "x"),
		`{"type":"tool_call","id":"k","runId":"r","name":"look","input":{"a":1}}`,
		`{"type":"tool_progress","id":"p","runId":"r","toolCallId":"k","name":"look","content":50}`,
		`{"type":"tool_result","id":"k","runId":"r","name":"look","output":"no","isError":true}`, end)
	all := Thread(g, Active{}, ThreadOptions{})
	require.Len(t, all, 1)
	require.Equal(t, "hm", all[0].Reasoning)
	require.Equal(t, []ViewCall{{ID: "k", Name: "look", Input: json.RawMessage(`{"a":1}`), Output: json.RawMessage(`"no"`), IsError: true,
		Progress: []json.RawMessage{json.RawMessage("50")}, Status: StatusError}}, all[0].ToolCalls)
	require.Equal(t, StatusComplete, all[0].Status)

	less := Thread(g, Active{}, ThreadOptions{HideReasoning: true, CollapseTools: true})
	require.Empty(t, less[0].Reasoning)
	require.Equal(t, []ViewCall{{ID: "k", Name: "look", Status: StatusError}}, less[0].ToolCalls)
}

func TestThreadStatus(t *testing.T) {
	call := `{"type":"tool_call","id":"k","runId":"r","name":"look","input":{}}`
	relay := `{"type":"relay","id":"q","runId":"r","kind":"permission","toolCallId":"k","tool":"look","params":{}}`
	status := func(events ...string) (Status, ViewCall) {
		out := Thread(fold(t, events...), Active{}, ThreadOptions{})
		last := out[len(out)-1]
		if len(last.ToolCalls) == 0 {
			return last.Status, ViewCall{}
		}
		return last.Status, last.ToolCalls[0]
	}
	s, _ := status(start)
	require.Equal(t, StatusStreaming, s, "it has begun")
	s, _ = status(start, text("r", "t", "x"))
	require.Equal(t, StatusStreaming, s)
	s, _ = status(start, text("r", "t", "x"), end)
	require.Equal(t, StatusComplete, s)
	s, c := status(start, call)
	require.Equal(t, StatusStreaming, s)
	require.Equal(t, StatusStreaming, c.Status)
	_, c = status(start, call, end)
	require.Equal(t, StatusError, c.Status, "nobody will answer")
	_, c = status(start, call, relay, end)
	require.Equal(t, StatusStreaming, c.Status, "it waits")
	require.Equal(t, "pending", c.Approval)
	_, c = status(start, call, relay, end, `{"type":"relay_resolved","runId":"r","relayId":"q","approved":true}`, `{"type":"tool_result","id":"k","runId":"r","output":1}`)
	require.Equal(t, StatusComplete, c.Status)
	require.Equal(t, "approved", c.Approval)
	s, _ = status(start, text("r", "t", "x"), `{"type":"error","runId":"r","message":"m"}`, end)
	require.Equal(t, StatusError, s)
	s, c = status(start, call, `{"type":"error","runId":"r","message":"m"}`)
	require.Equal(t, StatusError, s)
	require.Equal(t, StatusError, c.Status, "the run has failed")
	require.Empty(t, Thread(fold(t, start, end), Active{}, ThreadOptions{}), "nothing was said")
}

// TestThreadBranches: what runs inside of a call or of a run is nested, and what
// follows it is beside it.
func TestThreadBranches(t *testing.T) {
	g := fold(t, start,
		`{"type":"harness_start","runId":"c1","agentId":"one","parentId":"r:harness_start"}`, text("c1", "x1", "first"), `{"type":"harness_end","runId":"c1"}`,
		`{"type":"harness_start","runId":"c2","agentId":"two","parentId":"c1:harness_end"}`, text("c2", "x2", "then"), `{"type":"harness_end","runId":"c2"}`,
		`{"type":"harness_start","runId":"d","agentId":"three","parentId":"r:harness_start"}`, text("d", "x3", "beside"), end,
		`{"type":"harness_start","runId":"next","agentId":"four","parentId":"r:harness_end"}`, text("next", "x4", "after"))
	out := Thread(g, Active{}, ThreadOptions{})
	require.Len(t, out, 2)
	require.Len(t, out[0].Branches, 2)
	require.Equal(t, "first", out[0].Branches[0][0].Text)
	require.Equal(t, "then", out[0].Branches[0][1].Text)
	require.Equal(t, "beside", out[0].Branches[1][0].Text)
	require.Equal(t, StatusStreaming, out[0].Branches[1][0].Status)
	require.Equal(t, "after", out[1].Text)
	require.Equal(t, "a after", asked(g, Active{}))
}

// mallocs counts what f allocates.
func mallocs(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// TestDeepSubAgents: agents in agents in agents, 20,000 levels of them, need no
// deep stack, and their cost is in proportion to their number. (A stack that grows beyond
// the bound ends the program.)
func TestDeepSubAgents(t *testing.T) {
	nest := func(levels int) *Graph {
		g := New()
		for i := range levels {
			run, parent := fmt.Sprint("run", i), fmt.Sprint("call", i-1)
			g = g.Reduce(&event.Event{RunID: run, ParentID: parent, Agent: "x", Data: &event.HarnessStart{AgentID: "x"}})
			g = g.Reduce(&event.Event{RunID: run, ID: fmt.Sprint("call", i), Agent: "x", Data: &event.ToolCall{Name: "ask", Input: json.RawMessage(`{}`)}})
		}
		return g
	}
	small, large := nest(2000), nest(20_000)
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20)) // for which 20,000 calls of a function in itself are too many
	for name, project := range map[string]func(*Graph){
		"thread":     func(g *Graph) { Thread(g, Active{}, ThreadOptions{}) },
		"dag":        func(g *Graph) { DAG(g, Active{}) },
		"messages":   func(g *Graph) { Messages(g, Active{}) },
		"hypergraph": func(g *Graph) { HypergraphOf(g, Active{}) },
		"switch": func(g *Graph) {
			last := ""
			for run := range g.Runs() {
				last = run
			}
			a := must.Get(Active{}.Switch(g, last+":harness_start"))
			a = must.Get(a.Expand(g, last+":harness_start"))
			a.Tip(g)
		},
	} {
		few, many := mallocs(func() { project(small) }), mallocs(func() { project(large) })
		require.Less(t, many, 12*few+1000, name)
	}
	levels := 0
	for thread := Thread(large, Active{}, ThreadOptions{}); len(thread) == 1 && len(thread[0].ToolCalls) == 1; levels++ {
		inside := thread[0].ToolCalls[0].Branches
		if thread = nil; len(inside) == 1 {
			thread = inside[0]
		}
	}
	require.Equal(t, 20_000, levels)
}
