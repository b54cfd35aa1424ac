package graphdraw

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/agentarbor/arbor/agentgraph/internal/layered"
)

// ErrTooLarge reports a graph whose layout would take too much time and memory.
var ErrTooLarge = errors.New("graphdraw: the graph is too large for SVG")

// maxSVGNodes is the largest number of nodes in an SVG picture, including those of inner graphs. Edges are limited too,
// together with the layers of nodes that they cross; graphs with a few edges per node stay below that limit.
const maxSVGNodes = 5000

// SVG arranges the drawing and writes it as an SVG picture: nodes in layers from top to bottom, with tooltips for
// shortened texts. The picture is readable on light and dark backgrounds, and contains no scripts or references to
// other files. The error is an error of w or of [Picture.Arrange]; in the latter case, nothing was written.
func (p *Picture) SVG(w io.Writer) error {
	if err := p.Arrange(); err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	width, height := p.Width+2*margin, p.Height+2*margin
	fmt.Fprintf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%d\" height=\"%d\" viewBox=\"%d %d %d %d\" "+
		"font-family=\"Helvetica, Arial, sans-serif\" font-size=\"%d\" text-anchor=\"middle\" fill=\"%s\">\n",
		width, height, -margin, -margin, width, height, fontSize, ink)
	title(b, short(p.Name, maxTip))
	fmt.Fprintln(b)
	p.write(b)
	fmt.Fprintln(b, "</svg>")
	return b.Flush()
}

const (
	margin   = 12 // around the picture, and around an inner graph
	padding  = 10 // between a text and its box
	minWidth = 64 // of a node
	pill     = 26 // the height of a start
)

func (p *Picture) count() int {
	n := 0
	for _, b := range p.Boxes {
		if !b.start() {
			n++
		}
		if b.Inner != nil {
			n += b.Inner.count()
		}
	}
	return n
}

// Arrange computes the positions of boxes and lines. The graph must have no cycle. The error is [ErrInvalid] or
// [ErrTooLarge].
func (p *Picture) Arrange() error {
	if n := p.count(); n > maxSVGNodes {
		return fmt.Errorf("%w: it has %d nodes, and %d are possible; Mermaid and DOT have no such bound", ErrTooLarge, n, maxSVGNodes)
	}
	return p.arrange()
}

