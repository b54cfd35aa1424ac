package eval

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/visible"
)

// String returns the share as "44 of 63, 70 % (58–80 %)", or – for a share of nothing.
func (i Interval) String() string {
	if i.Of == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d, %.0f %% (%.0f–%.0f %%)", i.Right, i.Of, 100*i.Share, 100*i.Low, 100*i.High)
}

// String returns the wait as "0.3, 0.6", in seconds, or – without turns.
func (w Wait) String() string {
	return unless(w.Turns == 0, fmt.Sprintf("%.1f, %.1f", w.P50.Seconds(), w.P95.Seconds()))
}

// column contains the figures of a subject.
type column struct {
	*Results
	sum  Summary
	hops Hops
}

// a returns the average of a sum per turn.
func (c *column) a(sum int, format string) string {
	if c.sum.Turns == 0 {
		return "–"
	}
	return fmt.Sprintf(format, float64(sum)/float64(c.sum.Turns))
}

// of returns a number of turns.
func (c *column) of(n int) string { return fmt.Sprintf("%d of %d", n, c.sum.Turns) }

// rows returns the figures of the table. The table omits those that are zero in all columns.
func rows() []row {
	return []row{
		{"right agent at the end", func(c *column) string { return c.hops.Messages.String() }},
		{"… by the right agent", func(c *column) string {
			return each(c.hops.ByRight, func(n [2]int) string { return fmt.Sprintf("%d/%d", n[0], n[1]) })
		}},
		{"hops a turn", func(c *column) string { return c.a(c.sum.Transfers, "%.2f") }},
		{"calls shown to the user", func(c *column) string { return c.hops.Leaked.String() }},
		{"first hop right", func(c *column) string { return c.hops.First.String() }},
		{"… chosen", func(c *column) string { return each(c.hops.Chosen, func(n int) string { return fmt.Sprint(n) }) }},
		{"conversation turns right", func(c *column) string { return c.hops.Talks.String() }},
		{"… where the subject changed", func(c *column) string { return c.hops.Changed.String() }},
		{"cases passed", func(c *column) string { return c.sum.Passed.String() }},
		{"… by tag", func(c *column) string { return c.byTag() }},
		{"… at times", func(c *column) string { return unless(c.sum.Unsteady == 0, fmt.Sprint(c.sum.Unsteady)) }},
		{"paths right", func(c *column) string { return c.sum.Paths.String() }},
		{"decisions right", func(c *column) string { return c.sum.Decisions.String() }},
		{"judged true", func(c *column) string { return c.judged().String() }},
		{"no words for the user", func(c *column) string { return c.of(c.sum.Silent) }},
		{"errors", func(c *column) string { return c.errors() }},
		{"questions to the model, a turn", func(c *column) string { return c.a(c.sum.ModelCalls, "%.2f") }},
		{"tokens of prompts, a turn", func(c *column) string { return c.a(c.sum.Usage.InputTokens, "%.0f") }},
		{"tokens computed anew, a turn", func(c *column) string { return c.a(c.sum.Usage.InputTokens-c.sum.Usage.CachedTokens, "%.0f") }},
		{"… first answer after a transfer", func(c *column) string { return c.arrivals() }},
		{"tokens of answers, a turn", func(c *column) string { return c.a(c.sum.Usage.OutputTokens, "%.0f") }},
		{"cost", func(c *column) string {
			if c.sum.Cost == nil {
				return "–"
			}
			return fmt.Sprintf("%.4g", *c.sum.Cost)
		}},
		{"seconds a turn, p50 and p95", func(c *column) string {
			return unless(c.sum.Turns == 0, fmt.Sprintf("%.1f, %.1f", c.sum.P50.Seconds(), c.sum.P95.Seconds()))
		}},
		{"… to the first text without a transfer", func(c *column) string { return c.sum.Straight.String() }},
		{"… to the first text with a transfer", func(c *column) string { return c.sum.Moved.String() }},
	}
}

