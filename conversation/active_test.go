package conversation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
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

	first := must.Get(newest.Switch(g, "t1"))
	require.Equal(t, "u Hello | a A | u More | a  look() | a A more", said(g, first))
	require.Equal(t, "u Hello | a A | u More | a  look() | t x | a A more", asked(g, first))
	require.Equal(t, "a2:harness_end", first.Tip(g))
	require.Equal(t, "u Hello | a B", said(g, newest), "the old value is as it was")

	second := must.Get(first.Switch(g, "t3"))
	require.Equal(t, "u Hello | a B", said(g, second))

	_, err := newest.Switch(g, "nothing")
	require.ErrorIs(t, err, ErrNoNode)

	thread := Thread(g, newest, ThreadOptions{})
	require.Equal(t, []string{"a1:harness_start", "b1:harness_start"}, thread[1].Alternatives)
	require.Nil(t, thread[0].Alternatives)
}

func TestBranch(t *testing.T) {
	g := fold(t, twoAnswers...)
	a := must.Get(Active{}.Branch(g, "a1:harness_end"))
	require.Equal(t, "u Hello | a A", said(g, a))
	require.Equal(t, "a1:harness_end", a.Tip(g))

	grown := must.Get(g.ReduceJSON([]byte(`{"type":"user","runId":"u3","content":"Else","parentId":"` + a.Tip(g) + `"}`)))
	require.Equal(t, "u Hello | a A | u Else", said(grown, a), "what comes later follows")
	back := must.Get(a.Switch(grown, "u2:user"))
	require.Equal(t, "u Hello | a A | u More | a  look() | a A more", said(grown, back))

	// A branch from the middle of an answer leaves out the rest of it.
	a = must.Get(Active{}.Branch(g, "k"))
	require.Equal(t, "u Hello | a A | u More | a  look()", said(g, a))
	require.Equal(t, "k", a.Tip(g))
	grown = must.Get(g.ReduceJSON([]byte(`{"type":"user","runId":"u3","content":"Else","parentId":"k"}`)))
	require.Equal(t, "u Hello | a A | u More | a  look() | u Else", said(grown, a))

	_, err := a.Branch(g, "nothing")
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
	old := must.Get(a.Switch(edited, "u2:user"))
	require.Equal(t, "u Hello | a A | u More | a  look() | a A more", said(edited, old))

	// The first message has no parent, and what is beside it has none either.
	edited, a, err = Active{}.Edit(g, "u1:user", "u0", llm.Content{Text: "Bye"})
	require.NoError(t, err)
	require.Equal(t, "u Bye", said(edited, a))
	old = must.Get(a.Switch(edited, "u1:user"))
	require.Equal(t, "u Hello | a B", said(edited, old))

	for id, want := range map[string]error{"t1": ErrNoNode, "nothing": ErrNoNode, "u1:user": ErrRunExists} {
		same, _, err := Active{}.Edit(g, id, "a1", llm.Content{Text: "x"})
		require.ErrorIs(t, err, want)
		require.Same(t, g, same)
	}
}

func TestCollapseAndSummarize(t *testing.T) {
	g := fold(t, twoAnswers...)
	a := must.Get(Active{}.Switch(g, "t1"))
	folded := must.Get(a.Collapse(g, "k"))
	require.Equal(t, "u Hello | a A | u More | a A more", said(g, folded))
	require.Equal(t, "u Hello | a A | u More | a A more", asked(g, folded))
	require.Len(t, DAG(g, folded).Nodes, len(DAG(g, a).Nodes)-5, "one box for a run of six nodes")
	require.Empty(t, Thread(g, folded, ThreadOptions{})[3].Reasoning)
	require.Equal(t, "u Hello | a A | u More | a  look() | a A more", said(g, a))

	short := must.Get(a.Summarize(g, "t1", "They greeted each other."))
	require.Equal(t, "s They greeted each other. | u More | a  look() | a A more", said(g, short))
	require.Equal(t, "u They greeted each other. | u More | a  look() | t x | a A more", asked(g, short))
	require.Equal(t, RoleSummary, DAG(g, short).Nodes[0].Kind)
	require.Equal(t, Edge{"u1:user", "u2:user"}, DAG(g, short).Edges[0], "the box has the id of the first node that it stands for")

	longer := must.Get(short.Summarize(g, "u2:user", "More was wanted."))
	require.Equal(t, "s More was wanted. | a  look() | a A more", said(g, longer))
	other := must.Get(longer.Switch(g, "b1:harness_end"))
	require.Equal(t, "u Hello | a B", said(g, other), "a summary of another branch does not count")

	_, err := a.Collapse(g, "nothing")
	require.ErrorIs(t, err, ErrNoNode)
	_, err = a.Summarize(g, "nothing", "")
	require.ErrorIs(t, err, ErrNoNode)
}

