package conversation

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
)

// drawn writes a graph as "id=content" of its nodes and "a>b" of its edges.
func drawn(g *Graph) string {
	var words []string
	for n := range g.Nodes() {
		w := n.ID
		if text := n.Text(); text != "" {
			w += "=" + text
		}
		words = append(words, w)
	}
	for n := range g.Nodes() {
		for _, c := range g.Children(n.ID) {
			words = append(words, n.ID+">"+c.ID)
		}
	}
	return strings.Join(words, " ")
}

const (
	start = `{"type":"harness_start","runId":"r","agentId":"a"}`
	end   = `{"type":"harness_end","runId":"r","agentId":"a"}`
)

func text(run, id, content string) string {
	return fmt.Sprintf(`{"type":"text","id":%q,"runId":%q,"content":%q}`, id, run, content)
}

func partial(run, id, content string) string {
	return fmt.Sprintf(`{"type":"text","id":%q,"runId":%q,"content":%q,"partial":true}`, id, run, content)
}

// TestRules shows the rules one by one.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []string
		want   string
	}{
		{"text of one id appends", []string{start, text("r", "t", "a"), end, text("r", "t", "b")},
			"r:harness_start t=ab r:harness_end r:harness_start>t t>r:harness_end"},
		{"a complete text replaces its deltas", []string{partial("r", "t", "a"), partial("r", "t", "b"), text("r", "t", "abc"), text("r", "t", "abc")},
			"t=abc"},
		{"a delta after the complete text is dropped", []string{partial("r", "t", "a"), text("r", "t", "ab"), partial("r", "t", "b")},
			"t=ab"},
		{"half of a surrogate pair waits for the other", []string{`{"type":"text","id":"t","runId":"r","content":"\ud83d"}`, `{"type":"text","id":"t","runId":"r","content":"\ude00"}`},
			"t=😀"},
		{"unknown types and events without a run change nothing", []string{start, `{"type":"connected","runId":"r"}`, `{"type":"transfer","runId":"r"}`,
			`{"type":"notice","runId":"r"}`, `{"type":"state","runId":"q"}`, `{"type":"text","id":"t","content":"x"}`, `{}`, end},
			"r:harness_start r:harness_end r:harness_start>r:harness_end"},
		{"a first event hangs on its parent, later parents are ignored", []string{start, `{"type":"text","id":"a","runId":"s","parentId":"r:harness_start"}`,
			`{"type":"text","id":"b","runId":"s","parentId":"r:harness_start"}`},
			"r:harness_start a b r:harness_start>a a>b"},
		{"a parent can be a run", []string{start, text("r", "t", "x"), `{"type":"harness_start","runId":"s","parentId":"r"}`, end},
			"r:harness_start t=x s:harness_start r:harness_end r:harness_start>t t>s:harness_start t>r:harness_end"},
		{"an edge waits for its parent", []string{`{"type":"harness_start","runId":"s","parentId":"t"}`, `{"type":"harness_start","runId":"q","parentId":"r"}`, start, text("r", "t", "x")},
			"s:harness_start q:harness_start r:harness_start t=x r:harness_start>q:harness_start r:harness_start>t t>s:harness_start"},
		{"an edge that would close a circle is left out", []string{`{"type":"text","id":"a","runId":"r","parentId":"b"}`, `{"type":"text","id":"b","runId":"s","parentId":"a"}`,
			`{"type":"text","id":"c","runId":"q","parentId":"c"}`, `{"type":"text","id":"d","runId":"p","parentId":"p"}`},
			"a b c d a>b"},
		{"a parent can be named with its run in front, which tells nodes of one id apart", []string{`{"type":"tool_call","id":"k","runId":"r"}`,
			`{"type":"harness_start","runId":"q","parentId":"r:k"}`, `{"type":"harness_start","runId":"p","parentId":"s:k"}`, `{"type":"harness_start","runId":"o","parentId":"t:k"}`,
			`{"type":"tool_call","id":"k","runId":"s"}`, text("t", "x", ""), `{"type":"harness_start","runId":"n","parentId":"t:x"}`, `{"type":"harness_start","runId":"m","parentId":"r:x"}`},
			"k q:harness_start p:harness_start o:harness_start s:k x n:harness_start m:harness_start k>q:harness_start s:k>p:harness_start x>n:harness_start"},
		{"a redelivered event takes its node's place", []string{start, `{"type":"tool_call","id":"k","runId":"r","name":"old"}`, end, `{"type":"tool_call","id":"k","runId":"r","name":"new"}`},
			"r:harness_start k r:harness_end r:harness_start>k k>r:harness_end"},
		{"a taken id gets its run in front", []string{
			`{"type":"tool_call","id":"k","runId":"r","name":"x"}`, `{"type":"tool_call","id":"k","runId":"s","name":"x"}`,
			`{"type":"tool_result","id":"k","runId":"s","name":"x","output":1}`, `{"type":"tool_result","id":"k","runId":"r","name":"x","output":2}`,
			text("s", "r:usage:1", "mine"), `{"type":"usage","runId":"r"}`},
			"k s:k s:k:result k:result r:usage:1=mine r:r:usage:1 k>k:result s:k>s:k:result s:k:result>r:usage:1 k:result>r:r:usage:1"},
		{"errors and usage count up unless seq or id say that they are known", []string{
			`{"type":"error","runId":"r"}`, `{"type":"error","runId":"r","id":"e","seq":4}`, `{"type":"error","runId":"r","id":"f","seq":4}`,
			`{"type":"error","runId":"r","id":"e"}`, `{"type":"usage","runId":"r","id":"u"}`, `{"type":"usage","runId":"r","id":"u"}`, `{"type":"usage","runId":"r"}`},
			"r:error r:error:2 r:usage:1 r:usage:2 r:error>r:error:2 r:error:2>r:usage:1 r:usage:1>r:usage:2"},
		{"what has an old seq is dropped", []string{`{"type":"text","id":"t","runId":"r","content":"a","seq":7}`, `{"type":"text","id":"t","runId":"r","content":"a","seq":7}`,
			`{"type":"text","id":"u","runId":"r","content":"b","seq":6}`, `{"type":"text","id":"v","runId":"s","content":"c","seq":6}`},
			"t=a v=c"},
		{"a seq that JavaScript cannot hold is none", []string{`{"type":"text","id":"t","runId":"r","content":"a","seq":99999999999999999999}`,
			`{"type":"text","id":"u","runId":"r","content":"b","seq":9007199254740993}`, `{"type":"text","id":"v","runId":"r","content":"c","seq":7}`},
			"t=a u=b v=c t>u u>v"},
		{"a discard relinks", []string{start, partial("r", "a", "x"), partial("r", "b", "y"), `{"type":"harness_start","runId":"s","parentId":"a"}`,
			`{"type":"discard","runId":"r","ids":["a"]}`, text("r", "c", "z")},
			"r:harness_start b=y s:harness_start c=z r:harness_start>b r:harness_start>s:harness_start b>c"},
		{"a discard of the last nodes moves the last node", []string{start, partial("r", "a", "x"), partial("r", "b", "y"), `{"type":"discard","runId":"r","ids":["b","a","nothing"]}`, end},
			"r:harness_start r:harness_end r:harness_start>r:harness_end"},
		{"a run whose first nodes were discarded keeps its parent", []string{start, `{"type":"text","id":"a","runId":"s","partial":true,"parentId":"r"}`,
			`{"type":"discard","runId":"s","ids":["a"]}`, text("s", "b", "z")},
			"r:harness_start b=z r:harness_start>b"},
		{"a run that waits goes on waiting when its nodes are discarded", []string{`{"type":"text","id":"a","runId":"s","partial":true,"parentId":"r"}`,
			`{"type":"discard","runId":"s","ids":["a"]}`, start, text("s", "b", "z")},
			"r:harness_start b=z r:harness_start>b"},
		{"a discard leaves other runs alone", []string{text("r", "a", "x"), start, `{"type":"harness_start","runId":"s"}`, `{"type":"discard","runId":"s","ids":["a"]}`},
			"a=x r:harness_start s:harness_start a>r:harness_start"},
		{"a call is discarded with its result", []string{`{"type":"tool_call","id":"k","runId":"r"}`, `{"type":"tool_result","id":"k","runId":"r"}`, `{"type":"discard","runId":"r","ids":["k"]}`},
			""},
		{"a stored block stands where it was stored", []string{start, partial("r", "t", "a"), `{"type":"reasoning","id":"w","runId":"r","content":"hm","partial":true}`,
			`{"type":"harness_start","runId":"s","seq":3,"parentId":"r:harness_start"}`, `{"type":"reasoning","id":"w","runId":"r","content":"hmm","seq":4}`, `{"type":"text","id":"t","runId":"r","content":"ab","seq":5}`},
			"r:harness_start s:harness_start w=hmm t=ab r:harness_start>s:harness_start r:harness_start>w w>t"},
		{"so does the first one of a run, with what hangs on it", []string{partial("r", "t", "a"), `{"type":"harness_start","runId":"s","seq":1,"parentId":"t"}`,
			`{"type":"usage","runId":"r","seq":2}`, `{"type":"text","id":"t","runId":"r","content":"ab","seq":3}`},
			"s:harness_start r:usage:1 t=ab r:usage:1>t t>s:harness_start"},
		{"without a seq, or if nothing whole came since, a complete block stays", []string{partial("r", "t", "a"), partial("s", "w", "x"), `{"type":"text","id":"t","runId":"r","content":"ab","seq":1}`,
			`{"type":"usage","runId":"s"}`, text("s", "w", "xy")},
			"t=ab w=xy s:usage:1 w>s:usage:1"},
		{"a stored end drops the blocks that were not stored", []string{start, partial("r", "t", "a"), `{"type":"tool_call","id":"k","runId":"r","seq":2}`, partial("r", "w", "b"),
			partial("s", "x", "c"), `{"type":"harness_end","runId":"s"}`, `{"type":"harness_end","runId":"r","seq":3}`},
			"r:harness_start k x=c s:harness_end r:harness_end r:harness_start>k k>r:harness_end x>s:harness_end"},
		{"so does one who takes the run over", []string{start, partial("r", "t", "a"), `{"type":"tool_call","id":"k","runId":"r","seq":2}`, partial("r", "w", "b"), partial("s", "x", "c"),
			`{"type":"notice","runId":"r","code":"other","seq":3}`, `{"type":"notice","runId":"s","code":"taken_over"}`, `{"type":"notice","runId":"r","code":"taken_over","seq":4}`,
			`{"type":"text","id":"v","runId":"r","content":"a","partial":true}`},
			"r:harness_start k x=c v=a r:harness_start>k k>v"},
		{"without an id the run and the type stand in", []string{`{"type":"text","runId":"r","content":"a"}`, `{"type":"text","runId":"r","content":"b"}`, `{"type":"tool_result","runId":"r"}`},
			"r:text=ab r:tool_result r:text>r:tool_result"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, drawn(fold(t, c.events...))) })
	}
}

