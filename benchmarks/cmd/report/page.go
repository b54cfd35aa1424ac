package main

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/benchmarks"
	"github.com/agentarbor/arbor/benchmarks/graphs"
)

//go:embed page.md
var template string

// scenario is a row of the page's tables: the benchmark for Arbor and the one for the others.
type scenario struct{ title, arbor, peers string }

// turns are the scenarios of conversations.
var turns = []scenario{
	{"transfer turn: root → specialist → text", "TransferTurn/depth=1", ""},
	{"eight levels deep", "TransferTurn/depth=8", ""},
	{"next turn, 10 turns of history", "NextTurn/history=10", ""},
	{"next turn, 100 turns", "NextTurn/history=100", ""},
	{"next turn, 1,000 turns", "NextTurn/history=1000", ""},
	{"next turn, 4,000 turns", "NextTurn/history=4000", ""},
	{"first turn of a process, 10 turns", "NextTurnCold/history=10", "NextTurn/history=10"},
	{"first turn of a process, 100 turns", "NextTurnCold/history=100", "NextTurn/history=100"},
	{"first turn of a process, 1,000 turns", "NextTurnCold/history=1000", "NextTurn/history=1000"},
	{"first turn of a process, 4,000 turns", "NextTurnCold/history=4000", "NextTurn/history=4000"},
	{"transfer, then 1,000 chunks", "Stream/chunks=1000", ""},
	{"ping-pong, 200 hops", "PingPong/hops=200", ""},
	{"ping-pong, 1,600 hops", "PingPong/hops=1600", ""},
}

// compositions are the scenarios of composed agents.
var compositions = []scenario{
	{"agent tool: coordinator → specialist → coordinator", "AgentTool/calls=1", ""},
	{"sequence of 8 agents", "Sequence/agents=8", ""},
	{"8 agents side by side", "Parallel/branches=8", ""},
	{"64 agents side by side", "Parallel/branches=64", ""},
	{"loop of 8 rounds", "Loop/rounds=8", ""},
}

// unmeasured is shown in place of missing figures.
const unmeasured = "This version of the page has no figures: none were measured while the machine did nothing else. " +
	"The command at the end of the page measures them."

func (s scenario) figures(m *measured, framework string) []figure {
	name := s.arbor
	if framework != "arbor" && s.peers != "" {
		name = s.peers
	}
	return m.figures[name][framework]
}

// page fills in the template.
func page(m, composed, g *measured, versions map[string]string) string {
	var peers []string
	for _, f := range benchmarks.All() {
		if f.Name != "arbor" {
			peers = append(peers, fmt.Sprintf("- %s: `%s` %s", f.Title, f.Module, versions[f.Name]))
		}
	}
	return strings.NewReplacer(
		"{{machine}}", m.machine,
		"{{peers}}", strings.Join(peers, "\n"),
		"{{times}}", table(m, turns, true, timeOf),
		"{{ratios}}", table(m, turns, false, ratiosOf),
		"{{wins}}", wins(m, turns),
		"{{composition}}", compositionSection(composed),
		"{{graphs}}", graphSection(g, graphs.Engines()),
	).Replace(template)
}

// compositionSection returns the section of the page about composed agents.
func compositionSection(m *measured) string {
	if m == nil {
		return unmeasured
	}
	return strings.Join([]string{
		"Machine: " + m.machine + ", on which other programs ran too. The time of a turn:",
		table(m, compositions, true, timeOf),
		"What a peer needs as a multiple of Arbor: time / allocations / bytes allocated:",
		table(m, compositions, false, ratiosOf),
		wins(m, compositions),
	}, "\n\n")
}

// timeOf returns the time of a turn.
func timeOf(own, _ []figure) string {
	values := each(own, ns)
	return fmt.Sprintf("%s (%s–%s)", duration(median(values)), duration(slices.Min(values)), duration(slices.Max(values)))
}

// ratiosOf returns the time, the allocations and the bytes relative to those of Arbor.
func ratiosOf(own, arbor []figure) string {
	return times(ratio(own, arbor, ns)) + " / " + times(ratio(own, arbor, allocs)) + " / " + times(ratio(own, arbor, size))
}

// table returns a table with a row for each scenario and a column for each framework.
func table(m *measured, scenarios []scenario, withArbor bool, cell func(own, arbor []figure) string) string {
	head, rule := "| |", "|---|"
	for _, f := range benchmarks.All() {
		if withArbor || f.Name != "arbor" {
			head += " " + f.Title + " |"
			rule += "---|"
		}
	}
	rows := []string{head, rule}
	for _, s := range scenarios {
		row := "| " + s.title + " |"
		for _, f := range benchmarks.All() {
			own := s.figures(m, f.Name)
			switch {
			case f.Name == "arbor" && !withArbor:
			case own == nil:
				row += " – |"
			default:
				row += " " + cell(own, s.figures(m, "arbor")) + " |"
			}
		}
		if strings.Trim(strings.TrimPrefix(row, "| "+s.title), " |–") != "" {
			rows = append(rows, row)
		}
	}
	return strings.Join(rows, "\n")
}

// wins returns all figures that are better than Arbor's.
func wins(m *measured, scenarios []scenario) string {
	var found []string
	for _, s := range scenarios {
		for _, f := range benchmarks.All() {
			own, arbor := s.figures(m, f.Name), s.figures(m, "arbor")
			if f.Name == "arbor" || own == nil {
				continue
			}
			if better := advantages(own, arbor); better != "" {
				found = append(found, fmt.Sprintf("- %s: %s needs %s.", s.title, f.Title, better))
			}
		}
	}
	if found == nil {
		return "In none of these scenarios does a peer need less time, fewer allocations or fewer bytes."
	}
	return "Where a peer is better, in the median of the rounds:\n\n" + strings.Join(found, "\n")
}

// advantages says which of time, allocations and bytes are less than Arbor's. It returns "" if none is.
func advantages(own, arbor []figure) string {
	var better []string
	for _, of := range []struct {
		what  string
		value func(figure) float64
	}{{"of the time", ns}, {"of the allocations", allocs}, {"of the bytes", size}} {
		if r := ratio(own, arbor, of.value); r < 1 {
			better = append(better, fmt.Sprintf("%.0f %% %s", math.Max(1, r*100), of.what))
		}
	}
	return strings.Join(better, ", ")
}

// duration formats nanoseconds in the largest fitting unit.
func duration(ns float64) string {
	for _, unit := range []struct {
		name string
		ns   float64
	}{{"s", 1e9}, {"ms", 1e6}, {"µs", 1e3}} {
		if ns >= unit.ns {
			return digits(ns/unit.ns) + " " + unit.name
		}
	}
	return digits(ns) + " ns"
}

// times formats a ratio, or a dash if it could not be measured.
func times(r float64) string {
	if math.IsNaN(r) {
		return "–"
	}
	return digits(r) + " ×"
}

// digits formats a number with two digits, or with all digits before the point.
func digits(v float64) string {
	if v >= 9.95 {
		return thousands(v)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// thousands formats a whole number with commas.
func thousands(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
