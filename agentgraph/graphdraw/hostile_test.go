package graphdraw

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agentgraph"
)

// nasty are texts that mean something to one of the three languages, or look odd.
var nasty = []string{
	"end", "subgraph", "graph TD", "click", "default", "style a:#b;", "classDef x:#y;", "linkStyle", "node", "strict digraph", "o", "x",
	`"`, `\"`, `\`, `\\`, `a\`, `\N \G \l`, `'`, "`", "`a`", "``` x", "|", "a|b", "[x]", "(x)", "{x}", "((x))", "[[x]]", "]]>", "<![CDATA[x]]>", "-->", "-- x -->", "--o", "==>", "-.->",
	"#", "#35;", "#quot;", "#amp;quot;", "&", "&amp;", "&lt;b&gt;", "&#60;", "&nosuch;", ";", "a;b", "%%", "%%{init: {}}%%", "%% x", "---", "--- x", "***", "===", "+", "+ x", "- x", "* x", "1. x", "1) x", "12.", "1.5",
	"# x", "> x", "<", ">", "<b>x</b>", "<br>", "<br/>", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</svg>", "</title>", "<!-- x -->", "*x*", "**x**", "_x_", "__x__", "a_b_c", "_", "~~x~~", "~x~", "[x](y)", "![x](y)", "[^1]", "www.example.com", "WWW.example.com",
	"https://example.com/a?b=c&d=e#f", "a@b.example", "mailto:a@b.example", "$$x^2$$", "$x$", "fa:fa-car", "fab:fa-x", ":::x", "@{ shape: x }", "x@{ a: b }", "a\nb", "a\r\nb", "a\tb", "\n", " ", "  a  ", "a\x00b", "\x1b[31mred", "\x7f", "\u0085", "a\u2028b", "\ufffd", "\ufffe", "\uffff", "\ue000",
	"\xff\xfe", "é", "e\u0301", "ß¶ﬂ°°35¶ß", "ﬂ°quot¶ß", "日本語のノード", "한국어", "🎉🎉", "👩‍👩‍👧‍👦", "שלום עולם", "مرحبا بالعالم", "\u202eabc", "a\u2066b\u2069", "a\u200fb", "﷽", "𒐫", "a" + strings.Repeat("\u0301", 300), "ΑΒΓ", "Щука",
	strings.Repeat("x", 5000), strings.Repeat("界", 3000), strings.Repeat(" ", 3000) + "x", "a" + strings.Repeat(" ", 3000) + "b", strings.Repeat(`"`, 100), strings.Repeat("<", 100), strings.Repeat("W", 100), "output.x > 1 && output.y < 2 || true",
	"n0", "input", "error", "n0_input", "constructor", "__proto__", "toString", "hasOwnProperty",
}

// graphOf is a file whose one edge has a transform.
func graphOf(transform string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"apiVersion": "ossa.ai/v0.2.7", "kind": "AgentGraph", "metadata": map[string]any{"name": "g", "version": "1.0.0"},
		"spec": map[string]any{
			"agents":     []any{map[string]any{"id": "a", "agentRef": "x"}, map[string]any{"id": "b", "agentRef": "x"}},
			"edges":      []any{map[string]any{"from": "a", "to": "b", "transform": transform}},
			"entrypoint": "a",
		},
	})
}

// hostile is a graph with all the nasty texts, as names, as expressions, in loops and
// in graphs within the graph.
func hostile(t testing.TB) *agentgraph.Graph {
	var literals []string
	for _, s := range nasty {
		if len(s) < 1000 {
			literals = append(literals, strconv.Quote(strings.ToValidUTF8(s, "?")))
		}
	}
	e := expressions(t, literals...)
	g := &agentgraph.Graph{Name: "</title>\" \\", Version: "\x00&", Entrypoint: "entry"}
	g.Nodes = []agentgraph.Node{{ID: "entry"}}
	for i, s := range nasty {
		n := agentgraph.Node{ID: s, Ref: nasty[len(nasty)-1-i]}
		switch i % 9 {
		case 3:
			n.Loop = &agentgraph.Loop{Until: e[i%len(e)], Max: i}
		case 5:
			n.Graph = &agentgraph.Graph{Name: s, Entrypoint: s, Nodes: []agentgraph.Node{{ID: s, Ref: s, Next: e[i%len(e)]}}, OnError: agentgraph.ErrorHandling{Fallback: s}}
		case 7:
			n.Human = &agentgraph.Approval{Ask: s}
		}
		g.Nodes = append(g.Nodes, n)
		g.Edges = append(g.Edges, agentgraph.Edge{From: g.Nodes[i/4].ID, To: s, Condition: e[i%len(e)], Transform: e[(i+7)%len(e)]})
	}
	return g
}

// randomGraph is a graph without a circle, with names and expressions of the pool.
func randomGraph(pool []*agentgraph.Expression, depth int) *rapid.Generator[*agentgraph.Graph] {
	return rapid.Custom(func(t *rapid.T) *agentgraph.Graph {
		text := rapid.OneOf(rapid.SampledFrom(nasty), rapid.String(), rapid.StringMatching(`[a-z_ .\-]{1,12}`))
		expression := func(label string) *agentgraph.Expression {
			return rapid.SampledFrom(append([]*agentgraph.Expression{nil, nil}, pool...)).Draw(t, label)
		}
		g := &agentgraph.Graph{Name: text.Draw(t, "name"), Version: "1.0.0"}
		seen := map[string]bool{}
		for i := range rapid.IntRange(1, 9).Draw(t, "nodes") {
			n := agentgraph.Node{ID: text.Draw(t, "id"), Ref: text.Draw(t, "ref"), Next: expression("next")}
			if seen[n.ID] {
				n.ID = fmt.Sprint(n.ID, i)
			}
			seen[n.ID] = true
			if depth > 0 && rapid.IntRange(0, 3).Draw(t, "graph") == 0 {
				n.Graph, n.Ref = randomGraph(pool, depth-1).Draw(t, "inner"), ""
			}
			if rapid.Bool().Draw(t, "loop") {
				n.Loop = &agentgraph.Loop{Until: pool[0], Max: 1 + i}
			}
			if rapid.Bool().Draw(t, "human") {
				n.Human = &agentgraph.Approval{Ask: text.Draw(t, "ask")}
			}
			g.Nodes = append(g.Nodes, n)
		}
		id := func(label string, low, high int) string {
			return g.Nodes[rapid.IntRange(low, high).Draw(t, label)].ID
		}
		for range rapid.IntRange(0, 15).Draw(t, "edges") {
			to := rapid.IntRange(0, len(g.Nodes)-1).Draw(t, "to")
			if to > 0 {
				g.Edges = append(g.Edges, agentgraph.Edge{From: id("from", 0, to-1), To: g.Nodes[to].ID,
					Condition: expression("condition"), Transform: expression("transform"), Priority: rapid.IntRange(0, 2).Draw(t, "priority")})
			}
		}
		g.Entrypoint = id("entrypoint", 0, len(g.Nodes)-1)
		if rapid.Bool().Draw(t, "has a fallback") {
			g.OnError.Fallback = id("fallback", 0, len(g.Nodes)-1)
		}
		return g
	})
}

func pool(t testing.TB) []*agentgraph.Expression {
	return expressions(t, "output.x == 'a'", `{"a": output.b, "c": [1, 2]}`, `"<b>#35;|\"]]>"`, `"\n\t\\"`, `output.a > 1 && output.b < 2`, "output."+strings.Repeat("x", 200), `"界界 שלום"`)
}