func TestLastNodeByRun(t *testing.T) {
	g := fold(t, start, text("r", "a", "x"), text("s", "b", "y"), text("r", "a", "z"))
	require.JSONEq(t, `{"r":"a","s":"b"}`, string(lookup(members(t, g), "lastNodeByRunId")))
	g = fold(t, start, text("r", "a", "x"), text("s", "b", "y"), `{"type":"discard","runId":"r","ids":["a"]}`, `{"type":"discard","runId":"s","ids":["b"]}`)
	require.JSONEq(t, `{"r":"r:harness_start"}`, string(lookup(members(t, g), "lastNodeByRunId")))
	last, ok := g.Last("r")
	require.True(t, ok)
	require.Equal(t, "r:harness_start", last.ID)
	_, ok = g.Last("s")
	require.False(t, ok)
}

func members(t testing.TB, g *Graph) []field {
	t.Helper()
	return must.Get(object([]byte(asJSON(t, g))))
}

// TestFieldsStayAsReceived: what was null, empty or absent stays so; what is no
// part of the payload is not kept.
func TestFieldsStayAsReceived(t *testing.T) {
	for event, want := range map[string]string{
		`{"type":"tool_call","id":"k","runId":"r","input":null,"name":"","foo":1}`:                                                `{"id":"k","runId":"r","kind":"tool_call","name":"","input":null}`,
		`{"type":"tool_call","id":"k","runId":"r","input":{}}`:                                                                    `{"id":"k","runId":"r","kind":"tool_call","input":{}}`,
		`{"type":"tool_call","id":"k","runId":"r"}`:                                                                               `{"id":"k","runId":"r","kind":"tool_call"}`,
		`{"type":"tool_result","id":"k","runId":"r","output":"","isError":false}`:                                                 `{"id":"k:result","runId":"r","kind":"tool_result","output":"","isError":false}`,
		`{"type":"user","runId":"r","content":[{"type":"image_url","image_url":{ "url":"x"}}],"id":7}`:                            `{"id":"r:user","runId":"r","kind":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}`,
		`{"type":"text","id":"k","runId":"r"}`:                                                                                    `{"id":"k","runId":"r","kind":"text"}`,
		`{"type":"text","id":"k","runId":"r","content":null}`:                                                                     `{"id":"k","runId":"r","kind":"text","content":null}`,
		`{"type":"usage","runId":"r","inputTokens":0}`:                                                                            `{"id":"r:usage:1","runId":"r","kind":"usage","inputTokens":0}`,
		`{"type":"relay","kind":"permission","id":"q","runId":"r","state":"x","params":{"a":1e400}}`:                              `{"id":"q","runId":"r","kind":"relay","relayKind":"permission","params":{"a":1e400}}`,
		`{"type":"error","runId":"r","message":"a","message":"b","agent":"x","path":"y/x","seq":3,"time":"2026-01-02T03:04:05Z"}`: `{"id":"r:error","runId":"r","kind":"error","message":"b","agent":"x","path":"y/x","seq":3,"time":"2026-01-02T03:04:05Z"}`,
	} {
		g := fold(t, event)
		for n := range g.Nodes() {
			raw := must.Get(n.MarshalJSON())
			require.Equal(t, want, string(raw), event)
		}
		require.Equal(t, 1, g.Len())
	}
	g := fold(t, `{"type":"text","id":"k","runId":"r","content":null}`, text("r", "k", "a"), text("r", "k", "\"b\n"))
	n, _ := g.Node("k")
	require.Equal(t, `{"id":"k","runId":"r","kind":"text","content":"a\"b\n"}`, asJSON(t, n))
}