// TestSeveralBeginnings: messages without parents are parts of one conversation.
func TestSeveralBeginnings(t *testing.T) {
	g := fold(t, `{"type":"user","runId":"u1","content":"a"}`, `{"type":"harness_start","runId":"a1","parentId":"u1"}`, text("a1", "t1", "b"),
		`{"type":"user","runId":"u2","content":"c"}`, `{"type":"harness_start","runId":"a2","parentId":"u2"}`, text("a2", "t2", "d"))
	require.Equal(t, "u a | a b | u c | a d", said(g, Active{}))
	a := must.Get(Active{}.Switch(g, "t1"))
	require.Equal(t, "u a | a b | u c | a d", said(g, a))
}

func TestExpand(t *testing.T) {
	g := fold(t, twoAnswers...)
	a := must.Get(Active{}.Switch(g, "t1"))
	full := said(g, a)
	folded := must.Get(a.Collapse(g, "k"))
	open := must.Get(folded.Expand(g, "t2")) // any node of the run
	require.Equal(t, full, said(g, open))
	require.Equal(t, "u Hello | a A | u More | a A more", said(g, folded), "the old value is as it was")

	short := must.Get(folded.Summarize(g, "t1", "They greeted."))
	short = must.Get(short.Summarize(g, "u2:user", "More was wanted."))
	require.Equal(t, "s More was wanted. | a A more", said(g, short))
	partly := must.Get(short.Expand(g, "u2:user")) // it comes after the first of the two
	require.Equal(t, "s They greeted. | u More | a A more", said(g, partly))
	open = must.Get(short.Expand(g, Thread(g, short, ThreadOptions{})[0].ID)) // what the window shows of the summaries
	require.Equal(t, "u Hello | a A | u More | a A more", said(g, open))
	open = must.Get(open.Expand(g, "k"))
	require.Equal(t, full, said(g, open))

	same := must.Get(a.Expand(g, "b1:harness_end"))
	require.Equal(t, asJSON(t, a), asJSON(t, same), "there is nothing to undo")
	_, err := a.Expand(g, "nothing")
	require.ErrorIs(t, err, ErrNoNode)

	// What works inside of a folded run is shown again by unfolding that run.
	g = subagent(t)
	folded = must.Get(Active{}.Collapse(g, "tc-1"))
	require.Len(t, DAG(g, folded).Nodes, 2)
	open = must.Get(folded.Expand(g, "c1"))
	require.Equal(t, DAG(g, Active{}), DAG(g, open))
}

// TestSwitchBehindATurning: where a message hangs in the middle of an answer, the
// rest of the answer can still be reached.
func TestSwitchBehindATurning(t *testing.T) {
	g := fold(t, append(slices.Clip(twoAnswers), `{"type":"user","runId":"u3","content":"Else","parentId":"k"}`)...)
	a := must.Get(Active{}.Switch(g, "u3:user"))
	require.Equal(t, "u Hello | a A | u More | a  look() | u Else", said(g, a))
	a = must.Get(a.Switch(g, "k"))
	require.Equal(t, "u3:user", a.Tip(g), "the further way is as before")
	a = must.Get(a.Switch(g, "t2"))
	require.Equal(t, "u Hello | a A | u More | a  look() | a A more", said(g, a))
	require.Equal(t, "a2:harness_end", a.Tip(g))
	g = reduceOne(t, g, map[string]any{"type": "user", "runId": "u4", "content": "Thanks", "parentId": "a2:harness_end"})
	require.Equal(t, "u4:user", a.Tip(g), "what comes later follows")
	back := must.Get(a.Switch(g, "u3:user"))
	back = must.Get(back.Switch(g, "t2"))
	require.Equal(t, "u4:user", back.Tip(g), "a run that follows behind the node is better than none")
}

