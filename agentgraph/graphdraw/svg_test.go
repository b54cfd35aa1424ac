package graphdraw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// shape is a rectangle of a picture, at its place in the whole of it.
type shape struct {
	x, y, width, height int
	cluster             bool
}

func (a shape) meets(b shape) bool {
	return a.x < b.x+b.width && b.x < a.x+a.width && a.y < b.y+b.height && b.y < a.y+a.height
}

func (a shape) holds(b shape) bool {
	return a.x <= b.x && a.y <= b.y && b.x+b.width <= a.x+a.width && b.y+b.height <= a.y+a.height
}

// parseSVG reads a picture and checks what every picture must fulfil: it is
// well-formed, of known elements only, boxes do not overlap, and texts fit into them.
// It returns the texts.
func parseSVG(t require.TestingT, picture []byte) (texts []string) {
	var (
		shapes  []shape
		offsets [][2]int
		canvas  shape
		text    strings.Builder
		element string
		last    shape
	)
	number := func(s string) int {
		return must.Get(strconv.Atoi(s))
	}
	at := func() (x, y int) {
		for _, o := range offsets {
			x, y = x+o[0], y+o[1]
		}
		return x, y
	}
	dec := xml.NewDecoder(bytes.NewReader(picture))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			element = token.Name.Local
			require.Contains(t, []string{"svg", "g", "title", "rect", "text", "path"}, element)
			require.Equal(t, "http://www.w3.org/2000/svg", token.Name.Space)
			a := map[string]string{}
			for _, attr := range token.Attr {
				require.NotContains(t, attr.Name.Local, "href")
				require.False(t, strings.HasPrefix(attr.Name.Local, "on"), attr.Name.Local)
				a[attr.Name.Local] = attr.Value
			}
			text.Reset()
			switch element {
			case "svg":
				canvas = shape{x: -margin, y: -margin, width: number(a["width"]), height: number(a["height"])}
			case "g":
				var o [2]int
				if move, ok := a["transform"]; ok {
					_, err := fmt.Sscanf(move, "translate(%d %d)", &o[0], &o[1])
					require.NoError(t, err)
				}
				offsets = append(offsets, o)
			case "rect":
				x, y := at()
				last = shape{x + number(a["x"]), y + number(a["y"]), number(a["width"]), number(a["height"]), a["fill"] == "none"}
				shapes = append(shapes, last)
			case "text":
				x, y := at()
				x, y = x+number(a["x"]), y+number(a["y"])
				require.InDelta(t, last.x+last.width/2, x, 1)
				require.True(t, y-baseline >= last.y && y+lineHeight-baseline <= last.y+last.height)
				if width, ok := a["textLength"]; ok {
					require.LessOrEqual(t, number(width)+2*padding, last.width)
				}
			}
		case xml.CharData:
			text.Write(token)
		case xml.EndElement:
			switch token.Name.Local {
			case "g":
				offsets = offsets[:len(offsets)-1]
			case "text":
				require.LessOrEqual(t, textWidth(text.String(), false)+2*padding, last.width)
				texts = append(texts, text.String())
			}
			text.Reset()
		case xml.Comment, xml.Directive, xml.ProcInst:
			require.Fail(t, "markup that is not expected", "%#v", token)
		}
	}
	for i, a := range shapes {
		require.True(t, canvas.holds(a), "%+v is outside of %+v", a, canvas)
		for _, b := range shapes[:i] {
			require.True(t, !a.meets(b) || a.cluster && a.holds(b) || b.cluster && b.holds(a), "%+v and %+v overlap", a, b)
		}
	}
	return texts
}

// seen returns the lines that a drawing shows.
func (p *Picture) seen() (lines []string) {
	for _, b := range p.Boxes {
		lines = append(lines, b.Text...)
		if b.Inner != nil {
			lines = append(lines, b.Inner.seen()...)
		}
	}
	for _, l := range p.Lines {
		lines = append(lines, l.Text...)
	}
	return lines
}

func requireSVG(t require.TestingT, g *agentgraph.Graph) {
	var first, second bytes.Buffer
	require.NoError(t, draw(&first, g, (*Picture).SVG))
	d := must.Get(Of(g))
	require.ElementsMatch(t, d.seen(), parseSVG(t, first.Bytes()))
	require.True(t, utf8.Valid(first.Bytes()))
	require.NoError(t, draw(&second, g, (*Picture).SVG))
	require.Equal(t, first.String(), second.String())
}