func TestRelayResolved(t *testing.T) {
	relay := `{"type":"relay","kind":"permission","id":"q","runId":"r","toolCallId":"k","tool":"x","params":{}}`
	g := fold(t, relay)
	n, _ := g.Node("q")
	require.Empty(t, n.State())
	require.NotContains(t, asJSON(t, n), "state")

	approved := fold(t, relay, `{"type":"relay_resolved","runId":"r","relayId":"q","approved":true}`, relay)
	n, _ = approved.Node("q")
	require.Contains(t, asJSON(t, n), `"state":"approved"`)
	require.Equal(t, 1, approved.Len())

	denied := fold(t, relay, `{"type":"relay_resolved","runId":"later","relayId":"q","approved":false}`)
	n, _ = denied.Node("q")
	require.Equal(t, "denied", n.State())

	same := must.Get(g.ReduceJSON([]byte(`{"type":"relay_resolved","runId":"r","relayId":"nothing","approved":true}`)))
	require.Same(t, g, same)
}

// TestTypedAndJSONAreEqual: an event of the program makes the same node as its
// JSON form.
func TestTypedAndJSONAreEqual(t *testing.T) {
	events := []*event.Event{
		{Seq: 1, ID: "1", RunID: "u", Agent: "user", Data: &event.User{Content: llm.Content{Text: "<hi>"}, Metadata: map[string]any{"a": 1}}},
		{Seq: 1, ID: "2", RunID: "r", ParentID: "u:user", Agent: "a", Path: "b/a", Data: &event.HarnessStart{AgentID: "a"}},
		{RunID: "r", ID: "t", Partial: true, Data: &event.Text{Content: "one "}},
		{RunID: "r", ID: "t", Partial: true, Data: &event.Text{Content: "two é\n"}},
		{Seq: 2, RunID: "r", ID: "t", Data: &event.Text{Content: "one two é\n"}},
		{RunID: "r", ID: "s", Partial: true, Data: &event.Reasoning{Content: "hm"}},
		{Seq: 3, RunID: "r", ID: "s", Data: &event.Reasoning{Content: "hmm"}},
		{Seq: 4, ID: "k", RunID: "r", Data: &event.ToolCall{Name: "x", Input: json.RawMessage(`{"a":1}`)}},
		{Seq: 5, ID: "p", RunID: "r", Data: &event.ToolProgress{ToolCallID: "k", Name: "x", Content: json.RawMessage(`50`)}},
		{Seq: 6, ID: "q", RunID: "r", Data: &event.Relay{Kind: "permission", ToolCallID: "k", Tool: "x", Params: json.RawMessage(`{}`)}},
		{Seq: 7, ID: "7", RunID: "r", Data: &event.RelayResolved{RelayID: "q", Approved: true}},
		{Seq: 8, ID: "k", RunID: "r", Data: &event.ToolResult{Name: "x", Output: json.RawMessage(`null`), IsError: true}},
		{Seq: 9, ID: "9", RunID: "r", Data: &event.Usage{InputTokens: 1, Model: "m"}},
		{Seq: 10, ID: "10", RunID: "r", Data: &event.Failure{Code: "c", Message: "m"}},
		{Seq: 11, ID: "11", RunID: "r", Data: &event.Discard{IDs: []string{"s"}}},
		{Seq: 12, ID: "12", RunID: "r", Data: &event.HarnessEnd{AgentID: "a", FinishReason: event.FinishReasonStop}},
		{Seq: 13, ID: "13", RunID: "r", Data: &event.Unknown{Type: "new"}},
	}
	typed, raw := New(), New()
	for _, e := range events {
		line := must.Get(json.Marshal(e))
		typed = typed.Reduce(e)
		raw = must.Get(raw.ReduceJSON(line))
	}
	require.JSONEq(t, asJSON(t, typed), asJSON(t, raw))
	require.Equal(t, 10, typed.Len())
	for n := range typed.Nodes() {
		other, ok := raw.Node(n.ID)
		require.True(t, ok)
		if n.Kind != event.TypeUser { // whose metadata hold numbers
			require.Equal(t, n.Data(), other.Data(), n.ID)
		}
	}
	require.Same(t, typed, typed.Reduce(nil))
	require.Same(t, typed, typed.Reduce(&event.Event{RunID: "r"}))
}

