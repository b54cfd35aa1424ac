package graphdraw

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// samples are the graphs that other programs have to understand.
func samples(t *testing.T) (all []*agentgraph.Graph) {
	for _, g := range goldens(t) {
		all = append(all, g)
	}
	all = append(all, hostile(t))
	random := randomGraph(pool(t), 2)
	for i := range 30 {
		all = append(all, random.Example(i))
	}
	return all
}

// missing skips a test of something that is not installed, or fails where everything
// must be.
func missing(t *testing.T, say string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(say)
	}
	t.Skip(say)
}

// mermaidGraph is what testdata/mermaid/parse.mjs prints of one text.
type mermaidGraph struct {
	Error     string
	Nodes     map[string]string
	Edges     []mermaidEdge
	Subgraphs map[string]struct {
		Title string
		Nodes []string
	}
}

type mermaidEdge struct{ From, To, Text, Stroke string }

func parseMermaid(t *testing.T, texts []string) (parsed []mermaidGraph) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, "Mermaid is not tried: install Node.js")
	}
	if _, err := os.Stat("testdata/mermaid/node_modules/mermaid"); err != nil {
		missing(t, "Mermaid is not tried: npm --prefix agentgraph/graphdraw/testdata/mermaid ci --ignore-scripts")
	}
	in := must.Get(json.Marshal(texts))
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), node, "parse.mjs")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "testdata/mermaid", bytes.NewReader(in), &out, &errs
	require.NoError(t, cmd.Run(), errs.String())
	require.NoError(t, json.Unmarshal(out.Bytes(), &parsed))
	require.Len(t, parsed, len(texts))
	return parsed
}

// TestMermaid draws graphs for the real Mermaid and compares what it understood: all
// nodes, edges and subgraphs, with the texts that they shall have.
func TestMermaid(t *testing.T) {
	graphs := samples(t)
	var texts []string
	for _, g := range graphs {
		var b strings.Builder
		require.NoError(t, draw(&b, g, (*Picture).Mermaid))
		texts = append(texts, b.String())
	}
	for i, got := range parseMermaid(t, texts) {
		require.Empty(t, got.Error, texts[i])
		d := must.Get(Of(graphs[i]))
		want := mermaidGraph{Nodes: map[string]string{}}
		clusters := map[string]string{}
		d.expectMermaid("", &want, clusters)
		for id := range got.Subgraphs {
			require.Equal(t, clusters[id], got.Subgraphs[id].Title, texts[i])
			delete(clusters, id)
			delete(got.Nodes, id) // edges that end there make Mermaid list it among the nodes, too
		}
		require.Empty(t, clusters, texts[i])
		require.Equal(t, want.Nodes, got.Nodes, texts[i])
		require.ElementsMatch(t, want.Edges, got.Edges, texts[i])
	}
}

func (p *Picture) expectMermaid(prefix string, want *mermaidGraph, clusters map[string]string) {
	ids := make([]string, len(p.Boxes))
	for i, b := range p.Boxes {
		text := strings.Join(b.Text, "\n")
		switch ids[i] = fmt.Sprintf("%sn%d", prefix, i); {
		case b.start():
			ids[i] = prefix + b.Kind
			want.Nodes[ids[i]] = text
		case b.Inner == nil:
			want.Nodes[ids[i]] = text
		default:
			clusters[ids[i]] = text
			b.Inner.expectMermaid(ids[i]+"_", want, clusters)
		}
	}
	for _, l := range p.Lines {
		stroke := "normal"
		if p.Boxes[l.From].Kind == "error" {
			stroke = "dotted"
		}
		want.Edges = append(want.Edges, mermaidEdge{ids[l.From], ids[l.To], strings.Join(l.Text, "\n"), stroke})
	}
}

// TestDOT draws graphs for the real Graphviz, which must take them without a warning,
// and compares the texts of its picture.
func TestDOT(t *testing.T) {
	program, err := exec.LookPath("dot")
	if err != nil {
		missing(t, "Graphviz is not tried: install it (Debian's package graphviz)")
	}
	for _, g := range samples(t) {
		var in, out, errs bytes.Buffer
		require.NoError(t, draw(&in, g, (*Picture).DOT))
		source := in.String()
		cmd := exec.CommandContext(t.Context(), program, "-Tsvg")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &errs
		require.NoError(t, cmd.Run(), "%s\n%s", errs.String(), source)
		require.NotContains(t, errs.String(), "<stdin>", source)

		d := must.Get(Of(g))
		var texts []string
		var text strings.Builder
		inText := false
		dec := xml.NewDecoder(&out)
		for {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, source)
			switch token := token.(type) {
			case xml.StartElement:
				if inText = token.Name.Local == "text"; inText {
					text.Reset()
				}
			case xml.CharData:
				if inText {
					text.Write(token)
				}
			case xml.EndElement:
				if inText {
					texts = append(texts, strings.ReplaceAll(text.String(), "\u00a0", " "))
				}
				inText = false
			}
		}
		require.ElementsMatch(t, d.seen(), texts, source)
	}
}
