package graphdraw

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/agentgraph"
)

// MaxDepth is the maximal number of levels of graphs within graphs in a drawing.
const MaxDepth = 32

// ErrInvalid is the error for a graph that neither files nor builders can produce: an
// edge to a node that does not exist, a cycle, or graphs that contain each other.
var ErrInvalid = errors.New("graphdraw: the graph cannot be drawn")

// The texts at the starts of the edges that do not come from a node.
const (
	inputText = "input"
	errorText = "on error"
)

// The maximal lengths of shown texts, in characters.
const (
	maxName       = 36
	maxExpression = 44
	maxTip        = 200 // of a name, in a tooltip
	maxTipSource  = 2000
)

// drawing contains the texts of a graph, which are the same in all formats.
type drawing struct {
	name     string // of the graph, with its version
	nodes    []node
	edges    []edge
	entry    int
	fallback int // the index of the fallback node, or the constant none
}

const none = -1

// kindTool is the kind of nodes that run tools.
const kindTool = "tool"

type node struct {
	id    string
	kind  string
	lines []string // the id, then other properties of the node
	tip   string   // the tooltip, which also has what is too long for lines
	asks  bool     // whether a person is asked first
	inner *drawing // the graph that it runs, or nil
}

type edge struct {
	from, to int
	lines    []string // the label; empty if the edge has none
	tip      string
}

func newDrawing(g *agentgraph.Graph, depth int) (*drawing, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("%w: more than %d graphs stand within each other", ErrInvalid, MaxDepth)
	}
	d := &drawing{name: strings.TrimSpace(g.Name + " " + g.Version), entry: none, fallback: none}
	index := make(map[string]int, len(g.Nodes))
	for i, n := range g.Nodes {
		if _, ok := index[n.ID]; ok {
			return nil, fmt.Errorf("%w: two nodes have the id %q", ErrInvalid, short(n.ID, maxName))
		}
		index[n.ID] = i
		drawn, err := newNode(n, depth)
		if err != nil {
			return nil, err
		}
		d.nodes = append(d.nodes, drawn)
	}
	find := func(id string) (int, error) {
		if i, ok := index[id]; ok {
			return i, nil
		}
		return none, fmt.Errorf("%w: there is no node %q", ErrInvalid, short(id, maxName))
	}
	for _, e := range g.Edges {
		from, err := find(e.From)
		if err != nil {
			return nil, err
		}
		to, err := find(e.To)
		if err != nil {
			return nil, err
		}
		d.edges = append(d.edges, newEdge(e, from, to))
	}
	var err error
	if d.entry, err = find(g.Entrypoint); err != nil {
		return nil, err
	}
	if g.OnError.Fallback != "" {
		if d.fallback, err = find(g.OnError.Fallback); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func newNode(n agentgraph.Node, depth int) (drawn node, err error) {
	drawn.id, drawn.kind, drawn.lines = n.ID, "node", []string{short(n.ID, maxName)}
	tips := []string{"id: " + short(n.ID, maxTip)}
	if n.Tool != "" || n.ToolsOf != "" {
		drawn.kind = kindTool
	}
	if runs := n.Runs(); runs != "" {
		tips = append(tips, map[bool]string{true: "runs: ", false: "agent: "}[drawn.kind == kindTool]+short(runs, maxTip))
		if runs != n.ID {
			drawn.lines = append(drawn.lines, short(runs, maxName))
		}
	}
	if l := n.Loop; l != nil {
		if l.Until == nil {
			drawn.lines = append(drawn.lines, fmt.Sprintf("loop: %d times", l.Max))
		} else {
			most := fmt.Sprintf("at most %d times", l.Max)
			if l.Fail {
				most += ", or it fails"
			}
			drawn.lines = append(drawn.lines, "loop until "+short(l.Until.Source(), maxExpression), most)
			tips = append(tips, "loop until: "+short(l.Until.Source(), maxTipSource))
		}
	}
	if h := n.Human; h != nil {
		drawn.asks = true
		drawn.lines = append(drawn.lines, "waits for approval")
		if h.Ask != "" {
			tips = append(tips, "asks: "+short(h.Ask, maxTipSource))
		}
	}
	if n.Next != nil {
		drawn.lines = append(drawn.lines, "next: "+short(n.Next.Source(), maxExpression))
		tips = append(tips, "next: "+short(n.Next.Source(), maxTipSource))
	}
	for _, u := range n.Update {
		tip := "writes " + short(u.Key, maxTip)
		if u.Value != nil {
			tip += ": " + short(u.Value.Source(), maxTipSource)
		}
		tips = append(tips, tip)
	}
	if n.Transform != nil {
		tips = append(tips, "gives: "+short(n.Transform.Source(), maxTipSource))
	}
	if n.Timeout > 0 {
		tips = append(tips, "timeout: "+n.Timeout.String())
	}
	if n.Retry != nil {
		tips = append(tips, fmt.Sprintf("retries: %d", n.Retry.Max))
	}
	drawn.tip = strings.Join(tips, "\n")
	if n.Graph != nil {
		drawn.inner, err = newDrawing(n.Graph, depth+1)
	}
	return drawn, err
}

func newEdge(e agentgraph.Edge, from, to int) edge {
	drawn := edge{from: from, to: to}
	tips := []string{short(e.From, maxTip) + " → " + short(e.To, maxTip)}
	if e.Priority > 0 {
		drawn.lines = append(drawn.lines, fmt.Sprintf("priority %d", e.Priority))
		tips = append(tips, drawn.lines[0])
	}
	if e.Condition != nil {
		drawn.lines = append(drawn.lines, short(e.Condition.Source(), maxExpression))
		tips = append(tips, "if: "+short(e.Condition.Source(), maxTipSource))
	}
	if e.Transform != nil {
		drawn.lines = append(drawn.lines, "→ "+short(e.Transform.Source(), maxExpression))
		tips = append(tips, "gives: "+short(e.Transform.Source(), maxTipSource))
	}
	drawn.tip = strings.Join(tips, "\n")
	return drawn
}

// terminal returns the last node without an edge to another one.
func (d *drawing) terminal() int {
	leads := make([]bool, len(d.nodes))
	for _, e := range d.edges {
		leads[e.from] = true
	}
	for i := len(leads) - 1; i >= 0; i-- {
		if !leads[i] {
			return i
		}
	}
	return 0
}
