package graphdraw

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/agentarbor/arbor/agentgraph"
)

// DOT writes a graph in the language of Graphviz, https://graphviz.org. It returns
// the error of w, or ErrInvalid.
func DOT(w io.Writer, g *agentgraph.Graph) error {
	d, err := newDrawing(g, 1)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "digraph \"%s\" {\n", DOTText(short(d.name, maxTip)))
	fmt.Fprintln(b, "  compound=true;")
	fmt.Fprintln(b, "  node [shape=box];")
	d.dotPart(b, "", "  ")
	fmt.Fprintln(b, "}")
	return b.Flush()
}

func (d *drawing) dotPart(b *bufio.Writer, prefix, indent string) {
	fmt.Fprintf(b, "%s%sinput [label=\"%s\", shape=oval];\n", indent, prefix, inputText)
	for i, n := range d.nodes {
		if n.inner == nil {
			shape := ""
			if n.kind == kindTool {
				shape = "shape=component, "
			}
			fmt.Fprintf(b, "%s%sn%d [%slabel=\"%s\", tooltip=\"%s\"];\n", indent, prefix, i, shape, DOTText(n.lines...), DOTText(n.tip))
			continue
		}
		fmt.Fprintf(b, "%ssubgraph cluster_%sn%d {\n", indent, prefix, i)
		fmt.Fprintf(b, "%s  label=\"%s\"; tooltip=\"%s\";\n", indent, DOTText(n.lines...), DOTText(n.tip))
		n.inner.dotPart(b, fmt.Sprintf("%sn%d_", prefix, i), indent+"  ")
		fmt.Fprintf(b, "%s}\n", indent)
	}
	d.dotEdge(b, indent, prefix+"input", "", prefix, d.entry, "")
	for _, e := range d.edges {
		attributes := fmt.Sprintf(`tooltip="%s"`, DOTText(e.tip))
		if len(e.lines) > 0 {
			attributes = fmt.Sprintf(`label="%s", `, DOTText(e.lines...)) + attributes
		}
		from, tail := d.dotEnd(prefix, e.from, false)
		d.dotEdge(b, indent, from, tail, prefix, e.to, attributes)
	}
	if d.fallback != none {
		fmt.Fprintf(b, "%s%serror [label=\"%s\", shape=oval, style=dashed];\n", indent, prefix, errorText)
		d.dotEdge(b, indent, prefix+"error", "", prefix, d.fallback, "style=dashed")
	}
}

func (d *drawing) dotEdge(b *bufio.Writer, indent, from, tail, prefix string, target int, attributes string) {
	to, head := d.dotEnd(prefix, target, true)
	list := []string{}
	if tail != "" {
		list = append(list, "ltail="+tail)
	}
	if head != "" {
		list = append(list, "lhead="+head)
	}
	if attributes != "" {
		list = append(list, attributes)
	}
	fmt.Fprintf(b, "%s%s -> %s", indent, from, to)
	if len(list) > 0 {
		fmt.Fprintf(b, " [%s]", strings.Join(list, ", "))
	}
	fmt.Fprintln(b, ";")
}

// dotEnd returns the node at which an edge ends, and the cluster of a node that runs a graph. Edges of Graphviz cannot
// end at a cluster: they end at a node in it, and are cut off at the border of the cluster.
func (d *drawing) dotEnd(prefix string, i int, enters bool) (end, cluster string) {
	end = fmt.Sprintf("%sn%d", prefix, i)
	if d.nodes[i].inner == nil {
		return end, ""
	}
	cluster = "cluster_" + end
	if enters {
		return end + "_input", cluster
	}
	for inner := d.nodes[i].inner; inner != nil; {
		last := inner.terminal()
		end = fmt.Sprintf("%s_n%d", end, last)
		inner = inner.nodes[last].inner
	}
	return end, cluster
}

var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;", "\n", `\n`)

// DOTText joins lines and escapes them for a text in quotes of DOT, in which Graphviz reads HTML's
// names of characters and escapes of its own such as \N.
func DOTText(lines ...string) string { return dotEscapes.Replace(strings.Join(lines, "\n")) }
