package graphdraw

import (
	"bytes"
	"html"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agentgraph"
)

var (
	mermaidMark = regexp.MustCompile(`#(\d+|quot|lt|gt|amp);`)
	dotMark     = regexp.MustCompile(`\\.`)
)

// FuzzText puts texts into all three languages and reads them back.
func FuzzText(f *testing.F) {
	for i, s := range nasty {
		f.Add(s, nasty[len(nasty)-1-i])
	}
	f.Fuzz(func(t *testing.T, id, ref string) {
		line := short(id, maxName)
		if !utf8.ValidString(line) || utf8.RuneCountInString(line) > maxName || strings.ContainsFunc(line, unicode.IsControl) || strings.TrimSpace(line) != line || line == "" {
			t.Fatalf("%q", line)
		}
		if id == line && short(line, maxName) != line {
			t.Fatalf("%q", short(line, maxName))
		}
		g := &agentgraph.Graph{Name: ref, Entrypoint: id, Nodes: []agentgraph.Node{{ID: id, Ref: ref}}}
		d, err := Of(g)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Join(d.Boxes[0].Text, "\n")

		text := between(t, (*Picture).Mermaid, g, `    n0["`, "\"]\n")
		bare := mermaidMark.ReplaceAllString(strings.ReplaceAll(text, "<br>", ""), "")
		if strings.ContainsAny(bare, "#;\"<>&`%$*\\[]|~@{}\n") {
			t.Fatalf("%q", text)
		}
		back := mermaidMark.ReplaceAllStringFunc(strings.ReplaceAll(text, "<br>", "\n"), func(mark string) string {
			if unicode.IsDigit(rune(mark[1])) {
				return html.UnescapeString("&" + mark)
			}
			return html.UnescapeString("&" + mark[1:])
		})
		if strings.ReplaceAll(back, string(wordJoiner), "") != lines {
			t.Fatalf("%q is not %q", back, lines)
		}

		text = between(t, (*Picture).DOT, g, `  n0 [label="`, `", tooltip=`)
		if strings.ContainsAny(dotMark.ReplaceAllString(text, ""), "\"\\\n") {
			t.Fatalf("%q", text)
		}
		back = dotMark.ReplaceAllStringFunc(text, func(mark string) string {
			if mark == `\n` {
				return "\n"
			}
			return mark[1:]
		})
		if html.UnescapeString(back) != lines {
			t.Fatalf("%q is not %q", back, lines)
		}
		requireSVG(t, g)
	})
}

// between returns what is between two texts of a drawing.
func between(t *testing.T, in format, g *agentgraph.Graph, from, to string) string {
	t.Helper()
	var out bytes.Buffer
	if err := draw(&out, g, in); err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(out.String(), from)
	text, _, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("no text in %s", &out)
	}
	return text
}
