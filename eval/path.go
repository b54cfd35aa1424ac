package eval

import (
	"fmt"
	"slices"
	"strings"
)

// Path contains the active agents of a turn in order: each step has the names that are right there. An empty step,
// written as …, matches any agents, or none.
type Path [][]string

// ParsePath parses a path in the form of files of cases: support > billing, support > … > tech|network. It accepts
// three dots for …, and → and -> for >.
func ParsePath(text string) (Path, error) {
	var p Path
	for _, step := range strings.Split(strings.NewReplacer("->", ">", "→", ">", "...", "…").Replace(text), ">") {
		step = strings.TrimSpace(step)
		if step == "…" {
			if len(p) == 0 || len(p[len(p)-1]) > 0 {
				p = append(p, nil)
			}
			continue
		}
		var names []string
		for _, name := range strings.Split(step, "|") {
			name = strings.TrimSpace(name)
			switch {
			case name == "":
				return nil, fmt.Errorf("the path %q has an empty step: write names with > between them, as support > billing", text)
			case strings.ContainsAny(name, " …,"):
				return nil, fmt.Errorf("%q is not a step of a path: a step is a name, several with | between them, or … for any agents", name)
			}
			names = append(names, name)
		}
		p = append(p, names)
	}
	return p, nil
}

// String returns the path in the form of files of cases.
func (p Path) String() string {
	var b strings.Builder
	for i, step := range p {
		if i > 0 {
			b.WriteString(" > ")
		}
		b.WriteString(label(step))
	}
	return b.String()
}

// label returns a step in its written form.
func label(step []string) string {
	if len(step) == 0 {
		return "…"
	}
	return strings.Join(step, "|")
}

// Matches reports whether the agents match the path.
func (p Path) Matches(agents []string) bool {
	// The steps up to the last … are matched as early as possible, so that backtracking to that one suffices.
	i, j, any, from := 0, 0, -1, 0
	for j < len(agents) {
		switch {
		case i < len(p) && len(p[i]) == 0:
			any, from = i, j
			i++
		case i < len(p) && slices.Contains(p[i], agents[j]):
			i++
			j++
		case any >= 0:
			from++
			i, j = any+1, from
		default:
			return false
		}
	}
	for i < len(p) && len(p[i]) == 0 {
		i++
	}
	return i == len(p)
}

// decisions compares the expected with the actual agents until they differ, or until an … leaves the right one open.
// open reports that the last agent has not decided, because the turn ended before.
func (p Path) decisions(agents []string, open bool) (all []Decision) {
	for i, from := range agents {
		if i >= len(p) || !slices.Contains(p[i], from) {
			break
		}
		d := Decision{From: from, Expected: from, Chosen: from}
		if i+1 < len(agents) {
			d.Chosen = agents[i+1]
		} else if open {
			break
		}
		if i+1 < len(p) {
			if len(p[i+1]) == 0 {
				break
			}
			if d.Expected = label(p[i+1]); slices.Contains(p[i+1], d.Chosen) {
				d.Expected = d.Chosen
			}
		}
		all = append(all, d)
		if d.Chosen != d.Expected {
			break
		}
	}
	return all
}
