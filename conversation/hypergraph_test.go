package conversation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHypergraph(t *testing.T) {
	g := New()
	for _, l := range lines(t, "01-seed-list-files") {
		g = must.Get(g.ReduceJSON(l))
	}
	all := ids(slices.Collect(g.Nodes()))
	require.Len(t, all, 10)
	require.Equal(t, Hypergraph{Chunks: all, Blocks: []string{"block:user-1", "block:agent-1"}, Messages: []string{"message:user-1", "message:agent-1"},
		Edges: []Hyperedge{{ChunkToBlock, all[:1], "block:user-1"}, {ChunkToBlock, all[1:], "block:agent-1"},
			{BlockToMessage, []string{"block:user-1"}, "message:user-1"}, {BlockToMessage, []string{"block:agent-1"}, "message:agent-1"},
			{ParentMessage, []string{"message:agent-1"}, "message:user-1"}}}, g.Hypergraph())
	require.Equal(t, Hypergraph{Chunks: []string{}, Blocks: []string{}, Messages: []string{}, Edges: []Hyperedge{}}, New().Hypergraph())
}

// turns writes the messages of a hypergraph, one "a1 = a1 b1 → u1" each: the
// message, its blocks, and the message that it replies to.
func turns(h Hypergraph) []string {
	blocks, replies := map[string]string{}, map[string]string{}
	for _, e := range h.Edges {
		switch e.Kind {
		case BlockToMessage:
			for _, block := range e.From {
				blocks[e.To] += " " + strings.TrimPrefix(block, "block:")
			}
		case ParentMessage:
			replies[e.From[0]] = " → " + strings.TrimPrefix(e.To, "message:")
		}
	}
	var all []string
	for _, m := range h.Messages {
		all = append(all, strings.TrimPrefix(m, "message:")+" ="+blocks[m]+replies[m])
	}
	return all
}

func user(run, parent string) string {
	return fmt.Sprintf(`{"type":"user","runId":%q,"parentId":%q,"content":"Hello"}`, run, parent)
}

func begin(run, agent, parent string) string {
	return fmt.Sprintf(`{"type":"harness_start","runId":%q,"parentId":%q,"agentId":%q,"agent":%q}`, run, parent, agent, agent)
}

func call(run, id string) string {
	return fmt.Sprintf(`{"type":"tool_call","id":%q,"runId":%q,"name":"ask","input":{}}`, id, run)
}

func result(run, id string) string {
	return fmt.Sprintf(`{"type":"tool_result","id":%q,"runId":%q,"name":"ask","output":"x"}`, id, run)
}

func finish(run string) string { return fmt.Sprintf(`{"type":"harness_end","runId":%q}`, run) }

func failure(run string) string {
	return fmt.Sprintf(`{"type":"error","runId":%q,"message":"no"}`, run)
}

