package graphdraw

import (
	"fmt"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/layered"
)

// Picture contains the positions of all parts of a drawing without their style, for programs that draw
// by themselves; [SVG] draws the same positions. Its JSON form is for a page. Lengths are in pixels for
// a text of 12 pixels; the upper left corner is 0, 0, and Y grows downwards.
type Picture struct {
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Boxes  []Box  `json:"boxes"`
	Lines  []Line `json:"lines"`
}

// Box is a node, or one of the starts "input" and "error", which have no ID.
type Box struct {
	ID   string   `json:"id,omitempty"`
	Kind string   `json:"kind"` // node, tool, input, error, or what Arrange was given
	Text []string `json:"text"`
	Tip  string   `json:"tip,omitempty"` // the tooltip
	Rect
	// Inner is the graph that the node runs. Its positions are relative to its upper left corner, which is at InnerAt.
	Inner   *Picture `json:"inner,omitempty"`
	InnerAt *Point   `json:"innerAt,omitempty"`
}

// Line is an edge.
type Line struct {
	From   int      `json:"from"` // indices of boxes
	To     int      `json:"to"`
	Text   []string `json:"text,omitempty"`
	Tip    string   `json:"tip,omitempty"`
	Points []Point  `json:"points"` // vertical from each with an even index to the next, bent between
	Label  *Rect    `json:"label,omitempty"`
}

// Point is a position, and Rect a position with a size.
type (
	Point struct {
		X int `json:"x"`
		Y int `json:"y"`
	}
	Rect struct {
		Point
		Width  int `json:"width"`
		Height int `json:"height"`
	}
)

// Layout computes the positions for a graph. The edges of the graph come first among the lines, in its
// order. The error is ErrInvalid or ErrTooLarge.
func Layout(g *agentgraph.Graph) (*Picture, error) {
	d, err := newDrawing(g, 1)
	if err != nil {
		return nil, err
	}
	if n := d.count(); n > MaxSVGNodes {
		return nil, fmt.Errorf("%w: it has %d nodes", ErrTooLarge, n)
	}
	p, err := d.arrange()
	if err != nil {
		return nil, err
	}
	return p.data(), nil
}

// Arrange computes the positions for boxes with at least one line of text, and for lines between them without
// a cycle. It reads only ID, Kind, Text and Tip of a box, and only From, To, Text and Tip of a line. The errors
// are those of [Layout].
func Arrange(boxes []Box, lines []Line) (*Picture, error) {
	d := &drawing{entry: none, fallback: none}
	for _, b := range boxes {
		d.nodes = append(d.nodes, node{id: b.ID, kind: b.Kind, lines: shortened(b.Text, maxName), tip: b.Tip})
	}
	for _, l := range lines {
		d.edges = append(d.edges, edge{from: l.From, to: l.To, lines: shortened(l.Text, maxExpression), tip: l.Tip})
	}
	p, err := d.arrange()
	if err != nil {
		return nil, err
	}
	return p.data(), nil
}

func shortened(texts []string, most int) (lines []string) {
	for _, text := range texts {
		lines = append(lines, short(text, most))
	}
	return lines
}

func (p *picture) data() *Picture {
	out := &Picture{Width: p.Size.Width, Height: p.Size.Height, Boxes: make([]Box, len(p.sizes)), Lines: make([]Line, len(p.Edges))}
	rect := func(at layered.Point, size layered.Size) Rect { return Rect{Point(at), size.Width, size.Height} }
	for i := range out.Boxes {
		b := Box{Rect: rect(p.Boxes[i], p.sizes[i])}
		switch at := i - len(p.nodes); {
		case at < 0:
			n := p.nodes[i]
			b.ID, b.Kind, b.Text, b.Tip = n.id, n.kind, n.lines, n.tip
			if inner := p.inner[i]; inner != nil {
				b.Inner, b.InnerAt = inner.data(), new(p.within(i))
			}
		case at == 0:
			b.Kind, b.Text = "input", []string{inputText}
		default:
			b.Kind, b.Text = "error", []string{errorText}
		}
		out.Boxes[i] = b
	}
	for i, route := range p.Edges {
		l := Line{From: p.ways[i].From, To: p.ways[i].To}
		if i < len(p.edges) {
			l.Text, l.Tip = p.edges[i].lines, p.edges[i].tip
		}
		for _, pt := range route.Points {
			l.Points = append(l.Points, Point(pt))
		}
		if len(l.Text) > 0 {
			l.Label = new(rect(route.Label, p.ways[i].Label))
		}
		out.Lines[i] = l
	}
	return out
}

// within returns the upper left corner of the graph within a node.
func (p *picture) within(i int) Point {
	at, size, inner := p.Boxes[i], p.sizes[i], p.inner[i]
	return Point{at.X + (size.Width-inner.Size.Width)/2, at.Y + textSize(p.nodes[i].lines, true).Height + margin}
}
