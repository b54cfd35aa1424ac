package graphdraw

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/layered"
)

// ErrTooLarge is the error for a graph whose layout would take too much time and
// memory.
var ErrTooLarge = errors.New("graphdraw: the graph is too large for SVG")

// MaxSVGNodes is the maximal number of nodes in an SVG picture, including those of graphs within
// the graph. There is also a limit for edges, which counts the layers of nodes that
// they cross: graphs with a few edges for each node stay below it.
const MaxSVGNodes = 5000

// SVG writes a graph as a picture: nodes in layers from top to bottom, with tooltips
// for texts that are too long. The picture is readable on light and dark
// backgrounds, and contains neither scripts nor references to other files. SVG returns
// the error of w, or ErrInvalid or ErrTooLarge, in which case it has written nothing.
func SVG(w io.Writer, g *agentgraph.Graph) error {
	d, err := newDrawing(g, 1)
	if err != nil {
		return err
	}
	if n := d.count(); n > MaxSVGNodes {
		return fmt.Errorf("%w: it has %d nodes, and %d are possible; Mermaid and DOT have no such bound", ErrTooLarge, n, MaxSVGNodes)
	}
	p, err := d.arrange()
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	width, height := p.Size.Width+2*margin, p.Size.Height+2*margin
	fmt.Fprintf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%d\" height=\"%d\" viewBox=\"%d %d %d %d\" "+
		"font-family=\"Helvetica, Arial, sans-serif\" font-size=\"%d\" text-anchor=\"middle\" fill=\"%s\">\n",
		width, height, -margin, -margin, width, height, fontSize, ink)
	title(b, short(d.name, maxTip))
	fmt.Fprintln(b)
	p.write(b)
	fmt.Fprintln(b, "</svg>")
	return b.Flush()
}

const (
	margin   = 12 // around the picture, and around a graph within a box
	padding  = 10 // between a text and its box
	minWidth = 64 // of a node
	pill     = 26 // the height of a start
)

// picture is a drawing with the positions of its parts.
type picture struct {
	*drawing
	layered.Drawing
	inner []*picture     // by node, nil for those without
	sizes []layered.Size // of nodes, then of the starts
	ways  []layered.Edge // those of the graph, then those from the starts
}

func (d *drawing) count() int {
	n := len(d.nodes)
	for _, v := range d.nodes {
		if v.inner != nil {
			n += v.inner.count()
		}
	}
	return n
}

