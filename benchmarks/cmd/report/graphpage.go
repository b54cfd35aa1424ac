package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/benchmarks/graphs"
)

// column is the head of an engine's column.
func column(e graphs.Engine) string {
	if e.Stored {
		return e.Title
	}
	return e.Title + ", alone"
}

// base is the engine that another one is compared with: Arbor used in the same way,
// or as it is used if it cannot be.
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

// graphTable has a row for each shape in each size and a column for each engine. With
// whole, it says what a run would have taken that there was no time for.
func graphTable(g *graphFigures, engines []graphs.Engine, s step, whole bool, cell func(own, base *graphResult) string) string {
	head, rule := "| |", "|---|"
	for _, e := range engines {
		head += " " + column(e) + " |"
		rule += "---|"
	}
	rows := []string{head, rule}
	for _, shape := range graphs.Shapes() {
		for _, nodes := range g.nodes {
			row := fmt.Sprintf("| %s of %s |", shape, thousands(float64(nodes)))
			for _, e := range engines {
				own := g.cases[graphKey{s, shape, nodes, e.Name}]
				arbor := g.cases[graphKey{s, shape, nodes, base(engines, e)}]
				switch {
				case own != nil && own.figures != nil:
					row += " " + cell(own, arbor) + " |"
				case own != nil && whole:
					row += " not run: about " + own.notRun + " in all |"
				default:
					row += " – |"
				}
			}
			rows = append(rows, row)
		}
	}
	return strings.Join(rows, "\n")
}

// timeCell is the time for each node.
func timeCell(own, _ *graphResult) string { return duration(median(each(own.figures, ns))) }

// ratioCell compares the time, the allocations and the bytes with those of Arbor.
func ratioCell(own, arbor *graphResult) string {
	if arbor == nil || arbor.figures == nil {
		return "–"
	}
	if own == arbor {
		return "1"
	}
	return ratiosOf(own.figures, arbor.figures)
}

// graphWins names every figure of a run that is better than Arbor's.
func graphWins(g *graphFigures, engines []graphs.Engine) string {
	var found []string
	for _, shape := range graphs.Shapes() {
		for _, nodes := range g.nodes {
			for _, e := range engines {
				own, arbor := g.cases[graphKey{stepRun, shape, nodes, e.Name}], g.cases[graphKey{stepRun, shape, nodes, base(engines, e)}]
				if own == nil || arbor == nil || own == arbor || own.figures == nil || arbor.figures == nil {
					continue
				}
				if better := advantages(own.figures, arbor.figures); better != "" {
					found = append(found, fmt.Sprintf("- %s of %s: %s needs %s.", shape, thousands(float64(nodes)), column(e), better))
				}
			}
		}
	}
	if found == nil {
		return "To run one of these graphs, no peer needs less time, fewer allocations or fewer bytes than Arbor."
	}
	return "To run a graph, peers need less than Arbor here, in the median of the rounds:\n\n" + strings.Join(found, "\n")
}

// builders are the engines without those that build the same graph as one before.
func builders(engines []graphs.Engine) []graphs.Engine {
	var found []graphs.Engine
	for _, e := range engines {
		if !slices.ContainsFunc(found, func(f graphs.Engine) bool { return f.Module == e.Module }) {
			found = append(found, e)
		}
	}
	return found
}

// graphSection is the part of the page with the figures of the graph engines.
func graphSection(g *graphFigures, engines []graphs.Engine) string {
	if g == nil {
		return unmeasured
	}
	return strings.Join([]string{
		"Machine: " + g.machine + ". A figure is the median of the rounds of one run, in which the engines took turns. The time of a run, for each node:",
		graphTable(g, engines, stepRun, true, timeCell),
		"As a multiple of Arbor's: time / allocations / bytes allocated:",
		graphTable(g, engines, stepRun, false, ratioCell),
		graphWins(g, engines),
		"To build and compile the graph, as a multiple of Arbor's; below 1 the peer is better:",
		graphTable(g, builders(engines), stepBuild, false, ratioCell),
	}, "\n\n")
}
