package conversation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// said writes what a chat window shows: role, words and names of calls.
func said(g *Graph, a Active) string {
	var lines []string
	for _, v := range Thread(g, a, ThreadOptions{}) {
		line := v.Role[:1] + " " + v.Text
		for _, c := range v.ToolCalls {
			line += " " + c.Name + "()"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, " | ")
}

// asked writes what a model is given.
func asked(g *Graph, a Active) string {
	var lines []string
	for _, m := range Messages(g, a) {
		line := string(m.Role)[:1] + " " + m.Text
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.ToolCall:
				line += " " + p.Name + "()"
			case llm.ToolResult:
				line += p.Output
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, " | ")
}

// twoAnswers is a conversation of two turns whose first message was answered
// twice; the second turn follows the first answer.
var twoAnswers = []string{
	`{"type":"user","runId":"u1","content":"Hello"}`,
	`{"type":"harness_start","runId":"a1","agentId":"x","parentId":"u1:user"}`,
	`{"type":"text","id":"t1","runId":"a1","content":"A"}`,
	`{"type":"harness_end","runId":"a1"}`,
	`{"type":"user","runId":"u2","content":"More","parentId":"a1:harness_end"}`,
	`{"type":"harness_start","runId":"a2","agentId":"x","parentId":"u2:user"}`,
	`{"type":"reasoning","id":"r2","runId":"a2","content":"hm"}`,
	`{"type":"tool_call","id":"k","runId":"a2","name":"look","input":{}}`,
	`{"type":"tool_result","id":"k","runId":"a2","name":"look","output":"x"}`,
	`{"type":"text","id":"t2","runId":"a2","content":"A more"}`,
	`{"type":"harness_end","runId":"a2"}`,
	`{"type":"harness_start","runId":"b1","agentId":"x","parentId":"u1:user"}`,
	`{"type":"text","id":"t3","runId":"b1","content":"B"}`,
	`{"type":"harness_end","runId":"b1"}`,
}

func TestSwitch(t *testing.T) {
	g := fold(t, twoAnswers...)
	var newest Active
	require.Equal(t, "u Hello | a B", said(g, newest))
	require.Equal(t, "b1:harness_end", newest.Tip(g))

	first, err := newest.Switch(g, "t1")
	require.NoError(t, err)
	require.Equal(t, "u Hello | a A | u More | a  look() | a A more", said(g, first))
	require.Equal(t, "u Hello | a A | u More | a  look() | t x | a A more", asked(g, first))
	require.Equal(t, "a2:harness_end", first.Tip(g))
	require.Equal(t, "u Hello | a B", said(g, newest), "the old value is as it was")

	second, err := first.Switch(g, "t3")
	require.NoError(t, err)
	require.Equal(t, "u Hello | a B", said(g, second))

	_, err = newest.Switch(g, "nothing")
	require.ErrorIs(t, err, ErrNoNode)

	thread := Thread(g, newest, ThreadOptions{})
	require.Equal(t, []string{"a1:harness_start", "b1:harness_start"}, thread[1].Alternatives)
	require.Nil(t, thread[0].Alternatives)
}

func TestBranch(t *testing.T) {
	g := fold(t, twoAnswers...)
	a, err := Active{}.Branch(g, "a1:harness_end")
	require.NoError(t, err)
	require.Equal(t, "u Hello | a A", said(g, a))
	require.Equal(t, "a1:harness_end", a.Tip(g))

	grown, err := g.ReduceJSON([]byte(`{"type":"user","runId":"u3","content":"Else","parentId":"` + a.Tip(g) + `"}`))
	require.NoError(t, err)
	require.Equal(t, "u Hello | a A | u Else", said(grown, a), "what comes later follows")
	back, err := a.Switch(grown, "u2:user")
	require.NoError(t, err)
	require.Equal(t, "u Hello | a A | u More | a  look() | a A more", said(grown, back))

	// A branch from the middle of an answer leaves out the rest of it.
	a, err = Active{}.Branch(g, "k")
	require.NoError(t, err)
	require.Equal(t, "u Hello | a A | u More | a  look()", said(g, a))
	require.Equal(t, "k", a.Tip(g))
	grown, err = g.ReduceJSON([]byte(`{"type":"user","runId":"u3","content":"Else","parentId":"k"}`))
	require.NoError(t, err)
	require.Equal(t, "u Hello | a A | u More | a  look() | u Else", said(grown, a))

	_, err = a.Branch(g, "nothing")
	require.ErrorIs(t, err, ErrNoNode)
}

func TestEdit(t *testing.T) {
	g := fold(t, twoAnswers...)
	before := asJSON(t, g)
	edited, a, err := Active{}.Edit(g, "u2:user", "u3", llm.Content{Text: "Less"})
	require.NoError(t, err)
	require.Equal(t, "u Hello | a A | u Less", said(edited, a))
	require.Equal(t, "a1:harness_end", edited.Parents("u3:user")[0].ID)
	require.Equal(t, "u3:user", a.Tip(edited))
	require.Equal(t, before, asJSON(t, g))
	require.Equal(t, g.Len()+1, edited.Len(), "nothing is removed")
	old, err := a.Switch(edited, "u2:user")
	require.NoError(t, err)
	require.Equal(t, "u Hello | a A | u More | a  look() | a A more", said(edited, old))

	// The first message has no parent, and neither has what stands beside it.
	edited, a, err = Active{}.Edit(g, "u1:user", "u0", llm.Content{Text: "Bye"})
	require.NoError(t, err)
	require.Equal(t, "u Bye", said(edited, a))
	old, err = a.Switch(edited, "u1:user")
	require.NoError(t, err)
	require.Equal(t, "u Hello | a B", said(edited, old))

	for id, want := range map[string]error{"t1": ErrNoNode, "nothing": ErrNoNode, "u1:user": ErrRunExists} {
		same, _, err := Active{}.Edit(g, id, "a1", llm.Content{Text: "x"})
		require.ErrorIs(t, err, want)
		require.Same(t, g, same)
	}
}

func TestCollapseAndSummarize(t *testing.T) {
	g := fold(t, twoAnswers...)
	a, err := Active{}.Switch(g, "t1")
	require.NoError(t, err)
	folded, err := a.Collapse(g, "k")
	require.NoError(t, err)
	require.Equal(t, "u Hello | a A | u More | a A more", said(g, folded))
	require.Equal(t, "u Hello | a A | u More | a A more", asked(g, folded))
	require.Len(t, DAG(g, folded).Nodes, len(DAG(g, a).Nodes)-5, "one box for a run of six nodes")
	require.Empty(t, Thread(g, folded, ThreadOptions{})[3].Reasoning)
	require.Equal(t, "u Hello | a A | u More | a  look() | a A more", said(g, a))

	short, err := a.Summarize(g, "t1", "They greeted each other.")
	require.NoError(t, err)
	require.Equal(t, "s They greeted each other. | u More | a  look() | a A more", said(g, short))
	require.Equal(t, "u They greeted each other. | u More | a  look() | t x | a A more", asked(g, short))
	require.Equal(t, RoleSummary, DAG(g, short).Nodes[0].Kind)
	require.Equal(t, Edge{"u1:user", "u2:user"}, DAG(g, short).Edges[0], "the box has the id of the first node that it stands for")

	longer, err := short.Summarize(g, "u2:user", "More was wanted.")
	require.NoError(t, err)
	require.Equal(t, "s More was wanted. | a  look() | a A more", said(g, longer))
	other, err := longer.Switch(g, "b1:harness_end")
	require.NoError(t, err)
	require.Equal(t, "u Hello | a B", said(g, other), "a summary of another branch does not count")

	_, err = a.Collapse(g, "nothing")
	require.ErrorIs(t, err, ErrNoNode)
	_, err = a.Summarize(g, "nothing", "")
	require.ErrorIs(t, err, ErrNoNode)
}

// TestSeveralBeginnings: messages without parents are parts of one conversation.
func TestSeveralBeginnings(t *testing.T) {
	g := fold(t, `{"type":"user","runId":"u1","content":"a"}`, `{"type":"harness_start","runId":"a1","parentId":"u1"}`, text("a1", "t1", "b"),
		`{"type":"user","runId":"u2","content":"c"}`, `{"type":"harness_start","runId":"a2","parentId":"u2"}`, text("a2", "t2", "d"))
	require.Equal(t, "u a | a b | u c | a d", said(g, Active{}))
	a, err := Active{}.Switch(g, "t1")
	require.NoError(t, err)
	require.Equal(t, "u a | a b | u c | a d", said(g, a))
}