// arrange computes all positions, first those in graphs within the graph.
func (d *drawing) arrange() (*picture, error) {
	p := &picture{drawing: d, inner: make([]*picture, len(d.nodes))}
	boxes := make([]layered.Size, 0, len(d.nodes)+2)
	for i, n := range d.nodes {
		size := textSize(n.lines, true)
		size.Width = max(size.Width, minWidth)
		if n.inner != nil {
			inner, err := n.inner.arrange()
			if err != nil {
				return nil, err
			}
			p.inner[i] = inner
			size.Width = max(size.Width, inner.Size.Width) + 2*margin
			size.Height += inner.Size.Height + 2*margin
		}
		boxes = append(boxes, size)
	}
	edges := make([]layered.Edge, 0, len(d.edges)+2)
	for _, e := range d.edges {
		edge := layered.Edge{From: e.from, To: e.to}
		if len(e.lines) > 0 {
			edge.Label = textSize(e.lines, false)
		}
		edges = append(edges, edge)
	}
	begin := func(text string, at int) {
		edges = append(edges, layered.Edge{From: len(boxes), To: at})
		boxes = append(boxes, layered.Size{Width: textWidth(text, false) + 2*padding, Height: pill})
	}
	if d.entry != none {
		begin(inputText, d.entry)
	}
	if d.fallback != none {
		begin(errorText, d.fallback)
	}
	var err error
	p.Drawing, err = layered.Layout(boxes, edges)
	switch {
	case errors.Is(err, layered.ErrTooLarge):
		return nil, fmt.Errorf("%w: its nodes, its edges and the layers that edges pass are more than %d; Mermaid and DOT have no such bound", ErrTooLarge, layered.MaxPlaces)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	p.sizes, p.ways = boxes, edges
	return p, nil
}

// The colours. Boxes have backgrounds of their own, and lines are of a grey and a red
// that contrast with white as much as with black.
const (
	ink, paleInk        = "#1a2433", "#475569"
	line, errorLine     = "#7c7c7c", "#d1493f"
	nodeFill, nodeLine  = "#f1f5fb", "#5b7aa8"
	labelFill           = "#ffffff"
	inputFill           = "#e3f3e8"
	errorFill           = "#fde8e6"
	approvalFill        = "#fff4d6"
	toolFill            = "#ebe7f8"
	arrowLong, arrowTop = 8, 4
)

// write draws the edges first, so that boxes and labels lie above them.
func (p *picture) write(b *bufio.Writer) {
	for i, route := range p.Edges {
		switch {
		case i < len(p.edges):
			fmt.Fprint(b, `<g>`)
			title(b, p.edges[i].tip)
			path(b, route.Points, line, "")
		case i == len(p.edges):
			fmt.Fprint(b, `<g>`)
			path(b, route.Points, line, "")
		default:
			fmt.Fprint(b, `<g>`)
			path(b, route.Points, errorLine, ` stroke-dasharray="5 4"`)
		}
		fmt.Fprintln(b, `</g>`)
	}
	for i, n := range p.nodes {
		at, size := p.Boxes[i], p.sizes[i]
		fmt.Fprint(b, `<g class="node">`)
		title(b, n.tip)
		if p.inner[i] == nil {
			fill, round := nodeFill, 6
			if n.kind == kindTool {
				fill, round = toolFill, 0
			}
			if n.asks {
				fill = approvalFill
			}
			rect(b, at, size, round, fill, nodeLine, "")
			texts(b, at, size, n.lines, true)
			fmt.Fprintln(b, `</g>`)
			continue
		}
		rect(b, at, size, 6, "none", nodeLine, ` stroke-dasharray="2 2"`)
		plate := textSize(n.lines, true)
		head := layered.Point{X: at.X + (size.Width-plate.Width)/2, Y: at.Y}
		rect(b, head, plate, 6, nodeFill, nodeLine, "")
		texts(b, head, plate, n.lines, true)
		inner := p.inner[i]
		corner := p.within(i)
		fmt.Fprintf(b, "<g transform=\"translate(%d %d)\">\n", corner.X, corner.Y)
		inner.write(b)
		fmt.Fprintln(b, `</g></g>`)
	}
	for i, text := range []string{inputText, errorText} {
		if i += len(p.nodes); i < len(p.sizes) {
			fill, edge := inputFill, line
			if text == errorText {
				fill, edge = errorFill, errorLine
			}
			fmt.Fprint(b, `<g class="begin">`)
			rect(b, p.Boxes[i], p.sizes[i], pill/2, fill, edge, "")
			texts(b, p.Boxes[i], p.sizes[i], []string{text}, false)
			fmt.Fprintln(b, `</g>`)
		}
	}
	for i, e := range p.edges {
		if len(e.lines) > 0 {
			at, size := p.Edges[i].Label, textSize(e.lines, false)
			fmt.Fprint(b, `<g class="label">`)
			title(b, e.tip)
			rect(b, at, size, 3, labelFill, line, "")
			texts(b, at, size, e.lines, false)
			fmt.Fprintln(b, `</g>`)
		}
	}
}

func rect(b *bufio.Writer, at layered.Point, size layered.Size, round int, fill, stroke, more string) {
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="%d" fill="%s" stroke="%s"%s/>`, at.X, at.Y, size.Width, size.Height, round, fill, stroke, more)
}

// path draws an edge and its head.
func path(b *bufio.Writer, points []layered.Point, colour, more string) {
	end := points[len(points)-1]
	fmt.Fprintf(b, `<path d="M%d %d`, points[0].X, points[0].Y)
	for i, pt := range points[1:] {
		y := min(pt.Y, end.Y-arrowLong/2) // the tip is the head's
		from := points[i]
		if i%2 == 1 { // a bend, that begins and ends vertically
			middle := (from.Y + y) / 2
			fmt.Fprintf(b, "C%d %d %d %d %d %d", from.X, middle, pt.X, middle, pt.X, y)
		} else if pt.Y > from.Y && y > from.Y {
			fmt.Fprintf(b, "V%d", y)
		}
	}
	fmt.Fprintf(b, `" fill="none" stroke="%s" stroke-width="1.5"%s/>`, colour, more)
	fmt.Fprintf(b, `<path d="M%d %dl%d %dh%dz" fill="%s"/>`, end.X, end.Y, -arrowTop, -arrowLong, 2*arrowTop, colour)
}

func title(b *bufio.Writer, text string) {
	fmt.Fprint(b, "<title>")
	escape(b, text)
	fmt.Fprint(b, "</title>")
}

// svgEscapes are those of encoding/xml, a package that takes longer to compile than all that
// draws.
var svgEscapes = strings.NewReplacer(`"`, "&#34;", "'", "&#39;", "&", "&amp;", "<", "&lt;", ">", "&gt;", "\t", "&#x9;", "\n", "&#xA;", "\r", "&#xD;")

// escape writes a text for XML; what XML cannot hold becomes U+FFFD.
func escape(b *bufio.Writer, text string) {
	_, _ = svgEscapes.WriteString(b, strings.Map(func(r rune) rune { // Flush reports the error
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\uFFFE' || r == '\uFFFF' {
			return '\uFFFD'
		}
		return r
	}, text))
}

// texts writes lines in the middle of a box that was measured with textSize. The
// first one is the name of a node, if there is one.
func texts(b *bufio.Writer, at layered.Point, size layered.Size, lines []string, named bool) {
	y := at.Y + (size.Height-len(lines)*lineHeight)/2 + baseline
	for i, text := range lines {
		name := named && i == 0
		attributes := ""
		switch {
		case name:
			attributes = ` font-weight="bold"`
		case named:
			attributes = fmt.Sprintf(` fill="%s"`, paleInk)
		}
		if !measurable(text) {
			attributes += fmt.Sprintf(` textLength="%d" lengthAdjust="spacingAndGlyphs"`, textWidth(text, name))
		}
		fmt.Fprintf(b, `<text x="%d" y="%d"%s>`, at.X+size.Width/2, y, attributes)
		escape(b, text)
		fmt.Fprint(b, "</text>")
		y += lineHeight
	}
}