func TestSVG(t *testing.T) {
	graphs := goldens(t)
	graphs["hostile"] = hostile(t)
	for name, g := range graphs {
		t.Run(name, func(t *testing.T) { requireSVG(t, g) })
	}
}

func TestSVGOfRandomGraphs(t *testing.T) {
	pool := pool(t)
	rapid.Check(t, func(t *rapid.T) { requireSVG(t, randomGraph(pool, 2).Draw(t, "graph")) })
}

// TestSVGTooLarge: graphs beyond the bounds are refused before anything is written.
func TestSVGTooLarge(t *testing.T) {
	g := chain(maxSVGNodes + 1)
	var out bytes.Buffer
	require.ErrorIs(t, draw(&out, g, (*Picture).SVG), ErrTooLarge)
	inner := &agentgraph.Graph{Entrypoint: "a", Nodes: []agentgraph.Node{{ID: "a", Graph: g}}}
	err := draw(&out, inner, (*Picture).SVG)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "it has 5002 nodes, and 5000 are possible; Mermaid and DOT have no such bound")

	g = chain(2000)
	for i := 2; i < 2000; i++ {
		g.Edges = append(g.Edges, agentgraph.Edge{From: "n0", To: g.Nodes[i].ID})
	}
	err = draw(&out, g, (*Picture).SVG)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "layers")
	require.Zero(t, out.Len())
	require.NoError(t, draw(io.Discard, g, (*Picture).Mermaid))
	require.NoError(t, draw(io.Discard, g, (*Picture).DOT))

	g = chain(2000)
	for i := 8; i < 2000; i++ {
		g.Edges = append(g.Edges, agentgraph.Edge{From: g.Nodes[i-8].ID, To: g.Nodes[i].ID, Priority: 1})
	}
	require.NoError(t, draw(&out, g, (*Picture).SVG))
	require.Less(t, out.Len(), 8<<20)
}

func chain(n int) *agentgraph.Graph {
	g := &agentgraph.Graph{Entrypoint: "n0"}
	for i := range n {
		g.Nodes = append(g.Nodes, agentgraph.Node{ID: fmt.Sprint("n", i), Ref: "agent"})
		if i > 0 {
			g.Edges = append(g.Edges, agentgraph.Edge{From: g.Nodes[i-1].ID, To: g.Nodes[i].ID})
		}
	}
	return g
}

// TestInvalid: graphs that nothing here makes are errors, not endless loops.
func TestInvalid(t *testing.T) {
	a, b := agentgraph.Node{ID: "a"}, agentgraph.Node{ID: "b"}
	nodes := []agentgraph.Node{a, b}
	itself := &agentgraph.Graph{Entrypoint: "a", Nodes: []agentgraph.Node{{ID: "a"}}}
	itself.Nodes[0].Graph = itself
	for name, g := range map[string]*agentgraph.Graph{
		"empty":         {},
		"no entrypoint": {Nodes: nodes},
		"no source":     {Nodes: nodes, Entrypoint: "a", Edges: []agentgraph.Edge{{From: "c", To: "b"}}},
		"no target":     {Nodes: nodes, Entrypoint: "a", Edges: []agentgraph.Edge{{From: "a", To: "c"}}},
		"no fallback":   {Nodes: nodes, Entrypoint: "a", OnError: agentgraph.ErrorHandling{Fallback: "c"}},
		"two of an id":  {Nodes: []agentgraph.Node{a, a}, Entrypoint: "a"},
		"in itself":     itself,
	} {
		for _, f := range formats {
			var out bytes.Buffer
			require.ErrorIs(t, draw(&out, g, f.draw), ErrInvalid, name)
			require.Zero(t, out.Len())
		}
	}
	circle := &agentgraph.Graph{Nodes: nodes, Entrypoint: "a", Edges: []agentgraph.Edge{{From: "a", To: "b"}, {From: "b", To: "a"}}}
	require.ErrorIs(t, draw(io.Discard, circle, (*Picture).SVG), ErrInvalid)

	full := errors.New("the disk is full")
	for _, f := range formats {
		require.ErrorIs(t, draw(failing{full}, everything(t), f.draw), full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
