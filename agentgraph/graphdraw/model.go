package graphdraw

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agentgraph/internal/layered"
)

// maxDepth is the largest number of levels of nested graphs in a drawing.
const maxDepth = 32

// ErrInvalid reports a graph that neither a file nor a Builder can produce: an edge to a node that does not exist, a
// cycle, or graphs that contain each other.
var ErrInvalid = errors.New("graphdraw: the graph cannot be drawn")

// The texts of the boxes where edges start that do not come from a node.
const (
	inputText = "input"
	errorText = "on error"
)

// The largest lengths of shown texts, in characters.
const (
	maxName       = 36
	maxExpression = 44
	maxTip        = 200 // of a name, in a tooltip
	maxTipSource  = 2000
)

// Picture is a drawing. [Picture.Arrange] sets the positions of its parts, for programs that draw it themselves; its
// JSON form is for a web page. Lengths are in pixels for text of 12 pixels. The upper left corner is 0, 0, and Y grows
// downwards.
type Picture struct {
	Name string `json:"-"` // the graph's name and version
	Size
	Boxes []Box  `json:"boxes"`
	Lines []Line `json:"lines"`
}

// Box is a node, or one of the starts "input" and "error". A start has no ID and comes after the nodes.
type Box struct {
	ID   string   `json:"id,omitempty"`
	Kind string   `json:"kind"`          // node, tool, input, error, or a kind that another program sets
	Text []string `json:"text"`          // at least one line
	Tip  string   `json:"tip,omitempty"` // the tooltip
	Rect
	// Inner is the graph that the node runs. Its positions are relative to its upper left corner, which is at InnerAt.
	Inner   *Picture `json:"inner,omitempty"`
	InnerAt *Point   `json:"innerAt,omitempty"`

	asks bool // the node needs an approval
}

// Line is an edge. The edges of the graph come first, in its order, then those of the starts.
type Line struct {
	From   int      `json:"from"` // indexes of boxes
	To     int      `json:"to"`
	Text   []string `json:"text,omitempty"`
	Tip    string   `json:"tip,omitempty"`
	Dashed bool     `json:"-"`
	Points []Point  `json:"points"` // vertical from each even index to the next point, curved in between
	Label  *Rect    `json:"label,omitempty"`
}

// Point is a position, and Size a width and a height.
type (
	Point = layered.Point
	Size  = layered.Size
)

// Rect is a position with a size.
type Rect struct {
	Point
	Size
}

// The kinds of boxes that have their own shapes in Mermaid and DOT.
const (
	kindTool  = "tool"
	kindInput = "input"
	kindError = "error"
	kindHuman = "human"
)

type frame struct{ open, end, dot string }

var frames = map[string]frame{kindTool: {"[[", "]]", "component"}, kindInput: {"([", "])", "oval"}, kindError: {"([", "])", "oval"},
	kindHuman: {"([", "])", "oval"}, "router": {"{{", "}}", "hexagon"}}

func frameOf(kind string) frame {
	if s, ok := frames[kind]; ok {
		return s
	}
	return frame{"[", "]", ""}
}

// mark returns the identifier of a box in Mermaid and DOT.
func (p *Picture) mark(prefix string, i int) string {
	if b := &p.Boxes[i]; b.start() || b.Kind == kindHuman { // there is only one
		return prefix + b.Kind
	}
	return fmt.Sprintf("%sn%d", prefix, i)
}

func (b *Box) start() bool { return b.Kind == kindInput || b.Kind == kindError }

// Of returns the drawing of a graph, without positions. The error is [ErrInvalid].
func Of(g *agentgraph.Graph) (*Picture, error) { return of(g, 1) }