// arrange computes all positions, those of inner graphs first.
func (p *Picture) arrange() error {
	sizes, ways := make([]layered.Size, len(p.Boxes)), make([]layered.Edge, len(p.Lines))
	for i := range p.Boxes {
		b := &p.Boxes[i]
		switch b.Size = textSize(b.Text, true); {
		case b.start():
			b.Size = layered.Size{Width: textWidth(b.Text[0], false) + 2*padding, Height: pill}
		case b.Inner != nil:
			if err := b.Inner.arrange(); err != nil {
				return err
			}
			plate := b.Height
			b.Width = max(b.Width, minWidth, b.Inner.Width) + 2*margin
			b.Height += b.Inner.Height + 2*margin
			b.InnerAt = &layered.Point{X: (b.Width - b.Inner.Width) / 2, Y: plate + margin}
		default:
			b.Width = max(b.Width, minWidth)
		}
		sizes[i] = b.Size
	}
	for i, l := range p.Lines {
		ways[i] = layered.Edge{From: l.From, To: l.To}
		if len(l.Text) > 0 {
			ways[i].Label = textSize(l.Text, false)
		}
	}
	d, err := layered.Layout(sizes, ways)
	switch {
	case errors.Is(err, layered.ErrTooLarge):
		return fmt.Errorf("%w: its nodes, its edges and the layers that edges pass are more than %d; Mermaid and DOT have no such bound", ErrTooLarge, layered.MaxPlaces)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	p.Size = d.Size
	for i, at := range d.Boxes {
		b := &p.Boxes[i]
		if b.Point = at; b.InnerAt != nil {
			b.InnerAt.X, b.InnerAt.Y = b.InnerAt.X+at.X, b.InnerAt.Y+at.Y
		}
	}
	for i, route := range d.Edges {
		l := &p.Lines[i]
		if l.Points = route.Points; len(l.Text) > 0 {
			l.Label = &Rect{route.Label, ways[i].Label}
		}
	}
	return nil
}

// The colours. Boxes have their own backgrounds. The grey and the red of the lines contrast with white as much as with
// black.
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

// write draws the edges first, so that boxes and labels cover them.
func (p *Picture) write(b *bufio.Writer) {
	for _, l := range p.Lines {
		fmt.Fprint(b, `<g>`)
		if l.Tip != "" {
			title(b, l.Tip)
		}
		if l.Dashed {
			path(b, l.Points, errorLine, ` stroke-dasharray="5 4"`)
		} else {
			path(b, l.Points, line, "")
		}
		fmt.Fprintln(b, `</g>`)
	}
	for _, box := range p.Boxes {
		box.write(b)
	}
	for _, l := range p.Lines { // on top of everything else
		if l.Label != nil {
			fmt.Fprint(b, `<g class="label">`)
			title(b, l.Tip)
			rect(b, *l.Label, 3, labelFill, line, "")
			texts(b, *l.Label, l.Text, false)
			fmt.Fprintln(b, `</g>`)
		}
	}
}

func (box *Box) write(b *bufio.Writer) {
	if box.start() {
		fill, edge := inputFill, line
		if box.Kind == kindError {
			fill, edge = errorFill, errorLine
		}
		fmt.Fprint(b, `<g class="begin">`)
		rect(b, box.Rect, pill/2, fill, edge, "")
		texts(b, box.Rect, box.Text, false)
		fmt.Fprintln(b, `</g>`)
		return
	}
	fmt.Fprint(b, `<g class="node">`)
	title(b, box.Tip)
	if box.Inner == nil {
		fill, round := nodeFill, 6
		if box.Kind == kindTool {
			fill, round = toolFill, 0
		}
		if box.asks {
			fill = approvalFill
		}
		rect(b, box.Rect, round, fill, nodeLine, "")
		texts(b, box.Rect, box.Text, true)
		fmt.Fprintln(b, `</g>`)
		return
	}
	rect(b, box.Rect, 6, "none", nodeLine, ` stroke-dasharray="2 2"`)
	plate := textSize(box.Text, true)
	head := Rect{layered.Point{X: box.X + (box.Width-plate.Width)/2, Y: box.Y}, plate}
	rect(b, head, 6, nodeFill, nodeLine, "")
	texts(b, head, box.Text, true)
	fmt.Fprintf(b, "<g transform=\"translate(%d %d)\">\n", box.InnerAt.X, box.InnerAt.Y)
	box.Inner.write(b)
	fmt.Fprintln(b, `</g></g>`)
}

func rect(b *bufio.Writer, at Rect, round int, fill, stroke, more string) {
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="%d" fill="%s" stroke="%s"%s/>`, at.X, at.Y, at.Width, at.Height, round, fill, stroke, more)
}

// path draws an edge and its arrowhead.
func path(b *bufio.Writer, points []layered.Point, colour, more string) {
	end := points[len(points)-1]
	fmt.Fprintf(b, `<path d="M%d %d`, points[0].X, points[0].Y)
	for i, pt := range points[1:] {
		y := min(pt.Y, end.Y-arrowLong/2) // the arrowhead draws the tip
		from := points[i]
		if i%2 == 1 { // a curve that begins and ends vertically
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

// svgEscapes escapes like encoding/xml, a package that takes longer to compile than all of graphdraw.
var svgEscapes = strings.NewReplacer(`"`, "&#34;", "'", "&#39;", "&", "&amp;", "<", "&lt;", ">", "&gt;", "\t", "&#x9;", "\n", "&#xA;", "\r", "&#xD;")

// escape writes text as XML. Characters that XML does not allow become U+FFFD.
func escape(b *bufio.Writer, text string) {
	_, _ = svgEscapes.WriteString(b, strings.Map(func(r rune) rune { // Flush reports the error
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\uFFFE' || r == '\uFFFF' {
			return '\uFFFD'
		}
		return r
	}, text))
}

// texts writes lines in the middle of a box that was measured with textSize. If named is true, the first line is a
// node's name.
func texts(b *bufio.Writer, at Rect, lines []string, named bool) {
	y := at.Y + (at.Height-len(lines)*lineHeight)/2 + baseline
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
		fmt.Fprintf(b, `<text x="%d" y="%d"%s>`, at.X+at.Width/2, y, attributes)
		escape(b, text)
		fmt.Fprint(b, "</text>")
		y += lineHeight
	}
}
