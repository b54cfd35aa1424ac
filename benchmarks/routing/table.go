package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// column is what is known of one variant with one model on one half.
type column struct {
	head     string
	messages []turn
	talks    [][]turn
}

// columns sorts records by what they are of, in the order in which they came.
func columns(records []record) []*column {
	var out []*column
	for _, r := range records {
		head := r.Model + ", " + r.Variant + ", " + string(r.Half)
		i := slices.IndexFunc(out, func(c *column) bool { return c.head == head })
		if i < 0 {
			i = len(out)
			out = append(out, &column{head: head})
		}
		if r.Talk {
			out[i].talks = append(out[i].talks, r.Turns)
		} else {
			out[i].messages = append(out[i].messages, r.Turns...)
		}
	}
	return out
}

// turns returns all turns, those of conversations too.
func (c *column) turns() []turn {
	return append(slices.Clone(c.messages), slices.Concat(c.talks...)...)
}

// changes returns the turns of conversations in which another agent should answer than
// in the turn before.
func (c *column) changes() []turn {
	var out []turn
	for _, talk := range c.talks {
		for i, t := range talk[min(1, len(talk)):] {
			if before := talk[i].prompt; t.Right != before.Right && t.Also != before.Right {
				out = append(out, t)
			}
		}
	}
	return out
}

// table is the results as Markdown: a column for each variant.
func table(records []record) string {
	rows := []struct {
		title string
		cell  func(*column) string
	}{
		{"first hop right", func(c *column) string { return share(c.messages, (*turn).firstRight) }},
		{"… by the right agent", func(c *column) string { return byRight(c.messages) }},
		{"… chosen", func(c *column) string {
			return tally(c.messages, func(t turn) string { return t.First })
		}},
		{"right agent at the end", func(c *column) string { return share(c.messages, (*turn).endRight) }},
		{"conversation turns right", func(c *column) string { return share(slices.Concat(c.talks...), (*turn).endRight) }},
		{"… where the subject changed", func(c *column) string { return share(c.changes(), (*turn).endRight) }},
		{"no words for the user", func(c *column) string { return count(c.turns(), func(t *turn) bool { return t.End == "" }) }},
		{"calls shown to the user", func(c *column) string { return count(c.turns(), (*turn).leaked) }},
		{"errors", func(c *column) string {
			return count(c.turns(), func(t *turn) bool { return t.Error != "" }) + tally(c.turns(), func(t turn) string { return t.Error }, " (", ")")
		}},
		{"questions to the model, a turn", func(c *column) string {
			return mean(c.turns(), func(t *turn) []float64 { return []float64{float64(len(t.Asked))} }, "%.2f")
		}},
		{"tokens of prompts, a turn", func(c *column) string {
			return mean(c.turns(), func(t *turn) []float64 { return []float64{sum(t.Asked, func(a asked) int { return a.Input })} }, "%.0f")
		}},
		{"tokens computed anew, a turn", func(c *column) string {
			return mean(c.turns(), func(t *turn) []float64 {
				return []float64{sum(t.Asked, func(a asked) int { return a.Input - a.Cached })}
			}, "%.0f")
		}},
		{"tokens computed anew, first answer after a transfer", func(c *column) string { return mean(c.turns(), afterTransfer, "%.0f") }},
		{"seconds a turn", func(c *column) string {
			return mean(c.turns(), func(t *turn) []float64 { return []float64{t.Seconds} }, "%.1f")
		}},
	}
	columns := columns(records)
	head, rule := "| |", "|---|"
	for _, c := range columns {
		head += " " + c.head + " |"
		rule += "---|"
	}
	out := []string{head, rule}
	for _, row := range rows {
		line := "| " + row.title + " |"
		for _, c := range columns {
			line += " " + row.cell(c) + " |"
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func afterTransfer(t *turn) []float64 {
	var out []float64
	for _, a := range t.Asked {
		if a.Handed {
			out = append(out, float64(a.Input-a.Cached))
		}
	}
	return out
}

func sum(of []asked, value func(asked) int) float64 {
	total := 0
	for _, a := range of {
		total += value(a)
	}
	return float64(total)
}

func number(turns []turn, is func(*turn) bool) int {
	n := 0
	for i := range turns {
		if is(&turns[i]) {
			n++
		}
	}
	return n
}

func count(turns []turn, is func(*turn) bool) string {
	if len(turns) == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d", number(turns, is), len(turns))
}

// share is a count with its part of the whole, and the interval in which the part
// lies with a probability of 95 %.
func share(turns []turn, is func(*turn) bool) string {
	if len(turns) == 0 {
		return "–"
	}
	k := number(turns, is)
	low, high := wilson(k, len(turns))
	return fmt.Sprintf("%d of %d, %.0f %% (%.0f–%.0f %%)", k, len(turns), 100*float64(k)/float64(len(turns)), 100*low, 100*high)
}

// wilson returns the 95 % interval after Wilson of a share of k in n.
func wilson(k, n int) (low, high float64) {
	const z = 1.959964
	p, m := float64(k)/float64(n), float64(n)
	middle := p + z*z/(2*m)
	width := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	whole := 1 + z*z/m
	return max(0, (middle-width)/whole), min(1, (middle+width)/whole)
}

// byRight is how many of the first hops were right, by where they should go.
func byRight(turns []turn) string {
	right, whole := map[string]int{}, map[string]int{}
	for i := range turns {
		whole[turns[i].Right]++
		if turns[i].firstRight() {
			right[turns[i].Right]++
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		out = append(out, fmt.Sprintf("%s %d/%d", name, right[name], whole[name]))
	}
	return strings.Join(out, ", ")
}

// tally counts turns by a name that is not empty; around are signs before and after.
func tally(turns []turn, name func(turn) string, around ...string) string {
	n := map[string]int{}
	for _, t := range turns {
		if s := name(t); s != "" {
			n[s]++
		}
	}
	var out []string
	for _, s := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%s %d", s, n[s]))
	}
	text := strings.Join(out, ", ")
	if text != "" && len(around) == 2 {
		text = around[0] + text + around[1]
	}
	return text
}

// mean is that of all values of all turns.
func mean(turns []turn, values func(*turn) []float64, format string) string {
	total, n := 0.0, 0
	for i := range turns {
		for _, v := range values(&turns[i]) {
			total += v
			n++
		}
	}
	if n == 0 {
		return "–"
	}
	return fmt.Sprintf(format, total/float64(n))
}
