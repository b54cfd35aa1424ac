package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/benchmarks/graphs"
)

// column returns the heading of an engine's column.
func column(e graphs.Engine) string {
	if e.Stored {
		return e.Title
	}
	return e.Title + ", alone"
}

// base returns the engine that another one is compared with: Arbor with the same use of sessions if possible, and
// otherwise Arbor with the other.
func base(engines []graphs.Engine, of graphs.Engine) string {
	const own = "github.com/agentarbor/arbor"
	name := ""
	for _, e := range engines {
		if e.Module == own && (name == "" || e.Stored == of.Stored) {
			name = e.Name
		}
	}
	return name
}

// graphTable returns a table with a row for each shape and size and a column for each engine. The benchmark is Build or
// Run.
func graphTable(m *measured, engines []graphs.Engine, benchmark string, cell func(nodes int, own, base []figure) string) string {
	head, rule := "| |", "|---|"
	for _, e := range engines {
		head += " " + column(e) + " |"
		rule += "---|"
	}
	rows := []string{head, rule}
	for _, shape := range graphs.Shapes() {
		for _, n := range graphs.Sizes() {
			of := m.figures[fmt.Sprintf("%s/%s=%d", benchmark, shape, n)]
			row := fmt.Sprintf("| %s of %s |", shape, thousands(float64(n)))
			for _, e := range engines {
				if own := of[e.Name]; own != nil {
					row += " " + cell(n, own, of[base(engines, e)]) + " |"
				} else {
					row += " – |"
				}
			}
			rows = append(rows, row)
		}
	}
	return strings.Join(rows, "\n")
}

// timeCell returns the time per node.
func timeCell(nodes int, own, _ []figure) string {
	return duration(median(each(own, ns)) / float64(nodes))
}

// ratioCell returns the time, the allocations and the bytes relative to those of Arbor.
func ratioCell(_ int, own, arbor []figure) string {
	switch {
	case arbor == nil:
		return "–"
	case &own[0] == &arbor[0]:
		return "1"
	}
	return ratiosOf(own, arbor)
}

// graphWins returns all figures of a run that are better than Arbor's.
func graphWins(m *measured, engines []graphs.Engine) string {
	var found []string
	for _, shape := range graphs.Shapes() {
		for _, n := range graphs.Sizes() {
			of := m.figures[fmt.Sprintf("Run/%s=%d", shape, n)]
			for _, e := range engines {
				name := base(engines, e)
				if own, arbor := of[e.Name], of[name]; own != nil && arbor != nil && e.Name != name {
					if better := advantages(own, arbor); better != "" {
						found = append(found, fmt.Sprintf("- %s of %s: %s needs %s.", shape, thousands(float64(n)), column(e), better))
					}
				}
			}
		}
	}
	if found == nil {
		return "To run one of these graphs, no peer needs less time, fewer allocations or fewer bytes than Arbor."
	}
	return "To run a graph, peers need less than Arbor here, in the median of the rounds:\n\n" + strings.Join(found, "\n")
}

// builders returns the engines without those that build the same graph as an earlier one.
func builders(engines []graphs.Engine) []graphs.Engine {
	var found []graphs.Engine
	for _, e := range engines {
		if !slices.ContainsFunc(found, func(f graphs.Engine) bool { return f.Module == e.Module }) {
			found = append(found, e)
		}
	}
	return found
}

// graphSection returns the section of the page about graph engines.
func graphSection(m *measured, engines []graphs.Engine) string {
	if m == nil {
		return unmeasured
	}
	return strings.Join([]string{
		"Machine: " + m.machine + ". A figure is the median of the rounds of one run, in which the engines took turns. The time of a run, for each node:",
		graphTable(m, engines, "Run", timeCell),
		"As a multiple of Arbor's: time / allocations / bytes allocated:",
		graphTable(m, engines, "Run", ratioCell),
		graphWins(m, engines),
		"To build and compile the graph, as a multiple of Arbor's; below 1 the peer is better:",
		graphTable(m, builders(engines), "Build", ratioCell),
	}, "\n\n")
}
