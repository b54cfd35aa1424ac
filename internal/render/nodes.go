package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/visible"
)

// GraphOf returns the graph that an agent runs, or nil.
func GraphOf(a agent.Agent) *agentgraph.Graph {
	if g, ok := agent.As[interface{ Graph() *agentgraph.Graph }](a); ok {
		return g.Graph()
	}
	return nil
}

// drawNodes lists the nodes of a graph in a possible order of execution, each with the targets of its edges.
func drawNodes(w io.Writer, g *agentgraph.Graph, l Terminal, indent string) {
	out := make(map[string][]agentgraph.Edge, len(g.Nodes))
	for _, e := range g.Edges {
		out[e.From] = append(out[e.From], e)
	}
	for i, n := range topologicalOrder(g) {
		line := indent + visible.Line(n.ID)
		if runs := n.Runs(); runs != "" && runs != n.ID {
			line += l.Paint(faint, " ("+visible.Line(runs)+")")
		}
		plain := !slices.ContainsFunc(out[n.ID], func(e agentgraph.Edge) bool { return edgeText(e) != "" })
		if plain && len(out[n.ID]) > 0 {
			targets := make([]string, len(out[n.ID]))
			for i, e := range out[n.ID] {
				targets[i] = visible.Line(e.To)
			}
			line += " → " + strings.Join(targets, ", ")
		}
		notes := nodeText(g, n)
		if i > 0 && n.ID == g.Entrypoint { // otherwise the first line is the entrypoint
			notes = strings.TrimSuffix("first; "+notes, "; ")
		}
		if notes != "" {
			line += l.Paint(faint, "  "+notes)
		}
		fmt.Fprintln(w, line)
		if !plain {
			for _, e := range out[n.ID] {
				line := indent + "  → " + visible.Line(e.To)
				if text := edgeText(e); text != "" {
					line += l.Paint(faint, "  "+text)
				}
				fmt.Fprintln(w, line)
			}
		}
		if n.Graph != nil {
			drawNodes(w, n.Graph, l, indent+"    ")
		}
	}
}

// topologicalOrder returns the nodes of a graph: sources before targets, and otherwise in the order of the file.
func topologicalOrder(g *agentgraph.Graph) []agentgraph.Node {
	index := make(map[string]int, len(g.Nodes))
	for i, n := range g.Nodes {
		index[n.ID] = i
	}
	sources, targets := make([]int, len(g.Nodes)), make([][]int, len(g.Nodes))
	for _, e := range g.Edges {
		sources[index[e.To]]++
		targets[index[e.From]] = append(targets[index[e.From]], index[e.To])
	}
	var order []agentgraph.Node
	var place func(i int)
	done := make([]bool, len(g.Nodes))
	place = func(i int) {
		done[i] = true
		order = append(order, g.Nodes[i])
		for _, t := range targets[i] {
			if sources[t]--; sources[t] == 0 {
				place(t)
			}
		}
	}
	for i := range g.Nodes {
		if sources[i] == 0 && !done[i] {
			place(i)
		}
	}
	return order
}

// nodeText describes the special settings of a node.
func nodeText(g *agentgraph.Graph, n agentgraph.Node) string {
	var notes []string
	if n.ID == g.OnError.Fallback {
		notes = append(notes, "after an error")
	}
	if n.Human != nil {
		notes = append(notes, "waits for an approval")
	}
	if n.Loop != nil {
		text := fmt.Sprintf("at most %s", Count(n.Loop.Max, "time"))
		if n.Loop.Until != nil {
			text = "until " + visible.Line(n.Loop.Until.Source()) + ", " + text
		}
		if n.Loop.Fail {
			text += ", or it fails"
		}
		notes = append(notes, text)
	}
	if n.Transform != nil {
		notes = append(notes, "gives "+visible.Line(n.Transform.Source()))
	}
	if n.Next != nil {
		notes = append(notes, "goes to "+visible.Line(n.Next.Source()))
	}
	return strings.Join(notes, "; ")
}

// edgeText describes when an edge is taken and which value it passes on. "" means always, with the output itself.
func edgeText(e agentgraph.Edge) string {
	var notes []string
	if e.Condition != nil {
		notes = append(notes, "if "+visible.Line(e.Condition.Source()))
	}
	if e.Priority > 0 {
		notes = append(notes, fmt.Sprintf("priority %d", e.Priority))
	}
	if e.Transform != nil {
		notes = append(notes, "with "+visible.Line(e.Transform.Source()))
	}
	return strings.Join(notes, "; ")
}

// jsonGraph is a graph in tree --format json.
type jsonGraph struct {
	Entrypoint string          `json:"entrypoint"`
	Fallback   string          `json:"fallbackAgent,omitempty"`
	Nodes      []jsonGraphNode `json:"nodes"`
	Edges      []jsonGraphEdge `json:"edges"`
}

type jsonGraphNode struct {
	ID       string `json:"id"`
	AgentRef string `json:"agentRef,omitempty"`
	Tool     string `json:"tool,omitempty"`
	ToolsOf  string `json:"toolsOf,omitempty"`
	*jsonGraph
}

type jsonGraphEdge struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Condition string `json:"condition,omitempty"`
	Transform string `json:"transform,omitempty"`
	Priority  int    `json:"priority,omitempty"`
}

func graphJSON(g *agentgraph.Graph) *jsonGraph {
	j := &jsonGraph{Entrypoint: g.Entrypoint, Fallback: g.OnError.Fallback, Nodes: []jsonGraphNode{}, Edges: []jsonGraphEdge{}}
	for _, n := range g.Nodes {
		node := jsonGraphNode{ID: n.ID, AgentRef: n.Ref, Tool: n.Tool, ToolsOf: n.ToolsOf}
		if n.Ref == agentgraph.ToolRef(n.Tool) {
			node.AgentRef = ""
		}
		if n.Graph != nil {
			node.jsonGraph = graphJSON(n.Graph)
		}
		j.Nodes = append(j.Nodes, node)
	}
	for _, e := range g.Edges {
		edge := jsonGraphEdge{From: e.From, To: e.To, Priority: e.Priority}
		if e.Condition != nil {
			edge.Condition = e.Condition.Source()
		}
		if e.Transform != nil {
			edge.Transform = e.Transform.Source()
		}
		j.Edges = append(j.Edges, edge)
	}
	return j
}