func of(g *agentgraph.Graph, depth int) (*Picture, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: graphs are nested more than %d levels deep", ErrInvalid, maxDepth)
	}
	p := &Picture{Name: strings.TrimSpace(g.Name + " " + g.Version)}
	index := make(map[string]int, len(g.Nodes))
	for i, n := range g.Nodes {
		if _, ok := index[n.ID]; ok {
			return nil, fmt.Errorf("%w: two nodes have the id %q", ErrInvalid, short(n.ID, maxName))
		}
		index[n.ID] = i
		drawn, err := newBox(n, depth)
		if err != nil {
			return nil, err
		}
		p.Boxes = append(p.Boxes, drawn)
	}
	find := func(id string) (int, error) {
		at, ok := index[id]
		if !ok {
			return 0, fmt.Errorf("%w: there is no node %q", ErrInvalid, short(id, maxName))
		}
		return at, nil
	}
	for _, e := range g.Edges {
		l, err := newLine(e), error(nil)
		if l.From, err = find(e.From); err == nil {
			l.To, err = find(e.To)
		}
		if err != nil {
			return nil, err
		}
		p.Lines = append(p.Lines, l)
	}
	begin := func(kind, text, id string) error {
		to, err := find(id)
		p.Lines = append(p.Lines, Line{From: len(p.Boxes), To: to, Dashed: kind == kindError})
		p.Boxes = append(p.Boxes, Box{Kind: kind, Text: []string{text}})
		return err
	}
	err := begin(kindInput, inputText, g.Entrypoint)
	if err == nil && g.OnError.Fallback != "" {
		err = begin(kindError, errorText, g.OnError.Fallback)
	}
	return p, err
}

func newBox(n agentgraph.Node, depth int) (drawn Box, err error) {
	drawn.ID, drawn.Kind, drawn.Text = n.ID, "node", []string{short(n.ID, maxName)}
	tips := []string{"id: " + short(n.ID, maxTip)}
	if n.Tool != "" || n.ToolsOf != "" {
		drawn.Kind = kindTool
	}
	if runs := n.Runs(); runs != "" {
		tips = append(tips, map[bool]string{true: "runs: ", false: "agent: "}[drawn.Kind == kindTool]+short(runs, maxTip))
		if runs != n.ID {
			drawn.Text = append(drawn.Text, short(runs, maxName))
		}
	}
	if l := n.Loop; l != nil {
		if l.Until == nil {
			drawn.Text = append(drawn.Text, fmt.Sprintf("loop: %d times", l.Max))
		} else {
			most := fmt.Sprintf("at most %d times", l.Max)
			if l.Fail {
				most += ", or it fails"
			}
			drawn.Text = append(drawn.Text, "loop until "+short(l.Until.Source(), maxExpression), most)
			tips = append(tips, "loop until: "+short(l.Until.Source(), maxTipSource))
		}
	}
	if h := n.Human; h != nil {
		drawn.asks = true
		drawn.Text = append(drawn.Text, "waits for approval")
		if h.Ask != "" {
			tips = append(tips, "asks: "+short(h.Ask, maxTipSource))
		}
	}
	if n.Next != nil {
		drawn.Text = append(drawn.Text, "next: "+short(n.Next.Source(), maxExpression))
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
	drawn.Tip = strings.Join(tips, "\n")
	if n.Graph != nil {
		drawn.Inner, err = of(n.Graph, depth+1)
	}
	return drawn, err
}

func newLine(e agentgraph.Edge) (drawn Line) {
	tips := []string{short(e.From, maxTip) + " → " + short(e.To, maxTip)}
	if e.Priority > 0 {
		drawn.Text = append(drawn.Text, fmt.Sprintf("priority %d", e.Priority))
		tips = append(tips, drawn.Text[0])
	}
	if e.Condition != nil {
		drawn.Text = append(drawn.Text, short(e.Condition.Source(), maxExpression))
		tips = append(tips, "if: "+short(e.Condition.Source(), maxTipSource))
	}
	if e.Transform != nil {
		drawn.Text = append(drawn.Text, "→ "+short(e.Transform.Source(), maxExpression))
		tips = append(tips, "gives: "+short(e.Transform.Source(), maxTipSource))
	}
	drawn.Tip = strings.Join(tips, "\n")
	return drawn
}

// terminal returns the last node without an outgoing edge.
func (p *Picture) terminal() int {
	leads := make([]bool, len(p.Boxes))
	for _, l := range p.Lines {
		leads[l.From] = true
	}
	for i, leads := range slices.Backward(leads) {
		if !leads {
			return i
		}
	}
	return 0
}
