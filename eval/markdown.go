package eval

import (
	"fmt"
	"io"
	"strings"

	"github.com/agentarbor/arbor/internal/visible"
)

// Markdown writes the report as Markdown: a table of the figures with a column per subject, the confusions, and the
// failed cases. It escapes markup in the texts of models and users. The error is the writer's.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	for i, line := range r.table() {
		markdownRow(&b, line)
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(line)) + "|\n")
		}
	}
	for i := range r.Subjects {
		s := &r.Subjects[i]
		sum := s.Summary()
		for _, m := range sum.confused() {
			fmt.Fprintf(&b, "\n%s: what %s decided, a row for who was right, a column for who was chosen\n\n", plain(s.Subject), plain(m.From))
			for i, line := range m.table() {
				markdownRow(&b, line)
				if i == 0 {
					b.WriteString(strings.Repeat("|---", len(line)) + "|\n")
				}
			}
		}
	}
	for _, line := range r.notes() {
		b.WriteString("\n" + plain(line) + "\n")
	}
	head := "\nFailed:\n\n"
	for i := range r.Subjects {
		s := &r.Subjects[i]
		for _, f := range s.failed() {
			b.WriteString(head + "- " + plain(f.head(r, s.Subject)) + "\n")
			head = ""
			f.wrong(func(_ int, d Difference) {
				fmt.Fprintf(&b, "  - %s: %s\n", d.Kind, plain(visible.Cut(d.Message, shown)))
			})
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownRow writes a row of a table. It escapes markup in the cells.
func markdownRow(b *strings.Builder, cells []string) {
	for _, cell := range cells {
		if b.WriteString("| "); cell != "" {
			b.WriteString(plain(cell) + " ")
		}
	}
	b.WriteString("|\n")
}

// plain escapes a text so that Markdown shows it unchanged.
func plain(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "&", "&amp;", "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`).Replace(visible.Line(text))
}