// TestActiveJSON: the form in which a path travels.
func TestActiveJSON(t *testing.T) {
	g := fold(t, append(slices.Clip(twoAnswers), `{"type":"user","runId":"u9","content":"Again"}`)...)
	require.Equal(t, "{}", asJSON(t, Active{}))
	a := must.Get(Active{}.Switch(g, "u2:user"))
	require.Equal(t, `{"next":{"a1":"u2","u1":"a1"}}`, asJSON(t, a))
	a = must.Get(a.Branch(g, "a1:harness_end"))
	a = must.Get(a.Collapse(g, "t3"))
	a = must.Get(a.Summarize(g, "t1", "<short>"))
	g, a, err := a.Edit(g, "u9:user", "u10", llm.Content{Text: "Once more"})
	require.NoError(t, err)
	const want = `{"next":{"u1":"a1"},"begins":["u10"],"beside":{"u10":"u9"},"ends":{"a1":{"node":"a1:harness_end","without":["u2"]}},"collapsed":["b1"],"summaries":{"a1":"<short>"}}`
	require.Equal(t, want, strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(asJSON(t, a)))

	var read Active
	require.NoError(t, json.Unmarshal([]byte(want), &read))
	require.Equal(t, a, read)
	require.Equal(t, "s <short> | u Once more", said(g, read))
	for _, nothing := range []string{"null", "{}", `{"later":1}`, `{"next":{},"ends":{},"begins":[]}`} {
		require.NoError(t, json.Unmarshal([]byte(nothing), &read))
		require.Equal(t, said(g, Active{}), said(g, read))
		require.Equal(t, "{}", asJSON(t, read))
	}
	require.NoError(t, json.Unmarshal([]byte(want), &read))
	for _, bad := range []string{`{"next":["a"]}`, `[]`, `"a"`, `{"ends":{"a":"b"}}`} {
		require.Error(t, json.Unmarshal([]byte(bad), &read), bad)
		require.Equal(t, a, read, "as before")
	}
	// What a graph does not have is not looked at.
	require.NoError(t, json.Unmarshal([]byte(`{"next":{"x":"y","u1":"x","a1":"u1"},"begins":["z"],"beside":{"u9":"q","q":"u1"},"ends":{"b1":{"node":"t1"},"z":{}},"collapsed":["z"],"summaries":{"z":""}}`), &read))
	require.Equal(t, said(g, Active{}), said(g, read))
}

// TestBeginningsBesideEachOther: of messages without a parent that are beside
// each other one is on the path, with what followed it.
func TestBeginningsBesideEachOther(t *testing.T) {
	turn := func(n int) []string {
		return []string{fmt.Sprintf(`{"type":"user","runId":"u%d","content":"q%d"}`, n, n), fmt.Sprintf(`{"type":"harness_start","runId":"a%d","parentId":"u%d"}`, n, n),
			text(fmt.Sprintf("a%d", n), fmt.Sprintf("t%d", n), fmt.Sprintf("r%d", n))}
	}
	g := fold(t, slices.Concat(turn(1), turn(2), turn(3))...)
	require.Equal(t, "u q1 | a r1 | u q2 | a r2 | u q3 | a r3", said(g, Active{}))
	g, a, err := Active{}.Edit(g, "u2:user", "u4", llm.Content{Text: "q4"})
	require.NoError(t, err)
	require.Equal(t, "u q1 | a r1 | u q4", said(g, a))
	require.Equal(t, []string{"u2:user", "u4:user"}, Thread(g, a, ThreadOptions{})[2].Alternatives)
	for _, line := range slices.Concat(turn(4)[1:], turn(5)) {
		g, _ = g.ReduceJSON([]byte(line))
	}
	require.Equal(t, "u q1 | a r1 | u q4 | a r4 | u q5 | a r5", said(g, a))
	back := must.Get(a.Switch(g, "t2"))
	require.Equal(t, "u q1 | a r1 | u q2 | a r2 | u q3 | a r3", said(g, back))
	again := must.Get(back.Switch(g, "t5"))
	require.Equal(t, said(g, a), said(g, again))

	// The first messages of a session and of its fork at 0.
	g = fold(t, `{"type":"user","runId":"u1","content":"one","seq":1}`, `{"type":"harness_start","runId":"a1","parentId":"u1:user","seq":2}`,
		`{"type":"user","runId":"u2","content":"other","seq":1}`, `{"type":"harness_start","runId":"a2","parentId":"u2:user","seq":2}`)
	require.Equal(t, "u other | a ", said(g, Active{}))
	require.Equal(t, []string{"u1:user", "u2:user"}, Thread(g, Active{}, ThreadOptions{})[0].Alternatives)
	back = must.Get(Active{}.Switch(g, "a1:harness_start"))
	require.Equal(t, "u one | a ", said(g, back))
}
