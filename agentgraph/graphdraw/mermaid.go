package graphdraw

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The default limits of Mermaid. A page that shows a larger flowchart must set maxTextSize and maxEdges.
const (
	MermaidMaxTextSize = 50_000 // in characters
	MermaidMaxEdges    = 500
)

// Mermaid writes the drawing as a Mermaid flowchart, https://mermaid.js.org, which many sites render in Markdown. The
// error is an error of w.
func (p *Picture) Mermaid(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "flowchart TD")
	p.mermaidPart(b, "", "    ")
	return b.Flush()
}

// mermaidPart writes a graph whose identifiers begin with prefix. Identifiers are numbered, because Mermaid reserves
// many words.
func (p *Picture) mermaidPart(b *bufio.Writer, prefix, indent string) {
	for i, box := range p.Boxes {
		id, text := p.mark(prefix, i), mermaidText(box.Text)
		if box.Inner == nil {
			of := frameOf(box.Kind)
			fmt.Fprintf(b, "%s%s%s\"%s\"%s\n", indent, id, of.open, text, of.end)
			continue
		}
		fmt.Fprintf(b, "%ssubgraph %s[\"%s\"]\n", indent, id, text)
		fmt.Fprintf(b, "%s    direction TB\n", indent)
		box.Inner.mermaidPart(b, id+"_", indent+"    ")
		fmt.Fprintf(b, "%send\n", indent)
	}
	for _, l := range p.Lines {
		arrow := "-->"
		if l.Dashed {
			arrow = "-.->"
		}
		if len(l.Text) > 0 {
			arrow += `|"` + mermaidText(l.Text) + `"|`
		}
		fmt.Fprintf(b, "%s%s %s %s\n", indent, p.mark(prefix, l.From), arrow, p.mark(prefix, l.To))
	}
}

// mermaidText escapes lines for a quoted text in a Mermaid flowchart.
func mermaidText(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteString("<br>")
		}
		mermaidLine(&b, line)
	}
	return b.String()
}

// mermaidLine escapes one line. In texts, Mermaid first reads its own syntax, such as #35; for a character by number
// and %%{ for a directive, then HTML, then Markdown. A character that could be part of such syntax is written by
// number. Mermaid looks for some of the syntax after it has replaced the numbers by characters; there, mermaidLine
// inserts an invisible character.
func mermaidLine(b *strings.Builder, line string) {
	start := true    // only digits so far: "1." and "-" would begin a list
	previous := ' '  // the previous character
	lastThree := " " // the previous characters in lower case, to find the www. of a link
	for i, r := range line {
		rest := line[i+utf8.RuneLen(r):]
		next, _ := utf8.DecodeRuneInString(rest)
		switch {
		case r == '"':
			b.WriteString("#quot;")
		case r == '<':
			b.WriteString("#lt;")
		case r == '>':
			b.WriteString("#gt;")
		case r == '&':
			b.WriteString("#amp;")
		case strings.ContainsRune("#;:%$*`\\[]|~@{}", r),
			r == '_' && (!isWordRune(previous) || !isWordRune(next)),
			r == '.' && lastThree == "www",
			start && r < utf8.RuneSelf && !isWordRune(r) && r != ' ':
			fmt.Fprintf(b, "#%d;", r)
		default:
			b.WriteRune(r)
		}
		if r == '\\' && next == 'n' || // a line break
			r == ':' && strings.HasPrefix(rest, "fa-") || // an icon
			r == '$' && next == '$' || // mathematics
			r == 'ﬂ' || r == '¶' { // Mermaid's internal signs for characters by number
			fmt.Fprintf(b, "#%d;", wordJoiner)
		}
		start = start && '0' <= r && r <= '9'
		previous = r
		lastThree += strings.ToLower(string(r))
		if len(lastThree) > 3 {
			lastThree = lastThree[len(lastThree)-3:]
		}
	}
}

// wordJoiner is an invisible character without width.
const wordJoiner = '\u2060'

// isWordRune reports whether an underscore next to r is part of a word.
func isWordRune(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}