type row struct {
	title string
	cell  func(*column) string
}

func unless(nothing bool, text string) string {
	if nothing {
		return "–"
	}
	return text
}

// table returns the table: a row with the subjects' names, and one per figure.
func (r *Report) table() [][]string {
	out := [][]string{{""}}
	var columns []*column
	for i := range r.Subjects {
		s := &r.Subjects[i]
		columns = append(columns, &column{s, s.Summary(), s.Hops()})
		out[0] = append(out[0], visible.Line(s.Subject))
	}
	for _, row := range rows() {
		line := []string{row.title}
		some := false
		for _, c := range columns {
			cell := visible.Line(row.cell(c))
			some = some || cell != "–"
			line = append(line, cell)
		}
		if some {
			out = append(out, line)
		}
	}
	return out
}

func (c *column) arrivals() string {
	sum, n := 0, 0
	for t := range c.turns() {
		for _, tokens := range t.Arrivals {
			sum, n = sum+tokens, n+1
		}
	}
	return unless(n == 0, fmt.Sprintf("%.0f", float64(sum)/float64(max(n, 1))))
}

func (c *column) byTag() string {
	passed := map[string]share{}
	for i := range c.Outcomes {
		o := &c.Outcomes[i]
		for _, tag := range o.Tags {
			countIn(passed, tag, o.OK())
		}
	}
	return each(passed, share.String)
}

func (c *column) judged() Interval {
	var s share
	for t := range c.turns() {
		if t.Verdict != nil {
			s.count(t.Verdict.True)
		}
	}
	return s.interval()
}

func (c *column) errors() string {
	n := 0
	for _, of := range c.sum.Errors {
		n += of
	}
	if n == 0 {
		return c.of(0)
	}
	return c.of(n) + " (" + each(c.sum.Errors, func(n int) string { return fmt.Sprint(n) }) + ")"
}

// each lists numbers by name, in alphabetical order.
func each[T any](of map[string]T, show func(T) string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, name+" "+show(of[name]))
	}
	return unless(len(out) == 0, strings.Join(out, ", "))
}

// notes returns remarks about the figures.
func (r *Report) notes() (lines []string) {
	j := r.Judge
	switch {
	case j == nil:
	case j.Same.Of == 0:
		lines = append(lines, fmt.Sprintf("The judge is %s. How often it agrees with people is unknown: nobody gave it a labelled sample.", visible.Line(j.Model)))
	default:
		line := fmt.Sprintf("The judge is %s. On the labelled sample it agrees with people in %s", visible.Line(j.Model), j.Same)
		if j.Kappa != nil {
			line += fmt.Sprintf(", Cohen's kappa %.2f", *j.Kappa)
		}
		line += fmt.Sprintf("; it took %d for true that were not, and missed %d that were", j.Wrongly, j.Missed)
		if j.Failed > 0 {
			line += fmt.Sprintf(", and had no verdict on %d", j.Failed)
		}
		lines = append(lines, line+".")
	}
	return lines
}

// confused returns the matrices with wrong decisions.
func (s *Summary) confused() (all []Matrix) {
	for _, m := range s.Edges {
		if slices.ContainsFunc(m.Names, func(name string) bool {
			at := slices.Index(m.Names, name)
			for i, n := range m.Counts[at] {
				if i != at && n > 0 {
					return true
				}
			}
			return false
		}) {
			all = append(all, m)
		}
	}
	return all
}

// Dead reports whether every turn ended with an error.
func (r *Results) Dead() bool {
	for t := range r.turns() {
		if t.Error == "" {
			return false
		}
	}
	return len(r.Outcomes) > 0
}

// turns yields the turns of all outcomes.
func (r *Results) turns() iter.Seq[*TurnOutcome] {
	return func(yield func(*TurnOutcome) bool) {
		for i := range r.Outcomes {
			for j := range r.Outcomes[i].Turns {
				if !yield(&r.Outcomes[i].Turns[j]) {
					return
				}
			}
		}
	}
}