// TestMessagesAreTurns shows case by case which runs are one message.
func TestMessagesAreTurns(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []string
		want   []string
	}{
		{"a question and its answer, twice", []string{user("u1", ""), begin("a1", "a", "u1:user"), finish("a1"), user("u2", "a1:harness_end"), begin("a2", "a", "u2:user"), finish("a2")},
			[]string{"u1 = u1", "a1 = a1 → u1", "u2 = u2 → a1", "a2 = a2 → u2"}},
		{"a transfer there and back", []string{user("u", ""), begin("a", "a", "u:user"), finish("a"), begin("b", "b", "a:harness_end"), finish("b"), begin("a2", "a", "b:harness_end"), finish("a2"),
			user("v", "a2:harness_end")}, []string{"u = u", "a = a b a2 → u", "v = v → a"}},
		{"a transfer that a client sees before the first agent's end", []string{user("u", ""), begin("a", "a", "u:user"), begin("b", "b", "a"), finish("a"), finish("b")},
			[]string{"u = u", "a = a b → u"}},
		{"agents as tools, two levels deep", []string{user("u", ""), begin("a", "a", "u:user"), call("a", "k"), begin("b", "b", "k"), call("b", "m"), begin("c", "c", "m"), finish("c"), result("b", "m"),
			finish("b"), result("a", "k"), finish("a")}, []string{"u = u", "a = a b c → u"}},
		{"a transfer inside of a call", []string{user("u", ""), begin("a", "a", "u:user"), call("a", "k"), begin("b", "b", "k"), finish("b"), begin("c", "c", "b:harness_end"), finish("c"), result("a", "k"), finish("a")},
			[]string{"u = u", "a = a b c → u"}},
		{"branches of a workflow, side by side", []string{user("u", ""), begin("w", "w", "u:user"), begin("x", "x", "w:harness_start"), begin("y", "y", "w:harness_start"), text("x", "t1", "1"),
			text("y", "t2", "2"), finish("y"), finish("x"), finish("w"), user("v", "w:harness_end")}, []string{"u = u", "w = w x y → u", "v = v → w"}},
		{"nodes of a graph, one after the other", []string{user("u", ""), begin("g", "g", "u:user"), begin("n1", "n1", "g:harness_start"), finish("n1"), begin("n2", "n2", "n1:harness_end"), finish("n2"), finish("g")},
			[]string{"u = u", "g = g n1 n2 → u"}},
		{"a run that failed, and one that tries again", []string{user("u", ""), begin("a", "a", "u:user"), failure("a"), begin("b", "a", "a:error"), finish("b")}, []string{"u = u", "a = a b → u"}},
		{"a run that failed, and the user's next message", []string{user("u", ""), begin("a", "a", "u:user"), failure("a"), user("v", "a:error"), begin("b", "a", "v:user")},
			[]string{"u = u", "a = a → u", "v = v → a", "b = b → v"}},
		{"a run that waits, and another one that resumes it", []string{user("u", ""), begin("a", "a", "u:user"), call("a", "k"), text("a", "t", "x"), begin("b", "a", "t"), result("b", "k"), finish("b")},
			[]string{"u = u", "a = a b → u"}},
		{"an answer that is made again", []string{user("u", ""), begin("a", "a", "u:user"), finish("a"), begin("b", "a", "u:user"), finish("b"), user("v", "a:harness_end")},
			[]string{"u = u", "a = a → u", "b = b → u", "v = v → a"}},
		{"an answer of which a fork makes the second half again", []string{user("u", ""), begin("a", "a", "u:user"), finish("a"), begin("b", "b", "a:harness_end"), finish("b"), begin("b2", "b", "a:harness_end"),
			finish("b2"), user("v", "b:harness_end"), user("v2", "b2:harness_end")}, []string{"u = u", "a = a b b2 → u", "v = v → a", "v2 = v2 → a"}},
		{"a message that is edited", []string{user("u", ""), begin("a", "a", "u:user"), finish("a"), user("v", "a:harness_end"), user("v2", "a:harness_end"), begin("b", "a", "v2:user")},
			[]string{"u = u", "a = a → u", "v = v → a", "v2 = v2 → a", "b = b → v2"}},
		{"a message without an answer, and the next one", []string{user("u", ""), user("v", "u:user"), begin("a", "a", "v:user")}, []string{"u = u", "v = v → u", "a = a → v"}},
		{"an agent that speaks first", []string{begin("a", "a", ""), finish("a"), begin("b", "b", "a:harness_end"), finish("b"), user("u", "b:harness_end")}, []string{"a = a b", "u = u → a"}},
		{"a user who interrupts", []string{user("u", ""), begin("a", "a", "u:user"), call("a", "k"), user("v", "k"), begin("b", "a", "v:user"), result("a", "k"), finish("a")},
			[]string{"u = u", "a = a → u", "v = v → a", "b = b → v"}},
		{"two conversations that mix in time", []string{user("u", ""), user("v", ""), begin("a", "a", "u:user"), begin("b", "b", "v:user"), text("a", "t1", "1"), text("b", "t2", "2"), begin("c", "c", "a"),
			finish("b"), finish("c")}, []string{"u = u", "v = v", "a = a c → u", "b = b → v"}},
		{"a parent that comes later", []string{begin("b", "b", "a:harness_end"), finish("b"), begin("a", "a", "u:user"), finish("a"), user("u", "")}, []string{"a = b a → u", "u = u"}},
		{"a parent that does not come", []string{begin("b", "b", "a:harness_end"), finish("b"), user("u", "b:harness_end")}, []string{"b = b", "u = u → b"}},
	} {
		require.Equal(t, c.want, turns(fold(t, c.events...).Hypergraph()), c.name)
	}
}

// TestHypergraphOfAPath: what is on the path, with the sub-agents inside of it.
func TestHypergraphOfAPath(t *testing.T) {
	g := fold(t, twoAnswers...)
	h := HypergraphOf(g, Active{})
	require.Equal(t, []string{"u1:user", "b1:harness_start", "t3", "b1:harness_end"}, h.Chunks)
	require.Equal(t, []string{"u1 = u1", "b1 = b1 → u1"}, turns(h))
	require.Equal(t, []string{"u1 = u1", "a1 = a1 → u1", "u2 = u2 → a1", "a2 = a2 → u2", "b1 = b1 → u1"}, turns(g.Hypergraph()))

	a := must.Get(Active{}.Switch(g, "t2"))
	a = must.Get(a.Collapse(g, "k"))
	a = must.Get(a.Summarize(g, "t1", "They greeted each other."))
	h = HypergraphOf(g, a)
	require.Equal(t, Hypergraph{Chunks: []string{"u2:user", "t2"}, Blocks: []string{"block:u2", "block:a2"}, Messages: []string{"message:u2", "message:a2"},
		Edges: []Hyperedge{{ChunkToBlock, []string{"u2:user"}, "block:u2"}, {ChunkToBlock, []string{"t2"}, "block:a2"},
			{BlockToMessage, []string{"block:u2"}, "message:u2"}, {BlockToMessage, []string{"block:a2"}, "message:a2"},
			{ParentMessage, []string{"message:a2"}, "message:u2"}}}, h)

	g = subagent(t)
	require.Equal(t, g.Hypergraph(), HypergraphOf(g, Active{}), "without branches it is all of it")
}

