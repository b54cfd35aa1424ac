package eval

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/agentarbor/arbor/internal/visible"
)

const (
	red  = "31"
	bold = "1"
)

// shown is the maximal number of characters of an answer in a failure.
const shown = 300

// Text writes the report for people: the failures with the position of the case, what was expected and what was said;
// then the figures, a column per subject, and the confusions. It makes control characters in the texts of models and
// users visible. paint applies a style to a text for a terminal; the style contains the parameters of the SGR sequence,
// such as "31" for red. A nil paint applies none. The error is the writer's.
func (r *Report) Text(w io.Writer, paint func(style, text string) string) error {
	plain := func(_, text string) string { return text }
	if paint == nil {
		paint = plain
	}
	var b strings.Builder
	for i := range r.Subjects {
		s := &r.Subjects[i]
		for _, group := range s.failed() {
			group.text(&b, paint, r, s.Subject)
		}
	}
	aligned(&b, r.table(), paint)
	for i := range r.Subjects {
		sum := r.Subjects[i].Summary()
		for _, m := range sum.confused() {
			fmt.Fprintf(&b, "\n%s: what %s decided, a row for who was right, a column for who was chosen\n", visible.Line(r.Subjects[i].Subject), visible.Line(m.From))
			aligned(&b, m.table(), plain)
		}
	}
	for _, line := range r.notes() {
		b.WriteString("\n" + line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// aligned writes a table in aligned columns, with a styled head.
func aligned(b *strings.Builder, table [][]string, paint func(style, text string) string) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, cells := range table {
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // a builder has no errors
	for i, line := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
		if line = strings.TrimRight(line, " "); i == 0 {
			line = paint(bold, line)
		}
		b.WriteString(line + "\n")
	}
}

// table returns the matrix with its names.
func (m *Matrix) table() [][]string {
	out := [][]string{append([]string{""}, m.Names...)}
	for i, name := range m.Names {
		line := []string{name}
		for _, n := range m.Counts[i] {
			line = append(line, unless(n == 0, fmt.Sprint(n)))
		}
		out = append(out, line)
	}
	for _, line := range out {
		for i := range line {
			line[i] = visible.Line(line[i])
		}
	}
	return out
}

// failure is a case that failed at least once.
type failure struct {
	*Outcome   // of its first failure
	failed, of int
}

// failed returns the failed cases in order.
func (s *Results) failed() (all []failure) {
	for i := 0; i < len(s.Outcomes); {
		f := failure{}
		first := &s.Outcomes[i]
		for ; i < len(s.Outcomes) && s.Outcomes[i].Case == first.Case && (f.of == 0 || s.Outcomes[i].Repeat > first.Repeat); i++ {
			f.of++
			if o := &s.Outcomes[i]; !o.OK() {
				if f.failed++; f.Outcome == nil {
					f.Outcome = o
				}
			}
		}
		if f.failed > 0 {
			all = append(all, f)
		}
	}
	return all
}

// head returns the case's name and position, and how often it failed.
func (f *failure) head(r *Report, subject string) string {
	line := visible.Line(f.Case)
	if f.File != "" {
		line = visible.Line(fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Case))
	}
	var more []string
	if len(r.Subjects) > 1 {
		more = append(more, visible.Line(subject))
	}
	if f.of > 1 {
		more = append(more, fmt.Sprintf("%d of %d times", f.failed, f.of))
	}
	if len(more) > 0 {
		line += " (" + strings.Join(more, ", ") + ")"
	}
	return line
}

func (f *failure) text(b *strings.Builder, paint func(style, text string) string, r *Report, subject string) {
	b.WriteString(paint(red, "FAIL") + " " + f.head(r, subject) + "\n")
	for i := range f.Turns {
		t := &f.Turns[i]
		if len(t.Differences) == 0 {
			continue
		}
		fmt.Fprintf(b, "     user: %s\n", visible.Cut(visible.Line(t.User), shown))
		for _, d := range t.Differences {
			fmt.Fprintf(b, "       %s: %s\n", d.Kind, visible.Line(d.Message))
		}
		if t.Said != "" {
			fmt.Fprintf(b, "       %s said: %s\n", visible.Line(cmp.Or(t.Answered, "nobody")), visible.Cut(visible.Line(t.Said), shown))
		}
	}
	for _, d := range f.Differences {
		fmt.Fprintf(b, "     %s: %s\n", d.Kind, visible.Line(d.Message))
	}
	b.WriteString("\n")
}

// Markdown writes the report as Markdown: a table of the figures with a column per subject, the confusions, and the
// failed cases. It escapes markup in the texts of models and users. The error is the writer's.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	markdownTable(&b, r.table())
	for i := range r.Subjects {
		s := &r.Subjects[i]
		sum := s.Summary()
		for _, m := range sum.confused() {
			fmt.Fprintf(&b, "\n%s: what %s decided, a row for who was right, a column for who was chosen\n\n", plain(s.Subject), plain(m.From))
			markdownTable(&b, m.table())
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

// markdownTable writes a table. It escapes markup in the cells.
func markdownTable(b *strings.Builder, table [][]string) {
	for i, cells := range table {
		for _, cell := range cells {
			if b.WriteString("| "); cell != "" {
				b.WriteString(plain(cell) + " ")
			}
		}
		if b.WriteString("|\n"); i == 0 {
			b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
		}
	}
}

// plain escapes a text so that Markdown shows it unchanged.
func plain(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "&", "&amp;", "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`).Replace(visible.Line(text))
}
