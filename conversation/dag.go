package conversation

import (
	"strings"
	"unicode"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

// The sizes in a drawing.
const (
	boxWidth  = 200
	boxHeight = 40
	gapX      = 40 // between columns
	gapY      = 30 // between layers

	labelLength = 28 // the maximum number of characters
)

// Layout is a drawing of a graph: boxes that do not overlap, and edges between them. Equal graphs have equal drawings.
type Layout struct {
	Nodes []Box  `json:"nodes"`
	Edges []Edge `json:"edges"`
}

// Box is the box of a node. X and Y are its upper left corner; Y grows downwards.
type Box struct {
	ID string `json:"id"`
	// Label is one short line.
	Label string `json:"label"`
	// Kind is the kind of the node, "run" for a collapsed run, or "summary".
	Kind   string `json:"kind"`
	X      int    `json:"x"`
	Y      int    `json:"y"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// Edge leads from one box to another, by their ids.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// DAG draws the path, with the sub-agents inside its runs, in layers: every box is one layer below its parent. The
// nodes of a run are in one column, and its other children are in columns to the right. The time is proportional to the
// number of boxes.
func DAG(g *Graph, active Active) Layout {
	d := drawing{path: path{g, active}, boxOf: make(map[int32]int)}
	summary, before, steps := d.path.summarized()
	if len(before) > 0 {
		for _, s := range before {
			for _, place := range g.run(s.run, s.cut) {
				d.boxOf[place] = 0
			}
		}
		d.add(none, Box{ID: g.at(g.runAt(before[0].run).first).id, Label: line(summary), Kind: RoleSummary})
	}
	d.runs(steps)
	return d.layout()
}

type drawing struct {
	path  path
	boxes []Box
	kids  [][]int // by box: its children; the first child stays in the column
	roots []int
	boxOf map[int32]int // by place
}

// add adds a box below the box of a place, or as a root.
func (d *drawing) add(parent int32, b Box) int {
	i := len(d.boxes)
	b.Width, b.Height = boxWidth, boxHeight
	d.boxes = append(d.boxes, b)
	d.kids = append(d.kids, nil)
	if above, ok := d.boxOf[parent]; ok && parent != none {
		d.kids[above] = append(d.kids[above], i)
	} else {
		d.roots = append(d.roots, i)
	}
	return i
}

// runs adds the boxes of runs and of the runs inside them.
func (d *drawing) runs(steps []step) {
	g := d.path.g
	d.path.visit(steps, func(s step, collapsed bool) {
		places := g.run(s.run, s.cut)
		if collapsed {
			r := g.runAt(s.run)
			i := d.add(r.parent, Box{ID: g.at(r.first).id, Label: line(d.path.agentOf(r)), Kind: "run"})
			for _, place := range places {
				d.boxOf[place] = i
			}
			return
		}
		for _, place := range places {
			n := g.at(place)
			d.boxOf[place] = d.add(g.parentOf(n), Box{ID: n.id, Label: n.label(), Kind: n.body.kind})
		}
	})
}

// layout sets the position of each box. A column has at most one box in a layer, so that boxes do not overlap.
func (d *drawing) layout() Layout {
	out := Layout{Nodes: d.boxes, Edges: []Edge{}}
	if out.Nodes == nil {
		out.Nodes = []Box{}
	}
	type place struct {
		box, layer int
		newColumn  bool // the box is the first one of a column
	}
	var stack []place
	for i := len(d.roots) - 1; i >= 0; i-- {
		stack = append(stack, place{d.roots[i], 0, true})
	}
	column := make([]int, len(d.boxes))
	columns := 0
	for len(stack) > 0 {
		p := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if p.newColumn {
			column[p.box] = columns
			columns++
		}
		b := &out.Nodes[p.box]
		b.X, b.Y = column[p.box]*(boxWidth+gapX), p.layer*(boxHeight+gapY)
		kids := d.kids[p.box]
		for i := len(kids) - 1; i >= 0; i-- {
			if i == 0 {
				column[kids[0]] = column[p.box]
			}
			stack = append(stack, place{kids[i], p.layer + 1, i > 0})
		}
		for _, kid := range kids {
			out.Edges = append(out.Edges, Edge{b.ID, d.boxes[kid].ID})
		}
	}
	return out
}

// label returns the text of a node's box.
func (n *node) label() string {
	switch d := n.data().(type) {
	case *event.User:
		return line(d.Content.PlainText())
	case *event.Text:
		return line(d.Content)
	case *event.Reasoning:
		return line(d.Content)
	case *event.ToolCall:
		return line(d.Name)
	case *event.ToolResult:
		return line(d.Name)
	case *event.ToolProgress:
		return line(d.Name)
	case *event.Relay:
		return line(d.Tool)
	case *event.Failure:
		return line(d.Message)
	case *event.HarnessStart:
		return line(d.AgentID)
	case *event.HarnessEnd:
		return line(d.AgentID)
	}
	return n.body.kind
}

// line returns the beginning of a text in one line.
func line(text string) string {
	if len(text) > 8*labelLength {
		text = text[:8*labelLength] // enough for a label
	}
	text = strings.ToValidUTF8(text, "")
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	return visible.Cut(strings.Join(words, " "), labelLength)
}