func TestWrongTypes(t *testing.T) {
	g := fold(t, `{"type":"user","runId":"u","content":5}`, `{"type":"tool_call","id":"k","runId":"r","name":7,"input":[1]}`, `{"type":"usage","runId":"r","inputTokens":"x","outputTokens":3}`)
	n, _ := g.Node("u:user")
	require.Equal(t, &event.User{Content: llm.Content{Text: "5"}}, n.Data())
	n, _ = g.Node("k")
	require.Equal(t, &event.ToolCall{Input: json.RawMessage(`[1]`)}, n.Data())
	n, _ = g.Node("r:usage:1")
	require.Equal(t, &event.Usage{OutputTokens: 3}, n.Data())
	for _, bad := range []string{"", "null", "[]", `{"type":`, `{} {}`, `"x"`} {
		same, err := g.ReduceJSON([]byte(bad))
		require.Error(t, err, bad)
		require.Same(t, g, same)
	}
}

// TestDeepEvents: an event that is nested deeper than a stored one can be makes no node,
// however deep it is, and the rest of the stream makes the graph.
func TestDeepEvents(t *testing.T) {
	deep := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for _, levels := range []int{event.MaxDepth, event.MaxDepth + 2, 9_999, 10_000, 100_000} {
		g := fold(t, `{"type":"tool_call","runId":"r","id":"c","name":"x","input":{}}`,
			`{"type":"tool_result","runId":"r","id":"c","name":"x","output":`+deep(levels)+`}`,
			`{"type":"text","runId":"r","id":"t","content":"Done."}`)
		want := 2
		if levels <= event.MaxDepth {
			want = 3
		}
		require.Equal(t, want, g.Len(), "%d levels", levels)
		requireSound(t, g)
	}
	g := New().Reduce(event.Decode(7, []byte(`{"seq":7,"id":"t","runId":"r","type":"text","content":`)))
	require.Zero(t, g.Len())
}
