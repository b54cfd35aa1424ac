package graphdraw

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The default limits of Mermaid. A page that shows larger flowcharts must set
// maxTextSize and maxEdges.
const (
	MermaidMaxTextSize = 50_000 // characters
	MermaidMaxEdges    = 500
)

// Mermaid writes a flowchart of Mermaid, https://mermaid.js.org, which many sites show in Markdown. It returns the error
// of w.
func (p *Picture) Mermaid(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "flowchart TD")
	p.mermaidPart(b, "", "    ")
	return b.Flush()
}

// mermaidPart writes a graph whose identifiers begin with a prefix. They are
// numbered, because Mermaid has many words that cannot be identifiers.
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

// mermaidText escapes lines for a text in quotes of a Mermaid flowchart.
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

// mermaidLine escapes one line. In texts Mermaid first reads its own marks, such as #35; for a
// character by its number and %%{ for a directive, then HTML, then Markdown. A character that could be part
// of one of these is written by its number. Mermaid looks for some marks after it has replaced the numbers
// by characters: an invisible character is written between the characters of such a mark.
func mermaidLine(b *strings.Builder, line string) {
	start := true    // nothing but digits so far: "1." and "-" would begin a list
	previous := ' '  // the character before
	lastThree := " " // the characters before in small letters, for the www. of a link
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
		if r == '\\' && next == 'n' || // a new line
			r == ':' && strings.HasPrefix(rest, "fa-") || // an icon
			r == '$' && next == '$' || // mathematics
			r == 'ﬂ' || r == '¶' { // Mermaid's own signs for characters by number
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

// wordJoiner is invisible and has no width.
const wordJoiner = '\u2060'

// isWordRune reports whether an underscore next to a character is part of a word.
func isWordRune(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}