// joins returns what each part is joined to, by the kind of hyperedge. It requires
// that there is one only.
func joins(t require.TestingT, h Hypergraph) map[HyperedgeKind]map[string]string {
	in := map[HyperedgeKind]map[string]string{ChunkToBlock: {}, BlockToMessage: {}, ParentMessage: {}}
	for _, e := range h.Edges {
		require.NotEmpty(t, e.From)
		for _, part := range e.From {
			require.NotContains(t, in[e.Kind], part)
			in[e.Kind][part] = e.To
		}
	}
	return in
}

// requireTiers checks what holds for every hypergraph: every chunk is in one block,
// which is its run, and every block in one message; a message has one parent at
// most, and never itself above it.
func requireTiers(t require.TestingT, g *Graph, h Hypergraph) {
	in := joins(t, h)
	require.Len(t, in[ChunkToBlock], len(h.Chunks))
	for _, chunk := range h.Chunks {
		n, ok := g.Node(chunk)
		require.True(t, ok)
		require.Equal(t, "block:"+n.RunID, in[ChunkToBlock][chunk])
		require.Contains(t, h.Blocks, in[ChunkToBlock][chunk])
	}
	require.Len(t, in[BlockToMessage], len(h.Blocks))
	for _, block := range h.Blocks {
		require.Contains(t, h.Messages, in[BlockToMessage][block])
	}
	for _, message := range h.Messages {
		above, n := message, 0
		for ; above != ""; above = in[ParentMessage][above] {
			require.Contains(t, h.Messages, above)
			require.LessOrEqual(t, n, len(h.Messages), "a circle above %s", message)
			n++
		}
	}
}

// TestHypergraphIsSound: every graph has sound tiers, and a path has a part of
// them.
func TestHypergraphIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, a := anyPath(t, anyGraph(t))
		whole, part := g.Hypergraph(), HypergraphOf(g, a)
		require.Len(t, whole.Chunks, g.Len())
		requireTiers(t, g, whole)
		requireTiers(t, g, part)
		all := joins(t, whole)
		for kind, joined := range joins(t, part) {
			for from, to := range joined {
				require.Equal(t, to, all[kind][from])
			}
		}
	})
}

// TestThreadIsInMessages: a thread has the parts of a message one after the other,
// and what is inside of one is in the same message, until the user follows there.
func TestThreadIsInMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, a := anyPath(t, anyGraph(t))
		in := joins(t, g.Hypergraph())
		for todo := [][]ViewNode{Thread(g, a, ThreadOptions{})}; len(todo) > 0; todo = todo[1:] {
			var order []string
			for _, v := range todo[0] {
				if len(order) == 0 || order[len(order)-1] != v.MessageID {
					require.NotContains(t, order, v.MessageID, "in two places")
					order = append(order, v.MessageID)
				}
				require.Equal(t, in[BlockToMessage]["block:"+v.RunID], v.MessageID)
				inner := slices.Clone(v.Branches)
				for _, c := range v.ToolCalls {
					inner = append(inner, c.Branches...)
				}
				for _, branch := range inner {
					if len(branch) > 0 && branch[0].Role != RoleUser {
						require.Equal(t, v.MessageID, branch[0].MessageID)
					}
				}
				todo = append(todo, inner...)
			}
		}
	})
}

// TestHypergraphGrows: what was joined once stays joined while the graph grows.
func TestHypergraphGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New()
		before := g.Hypergraph()
		for _, line := range branchedEvents(t) {
			g = must.Get(g.ReduceJSON([]byte(line)))
			h := g.Hypergraph()
			requireTiers(t, g, h)
			require.Subset(t, h.Blocks, before.Blocks)
			require.Subset(t, h.Messages, before.Messages)
			now := joins(t, h)
			for kind, joined := range joins(t, before) {
				for from, to := range joined {
					if kind != ChunkToBlock || slices.Contains(h.Chunks, from) { // the end of a run discards what is not whole
						require.Equal(t, to, now[kind][from])
					}
				}
			}
			before = h
		}
	})
}
