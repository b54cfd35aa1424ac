package graphdraw

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// DOT writes the drawing in the DOT language of Graphviz, https://graphviz.org. The error is an error of w.
func (p *Picture) DOT(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "digraph \"%s\" {\n", dotText(short(p.Name, maxTip)))
	fmt.Fprintln(b, "  compound=true;")
	fmt.Fprintln(b, "  node [shape=box];")
	p.dotPart(b, "", "  ")
	fmt.Fprintln(b, "}")
	return b.Flush()
}

func (p *Picture) dotPart(b *bufio.Writer, prefix, indent string) {
	for i, box := range p.Boxes {
		id, about := p.mark(prefix, i), dotAbout(box.Text, box.Tip)
		if box.Inner == nil {
			if shape := frameOf(box.Kind).dot; shape != "" {
				about = append(about, "shape="+shape)
			}
			if box.Kind == kindError {
				about = append(about, "style=dashed")
			}
			fmt.Fprintf(b, "%s%s [%s];\n", indent, id, strings.Join(about, ", "))
			continue
		}
		fmt.Fprintf(b, "%ssubgraph cluster_%s {\n", indent, id)
		fmt.Fprintf(b, "%s  %s;\n", indent, strings.Join(about, "; "))
		box.Inner.dotPart(b, id+"_", indent+"  ")
		fmt.Fprintf(b, "%s}\n", indent)
	}
	for _, l := range p.Lines {
		p.dotLine(b, prefix, indent, l)
	}
}

// dotAbout returns the label and tooltip attributes of a box or a line.
func dotAbout(text []string, tip string) (about []string) {
	if len(text) > 0 {
		about = append(about, `label="`+dotText(text...)+`"`)
	}
	if tip != "" {
		about = append(about, `tooltip="`+dotText(tip)+`"`)
	}
	return about
}

func (p *Picture) dotLine(b *bufio.Writer, prefix, indent string, l Line) {
	var about []string
	from, tail := p.dotEnd(prefix, l.From, false)
	to, head := p.dotEnd(prefix, l.To, true)
	if tail != "" {
		about = append(about, "ltail="+tail)
	}
	if head != "" {
		about = append(about, "lhead="+head)
	}
	about = append(about, dotAbout(l.Text, l.Tip)...)
	if l.Dashed {
		about = append(about, "style=dashed")
	}
	if l.Dashed && !p.Boxes[l.From].start() { // the line leads up and must not change the ranks of its boxes
		about = append(about, "constraint=false")
	}
	list := ""
	if len(about) > 0 {
		list = " [" + strings.Join(about, ", ") + "]"
	}
	fmt.Fprintf(b, "%s%s -> %s%s;\n", indent, from, to, list)
}

// dotEnd returns the node where an edge ends, and the cluster of a node that runs a graph. A Graphviz edge cannot end
// at a cluster: it ends at a node inside it, and is clipped at the border of the cluster.
func (p *Picture) dotEnd(prefix string, i int, enters bool) (end, cluster string) {
	end = p.mark(prefix, i)
	inner := p.Boxes[i].Inner
	if inner == nil {
		return end, ""
	}
	cluster = "cluster_" + end
	if enters {
		return end + "_" + kindInput, cluster
	}
	for inner != nil {
		last := inner.terminal()
		end, inner = inner.mark(end+"_", last), inner.Boxes[last].Inner
	}
	return end, cluster
}

var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;", "\n", `\n`)

// dotText joins lines and escapes them for a quoted DOT string. In such a string, Graphviz interprets HTML entities and
// its own escapes, such as \N.
func dotText(lines ...string) string { return dotEscapes.Replace(strings.Join(lines, "\n")) }
